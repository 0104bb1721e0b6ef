"""The next row on its way while this one is computed.

A row is read from memory once and from a cache after that, and memory rests meanwhile: what a processor
fetches ahead by itself ends soon after the row does. So the second loop over a row asks for a later one,
unless it stores: then memory does not rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from anyrt.core.dims import Dim, Sym, add, depends, substitute
from anyrt.ir.kernel import BITS, Buffer, Fetch, Fold, For, Loop, Space, Stmt
from anyrt.schedule.cost import Sizes
from anyrt.schedule.nest import loads_of, stride

LEAST = 1 << 20  # bytes of a buffer: less lies in a cache near the core anyway

Row = tuple[Buffer, Dim]  # what is read, and from where on


def asking_ahead(body: Sequence[Stmt], row: Sym, rows: int, sizes: Sizes) -> list[Stmt]:
    """The statements of a row; where they fold it for the second time, they ask for the one that lies `rows`
    turns of `row` further on."""
    out, read, asked = list[Stmt](), set[Row](), set[Row]()
    for stmt in body:
        if isinstance(stmt, For) and stmt.kind is Loop.VECTOR:
            found = dict(_rows(stmt, row, sizes))
            again = [r for r in found if r in read and r not in asked]
            read.update(found)
            asked.update(again)
            if all(isinstance(s, Fold) for s in stmt.body):
                later = (Fetch(r[0], substitute(found[r], {row: add(row.dim, rows)})) for r in again)
                stmt = replace(stmt, body=(*stmt.body, *later))
        out.append(stmt)
    return out


def _rows(loop: For, row: Sym, sizes: Sizes) -> Iterator[tuple[Row, Dim]]:
    """What a loop reads one by one of a row, and the index."""
    for x in loads_of(loop.body):
        large = sizes.of(x.buffer.entries) * BITS[x.buffer.stored] >= 8 * LEAST
        outside = large and x.buffer.space in (Space.INPUT, Space.ARENA)
        if outside and depends(x.index, row) and stride(x.index, loop.var) == 1:
            yield (x.buffer, substitute(x.index, {loop.var: 0})), x.index
