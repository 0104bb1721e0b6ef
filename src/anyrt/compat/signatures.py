"""Docstrings as pybind11 begins them, with the signature, from which programs read how many arguments it has.

>>> signature(anyrt.INetworkDefinition, anyrt.INetworkDefinition.add_cast)
'add_cast(self: tensorrt.tensorrt.INetworkDefinition, input: tensorrt.tensorrt.ITensor, \
to_type: tensorrt.tensorrt.DataType) -> tensorrt.tensorrt.ICastLayer'
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Final

import anyrt

_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_OTHERS: Final = {"NDArray": "numpy.ndarray", "Array": "numpy.ndarray", "Sequence": "List", "Any": "object"}
_find: Final = anyrt.__getattr__


def offer() -> None:
    """Have each public class say so, once it is asked for; those that are there already at once."""
    vars(anyrt)["__getattr__"] = _found
    for found in [*vars(anyrt).values()]:
        _sign(found)


def _found(name: str) -> object:
    found = _find(name)
    _sign(found)
    return found


def _sign(found: object) -> None:
    if not isinstance(found, type):
        return
    for kind in (k for k in found.__mro__ if k.__module__.split(".")[0] == "anyrt"):
        for name, member in [*vars(kind).items()]:
            is_shown = isinstance(member, FunctionType) and (name[0] != "_" or name == "__init__")
            if is_shown and not (member.__doc__ or "").startswith(f"{name}(self: "):
                member.__doc__ = f"{signature(kind, member)}\n\n{inspect.cleandoc(member.__doc__ or '')}"


def signature(kind: type, method: Callable[..., object]) -> str:
    """The first line of a method's docstring; `kind`: its class."""
    shown = inspect.signature(method)
    parts = [f"self: {_type(kind.__name__)}"]
    for parameter in [*shown.parameters.values()][1:]:
        text = f"{'*' * (parameter.kind is parameter.VAR_POSITIONAL)}{parameter.name}"
        if parameter.annotation is not parameter.empty:
            text += f": {_type(str(parameter.annotation))}"
        parts.append(text if parameter.default is parameter.empty else f"{text} = {parameter.default!r}")
    answer = "None" if shown.return_annotation is shown.empty else _type(str(shown.return_annotation))
    return f"{method.__name__}({', '.join(parts)}) -> {answer}"


def _type(annotation: str) -> str:
    """A type of ours by TensorRT's name: of several, the first one that is not None."""
    first = next((part for part in annotation.split(" | ") if part != "None"), "None")
    names = _names()
    return _NAME.sub(lambda found: names.get(found[0], found[0]), first)


@cache
def _names() -> dict[str, str]:
    return {n: f"tensorrt.tensorrt.{n}" for n in dir(anyrt) if n[:1].isupper()} | _OTHERS
