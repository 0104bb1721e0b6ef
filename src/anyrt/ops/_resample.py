"""Sums of elements around coordinates, as many as sizes say, or around such that are data: what Resize does
that taps (`prims/taps.py`) cannot, smoothing as it shrinks and cropping.

line = Line(INTERPOLATION, n_in=9, n_out=3)
summed(x, axis, smoothed(line, Coordinate.HALF_PIXEL, Selector.FORMULA))
"""

from __future__ import annotations

from dataclasses import dataclass

from anyrt.core.dims import Dim, add, ceildiv, maximum, minimum, mul
from anyrt.core.enums import DataType, InterpolationMode
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeRoundMode as Rounding
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.ir.graph import Value
from anyrt.ops._math import number
from anyrt.prims.build import cast, expand, gather, iota, map_, reduce_, reshape, scalar, slice_, transpose

FLOAT, INT64 = DataType.FLOAT, DataType.INT64
FEW = 64  # terms that are written one by one
REACH = {InterpolationMode.LINEAR: 1, InterpolationMode.CUBIC: 2}  # of a kernel, in elements


@dataclass(frozen=True, slots=True)
class Line:
    """An axis of `n_in` elements of which `n_out` are made, and how: `cubic` is the coefficient of that mode;
    `spread` widens the kernel where there are fewer elements than before; `inside` leaves out what lies
    outside, and divides by what weights are left."""

    mode: InterpolationMode
    n_in: Dim
    n_out: Dim
    cubic: float
    spread: bool
    inside: bool

    @property
    def widest(self) -> Dim:
        """Elements before, or after where these are more: the width of the kernel times `n_out`."""
        return maximum(self.n_in, self.n_out) if self.spread else self.n_out

    @property
    def count(self) -> Dim:
        """How many elements a sum may have."""
        return mul(2, ceildiv(mul(REACH[self.mode], self.widest), maximum(self.n_out, 1)))


@dataclass(frozen=True, slots=True)
class Reading:
    """Which elements are summed, (n_out, count) positions, of which those outside mean the nearest inside,
    and their weights."""

    at: Value
    weight: Value


def summed(v: Value, axis: int, reading: Reading) -> Value:
    """The sums along `axis`; an element whose weight is 0 is not read. Few are added up one by one, so that
    neighbouring sums are lanes of a vector."""
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
    """Around coordinates of a resize. These are quotients of integers, so that no position is rounded."""
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


def cropped(line: Line, position: Value) -> Reading:
    """Around coordinates that are data, float32 of shape (n_out, 1), near the axis."""
    taps = iota((1, line.count), 1, INT64)
    at = _around(line, cast(map_("floor", position), INT64), taps)
    apart = map_("abs", map_("sub", cast(at, FLOAT), position))
    if line.spread:
        apart = map_("div", map_("mul", apart, number(line.n_out, apart)), number(line.widest, apart))
    return Reading(at, _weights(line, at, apart))


def corners(line: Line, begin: Value, end: Value) -> Value:
    """The coordinates of a crop: from `begin` to `end`, each of shape (1, 1), of which 0 is the first element
    and 1 the last; one alone lies in the middle."""
    last = number(add(line.n_in, -1), begin)
    span, steps = map_("mul", map_("sub", end, begin), last), maximum(add(line.n_out, -1), 1)
    along = map_("mul", iota((line.n_out, 1), 0, FLOAT), map_("div", span, number(steps, span)))
    spread = map_("add", map_("mul", begin, last), along)
    half = map_("mul", map_("mul", map_("add", begin, end), last), scalar(0.5, begin))
    many = map_("lt", scalar(1, iota((1, 1), 0, INT64)), number(line.n_out, iota((1, 1), 0, INT64)))
    return map_("select", many, spread, half)


def between(position: Value, n_in: Dim) -> Value:
    """Whether a coordinate lies between the first and the last element; NaN does not."""
    last = number(add(n_in, -1), position)
    return map_("and", map_("le", scalar(0.0, position), position), map_("le", position, last))


def part(v: Value, k: int) -> Value:
    """Element `k` of a vector, of shape (1, 1)."""
    return reshape(slice_(v, (k,), (1,), (1,)), (1, 1))


def nearest(v: Value, axis: int, position: Value, rounding: Rounding) -> Value:
    """Single elements along `axis`, at coordinates of shape (n_out, 1)."""
    half = scalar(0.5, position)
    match rounding:
        case Rounding.HALF_UP:
            rounded = map_("floor", map_("add", position, half))
        case Rounding.HALF_DOWN:
            rounded = map_("ceil", map_("sub", position, half))
        case Rounding.FLOOR:
            rounded = map_("floor", position)
        case Rounding.CEIL:
            rounded = map_("ceil", position)
    size = position.shape[0]
    at = reshape(cast(rounded, INT64), tuple(size if k == axis else 1 for k in range(v.type.rank)))
    return gather(v, expand(at, (*v.shape[:axis], size, *v.shape[axis + 1 :])), axis)


def _around(line: Line, below: Value, taps: Value) -> Value:
    """`count` positions, the middle two of which are `below` and the next."""
    first = add(1, mul(ceildiv(mul(REACH[line.mode], line.widest), maximum(line.n_out, 1)), -1))
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
    """What an element this far away weighs: factored, as sums would cancel most digits."""
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
