"""Resize: interpolation to a new size, given as a shape, as scales, or by a tensor of sizes.

layer = add_resize(x)
layer.resize_mode, layer.scales = InterpolationMode.LINEAR, (1, 1, 2, 2)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product as combinations

import numpy as np

from anyrt.core.dims import Dim, scaled
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
from anyrt.ir.graph import Value
from anyrt.ops._check import Requirements, checked, need, show, vector
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS, INTS
from anyrt.prims.build import cast, identity, map_, taps
from anyrt.prims.taprules import Cubic, Linear, Nearest, TapRule

NEAREST, LINEAR, CUBIC = InterpolationMode.NEAREST, InterpolationMode.LINEAR, InterpolationMode.CUBIC
ALIGN_CORNERS = ResizeCoordinateTransformation.ALIGN_CORNERS
ASYMMETRIC = ResizeCoordinateTransformation.ASYMMETRIC
HALF_PIXEL = ResizeCoordinateTransformation.HALF_PIXEL
FORMULA, UPPER = ResizeSelector.FORMULA, ResizeSelector.UPPER
FLOOR, CEIL = ResizeRoundMode.FLOOR, ResizeRoundMode.CEIL
HALF_UP, HALF_DOWN = ResizeRoundMode.HALF_UP, ResizeRoundMode.HALF_DOWN

# Innermost axes that may change size. The core page says 3 for NEAREST, the C++ header min(8, rank):
# accept the wider.
REACH = {NEAREST: 8, LINEAR: 3, CUBIC: 2}


@dataclass(frozen=True, slots=True)
class ResizeAttrs(Attrs):
    """Attributes of Resize."""

    resize_mode: InterpolationMode = attr(Kind.ENUM, "how to interpolate", NEAREST, enum=InterpolationMode)
    shape: tuple[int, ...] | None = attr(
        Kind.DIMS, "the output's size, one for each dimension", None, clears=("scales",), locked_by=1
    )
    scales: tuple[float, ...] = attr(
        Kind.FLOATS,
        "output size / input size; the product in float32 is rounded down",
        (),
        clears=("shape",),
        locked_by=1,
    )
    coordinate_transformation: ResizeCoordinateTransformation = attr(
        Kind.ENUM,
        "how an output position maps to the input",
        ASYMMETRIC,
        enum=ResizeCoordinateTransformation,
    )
    selector_for_single_pixel: ResizeSelector = attr(
        Kind.ENUM, "UPPER: an output of size 1 reads position 0", FORMULA, enum=ResizeSelector
    )
    nearest_rounding: ResizeRoundMode = attr(
        Kind.ENUM, "rounding of positions, NEAREST only", FLOOR, enum=ResizeRoundMode
    )
    cubic_coeff: float = attr(Kind.FLOAT, "the coefficient a of the cubic kernel", -0.75)
    exclude_outside: bool = attr(
        Kind.BOOL, "CUBIC: taps outside the input weigh nothing, the others sum to 1", False
    )


def expand(layer: Layer[ResizeAttrs]) -> tuple[Value, ...]:
    """One `Taps` for each axis that changes size, or may do so."""
    x = layer.input(0)
    if not math.isfinite(layer.attrs.cubic_coeff):
        raise ArgumentError(
            "AR308", layer.name, f"cubic_coeff {layer.attrs.cubic_coeff}", "a finite number", "use -0.75"
        )
    sizes = _sizes(layer, x)
    rules: Requirements = ()
    for axis, size in enumerate(sizes):
        got = f"size {size} for axis {axis} of {show(x.shape)}"
        do = "give sizes of 0 or more"
        rules += need(layer.name, 0, Relation.LE, size, "AR110", got, "a size of 0 or more", do)
        rules += _within_reach(layer, x, axis, size)
    changed = [
        (axis, size)
        for axis, size in enumerate(sizes)
        if axis >= x.type.rank - REACH[layer.attrs.resize_mode] and size != x.shape[axis]
    ]
    if not changed:
        return (checked(identity(x), rules),)
    weighs = layer.attrs.resize_mode is not NEAREST
    y = cast(x, DataType.FLOAT) if weighs else x
    # The innermost axis first: rows resampled along it are what a window over the other axes keeps.
    for axis, size in changed[-1:] + changed[:-1]:
        y = taps(y, axis, size, _rule(layer.attrs))
    return (checked(_back(y, x.dtype), rules),)


def _back(y: Value, dtype: DataType) -> Value:
    if dtype is not DataType.UINT8 or y.dtype is DataType.UINT8:
        return cast(y, dtype)
    return cast(map_("round", y), dtype)


def _rule(attrs: ResizeAttrs) -> TapRule:
    how, single = attrs.coordinate_transformation, attrs.selector_for_single_pixel
    match attrs.resize_mode:
        case InterpolationMode.NEAREST:
            return Nearest(how, single, attrs.nearest_rounding)
        case InterpolationMode.LINEAR:
            return Linear(how, single)
        case InterpolationMode.CUBIC:
            return Cubic(how, single, attrs.cubic_coeff, attrs.exclude_outside)


def _sizes(layer: Layer[ResizeAttrs], x: Value) -> tuple[Dim, ...]:
    attrs, given = layer.attrs, layer.optional(1)
    if given is not None:
        return _one_each(layer, vector(layer.name, given, "input 1 (the sizes)"), x)
    if attrs.shape is not None:
        return _one_each(layer, attrs.shape, x)
    if not attrs.scales:
        do = "set shape or scales, or connect input 1"
        raise ShapeError("AR107", layer.name, "neither shape nor scales nor input 1", "one of them", do)
    for scale in attrs.scales:
        if not (math.isfinite(scale) and scale >= 0):
            do = "give one factor for each dimension"
            raise ShapeError("AR110", layer.name, f"scales {attrs.scales}", "finite factors >= 0", do)
    if len(attrs.scales) != x.type.rank:
        _refuse_count(layer, len(attrs.scales), x)
    return tuple(scaled(d, s) for d, s in zip(x.shape, attrs.scales, strict=True))


def _one_each(layer: Layer[ResizeAttrs], sizes: tuple[Dim, ...], x: Value) -> tuple[Dim, ...]:
    if len(sizes) != x.type.rank:
        _refuse_count(layer, len(sizes), x)
    return sizes


def _refuse_count(layer: Layer[ResizeAttrs], count: int, x: Value) -> None:
    got, wanted = f"{count} sizes for the input {show(x.shape)}", f"{x.type.rank}"
    raise ShapeError("AR108", layer.name, got, wanted, "give one for each dimension")


def _within_reach(layer: Layer[ResizeAttrs], x: Value, axis: int, size: Dim) -> Requirements:
    mode, rank = layer.attrs.resize_mode, x.type.rank
    if mode is CUBIC and rank < REACH[CUBIC]:
        raise ShapeError(
            "AR101", layer.name, f"rank {rank} in mode CUBIC", "rank >= 2", "add a dimension of size 1"
        )
    if axis >= rank - REACH[mode]:
        return ()
    got = f"size {size} for axis {axis} of {show(x.shape)} in mode {mode.name}"
    wanted = f"changes in the last {REACH[mode]} axes only"
    do = f"keep axis {axis}, or transpose first"
    return need(layer.name, size, Relation.EQ, x.shape[axis], "AR109", got, wanted, do)


# ---- the reference ------------------------------------------------------------------------------


def ref(attrs: ResizeAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Axis by axis, position by position, with exact fractions."""
    x = arrays[0]
    if len(arrays) > 1:
        sizes = tuple(int(v) for v in arrays[1].tolist())
    elif attrs.shape is not None:
        sizes = attrs.shape
    else:
        sizes = tuple(
            int(np.floor(np.float32(d) * np.float32(s))) for d, s in zip(x.shape, attrs.scales, strict=True)
        )
    with np.errstate(invalid="ignore"):
        for axis, (before, after) in enumerate(zip(x.shape, sizes, strict=True)):
            if before != after:
                x = _resample(attrs, x, axis, after)
    return (x,)


