"""The attributes of Resize, and its reference: positions as exact fractions, axis by axis.

ref(ResizeAttrs(shape=(6,)), (np.arange(3.0),))
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from anyrt.core.enums import (
    InterpolationMode,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    ResizeSelector,
)
from anyrt.ops._record import ABSENT, Array, Attrs, Kind, attr

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
        Kind.DIMS, "the shape of the output", None, clears=("scales",), locked_by=1
    )
    scales: tuple[float, ...] = attr(
        Kind.FLOATS,
        "output size / input size; output sizes are products in float32, rounded down",
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
        Kind.BOOL, "CUBIC: elements outside the input have weight 0; the other weights sum to 1", False
    )
    antialias: bool = attr(
        Kind.BOOL,
        "LINEAR and CUBIC: the kernel is wider by the factor by which an axis shrinks; an extension",
        False,
    )
    extrapolation_value: float = attr(
        Kind.FLOAT, "the value of a crop (input 3) outside the input; an extension", 0.0
    )


class Variant(enum.Enum):
    """Coordinates that TensorRT's layer does not have, by their difference from HALF_PIXEL."""

    PLAIN = 0
    SYMMETRIC = 1  # the middle of the axis stays in place, although the output size is rounded down
    UNSHIFTED = 2  # larger by 1/2


@dataclass(frozen=True, slots=True)
class ScaledAttrs(ResizeAttrs):
    """Attributes of a resize of any axes. Its coordinates use the scales, not the ratio of lengths."""

    axes: int = attr(Kind.AXES, "the axes that may change size", -1)
    variant: Variant = attr(Kind.ENUM, "the variant of HALF_PIXEL", Variant.PLAIN, enum=Variant)


def reach(attrs: ResizeAttrs, rank: int) -> list[int]:
    """The axes that may change size."""
    if isinstance(attrs, ScaledAttrs):
        return [axis for axis in range(rank) if attrs.axes >> axis & 1]
    return list(range(max(0, rank - REACH[attrs.resize_mode]), rank))


def ref(attrs: ResizeAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Axis by axis, position by position, with exact fractions."""
    x, shape, factors, roi = (*arrays, *(ABSENT,) * 4)[:4]
    scales = (attrs.scales or (1,) * x.ndim) if factors is ABSENT else factors.tolist()
    if shape is not ABSENT:
        sizes = tuple(int(v) for v in shape.tolist())
    elif attrs.shape is not None:
        sizes = attrs.shape
    else:
        sizes = tuple(
            int(np.floor(np.float32(d) * np.float32(s))) for d, s in zip(x.shape, scales, strict=True)
        )
    is_scaled = isinstance(attrs, ScaledAttrs) and (factors is not ABSENT or bool(attrs.scales))
    beyond = np.zeros(sizes, bool)
    with np.errstate(invalid="ignore"):
        for axis in reach(attrs, x.ndim):
            before, after = x.shape[axis], sizes[axis]
            factor = Fraction(scales[axis]) if is_scaled else Fraction(after, max(before, 1))
            if roi is not ABSENT:
                at = _crop(roi[axis], roi[x.ndim + axis], before, after, factor)
                outside = np.array([not 0 <= p <= before - 1 for p in at], bool)
                beyond |= outside.reshape([-1 if k == axis else 1 for k in range(x.ndim)])
                x = _resample(
                    attrs, x, axis, [min(max(p, Fraction(0)), Fraction(before - 1)) for p in at], factor
                )
            elif before != after:
                at = [_position(attrs, o, before, after, factor) for o in range(after)]
                x = _resample(attrs, x, axis, at, factor)
    return (np.where(beyond, x.dtype.type(attrs.extrapolation_value), x),)


def _crop(begin: float, end: float, before: int, after: int, factor: Fraction) -> list[Fraction]:
    """Positions from `begin` to `end`, where 0 is the first element and 1 the last."""
    ends = (begin, end) if math.isfinite(begin) and math.isfinite(end) else (-1, -1)
    first, last = (Fraction(part) * (before - 1) for part in ends)
    steps = before * factor - 1
    return [first + o * (last - first) / steps if steps else (first + last) / 2 for o in range(after)]


def _resample(attrs: ResizeAttrs, x: Array, axis: int, positions: list[Fraction], factor: Fraction) -> Array:
    """The elements at these positions of one axis."""
    rows, size = np.moveaxis(x, axis, 0), len(positions)
    if attrs.resize_mode is not NEAREST:
        rows = rows.astype(np.float64)
    out = np.zeros((size, *rows.shape[1:]), rows.dtype)
    shrunk = factor if attrs.antialias and 0 < factor < 1 else Fraction(1)
    for o, at in enumerate(positions):
        if attrs.resize_mode is NEAREST:
            out[o] = rows[min(max(_rounded(attrs.nearest_rounding, at), 0), len(rows) - 1)]
        else:
            for k, weight in _weights(attrs, at, len(rows), shrunk):
                if weight != 0:  # an element of weight 0 has no effect, even NaN or infinity
                    out[o] += float(weight) * rows[min(max(k, 0), len(rows) - 1)]
    return np.moveaxis(out, 0, axis)


def _position(attrs: ResizeAttrs, o: int, before: int, after: int, factor: Fraction) -> Fraction:
    how, half = attrs.coordinate_transformation, Fraction(1, 2)
    variant = attrs.variant if isinstance(attrs, ScaledAttrs) else Variant.PLAIN
    if after == 1 and (attrs.selector_for_single_pixel is UPPER or how is ALIGN_CORNERS):
        return Fraction(0)
    if how is ALIGN_CORNERS:
        return o * (before - 1) / (before * factor - 1)
    if how is ASYMMETRIC:
        return o / factor
    at = (o + half) / factor
    if variant is Variant.SYMMETRIC:
        at += half * (before - after / factor)
    return at if variant is Variant.UNSHIFTED else at - half


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


def _weights(attrs: ResizeAttrs, at: Fraction, length: int, shrunk: Fraction) -> list[tuple[int, Fraction]]:
    """Elements and their weights, for distances from the position times `shrunk`."""
    below, reach = at.numerator // at.denominator, math.ceil(2 / shrunk)
    near = range(below - reach, below + reach + 2)
    out = [(k, _weight(attrs, abs(at - k) * shrunk)) for k in near]
    if attrs.exclude_outside and (attrs.resize_mode is CUBIC or attrs.antialias):
        out = [(k, w if 0 <= k < length else Fraction(0)) for k, w in out]
    total = sum(w for _, w in out)
    return [(k, w / total) for k, w in out]


def _weight(attrs: ResizeAttrs, d: Fraction) -> Fraction:
    """The weight of an element at this distance."""
    if attrs.resize_mode is LINEAR:
        return max(1 - d, Fraction(0))
    a = Fraction(attrs.cubic_coeff)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else Fraction(0)
