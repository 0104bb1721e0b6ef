"""Folding along an axis with every intermediate result: a prefix sum, product, minimum or maximum.

>>> Scan("sum", 1).ref((np.array([[1, 2, 3]]),), (1, 3)).tolist()
[[1, 3, 6]]
>>> Scan("sum", 1, reverse=True).ref((np.array([[1, 2, 3]]),), (1, 3)).tolist()
[[6, 5, 3]]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from anyrt.core.dims import Dim, add, mul
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.ir.buffer import COMPUTED
from anyrt.ir.compute import Compute, Extern
from anyrt.ir.graph import Type
from anyrt.ir.kernel import Alloc, Expr, Fold, For, Loop, Stmt, Store, alu, const, load
from anyrt.ir.prim import Array, Making, Prim, Read
from anyrt.prims._check import check_axis, check_type, expect, show
from anyrt.prims.reduce import FOLDED, FOLDS

ACCUMULATE: Final[dict[str, Callable[..., Array]]] = {
    "sum": np.add.accumulate,
    "prod": np.multiply.accumulate,
    "max": np.maximum.accumulate,
    "min": np.minimum.accumulate,
}
STARTS: Final = {"sum": 0, "prod": 1}  # over nothing


@dataclass(frozen=True, slots=True)
class Scan(Prim):
    """`fn` (a key of FOLDS) of all elements along `axis` up to and including each one; `reverse`: from each
    one on; `exclusive`: without it. Running sums have the computed type, and are rounded when stored. A
    second operand, of size 1 along the axis, is the initial value of rows."""

    fn: str
    axis: int
    reverse: bool = False
    exclusive: bool = False

    def compute(self) -> Compute:
        """Statements for each row, or for the last axis where another one is folded along."""
        return Extern((self.axis, -1))

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The operand's type."""
        expect(args, 2 if len(args) == 2 else 1, "scan")
        if self.fn not in FOLDS:
            raise ArgumentError("AR304", "scan", got=repr(self.fn), wanted=f"one of {', '.join(FOLDS)}")
        if self.exclusive and self.fn not in STARTS:
            got, wanted = f"an exclusive {self.fn}", f"one of {', '.join(STARTS)}"
            raise ArgumentError("AR304", "scan", got=got, wanted=wanted)
        x = args[0]
        check_type(x.dtype, FOLDED, "scan")
        check_axis(self.axis, x.rank, "scan")
        first = Type((*x.shape[: self.axis], 1, *x.shape[self.axis + 1 :]), x.dtype)
        if args[1:] not in ((), (first,)):
            raise ShapeError("AR112", "scan", got=f"{show(args[1].shape)} to begin with", wanted=f"{first}")
        return x

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """NumPy's accumulate in the operand's own type."""
        x, *first = args
        with np.errstate(all="ignore"):
            if not first:
                return self.scanned(ACCUMULATE[self.fn], x)
            whole = np.concatenate((x, *first) if self.reverse else (*first, x), self.axis)
            folds = replace(self, exclusive=False).scanned(ACCUMULATE[self.fn], whole)
        begin, size = int(self.exclusive == self.reverse), x.shape[self.axis]
        return folds.take(range(begin, begin + size), self.axis)

    def scanned(self, accumulate: Callable[..., Array], x: Array) -> Array:
        """The result of a NumPy function's `accumulate` along the axis."""
        turned = np.flip(x, self.axis) if self.reverse else x
        folds = accumulate(turned, axis=self.axis, dtype=x.dtype)
        if self.exclusive and x.shape[self.axis]:
            size = x.shape[self.axis]
            start = np.full_like(folds.take([0], self.axis), STARTS[self.fn])
            folds = np.concatenate((start, folds.take(range(size - 1), self.axis)), self.axis)
        return np.flip(folds, self.axis) if self.reverse else folds

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Never called: no element is computed by itself."""
        raise AssertionError("a scan is not one expression; it is written as statements")

    def write(
        self, out: Type, args: tuple[Read, ...], item: tuple[Dim, ...], make: Making
    ) -> tuple[Stmt, ...]:
        """Along the last axis one row after the other; otherwise all elements of the last axis side by
        side."""
        x, rank, kind = args[0], len(item), COMPUTED[out.dtype]
        step = make.var(out.shape[self.axis])
        along = add(add(out.shape[self.axis], -1), mul(step.dim, -1)) if self.reverse else step.dim
        if self.axis == rank - 1:
            at, total = _at(item, self.axis, along), make.register(kind)
            folded = Fold(total, FOLDS[self.fn].op, x.at(at))
            body: tuple[Stmt, ...] = (folded, make.store(at, load(total, 0)))
            return Alloc(total, self._start(out, args, item)), For(
                step, Loop.SERIAL, body[::-1] if self.exclusive else body
            )
        first, lane = make.var(out.shape[-1]), make.var(out.shape[-1])
        at = _at(_at(item, self.axis, along), rank - 1, lane.dim)
        row = make.scratch(kind, out.shape[-1])
        sums = alu(FOLDS[self.fn].op, load(row, lane.dim), x.at(at))
        body = (Store(row, lane.dim, sums), make.store(at, load(row, lane.dim)))
        body = body[::-1] if self.exclusive else body
        start = self._start(out, args, _at(item, rank - 1, first.dim))
        zeros = For(first, Loop.SERIAL, (Store(row, first.dim, start),))
        return zeros, For(step, Loop.SERIAL, (For(lane, Loop.SERIAL, body),))

    def _start(self, out: Type, args: tuple[Read, ...], item: Sequence[Dim]) -> Expr:
        """The initial value: the second operand, or the neutral element."""
        if len(args) == 2:
            return args[1].at(_at(item, self.axis, 0))
        return const(FOLDS[self.fn].identity(out.dtype), COMPUTED[out.dtype])


def _at(item: Sequence[Dim], axis: int, value: Dim) -> tuple[Dim, ...]:
    return (*item[:axis], value, *item[axis + 1 :])
