"""Selects the tile of a sum of products by cost.

The rows and registers of a tile follow from the registers of the machine and from the sizes, so that little
is wasted at their ends. An item has as many tiles and panels as share the data that the second cache holds,
and so few that all threads have some. Operands that are slow to read in place are copied first.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from anyrt.backends.cpu.intrinsics import UNSIGNED, instruction_for
from anyrt.backends.cpu.strategies.words import (
    Worded,
    splits,
    stride_in_panel,
    takes_words,
    words_for,
)
from anyrt.core.dims import Dim, Sym, bounds, mul
from anyrt.core.machine import Machine
from anyrt.ir.buffer import BITS, Scalar, Space
from anyrt.ir.kernel import HALVES, Cast, Expr, Kernel, Load
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import dims_of, lanes_for
from anyrt.ir.visit import parts
from anyrt.loops.codes import codes_in, fill_words, rows_of_codes
from anyrt.loops.nest import moves, stride
from anyrt.loops.product import Product, product_of
from anyrt.loops.register_tile import Fused, Pack, Shape, Tile
from anyrt.loops.words import WORTH, narrow
from anyrt.schedule.step import Context

FLOAT = BITS[Scalar.F32] // 8  # bytes
COLLIDE = 1024  # elements: rows at a multiple of it map to the same sets of the nearest cache
WAYS = 10  # such rows that it holds beside lanes
TILES, PANELS = 16, 8  # of an item, at most
SHARE = 0.25  # of the second cache, for one of the operands that are read again
HELD = 0.6  # of it, for panels that all items of some rows read again
LARGE = 0.125  # of it, for rows that are read with several panels copied before all tiles
ROWS = 4  # panels from which copying pays
COPIED = 4  # times as much work per item if rows are made words, which other items repeat
WORST = 16  # less than any other score of a loop for the lanes
FAR = 3  # products that take as long as loading a vector from the second cache
FULL = 0.9  # of the lanes of vectors, from which the remainder does not matter
LONG = 28  # rows that fill tiles
MANY = 1 << 20  # rows or lanes, if their number is dynamic
BESIDE = (2, 3, 4)  # results that may be stored together between two lanes
AGAIN = 4  # tiles that extract codes from words, of which each does all: if that is a lookup in a register
LOOKED_UP = 512  # bits of that
CODED = 3  # registers for each of lanes: their word, and the extracted value, twice
WIDE = (1, 2, 4, 8)  # registers that a tile may be wide


def shapes(machine: Machine, width: int = 1) -> tuple[Shape, ...]:
    """The tiles, of vectors of so many lanes, that fit into registers beside the lanes of one term and the
    factor of a row, tall ones first."""
    return tuple(Shape((machine.registers - w - 1) // w, w, width) for w in WIDE if machine.registers > 2 * w)


def best_shape(rows: int, lanes: int, width: int, machine: Machine, most: int = MANY) -> Shape:
    """The tile that computes so many rows × lanes in the least time: a term of it takes as long as its
    products, its loads, or the latency of a sum. At most `most` lanes."""

    def time(shape: Shape) -> float:
        tiles = -(-rows // shape.m)
        tall, wide = -(-rows // tiles), shape.registers
        term = max(tall * wide, tall + FAR * wide, 2 * machine.costs.latency) + tall / 16 + wide / 4
        return tiles * -(-lanes // shape.n) * term

    return min((s for s in shapes(machine, width) if s.n <= most), key=time)


def is_tileable(kernel: Kernel, machine: Machine) -> bool:
    """Whether the sums of a kernel can be kept in registers."""
    product = product_of(kernel)
    sides = () if isinstance(product, Fail) else (product, product.turned)
    return any(_deep(p) or (p.n and (p.m or any(_reads_lanes(p, v, machine) for v in p.n))) for p in sides)


def _reads_lanes(p: Product, n: Sym, machine: Machine) -> bool:
    """True if the lanes of a loop are contiguous in memory."""
    loads = [x for x in parts([p.second], bound=False) if isinstance(x, Load)]
    return all(stride_in_panel(x.index, n, machine.panel) in (1, _elements(x, p)) for x in loads)


def _elements(x: Load, p: Product) -> int:
    """From one lane to the next, where terms lie in words."""
    in_words = narrow(p.second) is not None or fill_words(x) or rows_of_codes(p)
    return BITS[Scalar.I32] // BITS[x.type] if in_words else 1


def choose(kernel: Kernel, c: Context) -> Tile | Fail:
    """The tile for a kernel of serial loops, whose first factor m moves."""
    p = product_of(kernel)
    if isinstance(p, Fail):
        return p
    lanes = (*p.n, *_deep(p))
    if not lanes:
        return Fail("no loop moves its second factor")
    n = max(lanes, key=lambda v: _score(p, v, c))
    m = max(p.m, key=lambda v: (min(c.estimate(v), LONG), -_distance(p.first, v)), default=None)
    fused = None if m is None else _together(p, m, n, c) or _joined(p, m, c)
    return _tile(p, m, n, c) if fused is None else _tile(_fused(p, fused), fused.m, n, c, fused)


def oriented(kernel: Kernel, c: Context) -> Product | Fail:
    """The product of a kernel with the factor first that m moves."""
    product = product_of(kernel)
    if isinstance(product, Fail):
        return product
    choices = [(_score(p, v, c), p) for p in (product, product.turned) for v in (*p.n, *_deep(p))]
    return max(choices, key=lambda x: x[0])[1]


def ordered_sums(p: Product) -> tuple[Sym, ...]:
    """The loops of the sum, with neighbours of the operand without lanes innermost."""
    return tuple(sorted(p.summed, key=lambda v: _distance(p.first, v), reverse=True))


def counts(t: Tile, c: Context) -> tuple[int, int]:
    """The number of tiles of a panel, and iterations of the other loops over rows."""
    return _parts(t.product, t, c)[0], _more_rows(t.product, t.m, c)


def _fused(p: Product, fused: Fused) -> Product:
    """The product with two loops as one."""
    batch, m, n = (tuple(v for v in of if v not in fused.values) for of in (p.batch, p.m, p.n))
    return replace(p.at(fused.values), batch=batch, m=(*m, fused.m), n=n)


def _fuse(outer: Sym, inner: Sym, beside: bool, c: Context) -> Fused:
    return Fused(outer, inner, c.names.var(mul(outer.extent or 0, inner.extent or 0), "m"), beside)


def _together(p: Product, m: Sym, n: Sym, c: Context) -> Fused | None:
    """m fused with a loop over few results between two lanes, as when outputs of several kinds are
    interleaved: a tile then stores contiguous memory."""
    between = _between(p, n)
    if between is None or between is m or isinstance(words_of(p, m, n, c), Worded):
        return None
    return _fuse(m, between, True, c)


def _joined(p: Product, m: Sym, c: Context) -> Fused | None:
    """A loop with too few iterations for a tile, fused with the one around it that moves the same factor:
    tiles hold whole iterations of that loop, so that their positions are known."""
    around = max((v for v in p.m if v is not m), key=lambda v: -_distance(p.first, v), default=None)
    if around is None or not isinstance(m.extent, int):
        return None
    if 2 * m.extent > LONG and not splits(p, c.machine):
        return None
    return _fuse(around, m, False, c)


def _tile(p: Product, m: Sym | None, n: Sym, c: Context, fused: Fused | None = None) -> Tile:
    alike = n not in p.batch and not _moves(p.second, m)  # for all lanes and rows, the other factor is
    outcome = words_of(p, m, n, c)
    worded = outcome if alike and isinstance(outcome, Worded) else None
    unit = fused.unit if fused else 1
    shape = _shape(p, m, n, unit, c, c.machine.panel if _divides(p.second, n) else MANY)
    plain = _packed(p, Tile(p, m, n, shape, fused), worded, c)
    if worded is None and _holds(p, plain, c):
        plain = Tile(p, m, n, _shape(p, m, n, unit, c, c.machine.panel), fused, pack_n=Pack.ITEM)
    plain = replace(plain, across=_across(p, plain), shares=_shares(p, plain, c.machine))
    tiles, panels = _item(p, plain, c)
    return replace(plain, tiles=tiles, panels=panels)


def _packed(p: Product, plain: Tile, worded: Worded | None, c: Context) -> Tile:
    """The tile with the operands that are copied, or converted to words."""
    if codes_in(p.second):
        return _coded(p, plain, c)
    return _copied(p, plain, c) if worded is None else _worded(plain, worded)


def words_of(p: Product, m: Sym | None, n: Sym, c: Context) -> Worded | Fail:
    """How narrow factors are summed, or why they are not words."""
    return words_for(p, m, n, _rows(m, c), c.machine)


def _between(p: Product, var: Sym) -> Sym | None:
    """The loop over few contiguous results that fill the gap between two iterations of `var`."""
    vars = (v for v in (*p.batch, *p.m, *p.n) if v is not var and v.extent in BESIDE)
    return next((v for v in vars if all(_fills(s.index, v, var) for s in p.stores)), None)


def _fills(at: Dim, inner: Sym, outer: Sym) -> bool:
    return stride(at, inner) == 1 and stride(at, outer) == inner.extent


def _distance(x: Expr, var: Sym) -> int:
    """The distance in elements between neighbouring iterations of a loop."""
    steps = [stride(at, var) for at in dims_of(x)]
    return max((abs(n) for n in steps if isinstance(n, int)), default=MANY)


def _deep(p: Product) -> tuple[Sym, ...]:
    """The batches that are contiguous in both factors, such as the channels of a depthwise convolution."""
    reads = [x.index for x in parts([p.first, p.second], bound=False) if isinstance(x, Load)]
    return tuple(v for v in p.batch if p.m and all(stride(at, v) == 1 for at in reads))


def _score(p: Product, n: Sym, c: Context) -> tuple[int, int]:
    """The score of a loop for the lanes: long enough, contiguous where it is read and stored. Few rows are
    better lanes than the operand loaded as rows of words."""
    stored = all(stride(s.index, n) == 1 for s in p.stores) or _between(p, n) is not None
    read = _reads_lanes(p, n, c.machine)
    lanes, width = c.estimate(n), c.machine.lanes
    panel = width * min(2, -(-lanes // width))
    full = FULL * -(-lanes // panel) * panel <= lanes
    score = 4 * (lanes >= width) + 2 * read + 2 * full + stored
    few = max(map(c.estimate, p.m), default=1) < WORTH
    return score - (WORST if few and not read and takes_words(p.turned, c.machine) else 0), lanes


def _shape(p: Product, m: Sym | None, n: Sym, unit: int, c: Context, widest: int) -> Shape:
    """The best shape of at most so many lanes, if nothing is copied. If operands are widened as they are
    loaded, for each row and lane, the windows' common values stay in registers beside the sums, too."""
    width = lanes_for(p.stores, c.machine.vector_bits)
    width = min(width, c.machine.vector_bits // BITS[p.sum.buffer.stored])
    known = m is None or isinstance(m.extent, int)
    most = _rows(m, c) if known or m is None else min(MANY, bounds(m.extent or 0)[1])
    held = holds_windows(p, n)
    shape = best_shape(most, c.estimate(n), width, c.machine, width if held else widest)
    rows = min(shape.m, WAYS) if _collides(p.first, m) else shape.m
    rows = min(rows, c.machine.registers // 2 - 1) if held else rows
    return replace(shape, m=max(1, rows // unit) * unit)


def holds_windows(p: Product, n: Sym) -> bool:
    """Whether row operands are widened for each lane."""
    return n in p.batch and narrow(p.first) is not None


def _worded(plain: Tile, worded: Worded) -> Tile:
    """The tile for words of terms, of matrices if there are such."""
    packed, width = Pack.EACH if worded.pack_n else Pack.NOTHING, plain.shape.width
    shape = Shape(worded.rows, worded.lanes // width, width) if worded.rows else plain.shape
    return replace(plain, shape=shape, words=worded.words, pack_m=worded.pack_m, pack_n=packed)


def _coded(p: Product, plain: Tile, c: Context) -> Tile:
    """The tile for codes. With few rows, one tile extracts them from words, and keeps a block sum beside each
    sum; for more rows in one tile each weight is multiplied by its scale. If a few tiles extract codes again,
    they keep block sums, too: products are their bottleneck. For more rows still, decoded values are copied,
    so that they are computed once."""
    w, width = plain.shape.registers, plain.shape.width
    own, tall = _rows(plain.m, c), max(1, (c.machine.registers - CODED * w - 1) // w)
    rows, most = own * _more_rows(p, plain.m, c), _summed_rows(w, c.machine)
    if sums_bytes(p, c.machine):
        return replace(plain, shape=Shape(min(plain.shape.m, most), w, width))
    if rows <= most:
        return replace(plain, shape=Shape(min(plain.shape.m, most), w, width), pack_m=True)
    looks_up = c.machine.vector_bits >= LOOKED_UP
    if plain.unit == 1 and rows <= tall and (fill_words(p.second) or not looks_up):
        return replace(plain, shape=Shape(_even(own, tall), w, width), pack_m=True)
    if plain.unit == 1 and rows <= (AGAIN * most if looks_up else 0):
        return replace(plain, shape=Shape(_even(own, most), w, width), pack_m=True)
    return replace(plain, pack_n=Pack.EACH)


def _summed_rows(w: int, machine: Machine) -> int:
    """The rows of tiles, so many registers wide, that leave registers for block sums."""
    return max(1, (machine.registers - CODED * w) // (2 * w))


def sums_blocks(t: Tile, machine: Machine) -> bool:
    """Whether a tile has the sums of a block in registers, which its scale multiplies."""
    return t.pack_n is Pack.NOTHING and t.shape.m <= _summed_rows(t.shape.registers, machine)


def sums_bytes(p: Product, machine: Machine) -> bool:
    """Whether rows of codes are multiplied by codes in words as bytes."""
    return rows_of_codes(p) and instruction_for(UNSIGNED, machine) is not None


def _decodes(t: Tile) -> bool:
    """True if panels of decoded values are copied."""
    return t.pack_n is Pack.EACH and bool(codes_in(t.product.second))


def _copied(p: Product, plain: Tile, c: Context) -> Tile:
    """The tile with the operands copied that are slow to read in place."""
    m, n = plain.m, plain.n
    (tiles, panels), rows, more = _parts(p, plain, c), _rows(m, c), _more_rows(p, m, c)
    far = plain.shape.registers == 1 and _fitting(rows * more * terms(p, c), c, 1) <= 1  # from the last cache
    in_place = far or _side_by_side(p.second, n, p.summed, c.machine) or _moves(p.second, m)
    # Strided lanes would be gathered for each row.
    worth = (tiles if _reads_lanes(p, n, c.machine) else rows) * more >= ROWS or _is_turned(p, n)
    pack_m = n not in p.batch and panels > 1 and not isinstance(p.first, Load)
    return replace(plain, pack_m=pack_m, pack_n=Pack.EACH if worth and not in_place else Pack.NOTHING)


def _holds(p: Product, t: Tile, c: Context) -> bool:
    """Whether an item copies several panels before its tiles: if the rows' factor is too large to be read
    again for each panel."""
    stored = all(stride(s.index, t.n) == 1 for s in p.stores)
    plain = stored and t.pack_n is Pack.EACH and not t.pack_m and _cut(p, t, c) is None
    large = FLOAT * _rows(t.m, c) * terms(p, c) >= LARGE * c.machine.l2_bytes
    return plain and large and _more_rows(p, t.m, c) == 1


def _item(p: Product, t: Tile, c: Context) -> tuple[int, int]:
    """Tiles and panels of an item."""
    tiles, panels = _parts(p, t, c)
    alone = t.pack_n is not Pack.NOTHING and not t.pack_m  # all rows of a panel are in one item
    rest = (v for v in (*p.batch, *p.n) if v not in (t.n, _cut(p, t, c)))
    beside = prod(map(c.estimate, rest)) * (1 if alone else _more_rows(p, t.m, c))
    own = terms(p, c) // (t.words.parts if t.words else 1)
    each = 1 if t.turns is None else c.estimate(t.turns)  # an item reads a panel for each of them
    held = _even(panels, _fitting(t.shape.n * own * each, c, SHARE if t.turns else HELD))
    if t.pack_n is Pack.ITEM:  # all tiles, if that leaves enough items, so that each panel is copied once
        fewest = -(-c.pieces.items // (2 * beside))
        wide = min(held, max(1, panels // fewest))
        return -(-tiles // -(-fewest // -(-panels // wide))), wide
    if _decodes(t):  # as few items copy a panel as leave all threads one
        return -(-tiles // max(1, c.machine.cores // (panels * beside))), 1
    most, items = tiles, c.pieces.items
    if codes_in(p.second) and (t.pack_m or tiles == 1):  # the converted rows serve many panels
        held = panels
    if t.words is not None and t.pack_m:
        most, held = 2 * _fitting(t.shape.m * own, c, SHARE), panels
        items //= COPIED if tiles <= most else COPIED // 2
    return _grain((tiles, min(tiles, most)), min(panels, held), beside, alone, items)


def _parts(p: Product, t: Tile, c: Context) -> tuple[int, int]:
    """How many tiles there are, and how many panels."""
    cut = _cut(p, t, c)
    panels = -(-c.estimate(t.n) // t.shape.n) if cut is None else c.estimate(cut)
    return -(-_rows(t.m, c) // t.shape.m), panels


def _cut(p: Product, t: Tile, c: Context) -> Sym | None:
    """The loop whose iterations are panels already."""
    others = [v for v in p.n if v is not t.n]
    return others[-1] if others and c.estimate(t.n) <= t.shape.n else None


def _rows(m: Sym | None, c: Context) -> int:
    return 1 if m is None else c.estimate(m)


def _more_rows(p: Product, m: Sym | None, c: Context) -> int:
    """Turns of the other loops over rows."""
    return prod(c.estimate(v) for v in p.m if v is not m)


def terms(p: Product, c: Context) -> int:
    """Of a sum."""
    return prod(map(c.estimate, p.summed))


def _across(p: Product, t: Tile) -> tuple[Sym, ...]:
    """The loops along which results are contiguous, if these are others than n."""
    if t.m is None or all(stride(s.index, t.n) == 1 for s in p.stores):
        return ()
    if all(stride(s.index, t.m) == 1 for s in p.stores):
        return (t.m,)
    turns = _taking_turns(p, t.m, t)
    return (t.m, turns) if turns else ()


def _shares(p: Product, t: Tile, machine: Machine) -> bool:
    """Whether panels are less than a cache line of stored results, unless the second cache should hold a
    panel for all rows of a shared factor."""
    sizes = (t.shape.n * BITS[s.buffer.stored] // 8 for s in p.stores if stride(s.index, t.n) == 1)
    return t.n in p.batch and any(size < machine.line_bytes for size in sizes)


def _taking_turns(p: Product, m: Sym, t: Tile) -> Sym | None:
    """The loop over results between two iterations of m, if no copies depend on it."""
    between = _between(p, m)
    packed = t.pack_m or t.pack_n is not Pack.NOTHING
    plain = t.unit == 1 and t.words is None and len(p.stores) == 1 and not packed
    return between if plain and between in (*p.batch, *p.n) else None


def _moves(x: Expr, m: Sym | None) -> bool:
    return m is not None and moves(dims_of(x), m)


def _divides(x: Expr, n: Sym) -> bool:
    """True if lanes are in panels."""
    return any(stride(at, n) is None for at in dims_of(x))


def _even(count: int, most: int) -> int:
    """At most so many at once, in parts as equal as possible."""
    return -(-count // -(-count // most))


def _fitting(elements: int, c: Context, share: float) -> int:
    """How many of so many elements fit a share of the second cache."""
    return max(1, int(share * c.machine.l2_bytes) // (FLOAT * max(1, elements)))


def _grain(tiles: tuple[int, int], panels: int, beside: int, alone: bool, most: int) -> tuple[int, int]:
    """Tiles and panels of an item: many, but not so many that threads are idle; `alone`: one panel rather
    than fewer tiles; at most `most` items. `tiles`: how many there are, and how many may be one item."""
    at_once, wide = min(tiles[1], TILES), min(panels, PANELS)

    def items() -> int:
        return beside * -(-tiles[0] // at_once) * -(-panels // wide)

    while items() < most and (at_once > 1 or wide > 1):
        if wide >= at_once or (alone and wide > 1):
            wide = -(-wide // 2)
        else:
            at_once = -(-at_once // 2)
    return at_once, wide


def _collides(x: Expr, m: Sym | None) -> bool:
    """True for one load of memory whose rows map to the same sets of the nearest cache."""
    step = stride(x.index, m) if isinstance(x, Load) and m is not None else None
    return isinstance(step, int) and step != 0 and step % COLLIDE == 0


def _side_by_side(x: Expr, n: Sym, summed: tuple[Sym, ...], machine: Machine) -> bool:
    """True for one load of memory with contiguous lanes, and terms that are not each on a page of its own."""
    weights = isinstance(x, Cast) and isinstance(x.arg, Load) and x.arg.buffer.space is Space.CONST
    if isinstance(x, Cast) and weights and x.arg.type in HALVES and machine.has_rounding:
        x = x.arg  # widened in parallel with the products, by other units of the processor
    if not isinstance(x, Load) or stride_in_panel(x.index, n, machine.panel) != 1:
        return False
    steps = (stride(x.index, v) for v in summed)
    return x.buffer.space is Space.CONST or all(isinstance(n, int) and n < COLLIDE // 4 for n in steps)


def _is_turned(p: Product, n: Sym) -> bool:
    """True if terms are contiguous and lanes are not: squares of them are transposed in registers faster than
    the lanes of each term are gathered."""
    reads = [x.index for x in parts([p.second], bound=False) if isinstance(x, Load)]
    last = p.summed[-1] if p.summed else None
    return last is not None and all(stride(at, last) == 1 != stride(at, n) for at in reads)
