"""Contraction: a kernel that sums products, and computes with the sums.

Rows and lanes become tiles whose sums stay in registers (register_tile.py). How large these are follows from
the registers of the machine and from the sizes, so that little is wasted at their ends; an item holds as many
of them as share what the second cache keeps, and so few that all threads have some.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from anyrt.core.dims import Sym
from anyrt.core.machine import Machine
from anyrt.ir.buffer import BITS
from anyrt.ir.kernel import Alu, Cast, Expr, Kernel, Load
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import lanes_for
from anyrt.ir.visit import parts
from anyrt.loops.nest import stride
from anyrt.loops.register_tile import Product, Tiling, product_of, register_tile
from anyrt.schedule.strategies.common import COLLAPSE, NONTEMPORAL, VECTORISE, parallel
from anyrt.schedule.strategies.step import Context, Step, Strategy

LIGHT = 12  # instructions that are made of a sum in registers, where their text is there once for each row
COLLIDE = 1024  # elements: rows that lie a multiple of it apart meet in the same lines of the nearest cache
TILES, PANELS = 16, 8  # of an item, at most
ROWS = 4  # from which panels are worth copying
FAR = 3  # products that take as long as loading a vector from the second cache
WIDE = (1, 2, 4, 8)  # registers that a tile may be wide


@dataclass(frozen=True, slots=True)
class _Shape:
    """Rows × registers of a tile."""

    rows: int
    registers: int


def shapes(machine: Machine) -> tuple[_Shape, ...]:
    """The tiles that fit into registers beside the lanes of one term and a row's factor, tall ones first."""
    return tuple(_Shape((machine.registers - w - 1) // w, w) for w in WIDE if machine.registers > 2 * w)


def best_shape(rows: int, lanes: int, width: int, machine: Machine) -> _Shape:
    """The tile that computes so many rows × lanes in the least time: a term of it takes as long as its
    products, as its loads, or as the latency of a sum."""

    def time(shape: _Shape) -> float:
        tiles = -(-rows // shape.rows)
        tall, wide = -(-rows // tiles), shape.registers
        term = max(tall * wide, tall + FAR * wide, 2 * machine.costs.latency) + (tall + wide) / 16
        return tiles * -(-lanes // (wide * width)) * term

    return min(shapes(machine), key=time)


def is_tileable(kernel: Kernel) -> bool:
    """Whether the sums of a kernel can be kept in registers."""
    found = product_of(kernel)
    return isinstance(found, Product) and bool(found.rows or found.lanes)


def _tile(kernel: Kernel, c: Context) -> Kernel | Fail:
    found = product_of(kernel)
    if isinstance(found, Fail):
        return found
    oriented = [p for p in (found, found.turned) if p.lanes]
    choices = [(_score(p, v, c), p, v) for p in oriented for v in p.lanes]
    if not choices:
        return Fail("no loop moves one factor alone")
    _, p, lane = max(choices, key=lambda x: x[0])
    row = max(p.rows, key=c.estimate, default=None)
    tiling = _tiling(p, row, lane, c)
    tiled, items = register_tile(kernel, c.names, p, tiling)
    return parallel(tiled, c, items)


def _score(p: Product, lane: Sym, c: Context) -> tuple[int, int]:
    """How good a loop is for the lanes: stored side by side, read side by side, and long enough."""
    stored = all(stride(s.index, lane) == 1 for s in p.stores)
    loads = [x for x in parts([p.second], bound=False) if isinstance(x, Load)]
    read = all(stride(x.index, lane) == 1 for x in loads)
    long = c.estimate(lane) >= c.machine.lanes
    return 4 * long + 2 * stored + read, c.estimate(lane)


def _tiling(p: Product, row: Sym | None, lane: Sym, c: Context) -> Tiling:
    width = lanes_for(p.stores, c.machine.vector_bits)
    width = min(width, c.machine.vector_bits // BITS[p.sum.buffer.stored])
    rows, lanes = 1 if row is None else c.estimate(row), c.estimate(lane)
    shape = best_shape(rows, lanes, width, c.machine)
    if row is not None and not isinstance(row.extent, int):
        shape = best_shape(1 << 20, lanes, width, c.machine)
    plain = Tiling(row, lane, shape.rows, shape.registers, width, 1, 1)
    tiles, panels = -(-rows // shape.rows), -(-lanes // plain.panel)
    beside = prod(map(c.estimate, (*p.both, *(v for v in (*p.rows, *p.lanes) if v not in (row, lane)))))
    at_once, wide = _grain(tiles, panels, beside, c)
    stored = all(stride(s.index, lane) == 1 for s in p.stores)
    across = not stored and row is not None and all(stride(s.index, row) == 1 for s in p.stores)
    return replace(
        plain,
        tiles=at_once,
        panels=wide,
        copy_rows=panels > 1 and not _reads_well(p.first, p.summed, row),
        copy_lanes=tiles >= ROWS and not _side_by_side(p.second, lane, p.summed),
        apart=across or _weight(p) > LIGHT,
        across=across,
    )


def _grain(tiles: int, panels: int, beside: int, c: Context) -> tuple[int, int]:
    """Tiles and panels of an item: many, but not so many that threads have nothing to do."""
    at_once, wide = min(tiles, TILES), min(panels, PANELS)

    def items() -> int:
        return beside * -(-tiles // at_once) * -(-panels // wide)

    while items() < c.pieces.items and (at_once > 1 or wide > 1):
        if wide >= at_once:
            wide = -(-wide // 2)
        else:
            at_once = -(-at_once // 2)
    return at_once, wide


def _reads_well(x: Expr, summed: tuple[Sym, ...], row: Sym | None) -> bool:
    """True for one load of memory whose rows do not meet in the same lines of the nearest cache."""
    if not isinstance(x, Load):
        return False
    step = None if row is None else stride(x.index, row)
    return row is None or not (isinstance(step, int) and step != 0 and step % COLLIDE == 0)


def _side_by_side(x: Expr, lane: Sym, summed: tuple[Sym, ...]) -> bool:
    """True for one load of memory whose lanes lie side by side, with terms that are not each on a page of its
    own."""
    if not isinstance(x, Load) or stride(x.index, lane) != 1:
        return False
    steps = (stride(x.index, v) for v in summed)
    return all(isinstance(step, int) and step < COLLIDE // 4 for step in steps)


def _weight(p: Product) -> int:
    """Instructions that are made of a sum."""
    return sum(isinstance(x, Alu | Cast) for x in parts([s.value for s in p.stores], bound=False))


CONTRACTION: Strategy = (
    COLLAPSE,
    Step("register tile", _tile),
    VECTORISE,
    NONTEMPORAL,
)
