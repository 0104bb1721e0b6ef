"""The steps of a case by a library of arrays: the float64 reference, NumPy, JAX, PyTorch, and ONNX's nodes.

A `Library` has the names of its functions. `own` has functions for steps that a library computes differently.

>>> library = Library(operations(np), lambda a, dtype: a, lambda y, dtype: y)
>>> double = function(Formula((Line("y", Op.ADD, ("x", "x")),)), Tensor((2,), Element.F32), library)
>>> double(np.array([1.0, 2.0])).tolist()
[2.0, 4.0]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from benchmarks import steps
from benchmarks.layers.cases import Case
from benchmarks.layers.formula import FOLDS, Formula, Line, Op, constants_of, evaluate, shapes_of
from benchmarks.layers.taps import plans
from benchmarks.steps import Element, Mode, Shape, Statistics, Step, Tensor
from benchmarks.values import Array, constant_values, norm_values, scale_values

PLAIN = (0.5, 1, 2)  # powers that are products or roots
Run: TypeAlias = Callable[[Any], Any]  # Any: an array of the library, here and below


def operations(
    module: Any, power: str = "power", axis: str = "axis", keepdims: str = "keepdims"
) -> dict[Op, Callable[..., Any]]:  # Any: NumPy, or a module with its names but for these
    """The elementary operations of a library."""
    names = ("add", "subtract", "multiply", "divide", power, "sqrt", "reciprocal", "mean", "sum")
    ops = {op: getattr(module, name) for op, name in zip(Op, names, strict=True)}
    return ops | {op: partial(ops[op], **{axis: -1, keepdims: True}) for op in FOLDS}


@dataclass(frozen=True, slots=True)
class Library:
    """A library of arrays.

    ops: functions by operation; they take `out` if there is `room`. constant(array, type): an array of the
    library. cast(y, type). stored(y, type): a result as it is stored between steps; integer types round and
    saturate. take(y, positions, axis). wide(y): in the type of statistics. taps: the type of Resize's
    weights. room(shape): memory for a result of elementary operations. writes(step, x): whether the last step
    writes to the output; otherwise copy(out, y) fills it. own: functions of steps that differ.
    """

    ops: Mapping[Op, Callable[..., Any]]
    constant: Callable[[Array, Element], Any]
    cast: Callable[[Any, Element], Any]
    stored: Callable[[Any, Element], Any] = lambda y, dtype: y
    take: Callable[[Any, Any, int], Any] = np.take
    wide: Callable[[Any], Any] = lambda y: y
    taps: type[np.floating[Any]] = np.float32
    tap: Callable[[Array], Any] = lambda a: a
    room: Callable[[Shape], Any] | None = None
    writes: Callable[[Step, Tensor], bool] = lambda step, x: False
    copy: Callable[[Any, Any], Any] = lambda out, y: y
    own: Mapping[type, Maker] = field(default_factory=dict)

    def into(self, shape: Shape, out: Any) -> dict[str, Any]:
        """The keyword for the result of an operation: `out`, or memory of its own."""
        if out is None and self.room is not None:
            out = self.room(shape)
        return {} if out is None else {"out": out}


Maker: TypeAlias = Callable[[Any, Tensor, Library, Any], Run]  # of a step, its input, memory for its result


def function(step: Step, x: Tensor, library: Library, out: Any = None) -> Run:
    """The function of a step; it writes to `out` if the library can."""
    makers = {**MAKERS, **library.own}
    return makers[type(step)](step, x, library, out)


def functions(case: Case, library: Library) -> list[Run]:
    """The functions of all steps."""
    return [function(s, t, library) for s, t in zip(case.steps, case.tensors, strict=False)]


def filling(case: Case, library: Library, out: Any) -> list[Run]:
    """The functions of all steps; the last one fills `out`."""
    *runs, last = functions(case, library)
    step, x = case.steps[-1], case.tensors[-2]
    if library.writes(step, x):
        return [*runs, function(step, x, library, out)]
    return [*runs, lambda y: library.copy(out, last(y))]


def chained(runs: list[Run]) -> Run:
    """All functions, one after the other."""

    def run(y: Any) -> Any:
        for piece in runs:
            y = piece(y)
        return y

    return run


def _scale(step: steps.Scale, x: Tensor, library: Library, out: Any) -> Run:
    numbers = (*scale_values(step, x.shape), None if step.power in PLAIN else np.array(step.power))
    scale, shift, power = (None if a is None else library.constant(a, x.dtype) for a in numbers)
    ops, into = library.ops, library.into(x.shape, out)

    def run(y: Any) -> Any:
        y = y if scale is None else ops[Op.MUL](y, scale, **into)
        y = y if shift is None else ops[Op.ADD](y, shift, **into)
        if step.power == 2:
            return ops[Op.MUL](y, y, **into)
        if step.power == 0.5:
            return ops[Op.SQRT](y, **into)
        return y if step.power == 1 else ops[Op.POW](y, power, **into)

    return run


def gathered(step: steps.Resize, x: Tensor, library: Library, out: Any = None) -> Run:
    """Resize by positions and weights, axis by axis."""
    every = [
        (axis, [(library.tap(at), library.tap(weights)) for at, weights in taps])
        for axis, taps in plans(step, x, library.taps)
    ]
    weighs = step.mode is not Mode.NEAREST

    def run(y: Any) -> Any:
        for axis, ((at, weights), *others) in every:
            total = library.take(y, at, axis)
            if weighs:
                total = total * weights
                for at, weights in others:
                    total += library.take(y, at, axis) * weights
            y = total
        return library.stored(y, x.dtype) if weighs else y

    return run


def _norm(step: steps.Norm, x: Tensor, library: Library, out: Any) -> Run:
    scale, bias = norm_values(step, x.shape)
    root, axes = library.ops[Op.SQRT], steps.norm_axes(step, len(x.shape))
    rows: tuple[int, ...] = x.shape
    if step.kind is Statistics.GROUP:
        rows, axes = (x.shape[0], step.groups, -1), (2,)

    def spread(y: Any) -> Any:
        return 1 / root((y * y).mean(axes, keepdims=True) + step.epsilon)

    def centred(y: Any) -> Any:
        y = library.wide(y).reshape(rows)
        y = y - y.mean(axes, keepdims=True)
        y *= spread(y)
        y = y.reshape(x.shape)
        y *= scale
        y += bias
        return library.stored(y, x.dtype)

    def root_mean_square(y: Any) -> Any:
        y = library.wide(y)
        y = y * spread(y)
        y *= scale
        return library.stored(y, x.dtype)

    return root_mean_square if step.kind is Statistics.RMS else centred


def _formula(step: Formula, x: Tensor, library: Library, out: Any) -> Run:
    constants = {c: library.constant(constant_values(c, x.shape), x.dtype) for c in constants_of(step)}
    last = step.lines[-1].name
    into = {
        name: library.into(shape, out if name == last else None)
        for name, shape in shapes_of(step, x.shape).items()
    }

    def apply(line: Line, operands: tuple[Any, ...]) -> Any:
        return library.ops[line.op](*operands, **into[line.name])

    return lambda y: evaluate(step, y, constants.__getitem__, apply)


def _reshaped(step: steps.Reshape, x: Tensor, library: Library, out: Any) -> Run:
    shape = steps.infer(step, x).shape
    return lambda y: y.reshape(shape)


MAKERS: dict[type, Maker] = {
    steps.Scale: _scale,
    steps.Resize: gathered,
    steps.Norm: _norm,
    Formula: _formula,
    steps.Reshape: _reshaped,
    steps.Transpose: lambda step, x, library, out: lambda y: y.transpose(step.perm),
    steps.Silu: lambda step, x, library, out: lambda y: y / (1 + np.exp(-y)),
    steps.Cast: lambda step, x, library, out: lambda y: library.cast(y, step.dtype),
    steps.Dequantize: lambda step, x, library, out: lambda y: library.cast(y, Element.F32) * step.scale,
    steps.Quantize: lambda step, x, library, out: lambda y: library.stored(y / step.scale, Element.I8),
}
