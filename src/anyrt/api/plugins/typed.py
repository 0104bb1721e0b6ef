"""Attributes of plug-ins and creators that check their type; a program sets them in `__init__`.

>>> class Named:
...     plugin_name = TypedAttribute(str, "", "The name.")
>>> plugin, copy = Named(), Named()
>>> plugin.plugin_name = "Pad"; copy.__dict__.update(plugin.__dict__); copy.plugin_name
'Pad'
"""

from __future__ import annotations

from typing import TypeVar, cast

from anyrt.api.edge.attribute import Attribute
from anyrt.api.edge.hints import article
from anyrt.api.edge.quiet import type_name, wrong_type
from anyrt.api.model.named import checked_text

T = TypeVar("T")


class TypedAttribute(Attribute[object, T]):
    """An attribute whose value is in the `__dict__` of its object; TypeError for a value of another type."""

    def __init__(self, kind: type[T], default: T, doc: str) -> None:
        self.kind = kind
        self.default = default
        self.__doc__ = doc

    def _value(self, owner: object) -> T:
        return cast("T", owner.__dict__.get(self.name, self.default))

    def __set__(self, owner: object, value: object) -> None:
        fits = isinstance(value, self.kind) and not (isinstance(value, bool) and self.kind is int)
        if not fits and self.kind is int and hasattr(value, "__index__"):
            value, fits = value.__index__(), True
        if not fits:
            raise wrong_type(f"{type_name(owner)}.{self.name}", value, article(self.kind.__name__))
        if isinstance(value, str):
            checked_text(value, f"{type_name(owner)}.{self.name}")
        owner.__dict__[self.name] = value
