"""The signatures of a plug-in's functions, from their annotations; one error reports all problems.

>>> from anyrt.api.plugins.functions.desc import TensorDesc
>>> def describe(x: TensorDesc, factor: float) -> TensorDesc: return x.like()
>>> read("my::scaled", describe).attributes
{'factor': <class 'float'>}
>>> def wrong(x: TensorDesc, y, factor: list = ()) -> TensorDesc: return x.like()
>>> read("my::scaled", wrong)  # doctest: +ELLIPSIS
Traceback (most recent call last):
anyrt.api.edge.quiet.WrongValue: [AR315] my::scaled: wrong (...): got y has no annotation; ...
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from anyrt.api.edge.interfaces import tried
from anyrt.api.edge.quiet import WrongValue, wrong_type
from anyrt.api.plugins.functions.combination import AutoTuneCombination
from anyrt.api.plugins.functions.desc import TensorDesc
from anyrt.api.plugins.functions.launch import KernelLaunchParams
from anyrt.api.plugins.functions.lists import SymExprs
from anyrt.api.plugins.functions.tensor import Tensor
from anyrt.core.errors import ArgumentError

Function = Callable[..., object]

PLAIN: Final = (int, float, bool, str, bytes)
ARRAYS: Final = tuple(
    np.dtype(t) for t in ("int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool")
)
_RESERVED: Final = ("trt", "tensorrt", "std")
_TAKEN: Final = ("outputs", "stream", "tactic")  # parameters of impl, autotune and aot_impl
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NOTHING: Final = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Signature:
    """The names of the inputs, the annotation of each attribute, and the number of outputs."""

    inputs: tuple[str, ...]
    attributes: dict[str, object]
    outputs: int


@dataclass(slots=True)
class _Read:
    """A function's parameters and annotations, and the problems found so far."""

    plugin_id: str
    function: Function
    wanted: str
    problems: list[str] = field(default_factory=list)

    def parameters(self) -> dict[str, inspect.Parameter]:
        """The parameters by name; variadic ones are reported as problems."""
        parameters = inspect.signature(self.function).parameters
        for name, p in parameters.items():
            if p.kind not in _NAMED:
                self.problems.append(f"{name} is not a named parameter")
        return {name: p for name, p in parameters.items() if p.kind in _NAMED}

    def annotation(self, name: str, annotation: object) -> object:
        """`annotation`, evaluated if it is text."""
        if not isinstance(annotation, str):
            return annotation
        code = inspect.unwrap(self.function)
        known = {**getattr(code, "__globals__", {}), **_around(code)}
        value, error = tried(lambda: eval(annotation, known))  # as typing.get_type_hints does
        if error is None:
            return value
        self.problems.append(
            f"the annotation {annotation!r} of {name} fails: {type(error).__name__}: {error}"
        )
        return _NOTHING

    def returned(self) -> object:
        """The annotation of the return value."""
        return self.annotation("the return value", inspect.signature(self.function).return_annotation)

    def end(self) -> None:
        """Raise one error for all problems."""
        if self.problems:
            got = "; ".join(self.problems)
            raise WrongValue(
                ArgumentError("AR315", f"{self.plugin_id}: {place(self.function)}", got, self.wanted)
            )


def _around(function: Function) -> dict[str, object]:
    """The variables of the enclosing functions that `function` uses."""
    cells = zip(
        getattr(getattr(function, "__code__", None), "co_freevars", ()),
        getattr(function, "__closure__", None) or (),
        strict=False,
    )
    return {name: cell.cell_contents for name, cell in cells}


