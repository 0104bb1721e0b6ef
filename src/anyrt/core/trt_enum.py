"""The base class of every enum in the API: it behaves like a pybind11 enum, and is never equal to an int.

`IntEnum` will not do: on Python 3.11 its `str` is "0", and its members equal ints and members of other enums.

>>> class Fruit(TrtEnum):
...     APPLE, PEAR = range(2)
>>> str(Fruit.PEAR), repr(Fruit.PEAR), int(Fruit.PEAR), Fruit.PEAR == 1, 1 << Fruit.PEAR
('Fruit.PEAR', '<Fruit.PEAR: 1>', 1, False, 2)
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import count
from typing import TYPE_CHECKING, Final, Self, TypeVar

# Two underscores in a class's body would become another name.
_ENTRIES: Final = "__entries"


K = TypeVar("K", bound=type[type])


def no_attribute(owner: str, name: str, names: Iterable[str]) -> str:
    """The text of an AttributeError, with the nearest existing name.

    >>> no_attribute("type object 'DataType'", "FP8x", ["FLOAT", "FP8", "HALF"])
    "type object 'DataType' has no attribute 'FP8x'; did you mean 'FP8'?"
    """
    text = f"{owner} has no attribute {name!r}"
    if name.startswith("_"):  # Python and libraries look these up, and expect none
        return text
    lower = {n.lower(): n for n in names}
    near = get_close_matches(name.lower(), lower, 1)
    return f"{text}; did you mean {lower[near[0]]!r}?" if near else text


def named_as_in_pybind(kind: K) -> K:
    """The metaclass of public classes, with the name of pybind11's, which programs look up."""
    kind.__name__ = kind.__qualname__ = "pybind11_type"
    return kind


@named_as_in_pybind
class EnumClass(enum.EnumMeta):
    """The class of enums."""

    if not TYPE_CHECKING:  # suggests the nearest member by itself

        def __getattr__(cls, name: str) -> object:
            members: dict[str, object] = cls.__dict__.get("_member_map_", {})
            if name in members:  # Python 3.11 looks members up here
                return members[name]
            raise AttributeError(no_attribute(f"type object {cls.__name__!r}", name, members))

    def __dir__(cls) -> list[str]:
        shown = (n for kind in cls.__mro__ for n in vars(kind) if kind is not enum.Enum and n[0] != "_")
        return sorted({*super().__dir__(), *shown})


class TrtEnum(enum.Enum, metaclass=EnumClass):
    """An enum with integer values that converts to int explicitly, and supports flag arithmetic."""

    _value_: int

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        # The attributes that pybind11 stores in its enums, which programs iterate over: members with their
        # texts.
        setattr(cls, _ENTRIES, {n: (m, _text(cls, n)) for n, m in cls.__members__.items()})

    # Python's enums forbid these on the class; in pybind11 they are properties.
    @property
    def name(self) -> str:
        """The name of the member."""
        return self._name_

    @property
    def value(self) -> int:
        """Its number."""
        return self._value_

    __hash__ = object.__hash__  # members are equal only to themselves, and are looked up often

    def __int__(self) -> int:
        return self._value_

    def __index__(self) -> int:
        return self._value_

    def __or__(self, other: TrtEnum | int) -> int:
        return self._value_ | int(other)

    def __and__(self, other: TrtEnum | int) -> int:
        return self._value_ & int(other)

    def __xor__(self, other: TrtEnum | int) -> int:
        return self._value_ ^ int(other)

    def __lshift__(self, other: TrtEnum | int) -> int:
        return self._value_ << int(other)

    def __rshift__(self, other: TrtEnum | int) -> int:
        return self._value_ >> int(other)

    def __rlshift__(self, other: int) -> int:
        return other << self._value_

    def __rrshift__(self, other: int) -> int:
        return other >> self._value_

    __ror__ = __or__
    __rand__ = __and__
    __rxor__ = __xor__

    def __lt__(self, other: Self) -> bool:
        return self._value_ < other._value_ if type(other) is type(self) else NotImplemented

    def __le__(self, other: Self) -> bool:
        return self._value_ <= other._value_ if type(other) is type(self) else NotImplemented

    def __gt__(self, other: Self) -> bool:
        return self._value_ > other._value_ if type(other) is type(self) else NotImplemented

    def __ge__(self, other: Self) -> bool:
        return self._value_ >= other._value_ if type(other) is type(self) else NotImplemented


E = TypeVar("E", bound=TrtEnum)


def _text(kind: type[TrtEnum], name: str) -> str:
    """The description of a member: "Ragged softmax layer type"."""
    words = [*name.split("_"), *re.findall("[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z]+|[A-Z]+", kind.__name__)]
    return " ".join(words).capitalize()


def unlisted(kind: type[E], name: str) -> E:
    """A member of `kind` that is not listed, with a number that no listed member has."""
    member = object.__new__(kind)
    member._name_ = name
    member._value_ = 1 + max(int(m) for m in kind)
    return member


def add_to_list(member: TrtEnum) -> None:
    """Add the member to the list of its enum."""
    kind = type(member)
    add_name(member, member.name)
    kind._value2member_map_[member._value_] = member
    kind._member_names_.append(member.name)


def add_name(member: TrtEnum, name: str) -> None:
    """Add another name for the member to its enum."""
    kind = type(member)
    setattr(kind, name, member)
    kind._member_map_[name] = member
    getattr(kind, _ENTRIES)[name] = (member, _text(kind, name))


def renumber(kind: type[TrtEnum], names: Sequence[str]) -> None:
    """Number the members of these names 0, 1, ...; all others follow, in their order."""
    first = [kind.__members__[n] for n in names]
    members = [*first, *(m for m in kind if m not in first)]
    for member, number in zip(members, count(), strict=False):
        member._value_ = number
    kind._member_names_[:] = [m.name for m in members]
    kind._value2member_map_.clear()
    kind._value2member_map_.update((m._value_, m) for m in members)