def _resample(attrs: ResizeAttrs, x: Array, axis: int, size: int) -> Array:
    rows = np.moveaxis(x, axis, 0)
    if attrs.resize_mode is not NEAREST:
        rows = rows.astype(np.float64)
    out = np.zeros((size, *rows.shape[1:]), rows.dtype)
    for o in range(size):
        at = _position(attrs, o, len(rows), size)
        if attrs.resize_mode is NEAREST:
            out[o] = rows[min(max(_rounded(attrs.nearest_rounding, at), 0), len(rows) - 1)]
        else:
            for k, weight in _weights(attrs, at, len(rows)):
                if weight != 0:  # else it reads nothing, neither NaN nor infinities
                    out[o] += float(weight) * rows[min(max(k, 0), len(rows) - 1)]
    return np.moveaxis(out, 0, axis)


def _position(attrs: ResizeAttrs, o: int, before: int, after: int) -> Fraction:
    how = attrs.coordinate_transformation
    if after == 1 and (attrs.selector_for_single_pixel is UPPER or how is ALIGN_CORNERS):
        return Fraction(0)
    if how is ALIGN_CORNERS:
        return o * Fraction(before - 1, after - 1)
    if how is ASYMMETRIC:
        return o * Fraction(before, after)
    return (o + Fraction(1, 2)) * Fraction(before, after) - Fraction(1, 2)


