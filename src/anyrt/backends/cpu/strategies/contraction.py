"""Contraction: a kernel that sums products, with an epilogue.

Its loops are split into items, panels and tiles, whose sizes tile_choice.py selects. Operands that are slow
to read are packed, narrow terms become words for dot instructions, and the sums of a tile stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anyrt.backends.cpu import matrix, mmla
from anyrt.backends.cpu.intrinsics import BYTES, PAIRS, SHORTS, UNSIGNED, intrinsics
from anyrt.backends.cpu.strategies.common import COLLAPSE, NONTEMPORAL, VECTORISE, VERSION, parallel
from anyrt.backends.cpu.strategies.tile_choice import (
    FLOAT,
    choose,
    counts,
    holds_windows,
    ordered_sums,
    oriented,
    sums_blocks,
    sums_bytes,
    terms,
    words_of,
)
from anyrt.core.dims import Dim, Sym, add, floordiv, mul
from anyrt.core.dimvalues import substitute
from anyrt.core.machine import Machine
from anyrt.ir.buffer import Scalar, Space
from anyrt.ir.kernel import Kernel, Load, Store
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import dims_of
from anyrt.loops import upcoming
from anyrt.loops.accumulate import accumulate
from anyrt.loops.begin import begin
from anyrt.loops.cache_write import cache_write, cache_write_at, each_row
from anyrt.loops.codes import (
    Ahead,
    codes_in,
    factor_out,
    fill_words,
    make_smaller,
    smaller,
    sum_bytes,
    unpack,
    unpack_copies,
)
from anyrt.loops.dots import dots, dots_of_halves, finite, short_products, unsigned
from anyrt.loops.fuse_loops import fuse_loops
from anyrt.loops.multiply_out import multiply_out
from anyrt.loops.nest import around, moves, turn
from anyrt.loops.pack import pack_m, pack_n
from anyrt.loops.peel import Left, peel, specialize
from anyrt.loops.product import Product, Sums, factors_in, is_around, summed_in
from anyrt.loops.register_tile import Pack, Tile, Tiled, tiled
from anyrt.loops.reorder import reorder
from anyrt.loops.round_up import round_up
from anyrt.loops.split import several, split, split_within
from anyrt.loops.tensorize import overlap, tensorize
from anyrt.loops.whole_turns import whole_turns
from anyrt.loops.words import word
from anyrt.schedule.step import Context, Step, Strategy, Unmet, recipe

FEW = (4, 2, 1)  # rows of the smaller tiles for the remainder of a dynamic number
SUMS = 8  # registers, whose sums hide each other's latencies
TAPS = 5  # contiguous terms of a row, at most: their text is repeated for each
OFTEN = 8  # tiles that read a panel: with more of them, its origin does not matter
MOVING = (Space.INPUT, Space.ARENA)  # for rows from further away
AHEAD = 16  # terms between prefetching lanes and summing them, if these are far away
FOLLOWING = 16  # the part of the nearest cache that prefetched codes fill before they are read
SOON, LOW = 8, 12  # the same if a tile has few rows, and how many these are


# ---- steps --------------------------------------------------------------------------------------

Planned = Callable[[Kernel, Context, Tiled], Kernel | Fail]


def _choose(kernel: Kernel, c: Context) -> Tiled | Fail:
    tile = choose(kernel, c)
    return tile if isinstance(tile, Fail) else tiled(tile, c.names)


def _in(loop: Callable[[Tiled], Sym], apply: Planned) -> Planned:
    """The step, if this loop over rows of a tile contains only the one over its lanes."""

    def applied(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
        if not is_around(kernel, loop(plan), plan.n.j):
            return Fail("the loop over rows of a tile holds more than one over lanes")
        return apply(kernel, c, plan)

    return applied


def _multiply_out(kernel: Kernel, c: Context) -> Kernel | Fail:
    new = multiply_out(kernel, c.names, c.numbers, c.machine.has_fma)
    return new if isinstance(new, Fail) else parallel(new, c, len(around(new)[0]))


def _reorder_sums(kernel: Kernel, c: Context) -> Kernel | Fail:
    """The loops of the sum, with neighbours of the operand without lanes innermost."""
    p = oriented(kernel, c)
    return p if isinstance(p, Fail) else summed_in(kernel, ordered_sums(p))


def _order_factors(kernel: Kernel, c: Context) -> Kernel | Fail:
    """That of m first."""
    p = oriented(kernel, c)
    return p if isinstance(p, Fail) else factors_in(kernel, p.first, p.second)


def _fuse(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    fused = plan.tile.fused
    if fused is None:
        return Fail("m has enough iterations for a tile")
    return fuse_loops(kernel, fused.outer, fused.inner, fused.m)


def _split_m(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    loops = (*several((plan.m.chunk,)), plan.m.own)
    return split(kernel, plan.m.loop, loops, add(plan.m.begin, plan.m.own.dim))


def _split_n(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    """Into panels and the lanes of one; if these are all lanes, another loop's iterations are panels."""
    (lane, at), *cut = plan.n.at.items()
    loops = several((plan.n.many, plan.n.panel))
    new = split(kernel, lane, (*loops, plan.n.j) if not cut else (plan.n.j,), at)
    return new if not cut or isinstance(new, Fail) else split(new, cut[0][0], loops, cut[0][1])


