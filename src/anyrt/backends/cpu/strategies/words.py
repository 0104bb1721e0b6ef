"""How a sum of products uses dots: the instruction, and the operands that are copied to scratch as words.

Words (loops/words.py) whose terms are contiguous in memory are loaded from there, those of constants from
their panels (passes/pack_constants.py); all others are assembled in scratch. Matrix tiles are loaded from
memory, too, if a sum has whole tiles of words and no tile extends beyond the last row.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from anyrt.backends.cpu.intrinsics import BYTES, PAIRS, Grid, dot_for, intrinsics, tiles_for
from anyrt.core.dims import Dim, Sym, add, ceildiv, linear, mul, product
from anyrt.core.dimvalues import substitute
from anyrt.core.machine import Machine
from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Expr, Intrinsic, Load
from anyrt.ir.rewrite import Fail
from anyrt.loops.nest import stride
from anyrt.loops.product import Product
from anyrt.loops.register_tile import Words
from anyrt.loops.words import WORTH, counted, narrow, word
from anyrt.schedule.step import Unmet

NEARLY = 0.75  # of the rows of the tallest tile, from which padding one by a copy does not pay
MANY = 24  # rows from which float16 is worth splitting
BESIDE = 0.75  # instructions a row and word: two loads and one that joins them, of two rows and words
NONE = Fail("no instruction sums several of its terms")


@dataclass(frozen=True, slots=True)
class Worded:
    """The words of a tile, which factors are copied, and the `rows` and `lanes` of matrix tiles (0: there are
    none)."""

    words: Words
    pack_m: bool
    pack_n: bool
    rows: int = 0
    lanes: int = 0


def words_for(p: Product, m: Sym | None, n: Sym, rows: int, machine: Machine) -> Worded | Fail:
    """How narrow factors are summed, or why not: no instruction sums them, or (Unmet) the instruction is not
    applicable. `rows`: an estimate."""
    dot = _dot(p, machine)
    if isinstance(dot, Fail):
        return _split(m, rows, machine) if p.summed and splits(p, machine) else dot
    number = Sym("words", extent=(p.summed[-1].extent or 0) // dot.parts)
    first, second = (word(x, p.summed[-1], number, dot.parts) for x in (p.first, p.second))
    panels = isinstance(second, Load) and stride_in_panel(second.index, n, machine.panel) == second.elements
    few = rows < WORTH
    if not panels and few:
        return Unmet(f"words for {dot.name} are not worth making for {rows} rows")
    if dot not in intrinsics(machine) and not (panels and few):
        return NONE  # bytes are extracted from words faster than loaded across them, once
    plain = Worded(Words(dot), dot.first is Scalar.U8 or not isinstance(first, Load), not panels)
    tiles = tiles_for(dot, machine)
    if tiles is None:
        return plain
    grid, loops = tiles.grid, (*p.summed[:-1], number)
    lanes_lie = panels and _step(second, loops, grid.deep) == machine.panel * _elements(second)
    height = _height(m, rows, grid)
    rows_lie = _step(first, loops, grid.deep) == _elements(first) and _rows_lie(first, m, height)
    tall = height if rows_lie else _filled(m, rows, grid)
    words = prod(v.extent for v in loops if isinstance(v.extent, int))
    if not _pays(grid, rows, tall, words, machine):
        return plain
    return Worded(Words(dot, grid.deep), not rows_lie, not lanes_lie, tall, grid.wide(tall))


def _split(m: Sym | None, rows: int, machine: Machine) -> Worded | Fail:
    """Words of both parts of float16, for matrix tiles."""
    tiles = tiles_for(PAIRS, machine)
    assert tiles is not None, "float16 is split where there are tiles"
    if rows < MANY:
        return Unmet(f"{rows} rows of float16 are not worth splitting for {PAIRS.name}")
    tall = _filled(m, rows, tiles.grid)
    return Worded(Words(PAIRS, tiles.grid.deep, split=True), True, True, tall, tiles.grid.wide(tall))


def _pays(grid: Grid, rows: int, tall: int, words: int, machine: Machine) -> bool:
    """Whether tiles of so many rows take fewer instructions than dots of as many words. Both load the lanes,
    and rows; tiles interleave two words of each, and their sums go through scratch."""
    if grid.apart or not grid.fits(tall):
        return grid.apart
    lanes, tiles = grid.wide(tall) // machine.lanes, -(-rows // tall)
    dots = rows * (lanes + 1) + tiles * lanes
    tiled = tiles * tall * (lanes / 2 + BESIDE) + 2 * tiles * lanes
    return words * (dots - tiled) > tiles * tall * lanes * (machine.costs.store + 1)


def splits(p: Product, machine: Machine) -> bool:
    """True if matrix tiles sum factors that are split in two, which are always copied."""
    return machine.has_tiles and _types(p) == {Scalar.F16}


def takes_words(p: Product, machine: Machine) -> bool:
    """True if matrix tiles load the first factor's rows in place."""
    dot = _dot(p, machine)
    tiles = None if isinstance(dot, Fail) else tiles_for(dot, machine)
    if tiles is None:
        return False
    dot, deep = tiles.intrinsic, tiles.grid.deep
    number = Sym("words", extent=(p.summed[-1].extent or 0) // dot.parts)
    first = word(p.first, p.summed[-1], number, dot.parts)
    return _step(first, (*p.summed[:-1], number), deep) == _elements(first)


def _dot(p: Product, machine: Machine) -> Intrinsic | Fail:
    """The intrinsic that sums several products of narrow factors at once. That for bytes may pay even if the
    machine only compiles its definition."""
    types = _types(p)
    type = next(iter(types)) if len(types) == 1 else None
    own = None if type is None else dot_for(type, machine)
    dot = own or (BYTES if type is Scalar.I8 else None)
    last = p.summed[-1].extent if p.summed else None
    if dot is not None and isinstance(last, int) and last % dot.parts == 0:
        return dot
    terms = last if isinstance(last, int) else "an open number of"
    return Unmet(f"{terms} terms fill no words of {own.parts} for {own.name}") if own and p.summed else NONE


def _types(p: Product) -> set[Scalar | None]:
    return {narrow(p.first), narrow(p.second)}


def _elements(x: Expr) -> int:
    return x.elements if isinstance(x, Load) else 0


def _step(x: Expr, loops: tuple[Sym, ...], deep: int) -> Dim | None:
    """The distance from one word of a sum to the next, for operands that are loaded by whole tiles of words,
    so many at once; else None."""
    words = product(v.extent or 0 for v in loops)
    counter = Sym("counter", extent=words)
    at = counted(x.index, loops, counter.dim) if isinstance(x, Load) else None
    if at is None or not isinstance(words, int) or words % deep:
        return None
    return stride(at, counter)


def _rows_lie(x: Expr, m: Sym | None, height: int) -> bool:
    """True if rows are evenly spaced, in whole tiles."""
    if m is None:
        return True
    return bool(height) and isinstance(x, Load) and linear(x.index, m) is not None


def _height(m: Sym | None, rows: int, grid: Grid) -> int:
    """Rows of tiles that are all whole, 0 if there are none."""
    if m is None or not isinstance(m.extent, int):
        return int(m is None)
    tall = max((n for n in range(1, grid.rows + 1) if rows % n == 0 and grid.fits(n)), default=0)
    return tall if tall >= NEARLY * grid.rows or tall == rows else 0


def _filled(m: Sym | None, rows: int, grid: Grid) -> int:
    """Rows of tiles, as equal as possible, whose last one is padded."""
    if m is not None and not isinstance(m.extent, int):
        return grid.rows
    each = -(-rows // -(-rows // grid.rows))
    return each if grid.fits(each) else each + 1


def stride_in_panel(at: Dim, n: Sym, size: int) -> Dim | None:
    """The stride of an index with the lanes of a panel of so many; within it, the index of a packed constant
    has no divisions."""
    panel, within = Sym("panel", extent=ceildiv(n.extent or 0, size)), Sym("within", extent=size)
    return stride(substitute(at, {n: add(mul(panel.dim, size), within.dim)}), within)
