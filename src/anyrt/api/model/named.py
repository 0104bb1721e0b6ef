"""Objects of a network that have a name, which a program may change."""

from __future__ import annotations

from typing import ClassVar

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.quiet import Channel, quiet, wrong_type
from anyrt.core.errors import GraphError

MAX_NAME = 4096


class Named(Fixed):
    """Base of tensors, layers, loops and conditionals; `_noun`: what messages call it."""

    __slots__ = ("__weakref__", "_name")

    _noun: ClassVar[str] = ""
    _name: str

    @property
    def name(self) -> str:
        """The name, for messages and profiles; those of inputs and outputs are unique."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._rename(name)

    @quiet(None)
    def _rename(self, name: str) -> None:
        self._name = checked_name(name, f"{self._noun or type(self).__name__} {self._name}")
        self._renamed()

    @property
    def _channel(self) -> Channel:
        raise NotImplementedError

    def _renamed(self) -> None:
        """What follows from another name."""
        raise NotImplementedError


def checked_name(name: object, where: str) -> str:
    """`name` when it can name a tensor or layer."""
    text = checked_text(name, where)
    size = len(text.encode())
    if not 0 < size < MAX_NAME or "\0" in text:
        got = f"a name of {size} bytes" + (" with a NUL" if "\0" in text else "")
        raise GraphError("AR405", where, got, f"1 to {MAX_NAME - 1} bytes without NUL")
    return text


def checked_text(text: object, where: str) -> str:
    """`text` when a plan can keep it."""
    if not isinstance(text, str):
        raise wrong_type(where, text, "a str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        got, do = f"{text[error.start]!r} in it", "decode bytes with errors='replace'"
        raise GraphError("AR405", where, got, "text that can be encoded in UTF-8", do) from None
    return text
