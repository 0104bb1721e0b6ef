"""The rules that say which input positions an output position of `Taps` reads, and with which weights.

Each rule says it twice: `taps` in index algebra and kernel expressions, for compiling; `table` in
exact fractions, for the interpreter. The two were written separately and tests compare them.

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
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import (
    Dim,
    add,
    always_le,
    cancel,
    ceildiv,
    clamp,
    floordiv,
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
from anyrt.ir import kernel
from anyrt.ir.kernel import Expr, Scalar
from anyrt.prims._check import known_size

Tap: TypeAlias = tuple[Dim, Expr | None]
Table: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float64]]


class TapRule(ABC):
    """How one output position is made: `count` taps, of weight 1 unless the rule `weighs`."""

    __slots__ = ()
    count: ClassVar[int]
    weighs: ClassVar[bool]

    @abstractmethod
    def taps(self, o: Dim, n_in: Dim, n_out: Dim) -> tuple[Tap, ...]:
        """(position, float32 weight or None for 1) of each tap of output position `o`."""

    @abstractmethod
    def table(self, n_in: int, n_out: int) -> Table:
        """Positions and weights of all output positions, both (n_out, count)."""


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

    def table(self, n_in: int, n_out: int) -> Table:
        """One position for each output."""
        nearest = ROUND_EXACTLY[self.rounding]
        xs = exact_coordinates(self.coordinate, self.selector, n_in, n_out)
        return _table([[nearest(x)] for x in xs], [[1.0] for _ in xs], n_in, 1)


@dataclass(frozen=True, slots=True)
class Linear(TapRule):
    """The two neighbours of the coordinate."""

    coordinate: Coordinate
    selector: Selector
    count: ClassVar[int] = 2
    weighs: ClassVar[bool] = True

    def taps(self, o: Dim, n_in: Dim, n_out: Dim) -> tuple[Tap, ...]:
        """Left and right neighbour."""
        left, t = _split(self.coordinate, self.selector, o, n_in, n_out)
        last = add(n_in, -1)
        return (clamp(left, 0, last), 1.0 - t), (clamp(add(left, 1), 0, last), t)

    def table(self, n_in: int, n_out: int) -> Table:
        """Two positions for each output."""
        xs = exact_coordinates(self.coordinate, self.selector, n_in, n_out)
        fractions = [float(x - math.floor(x)) for x in xs]
        positions = [[math.floor(x), math.floor(x) + 1] for x in xs]
        return _table(positions, [[1 - t, t] for t in fractions], n_in, 2)


@dataclass(frozen=True, slots=True)
class Cubic(TapRule):
    """Four neighbours, weighed by Keys' kernel with coefficient `a`.

    `exclude_outside`: taps outside the operand weigh nothing, and the others are scaled to sum up to 1."""

    coordinate: Coordinate
    selector: Selector
    a: float
    exclude_outside: bool
    count: ClassVar[int] = 4
    weighs: ClassVar[bool] = True

    def taps(self, o: Dim, n_in: Dim, n_out: Dim) -> tuple[Tap, ...]:
        """The taps at −1, 0, 1 and 2 from the coordinate rounded down."""
        left, t = _split(self.coordinate, self.selector, o, n_in, n_out)
        positions = [add(left, k) for k in (-1, 0, 1, 2)]
        s = 1.0 - t
        weights = [self._far(t, s), self._near(t), self._near(s), self._far(s, t)]
        if self.exclude_outside:
            weights = [_inside(p, n_in, w) for p, w in zip(positions, weights, strict=True)]
            total = weights[0] + weights[1] + weights[2] + weights[3]
            weights = [w / total for w in weights]
        return tuple((clamp(p, 0, add(n_in, -1)), w) for p, w in zip(positions, weights, strict=True))

    def _near(self, d: Expr) -> Expr:
        return (d * (self.a + 2) - (self.a + 3)) * d * d + 1.0

    def _far(self, d: Expr, rest: Expr) -> Expr:
        """The weight at 1 + d, d + rest = 1: factored, as a sum would cancel all but a few digits."""
        return d * self.a * rest * rest

    def table(self, n_in: int, n_out: int) -> Table:
        """Four positions for each output."""
        positions, weights = [], []
        for x in exact_coordinates(self.coordinate, self.selector, n_in, n_out):
            around = [math.floor(x) + k for k in range(-1, 3)]
            row = np.array([self._weight(abs(float(x - p))) for p in around])
            if self.exclude_outside:
                row *= [0 <= p < n_in for p in around]
                row /= row.sum()
            positions.append(around)
            weights.append(row.tolist())
        return _table(positions, weights, n_in, 4)

    def _weight(self, d: float) -> float:
        a = self.a
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


@dataclass(frozen=True, slots=True)
class Border(TapRule):
    """`start + step × o`, brought back into the operand by wrapping, clamping or reflecting."""

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


def _split(how: Coordinate, selector: Selector, o: Dim, n_in: Dim, n_out: Dim) -> tuple[Dim, Expr]:
    """The coordinate rounded down, and its fraction."""
    num, den = coordinate(how, selector, o, n_in, n_out)
    return floordiv(num, den), _float(mod(num, den)) / _float(den)


def _float(x: Dim) -> Expr:
    return kernel.const(x, Scalar.F32) if isinstance(x, int) else kernel.cast(kernel.index(x), Scalar.F32)


def _inside(position: Dim, n: Dim, weight: Expr) -> Expr:
    """`weight` where 0 <= position < n, else 0."""
    if not always_le(0, position):
        weight = kernel.select(kernel.index(position) >= 0, weight, 0.0)
    if not always_le(add(position, 1), n):
        weight = kernel.select(kernel.index(position) < kernel.index(n), weight, 0.0)
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
