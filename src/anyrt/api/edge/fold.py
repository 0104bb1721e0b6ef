"""Public classes without their helper base classes, which `help` would list first.

>>> class Greets:
...     def greet(self) -> str: return "hello"
>>> Greets.__module__ = "anyrt.api.some"
>>> @fold
... class Public(Greets): pass
>>> Public.__mro__[1:], Public().greet()
((<class 'object'>,), 'hello')
"""

from __future__ import annotations

from inspect import cleandoc, getattr_static
from types import new_class
from typing import NoReturn, SupportsIndex, TypeVar

from anyrt import __version__
from anyrt.api.edge.fixed import Listed, listed

API = __version__.rsplit(".", 1)[0]
T = TypeVar("T")

# Attributes that every new class gets.
MADE = ("__dict__", "__weakref__", "__slots__", "_abc_impl")


def fold(cls: type[T]) -> type[T]:
    """A copy of the class with all members of its helper bases: those of this package that are not folded.

    Type checkers still see the bases. Methods must not use `super()`, which refers to the original class."""
    helpers = [base for base in cls.__mro__[1:] if _is_helper(base)]
    body: dict[str, object] = {}
    slots: dict[str, None] = {}
    for part in (*reversed(helpers), cls):
        own = vars(part)
        declared = dict.fromkeys(own.get("__slots__", ()))
        body |= {name: x for name, x in own.items() if name not in MADE and name not in declared}
        slots |= declared
    body["_is_folded"] = True
    body["__reduce_ex__"] = _refuse_to_copy
    if not any("_is_folded" in vars(base) for base in cls.__mro__[1:]):  # a base has it
        body.setdefault("__dir__", public_names)
    body["__doc__"] = f"{cleandoc(cls.__doc__ or '')}\n\nAs in TensorRT {API}."
    if "__slots__" in vars(cls):
        body["__slots__"] = (*slots,)
    bases = tuple(dict.fromkeys(b for part in (cls, *helpers) for b in part.__bases__ if b not in helpers))
    bases = tuple(b for b in bases if b is not object)
    kind = Listed if type(cls) is type else type(cls)
    folded: type[T] = new_class(cls.__name__, bases, {"metaclass": kind}, lambda names: names.update(body))
    return folded


def _is_helper(base: type) -> bool:
    return base.__module__.startswith("anyrt.api.") and "_is_folded" not in vars(base)


def public_names(instance: object) -> list[str]:
    """The names in `dir` of an object (api/edge/fixed.py): the readable ones."""
    kind = type(instance)
    return [n for n in listed(kind, object.__dir__(instance)) if not _is_write_only(kind, n)]


def _is_write_only(kind: type, name: str) -> bool:
    member = getattr_static(kind, name, None)
    return isinstance(member, property) and member.fget is None


def _refuse_to_copy(instance: object, protocol: SupportsIndex) -> NoReturn:
    """Reject copies and pickling, as TensorRT does, whose objects refer to native objects."""
    raise TypeError(f"cannot pickle 'anyrt.{type(instance).__name__}' object")
