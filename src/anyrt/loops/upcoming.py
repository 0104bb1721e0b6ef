"""Upcoming: the operands of the next register tiles are prefetched while others are computed.

    for t: 0 … 4                                   for t: 0 … 4
      for k: 0 … 64                         ->       for k: 0 … 64
        acc[0 … 14] += x[14t + …, k] · w[k]            acc[0 … 14] += x[14t + …, k] · w[k]
                                                       fetch w's next panel[8·(64t + k)]

A sum reads a panel of lanes from end to end, and several rows side by side. A processor at full speed finds
data in the second cache in time, but not data that is further away, and does not detect that adjacent rows
are one contiguous range. One cache line per term is almost no work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from anyrt.core.dims import Dim, Sym, add, depends, mul
from anyrt.core.dimvalues import substitute
from anyrt.ir.buffer import Buffer
from anyrt.ir.kernel import Alu, Fetch, Fold, For, If, Kernel, Load, Loop, Stmt, Store
from anyrt.ir.rewrite import Fail
from anyrt.loops.nest import Names, at_loop, changed, flat, stride, turn
from anyrt.loops.product import Sums, at_sums
from anyrt.loops.register_tile import Tiled
from anyrt.loops.split import several
from anyrt.loops.words import counted


@dataclass(frozen=True, slots=True)
class Run:
    """A contiguous range that tiles prefetch in parts: from `start` on, `each` elements further with each of
    `terms`, which continue from tile to tile if there are `tiles`, and from panel to panel."""

    buffer: Buffer
    start: Dim
    each: int
    terms: tuple[Sym, ...]
    tiles: int = 0
    panel: Sym | None = None

    def part(self, tile: Dim) -> Fetch:
        """The cache line to prefetch with a term."""
        at, terms = flat(self.terms)
        panel = 0 if self.panel is None else mul(turn(self.panel), self.tiles)
        tiles = add(panel, tile) if self.tiles else 0
        return Fetch(self.buffer, add(self.start, mul(add(mul(tiles, terms), at), self.each)))


def term_around(body: Sequence[Stmt], row: Sym) -> Sym | None:
    """The loop over terms, or words of them, whose iterations sum products of all rows of a tile in
    vectors."""
    for loop in body:
        if isinstance(loop, For | If):
            inner = any(isinstance(s, For) and s.var.name == row.name for s in loop.body)
            if inner and isinstance(loop, For) and loop.kind is Loop.SERIAL:
                return loop.var
            if (term := term_around(loop.body, row)) is not None:
                return term
    return None


def prefetch_terms(kernel: Kernel, row: Sym, runs: Sequence[Fetch], term: Sym, ahead: int) -> Kernel | Fail:
    """The kernel that prefetches, with each term of the sums of tiles whose rows are called `row`, a part of
    each of `runs`, and the lanes that are `term` iterations ahead."""

    def change(loop: For) -> tuple[Stmt, ...]:
        if loop.kind is not Loop.UNROLL:  # its sums are not in vectors
            return (loop,)
        fold = loop.body[0]
        lanes = fold.value.args[1] if isinstance(fold, Fold) and isinstance(fold.value, Alu) else None
        if not ahead or not isinstance(lanes, Load):
            return loop, *runs
        later = substitute(lanes.index, {term: add(term.dim, ahead)})
        return loop, *runs, Fetch(lanes.buffer, later, nearest=True)

    return changed(kernel, at_loop(kernel.body, row, change), "all it reads is near by")


def prefetch_results(
    kernel: Kernel,
    names: Names,
    row: Sym,
    stores: Sequence[Store],
    at: Callable[[Sums], dict[Sym, Dim]],
    each: int,
    line: int,
) -> Kernel:
    """The kernel that prefetches the cache lines, of so many elements, of a tile's results, `each` per row:
    memory works while the tile is summed. `at`: the start of results, by the loops of `stores`."""

    def change(sums: Sums) -> tuple[Stmt, ...]:
        if not isinstance(sums.row.extent, int):  # they were not peeled
            return (sums.statement,)
        lane = names.var(sums.lane.extent or 0, "l")
        next = names.var(-(-sums.row.extent * each // line) * line, "z")
        begin = {**at(sums), sums.lane: lane.dim}
        lines = ((s.buffer, add(substitute(s.index, begin), next.dim)) for s in stores)
        fetches = tuple(Fetch(buffer, index, nearest=True) for buffer, index in lines)
        return For(lane, Loop.SERIAL, (For(next, Loop.VECTOR, fetches),)), sums.statement

    return at_sums(kernel, row, change)


def next_panel(t: Tiled, later: int, line: int, names: Names) -> Run | None:
    """The panel so many behind that of an item, if it is one contiguous range. `line`: elements of a cache
    line."""
    p, size, moving = t.product, t.tile.shape.n, t.n.many if t.n.panel.extent == 1 else t.n.panel
    tiles, lanes = _all_tiles(t), p.second
    if not later or not isinstance(lanes, Load) or tiles is None or size > tiles * line:
        return None
    one = names.var(flat(p.summed)[1], "k")
    at, step = counted(lanes.index, p.summed, one.dim), stride(lanes.index, moving)
    if at is None or stride(at, one) != size * lanes.elements or not isinstance(step, int):
        return None
    step = step // t.tile.panels if moving is t.n.many else step
    each = -(-size * lanes.elements // tiles)
    begin = substitute(lanes.index, dict.fromkeys((*p.summed, t.n.j), 0))
    if _moves_still(begin, (*p.summed, t.n.j, t.m.loop)):
        return None
    done = mul(mul(turn(t.m.chunk), t.tile.tiles), flat(p.summed)[1])
    return Run(lanes.buffer, add(begin, add(later * step, mul(done, each))), each, p.summed, t.tile.tiles)


def next_rows(t: Tiled, names: Names) -> Run | None:
    """The rows that the next item reads and this one does not, if they are one contiguous range for each of
    the terms that are further apart than items are."""
    p, m, all_tiles = t.product, t.m, _all_tiles(t)
    moving = several([*(v for v in p.m if v is not t.tile.m), m.chunk])
    if not moving or not p.summed or not isinstance(p.first, Load) or all_tiles is None:
        return None
    tile, i = names.var(all_tiles, "t"), names.var(m.size, "i")
    at = substitute(p.first.index, {m.loop: add(mul(tile.dim, m.size), i.dim)})
    step, tiles = _steps(at, (tile, i, *p.summed)), min(t.tile.tiles, all_tiles)
    far = _item_step(t, at, moving[-1], tile)
    if not step or step[p.summed[-1]] != p.first.elements or far <= 0:
        return None
    near = tuple(v for v in p.summed if step[v] <= far)
    own = p.first.elements + step[tile] * (tiles - 1) + sum(step[v] * (_turns(v) - 1) for v in (i, *near))
    begin = substitute(at, {**dict.fromkeys((i, *near), 0), tile: mul(turn(m.chunk), t.tile.tiles)})
    if _moves_still(begin, (*near, t.n.j, m.loop)):
        return None
    run = Run(p.first.buffer, add(begin, max(far, own)), 0, near)
    return _spread(run, min(far, own), tiles, t.n.panel)


def _item_step(t: Tiled, at: Dim, moving: Sym, tile: Sym) -> int:
    """The distance of an index from one item to the next, of which the loop `moving` is the innermost that it
    moves with; 0 if unknown. `tile` counts all tiles."""
    far = stride(at, tile if moving is t.m.chunk else moving)
    items = t.tile.tiles if moving is t.m.chunk else 1
    return far * items if isinstance(far, int) else 0


def _all_tiles(t: Tiled) -> int | None:
    """The tiles of all items; None for a dynamic number."""
    return -(-t.m.count // t.m.size) if isinstance(t.m.count, int) else None


def _spread(run: Run, count: int, tiles: int, panel: Sym) -> Run:
    """The elements of a range in parts, one for each term of all tiles and panels, unless there are more
    terms than elements."""
    turns = prod(map(_turns, run.terms))
    if turns * tiles <= count:
        turns, run = turns * tiles, replace(run, tiles=tiles)
        if isinstance(panel.extent, int) and turns * panel.extent <= count:
            turns, run = turns * panel.extent, replace(run, panel=panel)
    return replace(run, each=-(-count // turns))


def _moves_still(begin: Dim, vars: Sequence[Sym]) -> bool:
    """True if the start of a range moves with loops that it must not depend on: lanes that differ by row, as
    of a view with windows, or positions computed from a counter."""
    return any(depends(begin, v) for v in vars)


def _turns(var: Sym) -> int:
    assert isinstance(var.extent, int), f"loop {var} has a fixed extent"
    return var.extent


def _steps(at: Dim, vars: Sequence[Sym]) -> dict[Sym, int]:
    """The strides of an index with several loops of fixed extents; none if one is negative."""
    strides = {v: stride(at, v) for v in vars}
    forwards = {
        v: n for v, n in strides.items() if isinstance(n, int) and n >= 0 and isinstance(v.extent, int)
    }
    return forwards if len(forwards) == len(strides) else {}
