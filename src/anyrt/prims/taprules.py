"""The rules for the input positions and weights of an output position of `Taps`.

Each rule has two forms: `taps` in index algebra and kernel expressions, for compiling; `table` in exact
fractions, for the interpreter. They were written separately, and tests compare them.

A tap of weight 0 contributes nothing, not even NaN or infinity. In `taps` its weight is 0 as well (products
are factored so that one of the factors is), and it is skipped; or it reads the element of another tap, with a
negligible weight, without a test.

>>> linear = Linear(Coordinate.HALF_PIXEL, Selector.FORMULA)
>>> positions, weights = linear.table(2, 4)
>>> positions.tolist(), weights[:, 1].tolist()
([[0, 0], [0, 1], [0, 1], [1, 1]], [0.75, 0.25, 0.75, 0.25])
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import (
    Dim,
    Sym,
    add,
    always_le,
    ceildiv,
    floordiv,
    linear,
    maximum,
    minimum,
    mod,
    mul,
)
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeRoundMode as Rounding
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.core.enums import SampleMode
from anyrt.core.errors import ArgumentError
from anyrt.core.sizes import cancel, clamp
from anyrt.ir import kernel
from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Expr, Op
from anyrt.prims._check import known_size

Tap: TypeAlias = tuple[Dim, Expr | None]
Table: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float64]]
UNSEEN: Final = 2.0**-60  # times a number, added to it, changes no float32, zero or infinity


class TapRule(ABC):
    """The taps of one output position: `count` taps, of weight 1 unless the rule `weighs`, added in `order`:
    first those that are never silent."""

    __slots__ = ()
    count: ClassVar[int]
    weighs: ClassVar[bool]
    order: ClassVar[tuple[int, ...]] = (0,)

    @property
    def is_moderate(self) -> bool:
        """True if all weights are so small that finite numbers stay finite for many rules."""
        return True

    @abstractmethod
    def taps(self, o: Dim, n_in: Dim, n_out: Dim) -> tuple[Tap, ...]:
        """(position, float32 weight or None for 1) of each tap of output position `o`."""

    @abstractmethod
    def table(self, n_in: int, n_out: int) -> Table:
        """Positions and weights of all output positions, both (n_out, count)."""

    def steps(self, n_in: Dim, n_out: Dim) -> tuple[Dim, Dim] | None:
        """Two lengths whose ratio is that of steps in the operand and in the output: positions never descend.
        None if they do not follow the output."""
        return None

    def silence(self, n_in: Dim, n_out: Dim) -> tuple[int | None, ...]:
        """For each tap, the tap whose weight is 0 at the same positions; None if it is never 0."""
        return (None,) * self.count


@dataclass(frozen=True, slots=True)
class Nearest(TapRule):
    """The element nearest to the coordinate."""

    coordinate: Coordinate
    selector: Selector
    rounding: Rounding
    count: ClassVar[int] = 1
    weighs: ClassVar[bool] = False

    def taps(self, o: Dim, n_in: Dim, n_out: Dim) -> tuple[Tap, ...]:
        """One tap."""
        num, den = coordinate(self.coordinate, self.selector, o, n_in, n_out)
        return ((clamp(ROUND[self.rounding](num, den), 0, add(n_in, -1)), None),)

    def steps(self, n_in: Dim, n_out: Dim) -> tuple[Dim, Dim] | None:
        """The positions of the coordinate."""
        return _steps(self.coordinate, n_in, n_out)

    def table(self, n_in: int, n_out: int) -> Table:
        """One position for each output."""
        nearest = ROUND_EXACTLY[self.rounding]
        xs = exact_coordinates(self.coordinate, self.selector, n_in, n_out)
        return _table([[nearest(x)] for x in xs], [[1.0] for _ in xs], n_in, 1)


@dataclass(frozen=True, slots=True)
class Linear(TapRule):
    """The two neighbours of the coordinate; the one element if it lies on one."""

    coordinate: Coordinate
    selector: Selector
    count: ClassVar[int] = 2
    weighs: ClassVar[bool] = True
    order: ClassVar[tuple[int, ...]] = (0, 1)

    def taps(self, o: Dim, n_in: Dim, n_out: Dim) -> tuple[Tap, ...]:
        """Left and right neighbour. On an element both read it, and the second adds a negligible amount, so
        no weight is 0 and no test is needed."""
        num, den = coordinate(self.coordinate, self.selector, o, n_in, n_out)
        t = _fraction(num, den)
        left, right = (clamp(x, 0, add(n_in, -1)) for x in (floordiv(num, den), ceildiv(num, den)))
        return (left, 1.0 - t), (right, kernel.select(is_zero(t), UNSEEN, t))

    def steps(self, n_in: Dim, n_out: Dim) -> tuple[Dim, Dim] | None:
        """The positions of the coordinate."""
        return _steps(self.coordinate, n_in, n_out)

    def table(self, n_in: int, n_out: int) -> Table:
        """Two positions for each output."""
        xs = exact_coordinates(self.coordinate, self.selector, n_in, n_out)
        fractions = [float(x - math.floor(x)) for x in xs]
        positions = [[math.floor(x), math.ceil(x)] for x in xs]
        return _table(positions, [[1 - t, t] for t in fractions], n_in, 2)


@dataclass(frozen=True, slots=True)
class Cubic(TapRule):
    """Four neighbours, weighted by Keys' kernel with coefficient `a`.

    `exclude_outside`: taps outside the operand have weight 0, and the others are scaled to sum to 1."""

    coordinate: Coordinate
    selector: Selector
    a: float
    exclude_outside: bool
    count: ClassVar[int] = 4
    weighs: ClassVar[bool] = True
    order: ClassVar[tuple[int, ...]] = (1, 2, 0, 3)

    @property
    def is_moderate(self) -> bool:
        """True for the usual coefficients."""
        return -1 <= self.a < 0

    def taps(self, o: Dim, n_in: Dim, n_out: Dim) -> tuple[Tap, ...]:
        """The taps at −1, 0, 1 and 2 from the coordinate rounded down. On an element, the one at 1 reads it,
        too, and adds a negligible amount; so do those outside, which read the last one inside."""
        num, den = coordinate(self.coordinate, self.selector, o, n_in, n_out)
        left, right, t = floordiv(num, den), ceildiv(num, den), _fraction(num, den)
        s = 1.0 - t
        near = self._near(t, s), kernel.select(is_zero(t), UNSEEN, self._near(s, t))
        weights = [self._far(t, s), *near, self._far(s, t)]
        positions = [add(left, -1), left, right, add(left, 2)]
        if self.exclude_outside:
            unseen = kernel.const(0.0 if self.a >= 0 else UNSEEN, Scalar.F32)
            outside = [kernel.select(is_zero(t), 0.0, unseen), unseen, unseen]
            outside.append(outside[0])
            weights = [_inside(p, n_in, w, x) for p, w, x in zip(positions, weights, outside, strict=True)]
            total = weights[0] + weights[1] + weights[2] + weights[3]
            weights = [w / total for w in weights]
        return tuple((clamp(p, 0, add(n_in, -1)), w) for p, w in zip(positions, weights, strict=True))

    def silence(self, n_in: Dim, n_out: Dim) -> tuple[int | None, ...]:
        """The outer taps are silent on an element; with a coefficient that is not negative, all may be."""
        if self.a >= 0:
            return 0, 1, 2, 3
        outer = 0 if _lands(self.coordinate, self.selector, n_in, n_out) else None
        return outer, None, None, outer

    def _near(self, d: Expr, rest: Expr) -> Expr:
        """The weight at d, d + rest = 1."""
        return kernel.fma(d, 1.0 - d * (self.a + 2), 1.0) * rest

    def _far(self, d: Expr, rest: Expr) -> Expr:
        """The weight at 1 + d, d + rest = 1: factored, since a sum would cancel all but a few digits."""
        return d * self.a * rest * rest

    def steps(self, n_in: Dim, n_out: Dim) -> tuple[Dim, Dim] | None:
        """The positions of the coordinate."""
        return _steps(self.coordinate, n_in, n_out)

    def table(self, n_in: int, n_out: int) -> Table:
        """Four positions for each output."""
        positions, weights = [], []
        for x in exact_coordinates(self.coordinate, self.selector, n_in, n_out):
            around = [math.floor(x) + k for k in range(-1, 3)]
            row = np.array([self._weight(float(abs(x - p))) for p in around])
            if self.exclude_outside:
                row *= [0 <= p < n_in for p in around]
                row /= row.sum()
            around[2] = math.ceil(x)
            positions.append(around)
            weights.append(row.tolist())
        return _table(positions, weights, n_in, 4)

    def _weight(self, d: float) -> float:
        if d <= 1:
            return (1 - d) * (1 + d - (self.a + 2) * d**2)
        return self.a * (d - 1) * (2 - d) ** 2 if d < 2 else 0.0


@dataclass(frozen=True, slots=True)
class Border(TapRule):
    """`start + step × o`, mapped into the operand by wrapping, clamping or reflecting."""

    mode: SampleMode
    start: Dim
    step: Dim
    count: ClassVar[int] = 1
    weighs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.mode not in BORDERS:
            wanted = f"one of {', '.join(m.name for m in BORDERS)}"
            raise ArgumentError("AR304", "taps", got=self.mode.name, wanted=wanted)

    def taps(self, o: Dim, n_in: Dim, n_out: Dim) -> tuple[Tap, ...]:
        """One tap."""
        return ((BORDERS[self.mode](add(self.start, mul(self.step, o)), n_in), None),)

    def table(self, n_in: int, n_out: int) -> Table:
        """One position for each output."""
        x = known_size(self.start) + known_size(self.step) * np.arange(n_out)
        row = np.arange(n_in) if n_in else np.zeros(1, np.int64)
        there_and_back = np.concatenate([row, row[-2:0:-1]])
        positions = {
            SampleMode.WRAP: row[x % row.size],
            SampleMode.CLAMP: x.clip(0, row[-1]),
            SampleMode.REFLECT: there_and_back[x % there_and_back.size],
        }
        return positions[self.mode].reshape(-1, 1), np.ones((n_out, 1))


def _wrap(x: Dim, n: Dim) -> Dim:
    return mod(x, n)


def _clamp(x: Dim, n: Dim) -> Dim:
    return clamp(x, 0, add(n, -1))


def _reflect(x: Dim, n: Dim) -> Dim:
    period = mul(2, add(n, -1))
    inside = mod(maximum(x, mul(x, -1)), maximum(period, 1))
    return minimum(inside, maximum(add(period, mul(inside, -1)), 0))


BORDERS: dict[SampleMode, Callable[[Dim, Dim], Dim]] = {
    SampleMode.WRAP: _wrap,
    SampleMode.CLAMP: _clamp,
    SampleMode.REFLECT: _reflect,
}


def coordinate(how: Coordinate, selector: Selector, o: Dim, n_in: Dim, n_out: Dim) -> tuple[Dim, Dim]:
    """(num, den > 0) in lowest terms: output position `o` lies at num / den of the input."""
    match how:
        case Coordinate.ALIGN_CORNERS:  # one output: o is 0, so that any divisor gives 0
            num, den = mul(o, add(n_in, -1)), maximum(add(n_out, -1), 1)
        case Coordinate.ASYMMETRIC:
            num, den = mul(o, n_in), n_out
        case Coordinate.HALF_PIXEL:
            num, den = add(mul(add(mul(2, o), 1), n_in), mul(n_out, -1)), mul(2, n_out)
    if selector is Selector.UPPER:
        num = mul(num, minimum(add(n_out, -1), 1))
    return cancel(num, den)


def _steps(how: Coordinate, n_in: Dim, n_out: Dim) -> tuple[Dim, Dim]:
    ends = 1 if how is Coordinate.ALIGN_CORNERS else 0
    return add(n_in, -ends), add(n_out, -ends)


def _lands(how: Coordinate, selector: Selector, n_in: Dim, n_out: Dim) -> bool:
    """False when no output lies on an element: den divides slope · o + first for no o < n_out."""
    o = Sym("o", extent=n_out)
    num, den = coordinate(how, selector, o.dim, n_in, n_out)
    slope, first = linear(num, o) or (0, 0)
    if not (isinstance(slope, int) and isinstance(first, int) and isinstance(den, int)) or den == 0:
        return True
    shared = math.gcd(slope, den)
    period = den // shared
    least = -first // shared * pow(slope // shared, -1, period) % period
    return first % shared == 0 and not always_le(n_out, least)


def is_zero(weight: Expr) -> Expr:
    """True for zeros of either sign."""
    return kernel.alu(Op.EQ, weight, kernel.const(0.0, weight.type))


def _fraction(num: Dim, den: Dim) -> Expr:
    """The distance of num / den from the position below it; exactly 0 on it."""
    return _float(mod(num, den)) / _float(den)


def _float(x: Dim) -> Expr:
    return kernel.const(x, Scalar.F32) if isinstance(x, int) else kernel.cast(kernel.index(x), Scalar.F32)


def _inside(position: Dim, n: Dim, weight: Expr, outside: Expr) -> Expr:
    """`weight` where 0 <= position < n, else `outside`."""
    if not always_le(0, position):
        weight = kernel.select(kernel.index(position) >= 0, weight, outside)
    if not always_le(add(position, 1), n):
        weight = kernel.select(kernel.index(position) < kernel.index(n), weight, outside)
    return weight


ROUND: dict[Rounding, Callable[[Dim, Dim], Dim]] = {
    Rounding.HALF_UP: lambda num, den: floordiv(add(mul(2, num), den), mul(2, den)),
    Rounding.HALF_DOWN: lambda num, den: ceildiv(add(mul(2, num), mul(den, -1)), mul(2, den)),
    Rounding.FLOOR: floordiv,
    Rounding.CEIL: ceildiv,
}

HALF = Fraction(1, 2)
ROUND_EXACTLY: dict[Rounding, Callable[[Fraction], int]] = {
    Rounding.HALF_UP: lambda x: math.floor(x + HALF),
    Rounding.HALF_DOWN: lambda x: math.ceil(x - HALF),
    Rounding.FLOOR: math.floor,
    Rounding.CEIL: math.ceil,
}


def exact_coordinates(how: Coordinate, selector: Selector, n_in: int, n_out: int) -> list[Fraction]:
    """The input coordinate of every output position."""
    if n_out == 1 and (selector is Selector.UPPER or how is not Coordinate.HALF_PIXEL):
        return [Fraction(0)]
    match how:
        case Coordinate.ALIGN_CORNERS:
            return [Fraction(o * (n_in - 1), n_out - 1) for o in range(n_out)]
        case Coordinate.ASYMMETRIC:
            return [Fraction(o * n_in, n_out) for o in range(n_out)]
        case Coordinate.HALF_PIXEL:
            return [(o + HALF) * Fraction(n_in, n_out) - HALF for o in range(n_out)]


def _table(positions: list[list[int]], weights: list[list[float]], n_in: int, count: int) -> Table:
    inside = np.array(positions, np.int64).reshape(-1, count).clip(0, max(n_in - 1, 0))
    return inside, np.array(weights, np.float64).reshape(-1, count)
