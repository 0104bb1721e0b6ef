"""Resize: interpolation to a new size: a shape, scales, or a tensor of dimensions.

layer = add_resize(x)
layer.resize_mode, layer.scales = InterpolationMode.LINEAR, (1, 1, 2, 2)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product as combinations
from typing import TypeAlias, TypeVar

import numpy as np

from anyrt.core.counts import open_count
from anyrt.core.dims import Dim, always_le, bounds, minimum, mul, scaled
from anyrt.core.dtype import is_float, wide
from anyrt.core.enums import (
    DataType,
    InterpolationMode,
    LayerType,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    ResizeSelector,
)
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Value, apply
from anyrt.ops._check import Requirements, checked, need, show
from anyrt.ops._elements import tied, vector, with_counts
from anyrt.ops._math import number
from anyrt.ops._record import Case, Input, Layer, Method, Mistake, Op
from anyrt.ops._resample import Line, between, coordinates, corners, nearest, part, smoothed, summed, weighed
from anyrt.ops._resize import (
    ALIGN_CORNERS,
    ASYMMETRIC,
    CUBIC,
    FLOOR,
    FORMULA,
    HALF_DOWN,
    HALF_PIXEL,
    HALF_UP,
    LINEAR,
    NEAREST,
    REACH,
    UPPER,
    ResizeAttrs,
    ScaledAttrs,
    Variant,
    reach,
    ref,
)
from anyrt.ops._types import FLOATS, INTS, REALS, STORAGE
from anyrt.prims.build import cast, const, identity, map_, reshape, scalar, slice_, taps
from anyrt.prims.concat import Concat
from anyrt.prims.const import Const
from anyrt.prims.count import Count
from anyrt.prims.taprules import Cubic, Linear, Nearest, TapRule

SIZES, SCALES, ROI = 1, 2, 3  # operands
Factor: TypeAlias = float | Value
T = TypeVar("T")


def expand(layer: Layer[ResizeAttrs]) -> tuple[Value, ...]:
    """One `Taps` for each axis whose size changes or may change."""
    x, attrs = layer.input(0), layer.attrs
    if not math.isfinite(attrs.cubic_coeff):
        raise ArgumentError(
            "AR308", layer.name, f"cubic_coeff {attrs.cubic_coeff}", "a finite number", "use -0.75"
        )
    scales = _scales(layer, x.type.rank)
    sizes, tells = _sizes(layer, x, scales)
    rules: Requirements = ()
    for axis, size in enumerate(sizes):
        got = f"size {size} for axis {axis} of {show(x.shape)}"
        do = "pass sizes of 0 or more"
        rules += need(layer.name, 0, Relation.LE, size, "AR110", got, "a size of 0 or more", do)
        rules += _within_reach(layer, x, axis, size)
    near = reach(attrs, x.type.rank)
    lines = {a: _line(attrs, x.shape[a], sizes[a], scales[a] if scales else None) for a in near}
    changed = {axis: line for axis, line in lines.items() if line.n_out != line.n_in}
    # Checked before the taps, whose own conditions do not name the layer.
    y = checked(x if attrs.resize_mode is NEAREST else cast(x, wide(x.dtype)), rules)
    if layer.optional(ROI) is not None:
        y = _back(_crop(layer, y, lines), x.dtype)
    elif not changed:
        y = identity(checked(x, rules))
    else:
        for axis in _in_turn(attrs, list(changed)):
            y = _resampled(layer, y, axis, changed[axis])
        y = _back(y, x.dtype)
    return (tied(with_counts(layer, y, SIZES), tells),)


def _in_turn(attrs: ResizeAttrs, axes: list[int]) -> list[int]:
    """The innermost axis first: a window over the other axes keeps rows resampled along it. Antialiased sums
    have no window: the outer axes come first, which leaves fewer elements to gather along the rows."""
    return axes if attrs.antialias else axes[-1:] + axes[:-1]


def _resampled(layer: Layer[ResizeAttrs], y: Value, axis: int, line: Line) -> Value:
    attrs, how = layer.attrs, layer.attrs.coordinate_transformation
    single = attrs.selector_for_single_pixel
    variant = attrs.variant if isinstance(attrs, ScaledAttrs) else Variant.PLAIN
    if line.factor is not None or variant is Variant.UNSHIFTED or y.dtype is DataType.DOUBLE:
        return _read(layer, y, axis, line, coordinates(line, how, single, variant))
    if not attrs.antialias or attrs.resize_mode is NEAREST or always_le(line.n_in, line.n_out):
        return taps(y, axis, line.n_out, _rule(attrs))
    return summed(_readable(layer, y, axis, line.n_out), axis, smoothed(line, how, single))


def _read(layer: Layer[ResizeAttrs], y: Value, axis: int, line: Line, position: Value) -> Value:
    """`y` sampled along `axis` at positions, float64 of shape (n_out, 1)."""
    y = _readable(layer, y, axis, line.n_out)
    if layer.attrs.resize_mode is NEAREST:
        return nearest(y, axis, position, layer.attrs.nearest_rounding)
    return summed(y, axis, weighed(line, position, y.dtype))


def _line(attrs: ResizeAttrs, n: Dim, size: Dim, scale: Factor | None) -> Line:
    outside = attrs.exclude_outside and (attrs.resize_mode is CUBIC or attrs.antialias)
    line = Line(attrs.resize_mode, n, size, attrs.cubic_coeff, attrs.antialias, outside)
    if scale is None or not isinstance(attrs, ScaledAttrs):
        return line
    if isinstance(scale, Value):
        return replace(line, factor=reshape(cast(scale, DataType.DOUBLE), (1, 1)))
    exact = n * scale == size if isinstance(n, int) else scale == int(scale) and mul(n, int(scale)) == size
    return line if exact else replace(line, factor=const([[scale]], DataType.DOUBLE))


def _readable(layer: Layer[ResizeAttrs], y: Value, axis: int, size: Dim) -> Value:
    """`y`, with the condition that the axis has elements unless the new size is 0."""
    length, do = y.shape[axis], f"axis {axis} is empty, so its new size must be 0"
    got = f"size {size} on the empty axis {axis} of {show(y.shape)}"
    return checked(y, need(layer.name, minimum(size, 1), Relation.LE, length, "AR110", got, "size 0", do))


def _crop(layer: Layer[ResizeAttrs], y: Value, lines: dict[int, Line]) -> Value:
    """The region of the input, resampled along each axis within reach."""
    roi, attrs, rank = layer.input(ROI), layer.attrs, y.type.rank
    got, do = f"roi of shape {show(roi.shape)} for rank {rank}", "pass all starts, then all ends"
    if roi.type.rank != 1:
        raise ShapeError("AR123", layer.name, got, f"{2 * rank} numbers", do)
    rules = need(layer.name, roi.shape[0], Relation.EQ, 2 * rank, "AR123", got, f"{2 * rank} numbers", do)
    roi = cast(slice_(checked(roi, rules), (0,), (2 * rank,), (1,)), DataType.DOUBLE)
    covered: Value | None = None
    for axis in _in_turn(attrs, list(lines)):
        line = lines[axis]
        position = corners(line, part(roi, axis), part(roi, rank + axis))
        there = between(position, line.n_in)
        y = _read(layer, y, axis, line, map_("select", there, position, scalar(0.0, position)))
        there = reshape(there, tuple(line.n_out if k == axis else 1 for k in range(rank)))
        covered = there if covered is None else map_("and", covered, there)
    if covered is None:
        return y
    beyond = scalar(attrs.extrapolation_value, cast(y, DataType.FLOAT))
    return map_("select", covered, y, cast(beyond, y.dtype))


def _back(y: Value, dtype: DataType) -> Value:
    return cast(y if is_float(dtype) or y.dtype is dtype else map_("round", y), dtype)


def _rule(attrs: ResizeAttrs) -> TapRule:
    how, single = attrs.coordinate_transformation, attrs.selector_for_single_pixel
    match attrs.resize_mode:
        case InterpolationMode.NEAREST:
            return Nearest(how, single, attrs.nearest_rounding)
        case InterpolationMode.LINEAR:
            return Linear(how, single)
        case InterpolationMode.CUBIC:
            return Cubic(how, single, attrs.cubic_coeff, attrs.exclude_outside)


def _scales(layer: Layer[ResizeAttrs], rank: int) -> Sequence[Factor]:
    """A factor for each axis; none if sizes come from the attribute `shape` or input 1."""
    attrs, factors = layer.attrs, layer.optional(SCALES)
    if factors is None:
        return attrs.scales
    others = layer.optional(SIZES) is not None or attrs.shape is not None or attrs.scales
    if others and not isinstance(attrs, ScaledAttrs):
        got, do = "input 2 (scales) and other sizes", "remove the others"
        raise ArgumentError("AR310", layer.name, got, "one of scales, shape, input 1 and input 2", do)
    return _factors(layer, factors, rank)


def _sizes(
    layer: Layer[ResizeAttrs], x: Value, scales: Sequence[Factor]
) -> tuple[Sequence[Dim], Sequence[Value]]:
    """The output's dimensions, and the values that compute the data-dependent ones."""
    if layer.optional(SIZES) is not None:
        return _one_each(layer, vector(layer, SIZES, "the sizes"), x), ()
    if layer.attrs.shape is not None:
        return _one_each(layer, layer.attrs.shape, x), ()
    if not scales and layer.optional(SCALES) is None:
        return x.shape, ()
    for scale in scales:
        if isinstance(scale, float | int) and not (math.isfinite(scale) and scale >= 0):
            do = "pass one scale for each dimension"
            raise ShapeError("AR110", layer.name, f"scales {scales}", "finite scales >= 0", do)
    sizes, tells = list[Dim](), list[Value]()
    for axis, (size, scale) in enumerate(zip(x.shape, _one_each(layer, scales, x), strict=True)):
        if not isinstance(scale, Value):
            sizes.append(scaled(size, scale))
            continue
        # The product in float32, rounded down.
        real = map_("floor", map_("mul", number(size, scale), scale))
        sym = open_count(f"{layer.name}: size {axis}")
        sizes.append(sym.dim)
        tells.append(apply(Count(sym), reshape(cast(real, DataType.INT64), ())))
    return sizes, tells


