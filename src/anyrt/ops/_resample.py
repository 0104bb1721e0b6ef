"""Weighted sums of elements around coordinates, for a Resize that antialiases or crops.

Taps (`prims/taps.py`) cannot compute them: the number of terms depends on sizes, or coordinates are data.

line = Line(INTERPOLATION, n_in=9, n_out=3)
summed(x, axis, smoothed(line, Coordinate.HALF_PIXEL, Selector.FORMULA))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from anyrt.core.dims import Dim, add, ceildiv, maximum, minimum, mul
from anyrt.core.enums import DataType, InterpolationMode
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeRoundMode as Rounding
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.ir.graph import Value
from anyrt.ops._math import number
from anyrt.ops._resize import Variant
from anyrt.prims.build import cast, expand, gather, iota, map_, reduce_, reshape, scalar, slice_, transpose

DOUBLE, FLOAT, INT64 = DataType.DOUBLE, DataType.FLOAT, DataType.INT64
_plus, _minus, _times, _over = (partial(map_, fn) for fn in ("add", "sub", "mul", "div"))
FEW = 64  # the maximum number of terms of an unrolled sum
REACH = {InterpolationMode.LINEAR: 1, InterpolationMode.CUBIC: 2}  # half the width of a kernel, in elements


@dataclass(frozen=True, slots=True)
class Line:
    """The resampling of one axis from `n_in` to `n_out` elements.

    cubic: the coefficient of mode CUBIC. spread: the kernel is wider if the axis shrinks. inside: elements
    outside have no weight, and the other weights sum to 1. factor: the scale of the coordinates, float64 of
    shape (1, 1), if `n_out` is n_in · factor, rounded; None for n_out / n_in."""

    mode: InterpolationMode
    n_in: Dim
    n_out: Dim
    cubic: float
    spread: bool
    inside: bool
    factor: Value | None = None

    @property
    def widest(self) -> Dim:
        """The larger length: the width of a spread kernel times `n_out`."""
        return maximum(self.n_in, self.n_out)

    @property
    def half(self) -> Dim:
        """The maximum number of elements of a sum on each side of its coordinate."""
        reach = REACH[self.mode]
        if not self.spread:
            return reach
        if self.factor is None:
            return ceildiv(mul(reach, self.widest), maximum(self.n_out, 1))
        least = add(mul(2, self.n_out), -1)  # n_in · factor is at least n_out - 1/2
        return ceildiv(mul(reach, maximum(mul(2, self.n_in), least)), maximum(least, 1))

    @property
    def count(self) -> Dim:
        """The maximum number of elements of a sum."""
        return mul(2, self.half)


@dataclass(frozen=True, slots=True)
class Reading:
    """Positions (n_out, count) and weights of the elements of each sum; a position outside the axis reads the
    nearest element."""

    at: Value
    weight: Value


def summed(v: Value, axis: int, reading: Reading) -> Value:
    """The sums along `axis`; an element whose weight is 0 is not read. Sums of few terms are unrolled, so
    that neighbouring sums are lanes of a vector."""
    size, count = reading.at.shape
    if isinstance(count, int) and 1 <= count <= FEW:
        return _one_by_one(v, axis, reading, count)
    front, back = v.shape[:axis], v.shape[axis + 1 :]
    many = mul(size, count)
    at = reshape(reading.at, (*(1 for _ in front), many, *(1 for _ in back)))
    read = gather(v, expand(at, (*front, many, *back)), axis)
    read = reshape(read, (*front, size, count, *back))
    weight = reshape(reading.weight, (*(1 for _ in front), size, count, *(1 for _ in back)))
    none = scalar(0.0, weight)
    terms = map_("select", map_("eq", weight, none), none, map_("mul", weight, read))
    return reshape(reduce_("sum", terms, (axis + 1,)), (*front, size, *back))


def _one_by_one(v: Value, axis: int, reading: Reading, count: int) -> Value:
    size, rank = reading.at.shape[0], v.type.rank
    shape = (*v.shape[:axis], size, *v.shape[axis + 1 :])
    places, weights = (transpose(x, (1, 0)) for x in (cast(reading.at, DataType.INT32), reading.weight))
    total: Value | None = None
    for k in range(count):
        at, weight = (
            reshape(
                slice_(x, (k, 0), (1, size), (1, 1)), tuple(size if a == axis else 1 for a in range(rank))
            )
            for x in (places, weights)
        )
        read, none = gather(v, expand(at, shape), axis), scalar(0.0, weight)
        term = map_("mul", weight, read) if total is None else map_("fma", weight, read, total)
        total = map_("select", map_("ne", weight, none), term, none if total is None else total)
    assert total is not None, "a sum has terms"
    return total


def smoothed(line: Line, how: Coordinate, single: Selector) -> Reading:
    """The reading around coordinates that are quotients of integers, so that no position is rounded."""
    out, taps = iota((line.n_out, 1), 0, INT64), iota((1, line.count), 1, INT64)
    match how:
        case Coordinate.ALIGN_CORNERS:
            over, by = map_("mul", out, number(add(line.n_in, -1), out)), maximum(add(line.n_out, -1), 1)
        case Coordinate.ASYMMETRIC:
            over, by = map_("mul", out, number(line.n_in, out)), maximum(line.n_out, 1)
        case Coordinate.HALF_PIXEL:
            odd = map_("add", map_("mul", out, scalar(2, out)), scalar(1, out))
            over = map_("sub", map_("mul", odd, number(line.n_in, out)), number(line.n_out, out))
            by = mul(2, maximum(line.n_out, 1))
    if single is Selector.UPPER:
        over = map_("mul", over, number(minimum(add(line.n_out, -1), 1), over))
    at = _around(line, map_("floordiv", over, number(by, over)), taps)
    apart = map_("abs", map_("sub", map_("mul", at, number(by, at)), over))
    apart = cast(map_("mul", apart, number(line.n_out, apart)), FLOAT)
    wide = cast(number(mul(by, maximum(line.widest, 1)), taps), FLOAT)
    return Reading(at, _weights(line, at, map_("div", apart, wide)))


def weighed(line: Line, position: Value, dtype: DataType) -> Reading:
    """The reading around coordinates in float64 of shape (n_out, 1); weights of `dtype`."""
    taps = iota((1, line.count), 1, INT64)
    at = _around(line, cast(map_("floor", position), INT64), taps)
    apart = map_("abs", _minus(cast(at, DOUBLE), position))
    if line.spread and line.factor is not None:
        apart = _times(apart, map_("min", line.factor, scalar(1.0, apart)))
    elif line.spread:
        apart = _over(_times(apart, number(line.n_out, apart)), number(line.widest, apart))
    return Reading(at, _weights(line, at, cast(apart, dtype)))


def coordinates(line: Line, how: Coordinate, single: Selector, variant: Variant) -> Value:
    """The coordinates of the outputs by the factor of `line`, float64 of shape (n_out, 1)."""
    out = iota((line.n_out, 1), 0, DOUBLE)
    before, after, half = number(line.n_in, out), number(line.n_out, out), scalar(0.5, out)
    factor = _over(after, before) if line.factor is None else line.factor
    match how:
        case Coordinate.ALIGN_CORNERS:
            at = corners(line, scalar(0.0, out), scalar(1.0, out))
        case Coordinate.ASYMMETRIC:
            at = _over(out, factor)
        case Coordinate.HALF_PIXEL:
            at = _over(_plus(out, half), factor)
            if variant is not Variant.UNSHIFTED:
                at = _minus(at, half)
            if variant is Variant.SYMMETRIC:
                at = _plus(at, _times(half, _minus(before, _over(after, factor))))
    if single is Selector.UPPER or how is Coordinate.ALIGN_CORNERS:
        at = _times(at, number(minimum(add(line.n_out, -1), 1), at))
    return at


def corners(line: Line, begin: Value, end: Value) -> Value:
    """The coordinates of a crop from `begin` to `end`, float64 of shape (1, 1): 0 is the first element, 1 the
    last. A single output lies in the middle."""
    out, last = iota((line.n_out, 1), 0, DOUBLE), number(add(line.n_in, -1), begin)
    width = number(line.n_out, begin)
    if line.factor is not None:
        width = _times(number(line.n_in, begin), line.factor)
    span, steps = _times(_minus(end, begin), last), _minus(width, scalar(1.0, begin))
    is_one = map_("eq", steps, scalar(0.0, steps))
    along = map_("select", is_one, _times(span, scalar(0.5, span)), _over(_times(out, span), steps))
    return _plus(_times(begin, last), along)


def between(position: Value, n_in: Dim) -> Value:
    """Whether a coordinate lies between the first and the last element; NaN does not."""
    last = number(add(n_in, -1), position)
    return map_("and", map_("le", scalar(0.0, position), position), map_("le", position, last))


def part(v: Value, k: int) -> Value:
    """Element `k` of a vector, of shape (1, 1)."""
    return reshape(slice_(v, (k,), (1,), (1,)), (1, 1))


def nearest(v: Value, axis: int, position: Value, rounding: Rounding) -> Value:
    """Single elements along `axis`, at coordinates of shape (n_out, 1)."""
    below = rounding in (Rounding.HALF_UP, Rounding.FLOOR)
    shift = {Rounding.HALF_UP: 0.5, Rounding.HALF_DOWN: -0.5}.get(rounding, 0.0)
    rounded = map_("floor" if below else "ceil", _plus(position, scalar(shift, position)))
    size = position.shape[0]
    at = reshape(cast(rounded, INT64), tuple(size if k == axis else 1 for k in range(v.type.rank)))
    return gather(v, expand(at, (*v.shape[:axis], size, *v.shape[axis + 1 :])), axis)


def _around(line: Line, below: Value, taps: Value) -> Value:
    """`count` consecutive positions; the middle two are `below` and the next one."""
    first = add(1, mul(line.half, -1))
    return map_("add", map_("add", below, taps), number(first, taps))


def _weights(line: Line, at: Value, apart: Value) -> Value:
    weight = _kernel(line, apart)
    if line.inside:
        none = scalar(0.0, weight)
        lower = map_("le", scalar(0, at), at)
        upper = map_("lt", at, number(line.n_in, at))
        weight = map_("select", map_("and", lower, upper), weight, none)
    if not line.inside and not line.spread:
        return weight
    return map_("div", weight, reduce_("sum", weight, (1,)))


def _kernel(line: Line, d: Value) -> Value:
    """The weight at distance `d`, in factored form: a sum would lose most digits by cancellation."""
    one, none = scalar(1.0, d), scalar(0.0, d)
    rest = map_("sub", one, d)
    if line.mode is InterpolationMode.LINEAR:
        return map_("max", rest, none)
    a = line.cubic
    square = map_("mul", d, d)
    inner = map_("sub", map_("add", one, d), map_("mul", square, scalar(a + 2, d)))
    far = map_("sub", scalar(2.0, d), d)
    outer = map_("mul", map_("mul", map_("mul", rest, scalar(-a, d)), far), far)
    beyond = map_("select", map_("lt", d, scalar(2.0, d)), outer, none)
    return map_("select", map_("le", d, one), map_("mul", rest, inner), beyond)
