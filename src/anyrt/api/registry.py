"""The plug-in registry, which has no creators yet, and the text that goes with it."""

from __future__ import annotations

from anyrt.api.edge import wrong_type
from anyrt.api.fixed import Fixed
from anyrt.api.fold import fold
from anyrt.api.interfaces import IErrorRecorder
from anyrt.api.missing import mark_absences
from anyrt.api.oneline import one_line
from anyrt.core.units import counted


@fold
class FallbackString(Fixed):
    """A text that stands in for a `str` where plug-ins pass one; equal to what holds the same text."""

    __slots__ = ("__weakref__", "_text")

    def __init__(self, arg0: str = "") -> None:
        if not isinstance(arg0, str):
            raise wrong_type("FallbackString", arg0, "a str")
        self._text = arg0

    def __str__(self) -> str:
        return self._text

    @one_line
    def __repr__(self) -> str:
        return f" {self._text!r}"

    def __eq__(self, other: object) -> bool:
        return str(other) == self._text if isinstance(other, FallbackString | str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)


@fold
class IPluginRegistry(Fixed):
    """Finds plug-ins by type, version and namespace: none so far, so that every answer is None."""

    __slots__ = ("__weakref__", "error_recorder", "parent_search_enabled")

    def __init__(self) -> None:
        self.error_recorder: IErrorRecorder | None = None
        self.parent_search_enabled = True

    @one_line
    def __repr__(self) -> str:
        return f": {counted(len(self.all_creators), 'creator')}"

    @property
    def all_creators(self) -> list[object]:
        """Every creator of this registry."""
        return []

    @property
    def all_creators_recursive(self) -> list[object]:
        """Every creator of this registry and its parents."""
        return []

    @property
    def plugin_creator_list(self) -> list[object]:
        """Every creator of the old kind."""
        return []

    def get_creator(self, type: str, version: str, plugin_namespace: str = "") -> None:
        """The creator of that name: none."""

    def get_plugin_creator(self, type: str, version: str, plugin_namespace: str = "") -> None:
        """The creator of that name, of the old kind: none."""


mark_absences(IPluginRegistry)
