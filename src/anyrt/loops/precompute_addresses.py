"""Precompute addresses: vector loops that read positions of a small slope take from tables what can be known
beforehand, where each vector begins to read, and how far from there each lane's element lies.

Whole registers are read from there on. So near the end of the operand, where they would reach beyond it, the
loop that finds out by itself takes over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce

from anyrt.core.dims import Dim, add, always_le, depends, linear, mul, symbols
from anyrt.ir.buffer import BITS, LANES, Buffer
from anyrt.ir.kernel import Fetch, Fold, For, If, Kernel, Load, Loop, Op, Stmt, Store, alu, index
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import substituted
from anyrt.loops.nest import changed, loads_of
from anyrt.loops.tables import ADDRESSED_GROUP, LEAST, Table, Tables

BYTE = 8  # bits


def precompute_addresses(kernel: Kernel, tables: Tables, common: bool = True) -> Kernel | Fail:
    """The kernel, vector loops in two versions where positions in tables allow it. `common`: all taps of
    bytes begin to read at one place, since one register holds what they read."""
    return changed(
        kernel, _body(kernel.body, tables, common), "no long vector loop reads ascending positions"
    )


def _body(body: Iterable[Stmt], tables: Tables, common: bool) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case For(kind=Loop.VECTOR):
                out += _versions(stmt, tables, common)
            case For(body=inner) | If(body=inner):
                out.append(replace(stmt, body=_body(inner, tables, common)))
            case _:
                out.append(stmt)
    return tuple(out)


def _versions(loop: For, tables: Tables, common: bool) -> list[Stmt]:
    plain = all(isinstance(s, Store | Fold | Fetch) for s in loop.body)
    if not plain or always_le(loop.var.extent or 0, LANES - 1):
        return [loop]
    reads = list(_reads(loop, tables))
    never = {positions for x, positions, _, end in reads if always_le(add(x.buffer.entries, 1), end)}
    swap: dict[Buffer, Buffer] = {}
    ends: dict[tuple[Dim, Dim], None] = {}
    for x, positions, table, end in reads:
        if positions not in never:
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
    """(what lanes read at positions that have a slope, these, their table, an index beyond every register of
    that)."""
    for x in loads_of(loop.body):
        for sym in sorted(symbols(x.index), key=lambda s: s.name):
            entry, moved = sym.source, linear(x.index, sym)
            if not isinstance(entry, Load) or not entry.buffer.slope or moved is None:
                continue
            step, along, table = moved[0], linear(entry.index, loop.var), tables.of(entry.buffer)
            if table is None or table.group > ADDRESSED_GROUP or not isinstance(step, int) or step < 1:
                continue
            if along is not None and along[0] == 1 and not depends(moved[1], loop.var):
                reach = mul(mul(table.n_in, table.group), step)
                yield x, entry.buffer, table, add(add(moved[1], reach), LEAST)