def _rounded(how: ResizeRoundMode, x: Fraction) -> int:
    below = x.numerator // x.denominator
    rest = x - below
    up = {
        FLOOR: False,
        CEIL: rest > 0,
        HALF_UP: rest >= Fraction(1, 2),
        HALF_DOWN: rest > Fraction(1, 2),
    }
    return below + up[how]


def _weights(attrs: ResizeAttrs, at: Fraction, length: int) -> list[tuple[int, Fraction]]:
    below = at.numerator // at.denominator
    if attrs.resize_mode is LINEAR:
        return [(below, 1 - (at - below)), (below + 1, at - below)]
    a = Fraction(attrs.cubic_coeff)
    out = []
    for k in range(below - 1, below + 3):
        d = abs(at - k)
        if d <= 1:
            weight = ((a + 2) * d - (a + 3)) * d * d + 1
        else:
            weight = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else Fraction(0)
        out.append((k, weight))
    if attrs.exclude_outside:
        inside = [(k, w if 0 <= k < length else Fraction(0)) for k, w in out]
        total = sum(w for _, w in inside)
        out = [(k, w / total) for k, w in inside]
    return out


# ---- what is known about it ---------------------------------------------------------------------

DLA_NEAREST = {(ASYMMETRIC, FORMULA, FLOOR), (HALF_PIXEL, FORMULA, HALF_DOWN), (HALF_PIXEL, FORMULA, HALF_UP)}
DLA_LINEAR = {(HALF_PIXEL, FORMULA), (HALF_PIXEL, UPPER)}


def dla(layer: Layer[ResizeAttrs]) -> str | None:
    """The documented combinations, with whole scales for the last two of four axes."""
    attrs = layer.attrs
    how, single = attrs.coordinate_transformation, attrs.selector_for_single_pixel
    if attrs.resize_mode is CUBIC:
        return "DLA runs Resize in modes NEAREST and LINEAR only"
    if attrs.resize_mode is NEAREST and (how, single, attrs.nearest_rounding) not in DLA_NEAREST:
        return f"DLA does not run NEAREST with {how.name}, {single.name} and {attrs.nearest_rounding.name}"
    if attrs.resize_mode is LINEAR and (how, single) not in DLA_LINEAR:
        return f"DLA does not run LINEAR with {how.name} and {single.name}"
    if layer.optional(1) is not None or len(attrs.scales) != 4 or attrs.scales[:2] != (1, 1):
        return "DLA resizes by 4 scales, of which the first two are 1"
    most = 32 if attrs.resize_mode is NEAREST else 4
    if any(s != int(s) or not 1 <= s <= most for s in attrs.scales[2:]):
        return f"DLA resizes by whole scales from 1 to {most} in this mode, got {attrs.scales}"
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
    """A case with values of magnitude up to `high`, which allows what float32 arithmetic may lose."""
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
    halves = [  # weights of 1/2 and 1/4 are exact, and make ties
        Case(ResizeAttrs(LINEAR, (2, 62, 4)), ((2, 31, 2),), (t,), low=-128 if t is DataType.INT8 else 0,
             high=127, int8=((0.5,), 0.5) if t is DataType.INT8 else None, rtol=0.0, atol=0.0)
        for t in (DataType.INT8, DataType.UINT8)
    ]  # fmt: skip
    return linear + cubic + types + int8 + halves


def cases() -> tuple[Case[ResizeAttrs], ...]:
    """Every combination of modes up and down, to and from single elements;
    sizes from shapes, scales and tensors."""
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
    return (*others, *_nearest_cases(), *_smooth_cases(), *_special_cases())


