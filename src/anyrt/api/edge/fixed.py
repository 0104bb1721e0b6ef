"""Public objects have only the attributes that their classes declare, so a misspelt one is an error.

>>> class Box(Fixed):
...     __slots__ = ("_wide",)
...     wide = property(None, lambda self, wide: setattr(self, "_wide", wide))
>>> Box().wdie = 3
Traceback (most recent call last):
anyrt.core.errors.WrongName: [AR313] Box: got 'wdie', wanted an attribute of the class; the nearest is 'wide'
"""

from __future__ import annotations

import difflib
from abc import ABCMeta
from collections.abc import Iterable
from inspect import getattr_static, isdatadescriptor
from typing import TYPE_CHECKING

from anyrt.core.errors import WrongName
from anyrt.core.trt_enum import named_as_in_pybind, no_attribute


@named_as_in_pybind
class Listed(type):
    """The metaclass of public classes: `dir` of a class or object omits private names of AnyRT, but not those
    of subclasses in programs."""

    def __dir__(cls) -> list[str]:
        return listed(cls, type.__dir__(cls))


@named_as_in_pybind
class ListedABC(Listed, ABCMeta):
    """The same for classes with abstract base classes of Python."""


class Absent:
    """Base of placeholders in a class for missing names."""

    __slots__ = ()


def listed(kind: type, names: Iterable[str]) -> list[str]:
    """The names that exist and are not private names of the AnyRT classes from which `kind` derives."""
    ours = [base for base in kind.__mro__ if base.__module__.split(".")[0] == "anyrt"]
    hidden = {name for base in ours for name in vars(base) if name[0] == "_" != name[1:2]}
    return [n for n in names if n not in hidden and not isinstance(getattr_static(kind, n, None), Absent)]


class Fixed(metaclass=Listed):
    """Base of public objects: slots reject undeclared attributes, with the nearest name.

    A subclass in a program has a `__dict__`, and with it its own attributes.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # Python suggests names itself

        def __getattr__(self, name: str) -> object:
            kind = type(self)
            if getattr_static(kind, name, None) is not None:
                return object.__getattribute__(self, name)  # raises the exception of the attribute
            raise AttributeError(no_attribute(f"{kind.__name__!r} object", name, _public(kind)))

    def __setattr__(self, name: str, value: object) -> None:
        try:
            object.__setattr__(self, name, value)
        except AttributeError:
            kind = type(self)
            if _can_be_set(getattr_static(kind, name, None)):
                raise  # an exception of the setter
            raise _mistake(kind, name) from None


def _public(kind: type) -> list[str]:
    return [n for n in dir(kind) if n[0] != "_"]


def _mistake(kind: type, name: str) -> WrongName:
    if hasattr(kind, name):
        wanted, do = "an attribute that can be set", "set the attributes that determine it"
        return WrongName("AR313", kind.__name__, f"a value for {name!r}", wanted, do)
    settable = [n for n in dir(kind) if n[0] != "_" and hasattr(kind, n) and _can_be_set(getattr(kind, n))]
    near = difflib.get_close_matches(name, settable, 1)
    do = f"the nearest is {near[0]!r}" if near else f"help({kind.__name__}) lists the attributes"
    return WrongName("AR313", kind.__name__, repr(name), "an attribute of the class", do)


def _can_be_set(attribute: object) -> bool:
    if isinstance(attribute, property):
        return attribute.fset is not None
    return isdatadescriptor(attribute)
