"""RMS normalisation, LayerNorm and variance along the last axis, as exporters write them.

>>> [line.name for line in rms(8, Spelling(Square.MUL, Mean.AVG, Root.SQRT))]
['square', 'mean', 'spread', 'root', 'normal', 'scaled']
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from benchmarks.layers.formula import Line, Number, Op, Weights, X

EPSILON = Number(1e-5)
Lines = tuple[Line, ...]


class Square(enum.Enum):
    """x · x; or x to the power of 2, a constant of rank 0 or of the rank of x."""

    MUL = "mul"
    POW = "pow"
    POW_FULL = "powfull"


class Mean(enum.Enum):
    """A mean, or a sum times 1 / n."""

    AVG = "avg"
    SUM = "sum"


class Root(enum.Enum):
    """Division by the root: by √x, by x to 0.5; times x to −0.5, times 1 / √x."""

    SQRT = "sqrt"
    POWER = "pow0.5"
    INVERSE = "pow-0.5"
    RECIP = "recip"


@dataclass(frozen=True, slots=True)
class Spelling:
    """The spelling of each part. twice: the difference to the mean is computed at each use."""

    square: Square
    mean: Mean
    root: Root = Root.SQRT
    twice: bool = False


def rms(n: int, how: Spelling) -> Lines:
    """x / √(mean x² + ε) · scale."""
    square = _squared((X, X), how.square)
    return (square, *_mean("mean", "square", n, how.mean), *_divided(X, "mean", how.root), _scaled("normal"))


def layer_norm(n: int, how: Spelling) -> Lines:
    """(x − mean) / √(variance + ε) · scale + bias."""
    again = (_difference("again"),) if how.twice else ()
    above = "again" if how.twice else "difference"
    return (
        *_mean("mean", X, n, how.mean),
        _difference("difference"),
        _squared(("difference", "difference"), how.square),
        *_mean("variance", "square", n, how.mean),
        *again,
        *_divided(above, "variance", how.root),
        _scaled("normal"),
        Line("shifted", Op.ADD, ("scaled", Weights.BIAS)),
    )


def variance(n: int, how: Spelling) -> Lines:
    """The mean of (x − mean)²."""
    again = (_difference("again"),) if how.twice else ()
    factors = ("difference", "again" if how.twice else "difference")
    return (
        *_mean("mean", X, n, how.mean),
        _difference("difference"),
        *again,
        _squared(factors, how.square),
        *_mean("variance", "square", n, how.mean),
    )


def _difference(name: str) -> Line:
    return Line(name, Op.SUB, (X, "mean"))


def _scaled(of: str) -> Line:
    return Line("scaled", Op.MUL, (of, Weights.SCALE))


def _squared(factors: tuple[str, str], how: Square) -> Line:
    match how:
        case Square.MUL:
            return Line("square", Op.MUL, factors)
        case Square.POW | Square.POW_FULL:
            return Line("square", Op.POW, (factors[0], Number(2.0, how is Square.POW_FULL)))


def _mean(name: str, of: str, n: int, how: Mean) -> Lines:
    match how:
        case Mean.AVG:
            return (Line(name, Op.MEAN, (of,)),)
        case Mean.SUM:
            total = f"{name} total"
            return Line(total, Op.TOTAL, (of,)), Line(name, Op.MUL, (total, Number(1 / n)))


def _divided(x: str, by: str, how: Root) -> Lines:
    spread = Line("spread", Op.ADD, (by, EPSILON))
    root = Line("root", Op.SQRT, ("spread",))
    match how:
        case Root.SQRT:
            return spread, root, Line("normal", Op.DIV, (x, "root"))
        case Root.POWER:
            power = Line("root", Op.POW, ("spread", Number(0.5)))
            return spread, power, Line("normal", Op.DIV, (x, "root"))
        case Root.INVERSE:
            power = Line("inverse", Op.POW, ("spread", Number(-0.5)))
            return spread, power, Line("normal", Op.MUL, (x, "inverse"))
        case Root.RECIP:
            recip = Line("inverse", Op.RECIP, ("root",))
            return spread, root, recip, Line("normal", Op.MUL, (x, "inverse"))