def _factors(layer: Layer[ResizeAttrs], factors: Value, rank: int) -> list[Factor]:
    """The elements of a tensor of scales: numbers if they are constant, else values."""
    if factors.type.rank != 1:
        got = f"input 2 (scales) of rank {factors.type.rank}"
        raise ShapeError("AR123", layer.name, got, "rank 1", "pass one scale for each dimension")
    (count,) = factors.shape
    if not isinstance(count, int):
        got, do = f"{count} scales", "pass one for each dimension"
        rule = need(layer.name, count, Relation.EQ, rank, "AR108", got, f"{rank}", do)
        factors = slice_(checked(factors, rule), (0,), (rank,), (1,))
    return list(_each(factors))


def _each(factors: Value) -> Iterator[Factor]:
    match factors.op:
        case Const(blob=blob):
            yield from (float(s) for s in blob.fixed())
        case Concat():  # some of its parts may be constants
            for part in factors.args:
                yield from _each(part)
        case _:
            count = bounds(factors.shape[0])[1]
            yield from (slice_(factors, (k,), (1,), (1,)) for k in range(count))


def _one_each(layer: Layer[ResizeAttrs], sizes: Sequence[T], x: Value) -> Sequence[T]:
    if len(sizes) != x.type.rank:
        got, wanted = f"{len(sizes)} sizes for the input {show(x.shape)}", f"{x.type.rank}"
        raise ShapeError("AR108", layer.name, got, wanted, "pass one for each dimension")
    return sizes


