"""Formulas of elementary operations, as exporters write them: each line names what it computes.

>>> mean = Formula((Line("mean", Op.MEAN, ("x",)), Line("y", Op.SUB, ("x", "mean"))))
>>> shape_of(mean, (2, 3))
(2, 3)
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np

T = TypeVar("T")
X = "x"  # the formula's input


class Op(enum.Enum):
    """An elementary operation; MEAN and TOTAL run along the last axis and leave a size of 1."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    POW = "pow"
    SQRT = "sqrt"
    RECIP = "recip"
    MEAN = "mean"
    TOTAL = "total"


FOLDS = (Op.MEAN, Op.TOTAL)


@dataclass(frozen=True, slots=True)
class Number:
    """A scalar constant, or one with an axis of size 1 for each axis of the input."""

    value: float
    full_rank: bool = False


class Weights(enum.Enum):
    """A constant along the last axis, by its purpose."""

    SCALE = "scale"
    BIAS = "bias"


Constant: TypeAlias = Number | Weights


@dataclass(frozen=True, slots=True)
class Line:
    """`name` = op(operands); a string names the input or an earlier line."""

    name: str
    op: Op
    operands: tuple[str | Constant, ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """Lines in order; the last one is the result."""

    lines: tuple[Line, ...]


def evaluate(
    formula: Formula, x: T, constant: Callable[[Constant], T], apply: Callable[[Line, tuple[T, ...]], T]
) -> T:
    """The result; `constant` creates constants and `apply` computes a line."""
    values = {X: x}
    for line in formula.lines:
        operands = tuple(values[o] if isinstance(o, str) else constant(o) for o in line.operands)
        values[line.name] = apply(line, operands)
    return values[formula.lines[-1].name]


def constant_shape(constant: Constant, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a constant beside an input of `shape`."""
    match constant:
        case Number(full_rank=True):
            return (1,) * len(shape)
        case Number():
            return ()
        case Weights():
            return shape[-1:]


def shapes_of(formula: Formula, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The shape of each line."""
    shapes: dict[str, tuple[int, ...]] = {}

    def apply(line: Line, operands: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
        result = (*operands[0][:-1], 1) if line.op in FOLDS else np.broadcast_shapes(*operands)
        return shapes.setdefault(line.name, result)

    evaluate(formula, shape, partial(constant_shape, shape=shape), apply)
    return shapes


def shape_of(formula: Formula, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the result."""
    return shapes_of(formula, shape)[formula.lines[-1].name]


def constants_of(formula: Formula) -> tuple[Constant, ...]:
    """All distinct constants."""
    constants = (o for line in formula.lines for o in line.operands if not isinstance(o, str))
    return tuple(dict.fromkeys(constants))
