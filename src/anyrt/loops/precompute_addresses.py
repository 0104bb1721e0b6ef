"""Precompute addresses: vector loops that read positions of a small slope read from tables where each vector
begins, and the distance of each lane's element from there.

Whole registers are read from that start. Near the end of the operand, where they would reach beyond it, the
loop without tables is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

from anyrt.core.dims import Dim, Sym, add, always_le, depends, linear, mul, symbols
from anyrt.ir.buffer import BITS, LANES, Buffer
from anyrt.ir.kernel import Fetch, Fold, For, If, Kernel, Load, Loop, Op, Stmt, Store, alu, index
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import substituted
from anyrt.loops.nest import changed, changed_in, loads_of, stride
from anyrt.loops.tables import ADDRESSED_GROUP, LEAST, Table, Tables

BYTE = 8  # bits


def precompute_addresses(kernel: Kernel, tables: Tables, common: bool = True) -> Kernel | Fail:
    """The kernel with vector loops in two versions if positions in tables allow it. `common`: all taps of
    bytes have one start, since one register holds their elements."""

    def at(stmt: Stmt) -> list[Stmt] | None:
        is_vector = isinstance(stmt, For) and stmt.kind is Loop.VECTOR
        return _versions(stmt, tables, common) if isinstance(stmt, For) and is_vector else None

    body = changed_in(kernel.body, at)
    return changed(kernel, body, "no long vector loop reads ascending positions")


def _versions(loop: For, tables: Tables, common: bool) -> list[Stmt]:
    plain = all(isinstance(s, Store | Fold | Fetch) for s in loop.body)
    if not plain or always_le(loop.var.extent or 0, LANES - 1):
        return [loop]
    reads = list(_reads(loop, tables))
    never = {positions for x, positions, _, end in reads if always_le(add(x.buffer.entries, 1), end)}
    swap: dict[Buffer, Buffer] = {}
    ends: dict[tuple[Dim, Dim], None] = {}
    for x, positions, table, end in (read for read in reads if read[1] not in never):
        addresses = tables.addresses(table, common=common and BITS[x.buffer.stored] == BYTE)
        swap[positions] = replace(positions, name=f"{positions.name}.at", addresses=addresses)
        ends[end, x.buffer.entries] = None
    if not swap:
        return [loop]
    (fast,) = substituted([loop], {}, swap)
    tests = [alu(Op.LE, index(end), index(size)) for end, size in ends if not always_le(end, size)]
    if not tests:
        return [fast]
    inside = reduce(lambda a, b: alu(Op.AND, a, b), tests)
    return [If(inside, (fast,)), If(alu(Op.NOT, inside), (loop,))]


def _reads(loop: For, tables: Tables) -> Iterator[tuple[Load, Buffer, Table, Dim]]:
    """(the loads at positions that have a slope, these positions, their table, an index beyond every register
    of that)."""
    for x in loads_of(loop.body):
        for sym in sorted(symbols(x.index), key=lambda s: s.name):
            positions, moved = _followed(sym, loop), linear(x.index, sym)
            table = None if positions is None else tables.of(positions)
            if positions is None or table is None or table.group > ADDRESSED_GROUP or moved is None:
                continue
            step, begin = moved
            if isinstance(step, int) and step >= 1 and not depends(begin, loop.var):
                reach = mul(mul(table.n_in, table.group), step)
                yield x, positions, table, add(add(begin, reach), LEAST)


def _followed(sym: Sym, loop: For) -> Buffer | None:
    """The positions with a slope of which each lane reads the next one."""
    entry = sym.source
    follows = isinstance(entry, Load) and entry.buffer.slope and stride(entry.index, loop.var) == 1
    return entry.buffer if isinstance(entry, Load) and follows else None