def _within_reach(layer: Layer[ResizeAttrs], x: Value, axis: int, size: Dim) -> Requirements:
    mode, rank = layer.attrs.resize_mode, x.type.rank
    if mode is CUBIC and rank < REACH[CUBIC] and not isinstance(layer.attrs, ScaledAttrs):
        raise ShapeError(
            "AR101", layer.name, f"rank {rank} in mode CUBIC", "rank >= 2", "add a dimension of size 1"
        )
    if axis in reach(layer.attrs, rank):
        return ()
    got = f"size {size} for axis {axis} of {show(x.shape)} in mode {mode.name}"
    wanted = f"changes in the last {REACH[mode]} axes only"
    do = f"keep axis {axis}, or transpose first"
    return need(layer.name, size, Relation.EQ, x.shape[axis], "AR109", got, wanted, do)


# ---- reference, DLA and cases -------------------------------------------------------------------

DLA_NEAREST = {(ASYMMETRIC, FORMULA, FLOOR), (HALF_PIXEL, FORMULA, HALF_DOWN), (HALF_PIXEL, FORMULA, HALF_UP)}
DLA_LINEAR = {(HALF_PIXEL, FORMULA), (HALF_PIXEL, UPPER)}


def dla(layer: Layer[ResizeAttrs]) -> str | None:
    """None for the documented combinations, with integer scales of the last two of four axes."""
    attrs = layer.attrs
    how, single = attrs.coordinate_transformation, attrs.selector_for_single_pixel
    if isinstance(attrs, ScaledAttrs) and attrs.variant is Variant.UNSHIFTED:
        return "DLA does not run half-pixel coordinates without the final shift by -1/2"
    if attrs.resize_mode is CUBIC:
        return "DLA runs Resize in modes NEAREST and LINEAR only"
    if attrs.resize_mode is NEAREST and (how, single, attrs.nearest_rounding) not in DLA_NEAREST:
        return f"DLA does not run NEAREST with {how.name}, {single.name} and {attrs.nearest_rounding.name}"
    if attrs.resize_mode is LINEAR and (how, single) not in DLA_LINEAR:
        return f"DLA does not run LINEAR with {how.name} and {single.name}"
    if layer.optional(1) is not None or len(attrs.scales) != 4 or attrs.scales[:2] != (1, 1):
        return "DLA resizes with 4 scales only, of which the first two are 1"
    most = 32 if attrs.resize_mode is NEAREST else 4
    if any(s != int(s) or not 1 <= s <= most for s in attrs.scales[2:]):
        return f"DLA resizes with integer scales from 1 to {most} in this mode, got {attrs.scales}"
    return None