def place(function: Function) -> str:
    """A function's name with its file and line."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = getattr(function, "__name__", type(function).__name__)
    return name if code is None else f"{name} ({Path(code.co_filename).name}:{code.co_firstlineno})"


def split(plugin_id: object) -> tuple[str, str]:
    """Namespace and name of an identifier; ValueError if it is invalid."""
    if not isinstance(plugin_id, str):
        raise wrong_type("plugin_id", plugin_id, 'a str, "namespace::name"')
    space, sign, name = plugin_id.partition("::")
    if not sign or not space or not name or "." in plugin_id or "::" in name:
        do = 'write "my_project::my_plugin"'
        raise WrongValue(
            ArgumentError("AR304", "plugin_id", repr(plugin_id), '"namespace::name", no dots', do)
        )
    if space in _RESERVED:
        do = "use the name of your project"
        raise WrongValue(
            ArgumentError("AR304", "plugin_id", f"the reserved namespace {space!r}", "another namespace", do)
        )
    return space, name


def read(plugin_id: str, function: Function, lazy: bool = False) -> Signature:
    """The signature that a `register` function declares. `lazy`: arrays may omit their element type."""
    expected = (
        "(x: TensorDesc, ..., attribute: int or another type, ...) -> TensorDesc or Tuple[TensorDesc, ...]"
    )
    seen = _Read(plugin_id, function, expected)
    inputs: list[str] = []
    attributes: dict[str, object] = {}
    for name, p in seen.parameters().items():
        if p.default is not _NOTHING:
            seen.problems.append(f"{name} has a default")
        kind = seen.annotation(name, p.annotation)
        if kind is _NOTHING:
            if p.annotation is _NOTHING:
                seen.problems.append(f"{name} has no annotation")
        elif _is(kind, TensorDesc):
            if attributes:
                seen.problems.append(f"{name}, a tensor, follows an attribute")
            inputs.append(name)
        else:
            attributes[name] = kind
            seen.problems += _wrong_attribute(name, kind, lazy)
    if attributes and not inputs:
        seen.problems.append("the first parameter is not a tensor")
    outputs = _outputs(seen)
    seen.end()
    return Signature(tuple(inputs), attributes, outputs)


def _wrong_attribute(name: str, kind: object, lazy: bool) -> list[str]:
    if name in _TAKEN:
        return [f"{name} is a reserved name, as {', '.join(_TAKEN)} are"]
    if kind in PLAIN or (lazy and kind is np.ndarray):
        return []
    if kind is np.ndarray:
        return [f"{name} is an array without an element type: write numpy.typing.NDArray[numpy.int32]"]
    if is_array(kind):
        dtype = element(kind)
        return [] if dtype in ARRAYS else [f"{name} is an array of {dtype}, which plans cannot store"]
    plain = ", ".join(t.__name__ for t in PLAIN)
    return [f"{name} is a {shown(kind)}, not {plain} or numpy.typing.NDArray[...]"]


def _outputs(seen: _Read) -> int:
    kind = seen.returned()
    if kind is _NOTHING:
        seen.problems.append("the return value has no annotation")
        return 0
    parts = typing.get_args(kind) if typing.get_origin(kind) is tuple else (kind,)
    if not parts or not all(_is(part, TensorDesc) for part in parts):
        do = "Tuple[TensorDesc, TensorDesc] declares two" if typing.get_origin(kind) is tuple else ""
        seen.problems.append(
            f"{shown(kind)} is returned, not one TensorDesc for each output; {do}".rstrip("; ")
        )
    return len(parts)


def read_impl(plugin_id: str, function: Function, of: Signature) -> tuple[tuple[str, ...], bool]:
    """The attributes among the parameters of an `impl` function, and whether it has the parameter
    `tactic`."""
    seen = _Read(plugin_id, function, "")
    taken = _follow(seen, of, Tensor, ("outputs", "stream"), ("tactic",))
    kind = seen.returned()
    if kind not in (_NOTHING, None, type(None)):
        seen.problems.append(f"{shown(kind)} is returned, not None")
    seen.end()
    return taken, "tactic" in seen.parameters()


def read_autotune(plugin_id: str, function: Function, of: Signature) -> tuple[str, ...]:
    """The attributes among the parameters of an `autotune` function."""
    seen = _Read(plugin_id, function, "")
    taken = _follow(seen, of, TensorDesc, ("outputs",), ())
    kind = seen.returned()
    parts = typing.get_args(kind) if typing.get_origin(kind) is list else (kind,)
    if kind is not _NOTHING and not all(_is(part, AutoTuneCombination) for part in parts):
        seen.problems.append(f"{shown(kind)} is returned, not List[AutoTuneCombination]")
    seen.end()
    return taken


def read_aot_impl(plugin_id: str, function: Function, of: Signature) -> tuple[str, ...]:
    """The attributes among the parameters of an `aot_impl` function."""
    seen = _Read(plugin_id, function, "")
    taken = _follow(seen, of, TensorDesc, ("outputs", "tactic"), ())
    kind = seen.returned()
    parts = typing.get_args(kind)
    fits = typing.get_origin(kind) is tuple and len(parts) == 4
    if not fits or not (_is_text(parts[0]) and _is_text(parts[1])):
        problem = "the return value has no annotation" if kind is _NOTHING else f"{shown(kind)} is returned"
        seen.problems.append(
            f"{problem}, not Tuple[Union[str, bytes], Union[str, bytes], KernelLaunchParams, SymExprs]"
        )
    elif not (_is(parts[2], KernelLaunchParams) and _is(parts[3], SymExprs)):
        seen.problems.append(
            f"{shown(kind)} is returned, whose last two are no KernelLaunchParams and SymExprs"
        )
    seen.end()
    return taken


def _follow(
    seen: _Read, of: Signature, tensor: type, after: tuple[str, ...], maybe: tuple[str, ...]
) -> tuple[str, ...]:
    """Compare a function's parameters with those of `register`; returns the attributes among them."""
    parameters = seen.parameters()
    taken = tuple(name for name in of.attributes if name in parameters)
    order = (*of.inputs, *taken, *after, *(name for name in maybe if name in parameters))
    every = (*of.inputs, *of.attributes, *after, *maybe)
    seen.wanted = f"({', '.join(order)})"
    seen.problems += [f"{name} is none of {', '.join(every)}" for name in parameters if name not in every]
    seen.problems += [f"{name} is missing" for name in (*of.inputs, *after) if name not in parameters]
    if not seen.problems and tuple(parameters) != order:
        seen.problems.append(f"the order is {', '.join(parameters)}")
    for name, p in parameters.items():
        kind = seen.annotation(name, p.annotation)
        if kind is not _NOTHING and name in every:
            seen.problems += _unlike(name, kind, of, tensor)
    return taken


