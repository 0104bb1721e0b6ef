"""Descriptors of public classes: in the class the descriptor itself, in an object its value.

>>> class Doubled(Attribute[object, int]):
...     def _value(self, owner: object) -> int: return 2 * len(self.name)
>>> class Box:
...     wide = Doubled()
>>> Box().wide, Box.wide.name
(8, 'wide')
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Self, TypeVar, overload

Owner = TypeVar("Owner")
T = TypeVar("T")


class Attribute(ABC, Generic[Owner, T]):
    """An attribute that knows its name; `_value` reads it from an object."""

    name: str

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, owner: None, cls: type) -> Self: ...
    @overload
    def __get__(self, owner: Owner, cls: type) -> T: ...
    def __get__(self, owner: Owner | None, cls: type) -> Self | T:
        return self if owner is None else self._value(owner)

    @abstractmethod
    def _value(self, owner: Owner) -> T:
        """The value of the attribute in an object."""
