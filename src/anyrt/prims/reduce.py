"""Folding axes with a sum, product, minimum or maximum; the folded axes stay, with size 1.

>>> from anyrt.core.enums import DataType
>>> Reduce("sum", (1,)).infer((Type((2, 3), DataType.FLOAT),))
float[2, 1]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from anyrt.core.dims import Dim, add, maximum, minimum, mul
from anyrt.core.dtype import bits, is_float, is_signed
from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError
from anyrt.ir.compute import Compute, Folded
from anyrt.ir.graph import Type
from anyrt.ir.kernel import Expr, Op
from anyrt.ir.prim import Array, Prim, Read, Symbolic
from anyrt.prims._check import check_axis, check_type, expect, short_shape

# Types with too few bits for sums, which represent other numbers.
NARROW = frozenset(t for t in DataType if bits(t) < 8 or (bits(t) == 8 and is_float(t)))
FOLDED = frozenset(DataType) - NARROW - {DataType.BOOL}


@dataclass(frozen=True, slots=True)
class Fold:
    """A fold: the instruction, its result over nothing, and the two references."""

    op: Op
    identity: Callable[[DataType], float | int]
    array: Callable[..., Array]
    dim: Callable[[Dim, Dim], Dim]


def lowest(t: DataType) -> float | int:
    """The least value of a type, −inf for floats."""
    if is_float(t):
        return -math.inf
    return -(1 << (bits(t) - 1)) if is_signed(t) else 0


def highest(t: DataType) -> float | int:
    """The greatest value of a type, +inf for floats."""
    return math.inf if is_float(t) else (1 << (bits(t) - is_signed(t))) - 1


FOLDS: dict[str, Fold] = {
    "sum": Fold(Op.ADD, lambda t: 0, np.add.reduce, add),
    "prod": Fold(Op.MUL, lambda t: 1, np.multiply.reduce, mul),
    "max": Fold(Op.MAX, lowest, np.maximum.reduce, maximum),
    "min": Fold(Op.MIN, highest, np.minimum.reduce, minimum),
}


@dataclass(frozen=True, slots=True)
class Reduce(Prim):
    """`fn` (a key of FOLDS) over `axes`; the identity of `fn` over nothing."""

    fn: str
    axes: tuple[int, ...]

    def fold(self, dtype: DataType) -> tuple[Op, float | int]:
        """The instruction of the fold and its initial value, for elements of `dtype`."""
        entry = FOLDS[self.fn]
        return entry.op, entry.identity(dtype)

    def compute(self) -> Compute:
        """A fold over the axes."""
        entry = FOLDS[self.fn]
        return Folded(self.axes, entry.op, entry.identity)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The operand's shape with 1 for the folded axes."""
        expect(args, 1, "reduce")
        if self.fn not in FOLDS:
            raise ArgumentError("AR304", "reduce", got=repr(self.fn), wanted=f"one of {', '.join(FOLDS)}")
        (x,) = args
        check_type(x.dtype, FOLDED, "reduce")
        for axis in self.axes:
            check_axis(axis, x.rank, "reduce")
        if len(set(self.axes)) < len(self.axes):
            raise ArgumentError("AR305", "reduce", got=f"axes {self.axes}", wanted="every axis once")
        return Type(tuple(1 if k in self.axes else d for k, d in enumerate(x.shape)), x.dtype)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """The NumPy reduction in the operand's own type."""
        (x,) = args
        entry = FOLDS[self.fn]
        low, high = (-math.inf, math.inf) if x.dtype.kind == "f" else _limits(x.dtype)
        identity = {Op.ADD: 0, Op.MUL: 1, Op.MAX: low, Op.MIN: high}[entry.op]
        with np.errstate(all="ignore"):
            return entry.array(x, axis=self.axes, keepdims=True, initial=identity, dtype=x.dtype)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Never called: a reduction is a loop, which the scheduler creates from `fold`."""
        raise AssertionError("a reduction is not one expression; the scheduler converts it to a loop")

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The folded sizes."""
        (x,) = args
        shape = short_shape(out.shape)
        if x is None or shape is None:
            return None
        remaining = [k for k in range(x.ndim) if k not in self.axes]
        rows = x.transpose([*remaining, *self.axes]).reshape(
            math.prod(shape), math.prod(x.shape[a] for a in self.axes)
        )
        op, identity = self.fold(out.dtype)
        start = [] if rows.shape[1] and op in (Op.MAX, Op.MIN) else [int(identity)]
        result = np.empty(len(rows), dtype=object)
        result[:] = [reduce(FOLDS[self.fn].dim, [*start, *row]) for row in rows]
        return result.reshape(shape)


def _limits(dtype: np.dtype[np.generic]) -> tuple[int, int]:
    info = np.iinfo(dtype.name)
    return int(info.min), int(info.max)