def _unlike(name: str, kind: object, of: Signature, tensor: type) -> list[str]:
    """The problem with a parameter's annotation, if there is one."""
    if name in of.attributes:
        declared = of.attributes[name]
        return (
            []
            if kind == declared
            else [f"{name} is a {shown(kind)}, but register declares {shown(declared)}"]
        )
    if name in of.inputs:
        return [] if _is(kind, tensor) else [f"{name} is a {shown(kind)}, not a {tensor.__name__}"]
    if name != "outputs":
        return [] if _is(kind, int) else [f"{name} is a {shown(kind)}, not an int"]
    parts = [part for part in typing.get_args(kind) if part is not Ellipsis]
    fits = typing.get_origin(kind) is tuple and all(_is(part, tensor) for part in parts)
    return [] if fits else [f"outputs is a {shown(kind)}, not Tuple[{tensor.__name__}]"]


def _is(kind: object, base: type) -> bool:
    return isinstance(kind, type) and not typing.get_args(kind) and issubclass(kind, base)


def _is_text(kind: object) -> bool:
    union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    parts: Iterable[object] = typing.get_args(kind) if union else (kind,)
    return all(part in (str, bytes) for part in parts)


def is_array(kind: object) -> bool:
    """Whether an annotation is `numpy.typing.NDArray[numpy.int32]`, of any element type, or
    `numpy.ndarray`."""
    # From Python 3.12 on, NDArray is a type alias, and the origin of its subscripted forms.
    return kind is np.ndarray or typing.get_origin(kind) in (np.ndarray, NDArray)


def element(kind: object) -> np.dtype[np.generic] | None:
    """The element type of such an annotation; None if it has none."""
    for part in typing.get_args(kind)[1:]:
        for scalar in typing.get_args(part):
            if isinstance(scalar, type):
                return np.dtype(scalar)
    return None


def shown(kind: object) -> str:
    """An annotation in a message."""
    if kind is None:
        return "None"
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