def _nearest_cases() -> list[Case[ResizeAttrs]]:
    sizes = (((1, 2, 3, 5), (1, 2, 7, 3)), ((1, 1, 17, 2), (1, 1, 1, 15)))
    out = [
        Case(ResizeAttrs(NEAREST, after, (), how, single, rounding), (before,))
        for how, single, rounding in combinations(
            ResizeCoordinateTransformation, ResizeSelector, ResizeRoundMode
        )
        for before, after in sizes
    ]
    every = ResizeAttrs(NEAREST, (2, 3, 1, 2, 3, 1, 2, 2), (), HALF_PIXEL, FORMULA, HALF_DOWN)
    out.append(Case(every, ((1, 2, 3, 1, 2, 2, 3, 1),)))
    out += [
        Case(ResizeAttrs(NEAREST, (5,)), ((3,),), (t,))
        for t in (DataType.HALF, DataType.BF16, DataType.INT8, DataType.UINT8)
    ]
    return out


# (half units in the last place of the largest tap that float32 may lose along one axis, how far weights can
# enlarge what was lost before). LINEAR rounds the fraction, its complement, a product and a sum. For CUBIC a
# running error analysis over all fractions gives 9.5 for the four weights and 2.5 for products and sums.
LOSS = {LINEAR: (4.0, 1.0), CUBIC: (12.0, 1.375)}
OUTSIDE = 5  # exclude_outside divides by a sum of weights that is itself rounded, and not below 1/2


