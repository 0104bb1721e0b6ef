"""Cache write: the sums of a tile are stored to the thread's scratch, and separate loops compute the
epilogue, once per tile or for all tiles of an item.

    for t: 0 … 4                               for t: 0 … 4
      for i: 0 … 14                              for i: 0 … 14
        for j: 0 … 32                   ->         for j: 0 … 32
          acc = …                                    acc = …
          y[32·(14t + i) + j] = f(acc)               tile[32i + j] = acc
                                                 for e: 0 … 14
                                                   vector j: y[32·(14t + e) + j] = f(tile[32e + j])

It is used for an epilogue that is expensive, since it would be written once for each row; and for results
that are stored across memory, along the rows then: in squares that are transposed in registers, since rows
are a panel apart in scratch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anyrt.core.dims import Dim, Sym, add, floordiv, mod, mul
from anyrt.ir.buffer import Buffer
from anyrt.ir.kernel import For, Kernel, Loop, Stmt, Store, load
from anyrt.ir.visit import Rewrite
from anyrt.loops.nest import Names, at_loop, reserve, serial
from anyrt.loops.product import Sums, at_sums, tile_sums
from anyrt.loops.split import pieces, several


def cache_write(
    kernel: Kernel, names: Names, row: Sym, most: int, line: Callable[[Dim], int], side: int
) -> Kernel:
    """Through scratch for each tile, whose rows are called `row`, at most `most` if their number is dynamic;
    each has a `line` for its lanes. `side`: the size of the squares in which the epilogue is transposed, if
    it is stored along the rows; 0 if it is stored along lanes."""
    bytes = kernel.scratch

    def change(sums: Sums) -> tuple[Stmt, ...]:
        nonlocal bytes
        rows, pitch = sums.row.extent or 0, line(sums.lane.extent or 0)
        size = (rows if isinstance(rows, int) else most) * pitch
        own, scratch = reserve(
            replace(kernel, scratch=bytes), names.name("tile"), sums.begin.buffer.stored, size
        )
        bytes, e = own.scratch, names.var(rows, "e")
        total = load(scratch, add(mul(e.dim, pitch), sums.lane.dim))
        then = sums.sum(sums.then, {sums.row: e.dim}, total)
        leaving = _leaving(sums, scratch, add(mul(sums.row.dim, pitch), sums.lane.dim))
        return leaving, *_stored(names, then, e, sums.lane, side)

    tiled = at_sums(kernel, row, change)
    return replace(tiled, scratch=bytes)


def cache_write_at(
    kernel: Kernel, names: Names, around: Sym, row: Sym, most: int, line: int, turns: Sym | None, side: int
) -> Kernel:
    """Through scratch for all iterations of the loops `around` and `row` within it, at most `most`, each with
    a `line` for its lanes; the epilogue is stored along the rows, in squares of `side`. Each row holds as
    many sums as the loop `turns` has iterations."""
    sums, n = tile_sums(kernel, row), each_row(turns)
    kernel, scratch = reserve(kernel, names.name("tiles"), sums.begin.value.type, most * n * line)
    place = add(mul(add(mul(sums.row.dim, n), turns.dim if turns else 0), line), sums.lane.dim)
    e = names.var(mul(sums.row.extent or 0, n), "e")
    at = {sums.row: floordiv(e.dim, n)} | ({turns: mod(e.dim, n)} if turns else {})
    then = sums.sum(sums.then, at, load(scratch, add(mul(e.dim, line), sums.lane.dim)))
    after = _stored(names, then, e, sums.lane, side)
    kernel = at_sums(kernel, row, lambda sums: (_leaving(sums, scratch, place),))
    return replace(kernel, body=at_loop(kernel.body, around, lambda loop: (loop, *after)))


def each_row(turns: Sym | None) -> int:
    """Sums of a row that are interleaved."""
    extent = turns.extent if turns else 1
    assert isinstance(extent, int), "those that take turns have a fixed number"
    return extent


def _leaving(sums: Sums, scratch: Buffer, place: Dim) -> For:
    return replace(sums, then=(Store(scratch, place, load(sums.begin.buffer, 0)),)).statement


def _stored(names: Names, stores: tuple[Stmt, ...], e: Sym, within: Sym, side: int) -> tuple[Stmt, ...]:
    """Loops over the epilogue."""
    if side and len(stores) == 1:
        block, lane, at = pieces(names, within.extent or 0, side, "j")
        moved = Rewrite({within: at}).body(stores)
        return serial(several((block,)), (For(e, Loop.VECTOR, (For(lane, Loop.TILE, moved),)),))
    loops = (within, e) if side else (e, within)
    return (For(loops[0], Loop.SERIAL, (For(loops[1], Loop.VECTOR, stores),)),)
