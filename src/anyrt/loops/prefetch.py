"""Prefetch: a later row is on its way while this one is computed.

A row is read from memory once and from a cache after that, and memory rests meanwhile: what a processor
fetches ahead by itself ends soon after the row does. So the second loop over a row asks for a later one,
unless it stores, but in scratch: then memory does not rest.

    vector r: acc += x[64i + r]           vector r: acc += x[64i + r]
    vector r: sq += x[64i + r]²    ->     vector r: sq += x[64i + r]²; fetch x[64(i + 2) + r]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from anyrt.core.dims import Dim, Sym, add, depends, substitute
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.kernel import Fetch, Fold, For, Kernel, Let, Loop, Stmt, Store
from anyrt.ir.rewrite import Fail
from anyrt.loops.nest import loads_of, stride

Row = tuple[Buffer, Dim]  # what is read, and from where on


def prefetch(kernel: Kernel, rows: int, is_large: Callable[[Buffer], bool]) -> Kernel | Fail:
    """The row `rows` turns of the innermost parallel loop further on, asked for where one is folded for the
    second time; `is_large`: more than a cache near the core holds."""
    lets = [s.var for s in kernel.body if isinstance(s, Let)]
    if not lets:
        return Fail("there are no rows")
    row, out, read, asked = lets[-1], list[Stmt](), set[Row](), set[Row]()
    for stmt in kernel.body:
        if isinstance(stmt, For) and stmt.kind is Loop.VECTOR:
            found = dict(_rows(stmt, row, is_large))
            again = [r for r in found if r in read and r not in asked]
            read.update(found)
            asked.update(again)
            if all(map(_stays_near, stmt.body)):
                later = (Fetch(r[0], substitute(found[r], {row: add(row.dim, rows)})) for r in again)
                stmt = replace(stmt, body=(*stmt.body, *later))
        out.append(stmt)
    return replace(kernel, body=tuple(out)) if asked else Fail("no large row is folded twice")


def _stays_near(stmt: Stmt) -> bool:
    return isinstance(stmt, Fold) or (isinstance(stmt, Store) and stmt.buffer.space is Space.SCRATCH)


def _rows(loop: For, row: Sym, is_large: Callable[[Buffer], bool]) -> Iterator[tuple[Row, Dim]]:
    """What a loop reads one by one of a row, and the index."""
    for x in loads_of(loop.body):
        outside = x.buffer.space in (Space.INPUT, Space.ARENA) and is_large(x.buffer)
        if outside and depends(x.index, row) and stride(x.index, loop.var) == 1:
            yield (x.buffer, substitute(x.index, {loop.var: 0})), x.index
