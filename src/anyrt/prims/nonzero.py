"""The positions of elements that are not zero, in order.

>>> from anyrt.core.counts import count
>>> x, ends = np.array([[0, 5], [7, 0]]), np.array([2])
>>> NonZero(2, DataType.INT32).ref((x, ends, np.array(2)), (2, 2)).tolist()
[[0, 1], [1, 0]]

Threads share blocks of elements: the count at the end of each block is known, so each block writes its own
part. Positions in a block are appended without a branch, then split into indices. Blocks, and parts of
others, without nonzero elements are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from anyrt.core.dims import Dim, add, ceildiv, maximum, minimum, mul, product
from anyrt.core.enums import DataType
from anyrt.core.errors import DTypeError, ShapeError
from anyrt.ir.buffer import COMPUTED, Buffer, Scalar
from anyrt.ir.compute import Compute, Extern
from anyrt.ir.graph import Shape, Type
from anyrt.ir.kernel import (
    Alloc,
    Expr,
    Fold,
    For,
    If,
    Let,
    Loop,
    Op,
    Stmt,
    Store,
    alu,
    bound,
    cast,
    const,
    index,
    load,
    select,
)
from anyrt.ir.prim import Array, Making, Prim, Read
from anyrt.prims._check import check_type, expect, show
from anyrt.prims.scatter import unravelled

BLOCK: Final = 1 << 11  # elements
PART: Final = 1 << 6  # that are skipped together if all are zero
POSITIONS: Final = frozenset({DataType.INT32, DataType.INT64})
HIGH: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class NonZero(Prim):
    """The `count` indices of nonzero elements, one column each, of `dtype`. Operands: the elements; the
    number of nonzero elements up to the end of each `BLOCK` of them; and the total, which defines `count`
    (`Count`)."""

    count: Dim
    dtype: DataType

    def compute(self) -> Compute:
        """Statements for all of them."""
        return Extern((0,), behind=True)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """A row for each axis."""
        expect(args, 3, "nonzero")
        x, ends, count = args
        check_type(self.dtype, POSITIONS, "nonzero")
        if ends.dtype is not DataType.INT64 or count != Type((), DataType.INT64):
            raise DTypeError("AR202", "nonzero", f"{ends} and {count}", "counts of int64")
        if ends.shape != (blocks(x.shape),):
            got, wanted = f"{show(ends.shape)} counts for {show(x.shape)}", f"{blocks(x.shape)}"
            raise ShapeError("AR123", "nonzero", got=got, wanted=wanted)
        return Type((x.rank, self.count), self.dtype)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """NumPy's nonzero."""
        positions = np.array(np.nonzero(np.atleast_1d(args[0])))[: args[0].ndim]
        return positions.astype(np.int64 if self.dtype is DataType.INT64 else np.int32)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Never called: no element is computed by itself."""
        raise AssertionError(
            "the positions of nonzero elements are not one expression; it is written as statements"
        )

    def write(
        self, out: Type, args: tuple[Read, ...], item: tuple[Dim, ...], make: Making
    ) -> tuple[Stmt, ...]:
        """A block after the other, in any order."""
        x, ends, _ = args
        volume = product(x.type.shape)
        turn = make.var(blocks(x.type.shape))
        first = mul(turn.dim, BLOCK)
        held = maximum(0, minimum(BLOCK, add(volume, mul(first, -1))))
        before = select(index(turn.dim) < 1, 0, ends.at((maximum(0, add(turn.dim, -1)),)))
        some = before < ends.at((turn.dim,))
        body = self._block(out, x, make, first, held, before, ends.at((turn.dim,)))
        return (For(turn, Loop.SERIAL, (If(some, body),)),)

    def _block(
        self, out: Type, x: Read, make: Making, first: Dim, held: Dim, before: Expr, end: Expr
    ) -> tuple[Stmt, ...]:
        """Positions in a block, contiguous in scratch, then the indices of each."""
        places, behind = make.scratch(Scalar.I32, BLOCK + 1), make.register(Scalar.I32)
        most = minimum(BLOCK, self.count)
        start, count, part = (make.var(n) for n in (self.count, add(most, 1), ceildiv(held, PART)))
        part_body = self._part(x, make, first, mul(part.dim, PART), held, places, behind)
        step = make.var(count.dim)
        position = add(first, bound(load(places, step.dim), 0, BLOCK - 1, "place", held))
        column = add(start.dim, step.dim)
        rows = enumerate(unravelled(position, x.type.shape))
        stored = tuple(make.store((k, column), cast(index(d), COMPUTED[out.dtype])) for k, d in rows)
        return (
            Alloc(behind, const(0, Scalar.I32)),
            For(part, Loop.SERIAL, part_body),
            Let(start, bound(before, 0, HIGH, "start", self.count)),
            Let(count, bound(end - before, 0, BLOCK, "count", add(most, 1))),
            For(step, Loop.SERIAL, stored),
        )

    def _part(
        self, x: Read, make: Making, first: Dim, begin: Dim, held: Dim, places: Buffer, behind: Buffer
    ) -> tuple[Stmt, ...]:
        """Positions in a part of a block, unless there are none."""
        size = minimum(PART, add(held, mul(begin, -1)))
        look, lane, to = (make.var(n) for n in (size, size, BLOCK + 1))
        seen, place = make.register(Scalar.I32), add(begin, lane.dim)
        is_nonzero = self._is_some(x, add(first, add(begin, look.dim)))
        append = (
            Let(to, bound(load(behind, 0), 0, BLOCK, "to", BLOCK + 1)),
            Store(places, to.dim, cast(index(place), Scalar.I32)),
            Fold(behind, Op.ADD, self._is_some(x, add(first, place))),
        )
        return (
            Alloc(seen, const(0, Scalar.I32)),
            For(look, Loop.SERIAL, (Fold(seen, Op.ADD, is_nonzero),)),
            If(const(0, Scalar.I32) < load(seen, 0), (For(lane, Loop.SERIAL, append),)),
        )

    def _is_some(self, x: Read, at: Dim) -> Expr:
        """1 where an element is not zero."""
        element, kind = x.at(unravelled(at, x.type.shape)), COMPUTED[x.type.dtype]
        return cast(element if kind is Scalar.BOOL else alu(Op.NE, element, const(0, kind)), Scalar.I32)


def blocks(shape: Shape) -> Dim:
    """The number of blocks; at least one."""
    return maximum(1, ceildiv(product(shape), BLOCK))
