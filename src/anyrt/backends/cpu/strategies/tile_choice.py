"""Which tile a sum of products gets: a decision by price.

How many rows and registers a tile has follows from the registers of the machine and from the sizes, so that
little is wasted at their ends; an item holds as many tiles and panels as share what the second cache keeps,
and so few that all threads have some. What is dear to read in place is copied first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from anyrt.backends.cpu.strategies.words import (
    SIDE,
    WORTH,
    splits,
    stride_in_panel,
    takes_words,
    words_for,
)
from anyrt.core.dims import Dim, Sym, bounds, floordiv, mod, mul
from anyrt.core.machine import Machine
from anyrt.ir.buffer import BITS, Scalar, Space
from anyrt.ir.kernel import Expr, Kernel, Load
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import dims_of, lanes_for
from anyrt.ir.visit import parts
from anyrt.loops.nest import moves, stride
from anyrt.loops.product import Product, product_of
from anyrt.loops.register_tile import Tile, Words
from anyrt.loops.words import narrow
from anyrt.schedule.step import Context

FLOAT = BITS[Scalar.F32] // 8  # bytes
COLLIDE = 1024  # elements: rows that lie a multiple of it apart meet in the same lines of the nearest cache
WAYS = 10  # such rows that it holds beside lanes
TILES, PANELS = 16, 8  # of an item, at most
SHARE = 0.25  # of the second cache, what one of the things holds that are read again
HELD = 0.6  # of it, what panels hold that all items of some rows read again
LARGE = 0.125  # of it, what rows fill from which several panels are copied before all tiles
ROWS = 4  # from which panels are worth copying
COPIED = 4  # times as much is done at once where rows are made words, which other items do again
WORST = 16  # less than any other score of a loop for the lanes
FAR = 3  # products that take as long as loading a vector from the second cache
FULL = 0.9  # of the lanes of vectors, from which the rest is no matter
LONG = 28  # rows that fill tiles
MANY = 1 << 20  # rows or lanes, where their number is open
BESIDE = (2, 3, 4)  # results that may be stored together between two lanes
WIDE = (1, 2, 4, 8)  # registers that a tile may be wide


@dataclass(frozen=True, slots=True)
class _Shape:
    """Rows × registers of a tile."""

    rows: int
    registers: int


def shapes(machine: Machine) -> tuple[_Shape, ...]:
    """The tiles that fit into registers beside the lanes of one term and a row's factor, tall ones first."""
    return tuple(_Shape((machine.registers - w - 1) // w, w) for w in WIDE if machine.registers > 2 * w)


def best_shape(rows: int, lanes: int, width: int, machine: Machine, most: int = MANY) -> _Shape:
    """The tile that computes so many rows × lanes in the least time: a term of it takes as long as its
    products, as its loads, or as the latency of a sum. No more than `most` lanes."""

    def time(shape: _Shape) -> float:
        tiles = -(-rows // shape.rows)
        tall, wide = -(-rows // tiles), shape.registers
        term = max(tall * wide, tall + FAR * wide, 2 * machine.costs.latency) + tall / 16 + wide / 4
        return tiles * -(-lanes // (wide * width)) * term

    return min((s for s in shapes(machine) if s.registers * width <= most), key=time)


def is_tileable(kernel: Kernel, machine: Machine) -> bool:
    """Whether the sums of a kernel can be kept in registers."""
    found = product_of(kernel)
    sides = () if isinstance(found, Fail) else (found, found.turned)
    return any(
        _deep(p) or (p.lanes and (p.rows or any(_reads_lanes(p, v, machine) for v in p.lanes))) for p in sides
    )


def _reads_lanes(p: Product, lane: Sym, machine: Machine) -> bool:
    """True where the lanes of a loop lie side by side in memory."""
    loads = [x for x in parts([p.second], bound=False) if isinstance(x, Load)]
    return all(stride_in_panel(x.index, lane, machine.panel) in (1, _elements(x, p)) for x in loads)


def _elements(x: Load, p: Product) -> int:
    """From one lane to the next, where terms lie in words."""
    return BITS[Scalar.I32] // BITS[x.type] if narrow(p.second) is not None else 1


def choose(kernel: Kernel, c: Context) -> Tile | Fail:
    """The tile for a kernel of serial loops."""
    found = product_of(kernel)
    if isinstance(found, Fail):
        return found
    p, lane = _oriented(found, c)
    turned = p.first is not found.first
    row = max(p.rows, key=lambda v: (min(c.estimate(v), LONG), -_distance(p.first, v)), default=None)
    fused, beside = (None, 1) if row is None else _together(p, row, lane, c)
    unit = beside
    if fused is None and row is not None:
        fused, unit = _joined(p, row, c)
    if fused is not None:
        p, row = _fused(p, fused), fused[2]
    return replace(_tile(p, row, lane, unit, c), beside=beside, fused=fused, turned=turned)


def ordered_sums(kernel: Kernel, c: Context) -> tuple[Sym, ...] | Fail:
    """The loops of the sum, with neighbours of what has no lanes innermost."""
    found = product_of(kernel)
    if isinstance(found, Fail):
        return found
    p = _oriented(found, c)[0]
    return tuple(sorted(p.summed, key=lambda v: _distance(p.first, v), reverse=True))


def counts(t: Tile, c: Context) -> tuple[int, int]:
    """How many tiles of a panel there are, and turns of the other loops over rows."""
    return _parts(t.product, t, c)[0], _more_rows(t.product, t.row, c)


def _fused(p: Product, loops: tuple[Sym, Sym, Sym]) -> Product:
    """The product with two loops as one over rows, whose counter is taken apart."""
    outer, inner, row = loops
    values = {outer: floordiv(row.dim, inner.extent or 0), inner: mod(row.dim, inner.extent or 0)}
    both, rows, lanes = (tuple(v for v in of if v not in values) for of in (p.both, p.rows, p.lanes))
    return replace(p.at(values), both=both, rows=(*rows, row), lanes=lanes)


def _fuse(outer: Sym, inner: Sym, c: Context) -> tuple[Sym, Sym, Sym]:
    return outer, inner, c.names.var(mul(outer.extent or 0, inner.extent or 0), "m")


def _together(p: Product, row: Sym, lane: Sym, c: Context) -> tuple[tuple[Sym, Sym, Sym] | None, int]:
    """Rows to fuse with the few results that lie between two lanes, as where outputs of several kinds take
    turns, and how many these are: what a tile stores then is whole runs of memory."""
    found = _between(p, lane)
    if found is None or found is row or words_for(p, row, lane, c.estimate(row), c.machine):
        return None, 1
    assert isinstance(found.extent, int), f"loop {found} has a fixed extent"
    return _fuse(row, found, c), found.extent


def _joined(p: Product, row: Sym, c: Context) -> tuple[tuple[Sym, Sym, Sym] | None, int]:
    """Rows that are too few for a tile, to fuse with those of the loop around them, and how many of them
    belong together: tiles hold whole turns of that loop, so that their places are known beforehand."""
    around = max((v for v in p.rows if v is not row), key=lambda v: -_distance(p.first, v), default=None)
    if around is None or not isinstance(row.extent, int):
        return None, 1
    if 2 * row.extent > LONG and not splits(p, c.machine):
        return None, 1
    return _fuse(around, row, c), row.extent


def _tile(p: Product, row: Sym | None, lane: Sym, unit: int, c: Context) -> Tile:
    alike = lane not in p.both and not _moves(p.second, row)  # for all lanes and rows, the other factor is
    words = words_for(p, row, lane, _rows(row, c), c.machine) if alike else None
    plain = _sized(p, row, lane, unit, c, c.machine.panel if _divides(p.second, lane) else MANY)
    plain = _copied(p, plain, c) if words is None else _worded(plain, words)
    if words is None and _holds(p, plain, c):
        plain = replace(_sized(p, row, lane, unit, c, c.machine.panel), copy_lanes=True, held=True)
    across, turns = _across(p, row, lane, plain)
    plain = replace(plain, across=across or turns is not None, turns=turns)
    tiles, panels = _item(p, plain, words, c)
    return replace(plain, tiles=tiles, panels=panels)


def _between(p: Product, var: Sym) -> Sym | None:
    """The loop over few results side by side that fill what lies between two turns of `var`."""
    vars = (v for v in (*p.both, *p.rows, *p.lanes) if v is not var and v.extent in BESIDE)
    return next((v for v in vars if all(_fills(s.index, v, var) for s in p.stores)), None)


def _fills(at: Dim, inner: Sym, outer: Sym) -> bool:
    return stride(at, inner) == 1 and stride(at, outer) == inner.extent


def _distance(x: Expr, var: Sym) -> int:
    """Elements between what neighbouring turns of a loop read."""
    steps = [stride(at, var) for at in dims_of(x)]
    return max((abs(n) for n in steps if isinstance(n, int)), default=MANY)


def _oriented(found: Product, c: Context) -> tuple[Product, Sym]:
    """The product with its rows' factor first, and the loop for the lanes."""
    choices = [(_score(p, v, c), p, v) for p in (found, found.turned) for v in (*p.lanes, *_deep(p))]
    _, p, lane = max(choices, key=lambda x: x[0])
    return p, lane


def _deep(p: Product) -> tuple[Sym, ...]:
    """The batches that lie side by side in both factors, as the channels of a depthwise convolution."""
    reads = [x.index for x in parts([p.first, p.second], bound=False) if isinstance(x, Load)]
    return tuple(v for v in p.both if p.rows and all(stride(at, v) == 1 for at in reads))


def _score(p: Product, lane: Sym, c: Context) -> tuple[int, int]:
    """How good a loop is for the lanes: long enough, read side by side, and stored so. Few rows are better
    lanes than what is loaded as rows of words."""
    stored = all(stride(s.index, lane) == 1 for s in p.stores) or _between(p, lane) is not None
    read = _reads_lanes(p, lane, c.machine)
    lanes, width = c.estimate(lane), c.machine.lanes
    panel = width * min(2, -(-lanes // width))
    full = FULL * -(-lanes // panel) * panel <= lanes
    found = 4 * (lanes >= width) + 2 * read + 2 * full + stored
    few = max(map(c.estimate, p.rows), default=1) < WORTH
    return found - (WORST if few and not read and takes_words(p.turned, c.machine) else 0), lanes


def _sized(p: Product, row: Sym | None, lane: Sym, unit: int, c: Context, widest: int) -> Tile:
    """Tiles of the best shape, of no more than so many lanes, with nothing copied."""
    width = lanes_for(p.stores, c.machine.vector_bits)
    width = min(width, c.machine.vector_bits // BITS[p.sum.buffer.stored])
    known = row is None or isinstance(row.extent, int)
    most = _rows(row, c) if known or row is None else min(MANY, bounds(row.extent or 0)[1])
    shape = best_shape(most, c.estimate(lane), width, c.machine, widest)
    rows = min(shape.rows, WAYS) if _collides(p.first, row) else shape.rows
    return Tile(p, row, lane, max(1, rows // unit) * unit, shape.registers, width, unit=unit)


def _worded(plain: Tile, words: Words) -> Tile:
    """The tile for words of terms, of matrices where there are such."""
    made = replace(plain, words=words, copy_rows=words.copy_rows, copy_lanes=words.copy_lanes)
    if not words.matrix_rows:
        return made
    return replace(made, rows=words.matrix_rows, registers=SIDE // plain.width, unit=1)


def _copied(p: Product, plain: Tile, c: Context) -> Tile:
    """The tiling with what is dear to read in place copied first."""
    row, lane = plain.row, plain.lane
    (tiles, panels), rows, more = _parts(p, plain, c), _rows(row, c), _more_rows(p, row, c)
    far = plain.registers == 1 and _kept(rows * more * terms(p, c), c, 1) <= 1  # rows from the last cache
    in_place = far or _side_by_side(p.second, lane, p.summed, c.machine) or _moves(p.second, row)
    # Lanes that lie apart would be gathered for each row.
    worth = (tiles if _reads_lanes(p, lane, c.machine) else rows) * more >= ROWS or _is_turned(p, lane)
    copy_rows = lane not in p.both and panels > 1 and not isinstance(p.first, Load)
    return replace(plain, copy_rows=copy_rows, copy_lanes=worth and not in_place)


def _holds(p: Product, t: Tile, c: Context) -> bool:
    """Whether an item copies several panels before its tiles: where the rows' factor is too large to be read
    again for each panel."""
    stored = all(stride(s.index, t.lane) == 1 for s in p.stores)
    plain = stored and t.copy_lanes and not t.copy_rows and _cut(p, t, c) is None
    large = FLOAT * _rows(t.row, c) * terms(p, c) >= LARGE * c.machine.l2_bytes
    return plain and large and _more_rows(p, t.row, c) == 1


def _item(p: Product, t: Tile, words: Words | None, c: Context) -> tuple[int, int]:
    """Tiles and panels of an item."""
    tiles, panels = _parts(p, t, c)
    alone = t.copy_lanes and not t.copy_rows  # all rows of a panel are in one item
    rest = (v for v in (*p.both, *p.lanes) if v not in (t.lane, _cut(p, t, c)))
    beside = prod(map(c.estimate, rest)) * (1 if alone else _more_rows(p, t.row, c))
    own = terms(p, c) // (words.parts if words else 1)
    each = 1 if t.turns is None else c.estimate(t.turns)  # an item reads a panel for each of them
    held = _even(panels, _kept(t.panel * own * each, c, SHARE if t.turns else HELD))
    if t.held:  # all tiles, where that leaves enough items, so that each panel is copied once
        fewest = -(-c.pieces.items // (2 * beside))
        wide = min(held, max(1, panels // fewest))
        return -(-tiles // -(-fewest // -(-panels // wide))), wide
    most, items = tiles, c.pieces.items
    if words is not None and words.copy_rows:
        most, held = 2 * _kept(t.rows * own, c, SHARE), panels
        items //= COPIED if tiles <= most else COPIED // 2
    return _grain((tiles, min(tiles, most)), min(panels, held), beside, alone, items)


def _parts(p: Product, t: Tile, c: Context) -> tuple[int, int]:
    """How many tiles there are, and how many panels."""
    cut = _cut(p, t, c)
    panels = -(-c.estimate(t.lane) // t.panel) if cut is None else c.estimate(cut)
    return -(-_rows(t.row, c) // t.rows), panels


def _cut(p: Product, t: Tile, c: Context) -> Sym | None:
    """The loop whose turns are panels already."""
    others = [v for v in p.lanes if v is not t.lane]
    return others[-1] if others and c.estimate(t.lane) <= t.panel else None


def _rows(row: Sym | None, c: Context) -> int:
    return 1 if row is None else c.estimate(row)


def _more_rows(p: Product, row: Sym | None, c: Context) -> int:
    """Turns of the other loops over rows."""
    return prod(c.estimate(v) for v in p.rows if v is not row)


def terms(p: Product, c: Context) -> int:
    """Of a sum."""
    return prod(map(c.estimate, p.summed))


def _across(p: Product, row: Sym | None, lane: Sym, t: Tile) -> tuple[bool, Sym | None]:
    """Whether results lie side by side along rows, not lanes; else the loop that takes turns with rows."""
    if row is None or all(stride(s.index, lane) == 1 for s in p.stores):
        return False, None
    across = all(stride(s.index, row) == 1 for s in p.stores)
    return across, None if across else _taking_turns(p, row, t)


def _taking_turns(p: Product, row: Sym, t: Tile) -> Sym | None:
    """The loop over results that fill what lies between two rows, where no copies depend on it."""
    found = _between(p, row)
    plain = t.unit == 1 and t.beside == 1 and t.words is None and len(p.stores) == 1
    return found if plain and found in (*p.both, *p.lanes) and not t.copy_rows and not t.copy_lanes else None


def _moves(x: Expr, row: Sym | None) -> bool:
    return row is not None and moves(dims_of(x), row)


def _divides(x: Expr, lane: Sym) -> bool:
    """True where lanes lie in panels."""
    return any(stride(at, lane) is None for at in dims_of(x))


def _even(count: int, most: int) -> int:
    """At most so many at once, in parts as alike as they can be."""
    return -(-count // -(-count // most))


def _kept(elements: int, c: Context, share: float) -> int:
    """How many of so many elements a share of the second cache holds."""
    return max(1, int(share * c.machine.l2_bytes) // (FLOAT * max(1, elements)))


def _grain(tiles: tuple[int, int], panels: int, beside: int, alone: bool, most: int) -> tuple[int, int]:
    """Tiles and panels of an item: many, but not so many that threads have nothing to do; `alone`: one panel
    rather than fewer tiles; no more than `most` items. `tiles`: how many there are, and how many may be one
    item."""
    at_once, wide = min(tiles[1], TILES), min(panels, PANELS)

    def items() -> int:
        return beside * -(-tiles[0] // at_once) * -(-panels // wide)

    while items() < most and (at_once > 1 or wide > 1):
        if wide >= at_once or (alone and wide > 1):
            wide = -(-wide // 2)
        else:
            at_once = -(-at_once // 2)
    return at_once, wide


def _collides(x: Expr, row: Sym | None) -> bool:
    """True for one load of memory whose rows meet in the same lines of the nearest cache."""
    step = stride(x.index, row) if isinstance(x, Load) and row is not None else None
    return isinstance(step, int) and step != 0 and step % COLLIDE == 0


def _side_by_side(x: Expr, lane: Sym, summed: tuple[Sym, ...], machine: Machine) -> bool:
    """True for one load of memory whose lanes lie side by side, with terms that are not each on a page of its
    own."""
    if not isinstance(x, Load) or stride_in_panel(x.index, lane, machine.panel) != 1:
        return False
    steps = (stride(x.index, v) for v in summed)
    return x.buffer.space is Space.CONST or all(isinstance(n, int) and n < COLLIDE // 4 for n in steps)


def _is_turned(p: Product, lane: Sym) -> bool:
    """True where terms lie side by side and lanes do not: squares of them are transposed in registers faster
    than the lanes of each term are gathered."""
    reads = [x.index for x in parts([p.second], bound=False) if isinstance(x, Load)]
    last = p.summed[-1] if p.summed else None
    return last is not None and all(stride(at, last) == 1 != stride(at, lane) for at in reads)
