"""Objects of a network that have a name, which a program may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.quiet import Channel, quiet, wrong_type
from anyrt.core.errors import GraphError

if TYPE_CHECKING:
    from anyrt.api.model.state import NetworkState

MAX_NAME = 4096


class NamedState(Protocol):
    """The record of an object with a name; `renamed` discards caches that depend on it."""

    name: str
    network: NetworkState

    def renamed(self) -> None: ...


class Named(Fixed):
    """Base of tensors, layers, loops and conditionals; `_noun`: the noun in messages."""

    __slots__ = ("__weakref__", "_state")

    _noun: ClassVar[str] = ""
    _state: NamedState

    @property
    def name(self) -> str:
        """The name, for messages and profiles; those of inputs and outputs are unique."""
        return self._state.name

    @name.setter
    def name(self, name: str) -> None:
        self._rename(name)

    @quiet(None)
    def _rename(self, name: str) -> None:
        state = self._state
        state.name = checked_name(name, f"{self._noun or type(self).__name__} {state.name}")
        state.renamed()

    @property
    def _channel(self) -> Channel:
        return self._state.network.channel


def checked_name(name: object, where: str) -> str:
    """`name`; GraphError AR405 if it cannot name a tensor or layer."""
    text = checked_text(name, where)
    size = len(text.encode())
    if not 0 < size < MAX_NAME or "\0" in text:
        got = f"a name of {size} bytes" + (" with a NUL" if "\0" in text else "")
        raise GraphError("AR405", where, got, f"1 to {MAX_NAME - 1} bytes without NUL")
    return text


def checked_text(text: object, where: str) -> str:
    """`text`; GraphError AR405 if UTF-8 cannot encode it, so that a plan cannot store it."""
    if not isinstance(text, str):
        raise wrong_type(where, text, "a str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        got, do = f"{text[error.start]!r} in it", "decode bytes with errors='replace'"
        raise GraphError("AR405", where, got, "text that can be encoded in UTF-8", do) from None
    return text