def _smooth(
    attrs: ResizeAttrs, shape: tuple[int, ...], dtype: DataType = DataType.FLOAT, high: float = 2.0
) -> Case[ResizeAttrs]:
    """A case with values of magnitude up to `high` and a tolerance for float32 arithmetic."""
    loss, gain = LOSS[attrs.resize_mode]
    lost = 0.0
    for before, after in zip(shape, attrs.shape or shape, strict=True):
        if before != after:
            lost = lost * gain + loss * (OUTSIDE if attrs.exclude_outside else 1)
    low = 0.0 if dtype is DataType.UINT8 else -high
    return Case(attrs, (shape,), (dtype,), low=low, high=high, rtol=0.0, atol=lost * 2.0**-24 * high)


def _smooth_cases() -> list[Case[ResizeAttrs]]:
    sizes = (((2, 3, 5), (2, 7, 3)), ((1, 17, 2), (1, 1, 15)))
    linear = [
        _smooth(ResizeAttrs(LINEAR, after, (), how, single), before)
        for how, single in combinations(ResizeCoordinateTransformation, ResizeSelector)
        for before, after in (*sizes, ((2, 1, 2, 3, 5), (2, 1, 3, 1, 31)))
    ]
    cubic = [
        _smooth(ResizeAttrs(CUBIC, after, (), how, single, FLOOR, a, outside), before)
        for how, single, (a, outside) in combinations(
            ResizeCoordinateTransformation, ResizeSelector, ((-0.75, False), (-0.5, True))
        )
        for before, after in sizes
    ]
    types = [
        _smooth(ResizeAttrs(mode, (2, 6, 3), (), HALF_PIXEL), (2, 3, 5), t, 100.0)
        for mode, t in combinations((LINEAR, CUBIC), sorted(FLOATS | {DataType.UINT8}, key=int))
    ]
    int8 = [
        Case(ResizeAttrs(mode, (2, 6, 3)), ((2, 3, 5),), (DataType.INT8,), low=-100, high=100, int8=scales)
        for mode, scales in combinations((NEAREST, LINEAR, CUBIC), (((1.0,), 1.0), ((0.5,), 0.3)))
    ]
    halves = [  # weights of 1/2 and 1/4 are exact and produce ties
        Case(ResizeAttrs(LINEAR, (2, 62, 4)), ((2, 31, 2),), (t,), low=-128 if t is DataType.INT8 else 0,
             high=127, int8=((0.5,), 0.5) if t is DataType.INT8 else None, rtol=0.0, atol=0.0)
        for t in (DataType.INT8, DataType.UINT8)
    ]  # fmt: skip
    return linear + cubic + types + int8 + halves


def cases() -> tuple[Case[ResizeAttrs], ...]:
    """Every combination of modes, up and down, to and from single elements; sizes from shapes, scales and
    tensors."""
    sizes = np.array([1, 2, 5, 3])
    others = [
        Case(ResizeAttrs(scales=(1, 1, 2, 2)), ((1, 2, 3, 5),)),
        Case(ResizeAttrs(LINEAR, scales=(1, 1, 0.7, 1.6)), ((1, 2, 10, 5),)),
        Case(ResizeAttrs(LINEAR, scales=(0.5,)), ((33,),)),
        Case(ResizeAttrs(LINEAR, scales=(1, 1, 0, 2)), ((1, 2, 3, 5),)),
        Case(ResizeAttrs(NEAREST, (1, 2, 3, 5)), ((1, 2, 3, 5),)),
        Case(ResizeAttrs(NEAREST, ()), ((),)),
        Case(ResizeAttrs(LINEAR, (2, 0, 9)), ((2, 0, 5),)),
        Case(ResizeAttrs(LINEAR), ((1, 2, 3, 7), (4,)), (DataType.FLOAT, DataType.INT64), (None, sizes)),
        Case(ResizeAttrs(CUBIC), ((1, 2, 3, 7), (4,)), (DataType.FLOAT, DataType.INT32), (None, sizes)),
        Case(ResizeAttrs(NEAREST), ((4, 2, 3, 7), (4,)), (DataType.HALF, DataType.INT32), (None, sizes)),
    ]
    factors = np.array([1, 0.72, 1.6])
    operands = [
        Case(ResizeAttrs(LINEAR), ((2, 10, 5), None, (3,)), (DataType.FLOAT,), (None, None, factors)),
        Case(ResizeAttrs(NEAREST), ((), None, (0,))),
    ]
    as_it_is = [Case(ResizeAttrs(mode), ((1, 2, 3, 5),)) for mode in (NEAREST, LINEAR, CUBIC)]
    parts = (
        as_it_is,
        _nearest_cases(),
        _smooth_cases(),
        _special_cases(),
        _antialiased_cases(),
        _cropped_cases(),
    )
    return (*others, *operands, *(case for part in parts for case in part))


