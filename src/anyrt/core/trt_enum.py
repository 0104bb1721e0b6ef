"""The base class of every enum in the API: looks like a pybind11 enum, is never equal to an int.

`IntEnum` will not do: on Python 3.11 its `str` is "0", and its members equal ints and members of other enums.

>>> class Fruit(TrtEnum):
...     APPLE, PEAR = range(2)
>>> str(Fruit.PEAR), repr(Fruit.PEAR), int(Fruit.PEAR), Fruit.PEAR == 1, 1 << Fruit.PEAR
('Fruit.PEAR', '<Fruit.PEAR: 1>', 1, False, 2)
"""

from __future__ import annotations

import enum
from typing import Final, Self, TypeVar

# Two underscores in a class's body would become another name.
_ENTRIES: Final = "__entries"


class TrtEnum(enum.Enum):
    """An enum with integer values that converts to int where asked, and takes part in flag arithmetic."""

    _value_: int

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        # What pybind11 keeps of its enums, which programs iterate over: members with their texts.
        setattr(cls, _ENTRIES, {n: (m, None) for n, m in cls.__members__.items()})

    __hash__ = object.__hash__  # members are equal to themselves alone, and looked up all the time

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


def unlisted(kind: type[E], name: str) -> E:
    """A member of `kind` that it does not list, with a number that none of the listed ones has."""
    member = object.__new__(kind)
    member._name_ = name
    member._value_ = 1 + max(int(m) for m in kind)
    return member


def add_to_list(member: TrtEnum) -> None:
    """Have its enum list a member that it does not."""
    kind = type(member)
    add_name(member, member.name)
    kind._value2member_map_[member._value_] = member
    kind._member_names_.append(member.name)


def add_name(member: TrtEnum, name: str) -> None:
    """Have its enum know a member by another name, too."""
    kind = type(member)
    setattr(kind, name, member)
    kind._member_map_[name] = member
    getattr(kind, _ENTRIES)[name] = (member, None)
