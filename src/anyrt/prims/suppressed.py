"""Greedy non-maximum suppression: boxes that no better one of their group overlaps too much.

>>> boxes = np.float32([[0, 0, 4], [0, 1, 4], [2, 2, 6], [2, 3, 6]])  # the second is mostly the first
>>> Suppressed(1, 1, 10).ref((np.zeros(3, np.int32), *boxes, np.array(9), np.array(0.1)), (3,)).tolist()
[True, False, True]

Boxes are sorted, the best first. The kept boxes of a group are contiguous, so a box is compared with all of
these in whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from anyrt.core.dims import Dim, add, floordiv, maximum
from anyrt.core.enums import DataType
from anyrt.core.errors import DTypeError, ShapeError
from anyrt.ir.buffer import Buffer, Scalar
from anyrt.ir.compute import Compute, Extern
from anyrt.ir.graph import Type
from anyrt.ir.kernel import (
    Alloc,
    Expr,
    Fold,
    For,
    Let,
    Loop,
    Op,
    Stmt,
    Store,
    alu,
    bound,
    cast,
    const,
    load,
    select,
)
from anyrt.ir.prim import Array, Making, Prim, Read
from anyrt.prims._check import expect

OPERANDS: Final = (DataType.INT32, *(DataType.FLOAT,) * 4, DataType.INT32, DataType.FLOAT)
HIGH: Final = (1 << 31) - 1
F32, I32 = Scalar.F32, Scalar.I32


@dataclass(frozen=True, slots=True)
class Suppressed(Prim):
    """Which boxes are kept, as bools. Operands: the group of each box, its lower and upper corner along both
    axes, the maximum number of boxes of a group, and the ratio of intersection and union above which a box is
    dropped beside a better one. There are `groups`, the same number in each of the `batches`, each of which
    uses only its first `limit` boxes."""

    groups: Dim
    batches: Dim
    limit: int

    def compute(self) -> Compute:
        """Statements for all boxes."""
        return Extern((0,))

    def infer(self, args: tuple[Type, ...]) -> Type:
        """A bool for each box."""
        expect(args, len(OPERANDS), "suppressed")
        if tuple(a.dtype for a in args) != OPERANDS:
            got, wanted = (", ".join(t.name for t in ts) for ts in ((a.dtype for a in args), OPERANDS))
            raise DTypeError("AR202", "suppressed", got, wanted)
        count = args[0].shape
        if len(count) != 1 or any(a.shape != count for a in args[:5]) or any(a.rank for a in args[5:]):
            got = ", ".join(map(repr, args))
            raise ShapeError("AR123", "suppressed", got, "as many groups as corners, and two numbers")
        return Type(count, DataType.BOOL)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """One box after the other, in float32 as kernels compute."""
        group, *corners, most, ratio = args
        boxes = np.array(corners, np.float32).reshape(4, -1)
        assert isinstance(self.groups, int), "references have numbers"
        assert isinstance(self.batches, int), "references have numbers"
        each = max(1, self.groups // max(1, self.batches))
        chosen_boxes = [list[int]() for _ in range(self.groups)]
        seen, selected = [0] * self.batches, np.zeros(out, np.bool_)
        for i, g in enumerate(group.tolist()):
            seen[g // each] += 1
            if seen[g // each] > self.limit or len(chosen_boxes[g]) >= int(most):
                continue
            if not (_ratios(boxes[:, i], boxes[:, chosen_boxes[g]]) > np.float32(ratio)).any():
                selected[i] = True
                chosen_boxes[g].append(i)
        return selected

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Never called: no element is computed by itself."""
        raise AssertionError("the selection of boxes is not one expression; it is written as statements")

    def write(
        self, out: Type, args: tuple[Read, ...], item: tuple[Dim, ...], make: Making
    ) -> tuple[Stmt, ...]:
        """Room for each group, then one box after the other."""
        task = _Task(self, out.shape[0], args, make, *_memory(self, out.shape[0], make))
        return (*task.cleared(), *task.placed(), task.chosen())


def _memory(op: Suppressed, count: Dim, make: Making) -> tuple[Buffer, Buffer, Buffer, tuple[Buffer, ...]]:
    firsts, held = (make.scratch(I32, maximum(op.groups, 1)) for _ in range(2))
    seen = make.scratch(I32, maximum(op.batches, 1))
    return firsts, held, seen, tuple(make.scratch(F32, maximum(count, 1)) for _ in range(5))