def _antialiased_cases() -> list[Case[ResizeAttrs]]:
    """Axes that shrink a little, a lot, to 0 or not at all; NaN outside of every filter."""
    sizes = (((2, 7, 3), (2, 3, 2)), ((1, 9, 2), (1, 1, 3)))
    kinds = combinations(ResizeCoordinateTransformation, ResizeSelector, (False, True))
    many = [
        _antialiased(ResizeAttrs(mode, after, (), how, single, FLOOR, a, outside, True), before)
        for how, single, outside in kinds
        for (mode, a), (before, after) in zip(((LINEAR, -0.75), (CUBIC, -0.5)), sizes, strict=True)
    ]
    types = [
        _antialiased(ResizeAttrs(mode, (2, 3, 3), (), HALF_PIXEL, antialias=True), (2, 7, 5), t)
        for mode, t in combinations((LINEAR, CUBIC), (DataType.HALF, DataType.BF16, DataType.UINT8))
    ]
    row = np.array([[np.nan, 1, 2, 3, 4, 5, 6, 7, np.inf], [1, 2, 3, np.nan, 5, 6, 7, 8, 9]])
    plain = ResizeAttrs(LINEAR, (2, 3), (), HALF_PIXEL, antialias=True)
    return [
        *many,
        *types,
        _antialiased(ResizeAttrs(CUBIC, (0, 3), antialias=True), (3, 40)),
        Case(plain, ((2, 9),), data=(row,), rtol=1e-5, atol=1e-5),
        Case(replace(plain, resize_mode=NEAREST), ((2, 9),)),
        Case(plain, ((2, 9),), (DataType.INT8,), low=-100, high=100, int8=((0.5,), 0.3)),
    ]


def _antialiased(
    attrs: ResizeAttrs, shape: tuple[int, ...], dtype: DataType = DataType.FLOAT
) -> Case[ResizeAttrs]:
    """A case with a tolerance for sums of many products, with weights divided by their sum."""
    high, lost = 100.0 if dtype is DataType.UINT8 else 2.0, 0.0
    for before, after in zip(shape, attrs.shape or shape, strict=True):
        count = 4 * math.ceil(before / max(after, 1))
        lost = 1.4 * lost + 1.4 * (2 * count + 12) * (before != after)
    low = 0.0 if dtype is DataType.UINT8 else -high
    return Case(attrs, (shape,), (dtype,), low=low, high=high, rtol=0.0, atol=lost * 2.0**-24 * high)


