"""Docstrings that begin with the signature, as with pybind11; programs read the number of arguments from it.

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
# Functions of the module that pybind11 defines; TensorRT defines `nptype` and `volume` in Python.
_FUNCTIONS: Final = (
    *("get_builder_plugin_registry", "get_plugin_registry"),
    *("get_nv_onnx_parser_version", "init_libnvinfer_plugins"),
)
# Special methods that pybind11 defines; TensorRT defines `__enter__` and `__exit__` in Python, others are
# slots.
_SPECIAL: Final = (
    *("__init__", "__len__", "__bool__", "__nonzero__", "__iter__", "__getitem__", "__setitem__"),
    *("__delitem__", "__eq__", "__str__"),
)
_find: Final = anyrt.__getattr__


def offer() -> None:
    """Add signatures to the docstrings of public classes and functions, to lazy ones when they are loaded."""
    vars(anyrt)["__getattr__"] = _signed
    for member in [*vars(anyrt).values()]:
        _sign(member)


def _signed(name: str) -> object:
    member = _find(name)
    _sign(member)
    return member


def _sign(target: object) -> None:
    if isinstance(target, FunctionType) and target.__name__ in _FUNCTIONS:
        _begin(target, None)
    if not isinstance(target, type):
        return
    for kind in (k for k in target.__mro__ if k.__module__.split(".")[0] == "anyrt"):
        for name, member in [*vars(kind).items()]:
            is_special = name in _SPECIAL and (name == "__init__" or kind.__name__ in _names())
            if isinstance(member, FunctionType) and (name[0] != "_" or is_special):
                _begin(member, kind)


def _begin(function: FunctionType, kind: type | None) -> None:
    text, name = inspect.cleandoc(function.__doc__ or ""), function.__name__
    if not text.startswith(f"{name}(self: " if kind is not None else f"{name}("):
        function.__doc__ = f"{signature(kind, function)}\n\n{text}"


def signature(kind: type | None, function: Callable[..., object]) -> str:
    """The first line of the docstring of a function, or of a method of the class `kind`."""
    shown = inspect.signature(function)
    parts = [] if kind is None else [f"self: {_type(kind.__name__)}"]
    for parameter in [*shown.parameters.values()][len(parts) :]:
        text = f"{'*' * (parameter.kind is parameter.VAR_POSITIONAL)}{parameter.name}"
        if parameter.annotation is not parameter.empty:
            text += f": {_type(str(parameter.annotation))}"
        parts.append(text if parameter.default is parameter.empty else f"{text} = {parameter.default!r}")
    answer = "None" if shown.return_annotation is shown.empty else _type(str(shown.return_annotation))
    return f"{function.__name__}({', '.join(parts)}) -> {answer}"


def _type(annotation: str) -> str:
    """TensorRT's name of a type; of a union, the first type that is not None."""
    first = next((part for part in annotation.split(" | ") if part != "None"), "None")
    names = _names()
    return _NAME.sub(lambda match_: names.get(match_[0], match_[0]), first)


@cache
def _names() -> dict[str, str]:
    return {n: f"tensorrt.tensorrt.{n}" for n in dir(anyrt) if n[:1].isupper()} | _OTHERS