@dataclass(frozen=True, slots=True)
class _Task:
    """The parts of the statements: for each group the start of its boxes and the number that is kept, for
    each batch the number that was examined; the corners and areas of kept boxes."""

    op: Suppressed
    count: Dim
    args: Sequence[Read]
    make: Making
    firsts: Buffer
    held: Buffer
    seen: Buffer
    boxes: tuple[Buffer, ...]

    def cleared(self) -> tuple[Stmt, ...]:
        """Initialize the counters."""
        return tuple(
            For(v := self.make.var(b.size), Loop.SERIAL, (Store(b, v.dim, const(0, I32)),))
            for b in (self.held, self.seen)
        )

    def group(self, box: Dim) -> Dim:
        """That of a box."""
        return bound(self.args[0].at((box,)), 0, HIGH, "group", maximum(self.op.groups, 1))

    def placed(self) -> tuple[Stmt, ...]:
        """Where each group begins, with room for all of its boxes."""
        box, at, group = (
            self.make.var(self.count),
            self.make.var(self.held.size),
            self.make.var(self.held.size),
        )
        sum, here = self.make.register(I32), self.make.register(I32)
        counted = (Let(at, self.group(box.dim)), Store(self.held, at.dim, load(self.held, at.dim) + 1))
        begins = (
            Alloc(here, load(self.held, group.dim)),
            Store(self.firsts, group.dim, load(sum, 0)),
            Store(self.held, group.dim, const(0, I32)),
            Fold(sum, Op.ADD, load(here, 0)),
        )
        return (
            For(box, Loop.SERIAL, counted),
            Alloc(sum, const(0, I32)),
            For(group, Loop.SERIAL, begins),
        )

    def chosen(self) -> Stmt:
        """Compare each box with the kept ones of its group, and keep or drop it."""
        make, room = self.make, maximum(self.count, 1)
        box, group, first, many, to = (make.var(n) for n in (self.count, self.held.size, room, room, room))
        batch, lane = make.var(self.seen.size), make.var(many.dim)
        before, examined, hits, keeps = (make.register(I32) for _ in range(4))
        each = floordiv(self.held.size, self.seen.size)
        allowed = alu(
            Op.AND,
            load(before, 0) < self.args[5].at(()),
            load(examined, 0) < const(min(self.op.limit, HIGH), I32),
        )
        new = tuple(a.at((box.dim,)) for a in self.args[1:5])
        new = (*new, _area(new))
        old = tuple(load(b, add(first.dim, lane.dim)) for b in self.boxes)
        overlaps = self.args[6].at(()) < _ratio(new, old)
        is_kept = alu(Op.AND, allowed, alu(Op.EQ, load(hits, 0), const(0, I32)))
        body: tuple[Stmt, ...] = (
            Let(group, self.group(box.dim)),
            Let(batch, floordiv(group.dim, each)),
            Alloc(before, load(self.held, group.dim)),
            Alloc(examined, load(self.seen, batch.dim)),
            Let(first, bound(load(self.firsts, group.dim), 0, HIGH, "first", room)),
            Let(many, bound(select(allowed, load(before, 0), 0), 0, HIGH, "many", room)),
            Alloc(hits, const(0, I32)),
            For(lane, Loop.SERIAL, (Fold(hits, Op.ADD, cast(overlaps, I32)),)),
            Alloc(keeps, cast(is_kept, I32)),
            Let(to, bound(load(self.firsts, group.dim) + load(before, 0), 0, HIGH, "to", room)),
            *(Store(b, to.dim, x) for b, x in zip(self.boxes, new, strict=True)),
            Store(self.held, group.dim, load(before, 0) + load(keeps, 0)),
            Store(self.seen, batch.dim, load(examined, 0) + 1),
            make.store((box.dim,), alu(Op.NE, load(keeps, 0), const(0, I32))),
        )
        return For(box, Loop.SERIAL, body)


def _ratios(box: Array, others: Array) -> Array:
    """Intersections over unions with others, each with its corners in a column."""
    a, b = box.astype(np.float32), others.astype(np.float32)
    zero, (y, x) = np.float32(0), np.minimum(a[2:, None], b[2:]) - np.maximum(a[:2, None], b[:2])
    common = np.maximum(y, zero) * np.maximum(x, zero)
    areas = ((c[2] - c[0]) * (c[3] - c[1]) for c in (a, b))
    with np.errstate(all="ignore"):
        return np.asarray(common / (sum(areas) - common))


def _area(box: Sequence[Expr]) -> Expr:
    y, x, to_y, to_x = box[:4]
    return (to_y - y) * (to_x - x)


def _ratio(a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
    """Intersection over union."""
    zero = const(0.0, F32)
    sides = (alu(Op.MAX, alu(Op.MIN, a[k + 2], b[k + 2]) - alu(Op.MAX, a[k], b[k]), zero) for k in (0, 1))
    high, wide = sides
    common = high * wide
    return common / (a[4] + b[4] - common)