def _reorder(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    """The loops around an item first, then those in it."""
    return reorder(kernel, plan.order)


def _begin(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    if plan.tile.is_whole:
        return Fail("tiles of matrices begin with zeros")
    return begin(kernel, plan.m.own)


def _words(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    words = plan.tile.words
    if words is None:
        outcome = words_of(plan.tile.product, plan.tile.m, plan.tile.n, c)
        return outcome if isinstance(outcome, Fail) else Fail("m moves the second factor, too")
    if words.split:
        return dots_of_halves(kernel, plan.m.own, PAIRS)
    return dots(kernel, c.names, plan.m.own, BYTES if words.dot.first is Scalar.U8 else words.dot)


def _short_products(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    if plan.tile.words is not None or SHORTS not in intrinsics(c.machine):
        return Fail("words are summed, or no instruction sums products of 16 bits")
    return short_products(kernel, plan.m.own, SHORTS)


def _sums_codes(plan: Tiled, machine: Machine) -> Fail | None:
    """Why sums have no codes: there are none, or they are decoded."""
    if not codes_in(plan.tile.product.second):
        return Fail("its second factor has no codes")
    if not sums_blocks(plan.tile, machine):
        return Fail("its codes are decoded once for many rows")
    return None


def _make_smaller(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    p = plan.tile.product
    if sums_bytes(p, c.machine):
        return Fail("its codes are summed as integers")
    return _sums_codes(plan, c.machine) or make_smaller(kernel, plan.m.own, smaller(p))


def _unpack(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    p = plan.tile.product
    if sums_bytes(p, c.machine):
        most, before = plan.tile.tiles * plan.m.size, plan.behind(plan.items)
        return sum_bytes(kernel, c.names, before, plan.m.own, most, UNSIGNED)
    if not fill_words(p.second):
        return Fail("its second factor has no codes in words")
    if plan.tile.pack_n is not Pack.NOTHING:
        return unpack_copies(kernel, c.names, p.summed[-1])
    return unpack(kernel, c.names, plan.m.own)


def _pack_m(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    if not plan.tile.pack_m:
        return Fail("its first factor is read in place")
    before, most = plan.behind(plan.items), plan.tile.tiles * plan.m.size
    return pack_m(kernel, c.names, before, plan.m.own, most, plan.tile.shape.width, _line(c), plan.deep)


def _pack_n(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    t, before = plan.tile, plan.behind(plan.items, plan.panels)
    if t.pack_n is Pack.NOTHING:
        return Fail("its second factor is read in place")
    each = (t.panels if plan.held else 1, plan.held)
    return pack_n(kernel, c.names, before, plan.m.own, t.shape.n, _line(c), plan.deep, each)


def _unsigned(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    words = plan.tile.words
    if words is None or words.dot.first is not Scalar.U8:
        return Fail("no instruction requires an unsigned factor")
    before = plan.behind(plan.items, plan.panels)
    panel = (plan.tile.shape.n, plan.tile.shape.registers)
    return unsigned(kernel, c.names, before, plan.m.own, plan.n.j, panel, words.dot)


def _cache_items(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    if not plan.is_together:
        return Fail("results are stored tile by tile")
    t, around = plan.tile, plan.behind(plan.items, plan.panels, plan.inside)
    return cache_write_at(
        kernel, c.names, around, plan.m.own, t.tiles * plan.m.size, t.shape.n, t.turns, _line(c)
    )


def _split_tiles(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    around = (*plan.held, plan.m.own)[0]
    value = add(mul(turn(plan.m.within), plan.m.size), plan.m.i.dim)
    return split_within(kernel, around, plan.m.own, several((plan.m.within,)), plan.m.i, value)


def _peel(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    """The last few of a dynamic remainder of rows may all repeat the last one, since fewer sums take as long;
    if tiles hold units, or results leave through scratch, they are summed unit by unit."""
    unit, size = plan.tile.unit, plan.m.size
    if plan.tile.is_whole:
        return Fail("its tiles are always whole")
    if unit == 1 and not plan.leaves_by_scratch:
        left = Left((min(size, max(1, SUMS // plan.tile.shape.registers)),), again=True)
    else:
        left = Left(tuple(dict.fromkeys(-(-few // unit) * unit for few in FEW)), again=False)
    return peel(kernel, c.names, plan.m.i, size, plan.m.first, plan.m.count, left)


def _specialize(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    if not plan.few:
        return Fail("its last panel needs as many registers as the others")
    return specialize(kernel, plan.m.i, plan.n.j, plan.n.whole, (plan.tile.shape.n, plan.n.last))


def _cache_tiles(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    if not plan.leaves_by_scratch or plan.is_together:
        return Fail("results are stored from registers, or from scratch together")
    t = plan.tile

    def pitch(lanes: Dim) -> int:
        return plan.registers(lanes) * t.shape.width

    new = cache_write(kernel, c.names, plan.m.i, plan.m.size, pitch, _line(c) if t.across else 0)
    if t.words is None or not t.words.split:
        return new
    factors = plan.product.at({plan.m.loop: add(plan.m.first, plan.m.i.dim)})
    return finite(new, c.names, plan.m.i, factors)


def _round_up(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    t = plan.tile
    if not t.is_whole:
        return Fail("its tiles have the size of the remainder")
    sizes, packed = (plan.m.size, t.shape.n), (t.pack_m, t.pack_n is not Pack.NOTHING)
    return round_up(kernel, c.names, plan.m.i, sizes, plan.deep, packed)


def _prefetch_results(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    """For tiles whose results go through the caches together."""
    t, stores, each = plan.tile, plan.product.stores, each_row(plan.tile.turns)
    if not plan.is_together or any(c.past_of(s.buffer).tiles != 0 for s in stores):
        return Fail("its results are not stored across memory, or past the caches")
    turns = dict.fromkeys([t.turns] if t.turns else [], 0)

    def at(sums: Sums) -> dict[Sym, Dim]:
        (store,) = sums.then
        assert isinstance(store, Store), "tiles leave sums in scratch"
        begin = substitute(store.index, {sums.row: 0, sums.lane: 0, **turns})
        return {plan.m.loop: add(plan.m.begin, floordiv(begin, each * t.shape.n)), **turns}

    return upcoming.prefetch_results(kernel, c.names, plan.m.i, stores, at, each, _line(c))


def _accumulate(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    beside = 1 if plan.leaves_by_scratch else plan.tile.beside
    return accumulate(kernel, c.names, plan.m.i, plan.registers, beside, _slides(plan.tile))


def _slides(t: Tile) -> bool:
    """True if operands that are widened as they are loaded, for each row and lane, may be windows with a few
    consecutive terms."""
    terms = t.product.summed[-1].extent
    return holds_windows(t.product, t.n) and isinstance(terms, int) and terms <= TAPS


def _factor_out(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    p, why = plan.tile.product, _sums_codes(plan, c.machine)
    if why is not None:
        return why
    small = None if sums_bytes(p, c.machine) else smaller(p)
    ahead = Ahead(c.machine.l1_bytes // FOLLOWING, c.machine.line_bytes)
    return factor_out(kernel, c.names, plan.n.j, small, ahead)


def _prefetch(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    """The prefetch of the next item, and of the lanes of later terms."""
    if codes_in(plan.tile.product.second):
        return Fail("codes are prefetched block by block")
    read = _as_read(kernel, plan, c)
    if isinstance(read, Fail):
        return read
    plan, t, p = read, read.tile, read.product
    tiles, more = counts(t, c)
    lanes = upcoming.next_panel(plan, _later(t, tiles, more), _line(c), c.names)
    rows = upcoming.next_rows(plan, c.names) if _has_runs(p) and not t.is_whole else None
    runs = [run.part(turn(plan.m.within)) for run in (lanes, rows) if run is not None]
    return upcoming.prefetch_terms(kernel, plan.m.i, runs, p.summed[-1], _ahead(t, c, tiles * more == 1))


def _as_read(kernel: Kernel, plan: Tiled, c: Context) -> Tiled | Fail:
    """The plan with the product as its sums read it: by words, if its terms are words."""
    words, p = plan.tile.words, plan.tile.product
    if words is None:
        return plan
    loaded = words.split or (plan.tile.is_whole and not c.machine.has_tiles)
    number = None if loaded else upcoming.term_around(kernel.body, plan.m.i)
    if number is None:
        return Fail("tiles of words are loaded as a whole")
    first, second = (word(x, p.summed[-1], number, words.parts) for x in (p.first, p.second))
    product = replace(p, first=first, second=second, summed=(*p.summed[:-1], number))
    return replace(plan, tile=replace(plan.tile, product=product))


def _ahead(t: Tile, c: Context, once: bool) -> int:
    """How many terms ahead lanes are prefetched: those from memory that are read once, those of low tiles,
    which finish before the second cache delivers the next ones, and those of panels that only that cache
    holds."""
    p = t.product
    if t.pack_n is Pack.ITEM:
        return AHEAD if FLOAT * t.shape.n * terms(p, c) > c.machine.l1_bytes else 0
    if t.pack_n is Pack.EACH or (t.m is not None and moves(dims_of(p.second), t.m)):
        return 0
    rows = 1 if t.m is None else c.estimate(t.m)
    tall = -(-rows // -(-rows // t.shape.m))
    return AHEAD if once else SOON if tall <= LOW and t.shape.registers > 1 else 0


def _later(t: Tile, tiles: int, more: int) -> int:
    """How many panels ahead constant lanes are prefetched to the second cache, if so few tiles read one that
    its latency matters. A single tile prefetches its own."""
    lanes = t.product.second
    constant = isinstance(lanes, Load) and lanes.buffer.space is Space.CONST
    few = 1 < tiles * more <= OFTEN and t.pack_n is Pack.NOTHING
    return (t.panels if t.tiles < tiles else 1) if constant and few else 0


def _has_runs(p: Product) -> bool:
    """True for rows of several runs of memory each, such as windows, which were computed before. The hardware
    prefetcher handles rows of one run."""
    return len(p.summed) > 1 and isinstance(p.first, Load) and p.first.buffer.space in MOVING


def _tensorize(kernel: Kernel, c: Context, tiled: Tiled) -> Kernel | Fail:
    if not tiled.tile.is_whole:
        return Fail("no instruction multiplies matrices of its words")
    by = matrix.intrinsic if c.machine.has_tiles else mmla.intrinsic
    new = tensorize(kernel, tiled.n.j, tiled.m.i, by)
    return Unmet(f"matrix tiles were selected: {new.reason}") if isinstance(new, Fail) else new


def _overlap(kernel: Kernel, c: Context, tiled: Tiled) -> Kernel | Fail:
    """The epilogue of a matrix tile, interleaved with the next one."""
    if not tiled.tile.is_whole:
        return Fail("no tiles are multiplied")
    return overlap(kernel, matrix.overlapped)


def _parallelise(kernel: Kernel, c: Context, plan: Tiled) -> Kernel | Fail:
    outer = around(kernel)[0][: len(plan.items)]
    if [v.name for v in outer] != [v.name for v in plan.items]:
        return Fail("its outermost loops are not those of its items")
    return parallel(kernel, c, len(outer))


def _line(c: Context) -> int:
    """Elements of a cache line: the contiguous side of squares that are transposed in registers."""
    return c.machine.line_bytes // FLOAT


def _own(tiled: Tiled) -> Sym:
    return tiled.m.own


def _i(tiled: Tiled) -> Sym:
    return tiled.m.i


CONTRACTION: Strategy = (
    Step("multiply out", _multiply_out),
    Step("whole turns", lambda kernel, c: whole_turns(kernel, c.names)),
    Step("reorder sums", _reorder_sums),
    COLLAPSE,
    Step("order factors", _order_factors),
    recipe(
        _choose,
        {
            "fuse loops": _fuse,
            "split m": _split_m,
            "split n": _split_n,
            "reorder loops": _reorder,
            "begin sums": _in(_own, _begin),
            "words": _in(_own, _words),
            "short products": _in(_own, _short_products),
            "make smaller": _in(_own, _make_smaller),
            "pack m": _in(_own, _pack_m),
            "pack n": _in(_own, _pack_n),
            "unpack codes": _in(_own, _unpack),
            "unsigned words": _in(_own, _unsigned),
            "cache write of items": _in(_own, _cache_items),
            "split tiles": _in(_own, _split_tiles),
            "peel": _in(_i, _peel),
            "specialize": _in(_i, _specialize),
            "cache write": _in(_i, _cache_tiles),
            "round up": _in(_i, _round_up),
            "prefetch results": _in(_i, _prefetch_results),
            "accumulate": _in(_i, _accumulate),
            "factor out": _factor_out,
            "prefetch terms": _prefetch,
            "parallelise items": _parallelise,
            "tensorize": _tensorize,
            "overlap": _overlap,
        },
    ),
    VECTORISE,
    VERSION,
    NONTEMPORAL,
)
