"""RMS normalisation, LayerNorm and variance along the last axis, as exporters write them.

>>> rms(to := Sheet(), 8, Spelling(Square.MUL, Mean.AVG, Root.SQRT))
>>> [line.op.value for line in to.lines]
['mul', 'mean', 'add', 'sqrt', 'div', 'mul']
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from benchmarks.layers.formula import Constant, Formula, Line, Number, Op, Weights, X
from benchmarks.steps import Cast, Element, Step, Tensor

EPSILON = Number(1e-5)


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


class Sheet:
    """A formula that grows line by line; `to(op, *operands)` adds a line and returns its name."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def __call__(self, op: Op, *operands: str | Constant) -> str:
        name = f"y{len(self.lines)}"
        self.lines.append(Line(name, op, operands))
        return name


def rms(to: Sheet, n: int, how: Spelling) -> None:
    """x / √(mean x² + ε) · scale, of rows of `n`."""
    mean = _mean(to, _squared(to, X, X, how.square), n, how.mean)
    to(Op.MUL, _divided(to, X, mean, how.root), Weights.SCALE)


def rms_steps(x: Tensor) -> tuple[Step, ...]:
    """RMS normalisation of a tensor by elementary steps, in float32."""
    rms(to := Sheet(), x.shape[-1], Spelling(Square.POW, Mean.AVG, Root.SQRT))
    formula = Formula(tuple(to.lines))
    return (formula,) if x.dtype is Element.F32 else (Cast(Element.F32), formula, Cast(x.dtype))


def layer_norm(to: Sheet, n: int, how: Spelling) -> None:
    """(x − mean) / √(variance + ε) · scale + bias."""
    mean = _mean(to, X, n, how.mean)
    difference = to(Op.SUB, X, mean)
    variance = _mean(to, _squared(to, difference, difference, how.square), n, how.mean)
    above = to(Op.SUB, X, mean) if how.twice else difference
    scaled = to(Op.MUL, _divided(to, above, variance, how.root), Weights.SCALE)
    to(Op.ADD, scaled, Weights.BIAS)


def variance(to: Sheet, n: int, how: Spelling) -> None:
    """The mean of (x − mean)²."""
    mean = _mean(to, X, n, how.mean)
    difference = to(Op.SUB, X, mean)
    again = to(Op.SUB, X, mean) if how.twice else difference
    _mean(to, _squared(to, difference, again, how.square), n, how.mean)


def _squared(to: Sheet, a: str, b: str, how: Square) -> str:
    """a · b, which are equal."""
    if how is Square.MUL:
        return to(Op.MUL, a, b)
    return to(Op.POW, a, Number(2.0, how is Square.POW_FULL))


def _mean(to: Sheet, of: str, n: int, how: Mean) -> str:
    if how is Mean.AVG:
        return to(Op.MEAN, of)
    return to(Op.MUL, to(Op.TOTAL, of), Number(1 / n))


def _divided(to: Sheet, x: str, by: str, how: Root) -> str:
    spread = to(Op.ADD, by, EPSILON)
    match how:
        case Root.SQRT:
            return to(Op.DIV, x, to(Op.SQRT, spread))
        case Root.POWER:
            return to(Op.DIV, x, to(Op.POW, spread, Number(0.5)))
        case Root.INVERSE:
            return to(Op.MUL, x, to(Op.POW, spread, Number(-0.5)))
        case Root.RECIP:
            return to(Op.MUL, x, to(Op.RECIP, to(Op.SQRT, spread)))