def _cropped_cases() -> list[Case[ResizeAttrs]]:
    """Regions inside, beyond both ends, reversed, of one position; their coordinates are exact."""
    f = DataType.FLOAT
    regions = ((0.25, 0.25, 0.75, 1), (-0.25, 0.5, 1.25, 2), (1, 0.5, 0, 0.5), (np.nan, 0, 1, 1))
    modes = [ResizeAttrs(mode, coordinate_transformation=HALF_PIXEL) for mode in (LINEAR, CUBIC)]
    modes += [ResizeAttrs(NEAREST, nearest_rounding=how) for how in ResizeRoundMode]
    modes += [ResizeAttrs(CUBIC, exclude_outside=True), ResizeAttrs(LINEAR, antialias=True)]
    sizes = ((9, 5), (5, 9), (1, 2), (0, 3))
    own, loss = ((0, 1), (), (), (0,)), 1e-5
    return [
        *(
            Case(replace(attrs, shape=size, extrapolation_value=0.5), ((9, 5), None, None, (4,)), (f,),
                 (None, None, None, np.array(region)), own, rtol=loss, atol=loss)
            for k, attrs in enumerate(modes)
            for region, size in zip(regions, (*sizes[k % 4 :], *sizes), strict=False)
        ),
        Case(ResizeAttrs(LINEAR, (2, 3, 4), extrapolation_value=7.0), ((2, 3, 3), None, None, (6,)),
             (DataType.UINT8, f, f, f), (None, None, None, np.array([0, 0, -0.5, 1, 1, 1])), low=0, high=100),
        Case(ResizeAttrs(NEAREST, (4,)), ((3,), None, None, (2,)), (DataType.HALF,),
             (None, None, None, np.array([-0.5, 1]))),
    ]  # fmt: skip


def _special_cases() -> list[Case[ResizeAttrs]]:
    """NaN and infinities next to positions that read only the neighbouring element."""
    special = np.array([[1, np.nan, 3, 4, 5], [1, 2, np.inf, 4, 5], [-np.inf, 2, 3, 4, np.inf]])
    sizes = ((ALIGN_CORNERS, 5), (ALIGN_CORNERS, 9), (ASYMMETRIC, 5), (ASYMMETRIC, 10), (HALF_PIXEL, 15))
    return [
        Case(ResizeAttrs(mode, (3, after), (), how, exclude_outside=outside), ((3, 5),), data=(special,),
             rtol=1e-5, atol=1e-5)
        for mode, outside in ((NEAREST, False), (LINEAR, False), (CUBIC, False), (CUBIC, True))
        for how, after in sizes
    ]  # fmt: skip


def mistakes() -> tuple[Mistake[ResizeAttrs], ...]:
    """Missing, too few and negative sizes, sizes of empty axes, and axes out of reach."""
    nchw = ((1, 2, 3, 5),)
    both, types = (*nchw, (4,)), (DataType.FLOAT, DataType.INT32)
    nchw3, empty = ResizeAttrs(LINEAR, (1, 2, 3, 4)), ((1, 2, 0, 5),)
    below, outer = (None, np.array([1, 2, -1, 5])), (None, np.array([2, 2, 4, 5]))
    return (
        Mistake("AR108", "a shape of a length other than the input's rank", ResizeAttrs(shape=(6, 6)), nchw),
        Mistake("AR108", "scales of a length other than the input's rank", ResizeAttrs(scales=(2, 2)), nchw),
        Mistake("AR109", "LINEAR on more than the last 3 axes", ResizeAttrs(LINEAR, (2, 4, 6, 9)), nchw),
        Mistake("AR109", "CUBIC on more than the last 2 axes", ResizeAttrs(CUBIC, (1, 4, 6, 9)), nchw),
        Mistake("AR101", "CUBIC on an input of fewer than 2 dimensions", ResizeAttrs(CUBIC, (9,)), ((3,),)),
        Mistake("AR110", "a negative size", ResizeAttrs(shape=(1, 2, -3, 5)), nchw),
        Mistake("AR110", "a negative or infinite scale", ResizeAttrs(scales=(1, 1, -2, 2)), nchw),
        Mistake("AR110", "a nonzero size for an empty axis", nchw3, empty),
        Mistake("AR111", "more than 2^31 elements", ResizeAttrs(shape=(1, 4, 32768, 32768)), nchw),
        Mistake("AR123", "a second input that is not a vector", ResizeAttrs(), (*nchw, (1, 4)), types),
        Mistake("AR308", "an infinite or NaN cubic_coeff", ResizeAttrs(cubic_coeff=math.inf), nchw),
        Mistake("AR202", "an unsupported element type", ResizeAttrs(), nchw, (DataType.INT32,)),
        Mistake("AR202", "a second input that is not int32 or int64", ResizeAttrs(), both),
        Mistake("AR310", "a tensor of scales and other sizes", ResizeAttrs(scales=(1, 1, 2, 2)),
                (*nchw, None, (4,))),
        Mistake("AR108", "a tensor of scales of a wrong length", ResizeAttrs(), (*nchw, None, (3,)),
                (DataType.FLOAT,), (None, None, np.ones(3))),
        Mistake("AR123", "a tensor of scales that is not a vector", ResizeAttrs(), (*nchw, None, (1, 4))),
        Mistake("AR123", "a region of a length other than twice the rank", ResizeAttrs(shape=(1, 2, 3, 5)),
                (*nchw, None, None, (4,))),
        Mistake("AR123", "a region that is not a vector", ResizeAttrs(shape=(1, 2, 3, 5)),
                (*nchw, None, None, (2, 4))),
        Mistake("AR110", "a negative size at run time", ResizeAttrs(), both, types, below, True),
        Mistake("AR109", "LINEAR on another axis at run time", ResizeAttrs(LINEAR), both, types, outer, True),
        Mistake("AR110", "a nonzero size for an empty axis at run time", nchw3, empty, dynamic=True),
    )  # fmt: skip


