"""Short rows in batches: each of a row's loops runs for all rows of a batch before the next loop does.

A short row is over before its own latencies are: the adds of a sum, then a division, a square root. The same
loop over other rows does not wait for them. What one loop leaves for the next, sums and converted rows, lies
in the thread's scratch meanwhile, once for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from anyrt.core.dims import Dim, Sym, add, mul
from anyrt.ir.kernel import (
    BITS,
    Alloc,
    Buffer,
    Fold,
    For,
    If,
    Loop,
    Scalar,
    Space,
    Stmt,
    Store,
    load,
)
from anyrt.ir.statements import buffers_of, folds
from anyrt.ir.visit import Rewrite, substituted
from anyrt.schedule.elements import Reduction
from anyrt.schedule.nest import Names, loads_of

SHORT = 2048  # bytes of a row; longer ones gain more from running two at a time
MOST = 8  # rows of a batch
BATCH = 20480  # bytes that the loops of a batch read again: part of the cache nearest the core

Reserve = Callable[[str, Scalar, Dim], Buffer]
Apart = Callable[[Sequence[Sym], Dim], Sequence[Stmt]]


def rows_of_batch(reductions: Sequence[Reduction], extent: Callable[[Sym], int], body: Sequence[Stmt]) -> int:
    """How many rows to batch; 1 where a row is not that short."""
    read = sum(
        {
            x.buffer: prod(map(extent, r.vars)) * BITS[x.buffer.stored] // 8
            for r in reductions
            for x in loads_of([Fold(r.register, r.op, r.body)])
        }.values()
    )
    kept = [b.size * BITS[b.stored] // 8 for b in _kept(body) if isinstance(b.size, int)]
    if read > SHORT or len(kept) < len(_kept(body)):
        return 1
    return 1 << (max(1, min(MOST, BATCH // max(1, read + sum(kept)))).bit_length() - 1)


def batched(
    body: Sequence[Stmt], rows: Sequence[Sym], size: int, names: Names, reserve: Reserve, apart: Apart
) -> list[Stmt]:
    """`body`, which computes the row at `rows`, for `size` rows; `apart` sets symbols to those of a row."""
    batch = _Batch(size, reserve, {b: reserve("rows", b.stored, mul(b.size, size)) for b in _kept(body)})
    out: list[Stmt] = []
    for stage in _stages(body):
        row = names.var(size, "r")
        own = [names.var(v.extent or 0) for v in rows]
        moved = batch.stage(stage, row)
        values = {a: b.dim for a, b in zip(rows, own, strict=True)}
        inner = substituted(moved, values)
        out.append(For(row, Loop.SERIAL, (*apart(own, row.dim), *inner)))
    return out


def _kept(body: Sequence[Stmt]) -> list[Buffer]:
    """What a row keeps in scratch from one loop to the next."""
    return sorted((b for b in buffers_of(body) if b.space is Space.SCRATCH), key=lambda b: b.name)


def _stages(body: Sequence[Stmt]) -> Iterator[list[Stmt]]:
    """What comes before a loop, the loop (or its versions), and stores of what it folded."""
    stage: list[Stmt] = []
    for stmt in body:
        own = {s.buffer for s in stage if isinstance(s, Alloc)}
        more = isinstance(stmt, Store) or any(f.buffer in own for f in folds([stmt]))
        if not more and any(isinstance(s, For | If) for s in stage):
            yield stage
            stage = []
        stage.append(stmt)
    yield stage


@dataclass(slots=True)
class _Batch:
    """Where what one row left in registers and scratch lies for all rows of the batch."""

    size: int
    reserve: Reserve
    rows: dict[Buffer, Buffer]
    sums: dict[Buffer, Buffer] = field(default_factory=dict)

    def stage(self, body: Sequence[Stmt], row: Sym) -> list[Stmt]:
        """The statements of one stage for a row of the batch; registers are saved behind them."""
        sums = dict(self.sums)

        def place(buffer: Buffer, at: Dim) -> tuple[Buffer, Dim]:
            if buffer in sums:
                return sums[buffer], row.dim
            own = self.rows.get(buffer)
            return (buffer, at) if own is None else (own, add(at, mul(row.dim, buffer.size)))

        out = [*Rewrite(access=place, bound=False).body(body)]
        for register in [s.buffer for s in body if isinstance(s, Alloc)]:
            self.sums[register] = self.reserve("sum", register.stored, self.size)
            out.append(Store(self.sums[register], row.dim, load(register, 0)))
        return out
