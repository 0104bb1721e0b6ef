"""Prefetch: a later row is requested while this one is computed.

A row is read from memory once and from a cache after that, while memory is idle: the hardware prefetcher
stops soon after the row ends. The second loop over a row therefore prefetches a later one, unless it stores
to memory, which is busy then.

    vector r: acc += x[64i + r]           vector r: acc += x[64i + r]
    vector r: sq += x[64i + r]²    ->     vector r: sq += x[64i + r]²; fetch x[64(i + 2) + r]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anyrt.core.dims import Dim, Sym, add, depends
from anyrt.core.dimvalues import substitute
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.kernel import Fetch, Fold, For, Kernel, Let, Loop, Stmt, Store
from anyrt.ir.rewrite import Fail
from anyrt.loops.nest import loads_of, stride

Row = tuple[Buffer, Dim]  # the buffer that is read, and the start


def prefetch(kernel: Kernel, rows: int, is_large: Callable[[Buffer], bool]) -> Kernel | Fail:
    """Prefetches the row `rows` iterations of the innermost parallel loop later, if one is folded for the
    second time; `is_large`: whether it exceeds a cache near the core."""
    lets = [s.var for s in kernel.body if isinstance(s, Let)]
    if not lets:
        return Fail("there are no rows")
    ahead = _Ahead(lets[-1], rows, is_large)
    body = ahead.body(kernel.body, {})
    return replace(kernel, body=body) if ahead.prefetched else Fail("no large row is folded twice")


@dataclass(slots=True)
class _Ahead:
    """Prefetches later rows, in loops over blocks of a row, too."""

    row: Sym
    rows: int
    is_large: Callable[[Buffer], bool]
    read: set[Row] = field(default_factory=set)
    prefetched: set[Row] = field(default_factory=set)

    def body(self, stmts: Sequence[Stmt], around: Mapping[Sym, Dim]) -> tuple[Stmt, ...]:
        """Statements in loops of the variables `around`, which are 0 where a row begins."""
        return tuple(self._loop(s, {**around, s.var: 0}) if isinstance(s, For) else s for s in stmts)

    def _loop(self, loop: For, around: Mapping[Sym, Dim]) -> For:
        if loop.kind is Loop.SERIAL:
            return replace(loop, body=self.body(loop.body, around))
        if loop.kind is not Loop.VECTOR:
            return loop
        rows = dict(self._rows_of(loop, around))
        again = [r for r in rows if r in self.read and r not in self.prefetched]
        self.read.update(rows)
        self.prefetched.update(again)
        if not all(map(_stays_near, loop.body)):
            return loop
        later = (Fetch(r[0], substitute(rows[r], {self.row: add(self.row.dim, self.rows)})) for r in again)
        return replace(loop, body=(*loop.body, *later))

    def _rows_of(self, loop: For, around: Mapping[Sym, Dim]) -> Iterator[tuple[Row, Dim]]:
        """A contiguous load of a row in a loop, and its index."""
        for x in loads_of(loop.body):
            far = x.buffer.space in (Space.INPUT, Space.ARENA) and self.is_large(x.buffer)
            if far and depends(x.index, self.row) and stride(x.index, loop.var) == 1:
                yield (x.buffer, substitute(x.index, around)), x.index


def _stays_near(stmt: Stmt) -> bool:
    return isinstance(stmt, Fold) or (isinstance(stmt, Store) and stmt.buffer.space is Space.SCRATCH)
