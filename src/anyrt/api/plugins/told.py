"""Attributes of plug-ins and creators, which programs set in `__init__` and which travel with `__dict__`.

>>> class Named:
...     plugin_name = Told(str, "", "The name.")
>>> made, copy = Named(), Named()
>>> made.plugin_name = "Pad"; copy.__dict__.update(made.__dict__); copy.plugin_name
'Pad'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar, cast, overload

from anyrt.api.edge.hints import article
from anyrt.api.edge.quiet import type_name, wrong_type
from anyrt.api.model.named import checked_text

T = TypeVar("T")


class Told(Generic[T]):
    """What a program says of its object: TypeError for another type. `made`: what it is until it was said."""

    def __init__(
        self, kind: type[T], default: T, doc: str, made: Callable[[object], T] | None = None
    ) -> None:
        self.kind = kind
        self.default = default
        self.made = made
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, owner: None, cls: type) -> Self: ...
    @overload
    def __get__(self, owner: object, cls: type) -> T: ...
    def __get__(self, owner: object, cls: type) -> Self | T:
        if owner is None:
            return self
        own = owner.__dict__
        if self.name in own:
            return cast("T", own[self.name])
        return self.default if self.made is None else self.made(owner)

    def __set__(self, owner: object, value: object) -> None:
        fits = isinstance(value, self.kind) and not (isinstance(value, bool) and self.kind is int)
        if not fits and self.kind is int and hasattr(value, "__index__"):
            value, fits = value.__index__(), True
        if not fits:
            wanted = article(self.kind.__name__)
            raise wrong_type(f"{type_name(owner)}.{self.name}", value, wanted)
        if isinstance(value, str):
            checked_text(value, f"{type_name(owner)}.{self.name}")
        owner.__dict__[self.name] = value