DOC = (
    "Interpolates to a new size: nearest, linear (up to the last 3 axes) or cubic (the last 2). If the "
    "second input is connected, it holds the sizes and overrides shape and scales. For a crop, input 3 holds "
    "the starts of all axes, then the ends; 0 is the first element of an axis and 1 its last. The axes "
    "within reach are sampled inside this region, positions outside the input become `extrapolation_value`, "
    "and coordinate_transformation is ignored. Scales give sizes relative to the whole input. Sizes that "
    "keep an aspect ratio are computed by layers and connected to input 1. An element of weight 0 is not "
    "read: NaN and infinities next to a position that coincides with an element do not propagate. 8-bit "
    "integers are interpolated in float32, rounded half to even and saturated, int8 as the real numbers that "
    "it represents; NEAREST copies them. Input 2 (scales), `antialias`, crops, bfloat16 and uint8 are "
    "extensions, as is NEAREST over up to 8 axes."
)
OPS = (
    Op(
        layer=LayerType.RESIZE,
        cls="IResizeLayer",
        methods=(
            Method(
                "add_resize",
                ("input",),
                example="layer = network.add_resize(x)\n"
                "layer.resize_mode, layer.scales = trt.InterpolationMode.LINEAR, (1, 1, 2, 2)",
            ),
        ),
        inputs=(
            Input("input", FLOATS | {DataType.INT8, DataType.UINT8}),
            Input("shape", INTS, required=False, shape_values=True, clears=("shape", "scales")),
            Input(
                "scales",
                frozenset({DataType.FLOAT}),
                required=False,
                shape_values=True,
                clears=("shape", "scales"),
            ),
            Input("roi", FLOATS, required=False),
        ),
        attrs=ResizeAttrs,
        expand=expand,
        ref=ref,
        doc=DOC,
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=("Resize", "Upsample", "TRT_Resize"),
        real_int8=lambda attrs: attrs.resize_mode is not NEAREST,
        volume_limit=2**31,
        source="core page Resize; C++ header for the axes of NEAREST and for DLA",
    ),
)
# ONNX models also resize other types and axes, with coordinates computed from the scales. The layer class and
# its public attributes are those of Resize.
SCALED: Op[ResizeAttrs] = replace(
    OPS[0],
    attrs=ScaledAttrs,
    inputs=(
        Input("input", STORAGE),
        OPS[0].inputs[SIZES],
        Input("scales", frozenset({DataType.FLOAT, DataType.DOUBLE}), required=False, shape_values=True),
        Input("roi", REALS, required=False),
    ),
    cases=tuple,
    mistakes=tuple,
)
