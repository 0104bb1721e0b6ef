"""Numbers and codes: common parts of Quantize, Dequantize and INT8 tensors with dynamic ranges.

A code q with a scale s and a zero point z represents (q − z) · s. There is one scale for a tensor, for each
slice along an axis, or for each block; `beside` shapes scales so that they broadcast with the tensor.

codes(map_("div", x, s), DataType.INT8)      # x / s, rounded half to even, saturated to −128 … 127
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.dims import Dim, mul
from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Shape, Value
from anyrt.ops._check import Requirements, checked, held, is_constant, need, show
from anyrt.ops._types import FLOATS
from anyrt.prims._convert import limits
from anyrt.prims.build import cast, expand, map_, reshape, scalar, slice_

NARROW = frozenset({DataType.INT8, DataType.INT4, DataType.FP8, DataType.FP4})
SCALES = FLOATS | {DataType.E8M0}
# The function that rounds to a narrow float, and the largest number of each type.
ROUNDED = {DataType.FP8: "to_fp8", DataType.FP4: "to_fp4"}
LARGEST = {DataType.INT8: 127.0, DataType.INT4: 7.0, DataType.FP8: 448.0, DataType.FP4: 6.0}


def codes(steps: Value, dtype: DataType, zero: Value | None = None) -> Value:
    """Codes of FLOAT quotients: rounded half to even, plus `zero`, saturated. NaN becomes the lowest code of
    an integer type, NaN in FP8, and 6 in FP4."""
    if dtype in ROUNDED:
        return cast(map_(ROUNDED[dtype], steps), dtype)
    rounded = map_("round", steps)
    if zero is not None:
        rounded = map_("add", rounded, cast(zero, DataType.FLOAT))
    low, high = (scalar(n, rounded) for n in limits(dtype))
    # Comparisons instead of a maximum: NaN fails the first and takes the lowest code, as an empty INT8
    # average requires.
    least = map_("select", map_("lt", low, rounded), rounded, low)
    kept = map_("select", map_("lt", least, high), least, high)
    return cast(kept, dtype)


def numbers(of: Value, zero: Value | None = None) -> Value:
    """The codes less the zero point, in FLOAT."""
    steps = cast(of, DataType.FLOAT)
    return steps if zero is None else map_("sub", steps, cast(zero, DataType.FLOAT))


@dataclass(frozen=True, slots=True)
class Grain:
    """The granularity of a layer's scales. `axis`: −1 if not set. `block`: None if it follows from the sizes
    of the scale."""

    where: str
    axis: int
    block: tuple[int, ...] | None


def beside(grain: Grain, v: Value, x: Value, what: str) -> Value:
    """A scale or a zero point with the axes of `x`; each of its sizes is that of `x`, or 1."""
    rank = x.type.rank
    if not -1 <= grain.axis < rank:
        wanted = f"0 to {rank - 1}, or -1 for none"
        raise ArgumentError("AR303", grain.where, f"axis {grain.axis}", wanted, "name an axis of the input")
    if grain.block is None and all(d == 1 for d in v.shape):
        return reshape(v, (1,) * rank)
    if v.type.rank == rank and (grain.block is not None or grain.axis < 0 or rank > 1):
        return _blocks(grain, v, x, what)
    if grain.block is not None or v.type.rank != 1:
        got = f"{what} of shape {show(v.shape)} for an input of shape {show(x.shape)}"
        wanted = "one size for each axis of the input" if grain.block else "rank 0, 1, or that of the input"
        raise ShapeError("AR123", grain.where, got, wanted, "reshape it, or set block_shape")
    if grain.axis < 0:
        got, do = f"{what} of shape {show(v.shape)} without an axis", "set axis"
        raise ArgumentError("AR306", grain.where, got, "an axis whose slices they belong to", do)
    return _slices(grain, v, x, what)


def check_scale(where: str, scale: Value) -> None:
    """Raises AR304 for a constant scale that is not a finite number above 0. A computed scale is not
    checked."""
    if not is_constant(scale):
        return
    steps = held(scale).astype(np.float64)
    wrong = steps[~((steps > 0) & np.isfinite(steps))]
    if wrong.size:
        got = f"a scale of {wrong[0]:g}"
        raise ArgumentError("AR304", where, got, "finite numbers above 0", "change the scale")


FIT = "use a scale with one element for each block"


def _slices(grain: Grain, v: Value, x: Value, what: str) -> Value:
    size = x.shape[grain.axis]
    got = f"{v.shape[0]} elements of the {what} for axis {grain.axis} of {show(x.shape)}"
    rules = need(grain.where, v.shape[0], Relation.EQ, size, "AR123", got, f"{size}", "use one per slice")
    line = tuple(v.shape[0] if k == grain.axis else 1 for k in range(x.type.rank))
    whole = tuple(size if k == grain.axis else 1 for k in range(x.type.rank))
    return _sized(reshape(checked(v, rules), line), whole)


def _blocks(grain: Grain, v: Value, x: Value, what: str) -> Value:
    rules: Requirements = ()
    block = _block(grain, v, x, what)
    for k, b in enumerate(block):
        got = f"{what} of shape {show(v.shape)} for {show(x.shape)} in blocks {show(grain.block or ())}"
        if b == -1:
            rules += need(grain.where, v.shape[k], Relation.EQ, 1, "AR123", got, "1 for a whole axis", FIT)
            continue
        wanted = f"{x.shape[k]} = {b} × {v.shape[k]} along axis {k}"
        rules += need(grain.where, mul(v.shape[k], b), Relation.EQ, x.shape[k], "AR123", got, wanted, FIT)
    v = checked(v, rules)
    for k, b in enumerate(block):
        v = _repeated(v, k, b)
    whole = tuple(1 if b == -1 else d for b, d in zip(block, x.shape, strict=True))
    return _sized(v, whole)


def _block(grain: Grain, v: Value, x: Value, what: str) -> tuple[int, ...]:
    """The sizes of a block; −1 for a whole axis."""
    if grain.block is None:
        return tuple(
            _inferred(grain, s, d, k, what) for k, (s, d) in enumerate(zip(v.shape, x.shape, strict=True))
        )
    if len(grain.block) != x.type.rank:
        got, wanted = f"block_shape {show(grain.block)}", f"{x.type.rank} sizes"
        raise ShapeError("AR108", grain.where, got, wanted, "give one for each axis of the input")
    if any(b < 1 and b != -1 for b in grain.block):
        got = f"block_shape {show(grain.block)}"
        raise ArgumentError("AR304", grain.where, got, "sizes above 0, or -1", "use -1 for a whole axis")
    return grain.block


def _inferred(grain: Grain, scale: Dim, size: Dim, axis: int, what: str) -> int:
    if scale == 1:
        return -1
    if scale == size:
        return 1
    got = f"{scale} elements of the {what} for {size} along axis {axis}"
    if not isinstance(scale, int) or not isinstance(size, int):
        raise ShapeError("AR117", grain.where, got, "static dimensions", "set block_shape")
    if scale == 0 or size % scale or size == 0:
        raise ShapeError("AR123", grain.where, got, "a divisor", FIT)
    return size // scale


def _repeated(v: Value, axis: int, times: int) -> Value:
    """`v` with each element along `axis` repeated `times` times."""
    if times in (1, -1):
        return v
    front, size, back = v.shape[:axis], v.shape[axis], v.shape[axis + 1 :]
    spread = expand(reshape(v, (*front, size, 1, *back)), (*front, size, times, *back))
    return reshape(spread, (*front, mul(size, times), *back))


def _sized(v: Value, shape: Shape) -> Value:
    """`v` with the sizes `shape`, which requirements have made equal to its own."""
    none = (0,) * v.type.rank
    return slice_(v, none, shape, (1,) * v.type.rank)