def _special_cases() -> list[Case[ResizeAttrs]]:
    """Elements that are no numbers, or infinite, beside positions that read the next one alone."""
    special = np.array([[1, np.nan, 3, 4, 5], [1, 2, np.inf, 4, 5], [-np.inf, 2, 3, 4, np.inf]])
    sizes = ((ALIGN_CORNERS, 5), (ALIGN_CORNERS, 9), (ASYMMETRIC, 5), (ASYMMETRIC, 10), (HALF_PIXEL, 15))
    return [
        Case(ResizeAttrs(mode, (3, after), (), how, exclude_outside=outside), ((3, 5),), data=(special,),
             rtol=1e-5, atol=1e-5)
        for mode, outside in ((NEAREST, False), (LINEAR, False), (CUBIC, False), (CUBIC, True))
        for how, after in sizes
    ]  # fmt: skip


def mistakes() -> tuple[Mistake[ResizeAttrs], ...]:
    """Sizes that are missing, too few, negative, or made of nothing, and axes out of reach."""
    nchw = ((1, 2, 3, 5),)
    both, types = (*nchw, (4,)), (DataType.FLOAT, DataType.INT32)
    nchw3, empty = ResizeAttrs(LINEAR, (1, 2, 3, 4)), ((1, 2, 0, 5),)
    below, outer = (None, np.array([1, 2, -1, 5])), (None, np.array([2, 2, 4, 5]))
    return (
        Mistake("AR107", "no shape, no scales and no second input", ResizeAttrs(), nchw),
        Mistake("AR108", "a shape of another length than the input's rank", ResizeAttrs(shape=(6, 6)), nchw),
        Mistake("AR108", "scales of another length than the input's rank", ResizeAttrs(scales=(2, 2)), nchw),
        Mistake("AR109", "LINEAR on more than the last 3 axes", ResizeAttrs(LINEAR, (2, 4, 6, 9)), nchw),
        Mistake("AR109", "CUBIC on other than the last 2 axes", ResizeAttrs(CUBIC, (1, 4, 6, 9)), nchw),
        Mistake("AR101", "CUBIC on an input of fewer than 2 dimensions", ResizeAttrs(CUBIC, (9,)), ((3,),)),
        Mistake("AR110", "a negative size", ResizeAttrs(shape=(1, 2, -3, 5)), nchw),
        Mistake("AR110", "a negative or infinite scale", ResizeAttrs(scales=(1, 1, -2, 2)), nchw),
        Mistake("AR110", "elements from an empty axis", nchw3, empty),
        Mistake("AR111", "more than 2^31 elements", ResizeAttrs(shape=(1, 4, 32768, 32768)), nchw),
        Mistake("AR123", "a second input that is not a vector", ResizeAttrs(), (*nchw, (1, 4)), types),
        Mistake("AR308", "a cubic_coeff that is not finite", ResizeAttrs(cubic_coeff=math.inf), nchw),
        Mistake("AR202", "a type that Resize does not take", ResizeAttrs(), nchw, (DataType.INT32,)),
        Mistake("AR202", "a second input that is not Int32 or Int64", ResizeAttrs(), both),
        Mistake("AR110", "a negative size at run time", ResizeAttrs(), both, types, below, True),
        Mistake("AR109", "LINEAR on another axis at run time", ResizeAttrs(LINEAR), both, types, outer, True),
        Mistake("AR110", "elements from an empty axis at run time", nchw3, empty, dynamic=True),
    )  # fmt: skip


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
        ),
        attrs=ResizeAttrs,
        expand=expand,
        ref=ref,
        doc="Interpolation to a new size: nearest, linear (up to 3 innermost axes) or cubic (the last 2). "
        "The second input, when connected, gives the sizes at run time and overrides shape and scales. "
        "An element whose weight is 0 is not read, so that NaN and infinities beside a position that lies on "
        "an element do not show. "
        "8-bit integers are interpolated in float32, rounded half to even and saturated, int8 as the real "
        "numbers that it stands for; NEAREST copies them. bfloat16 and uint8 are extensions of the "
        "documented types, and NEAREST resizes up to 8 axes.",
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=("Resize", "Upsample", "TRT_Resize"),
        real_int8=lambda attrs: attrs.resize_mode is not NEAREST,
        volume_limit=2**31,
        source="core page Resize; C++ header for the axes of NEAREST and for DLA",
    ),
)
