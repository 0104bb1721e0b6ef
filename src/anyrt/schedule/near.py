"""Vector loops that read at positions from a table: versions for tables whose neighbours lie close together.

Upsampling, and downsampling by a small factor, reads a few registers' worth of memory for a whole vector of
output positions: loading those and permuting lanes is several times faster than gathering. Where sizes are
open, the loop is written for each class of table, with the test in front of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import reduce

from anyrt.core.dims import Sym, add, always_le, linear, symbols
from anyrt.ir.kernel import Buffer, Expr, If, Load, Op, Space, Stmt, alu, index
from anyrt.ir.visit import substituted
from anyrt.prims.taps import Border
from anyrt.schedule.nest import Nest, loads_of
from anyrt.schedule.tables import NEAR, Table, Tables

LEAST = 256  # elements that a buffer must have to be read in whole registers near any of them


def variants(
    nest: Nest, widened: Sym, tables: Tables, make: Callable[[Nest], tuple[Stmt, ...]]
) -> tuple[Stmt, ...]:
    """`make(nest)`, in versions for the classes of the tables that the widened loop reads."""
    reads = [(x, t) for x in loads_of(nest.body) if (t := _followed(x, widened, tables)) is not None]
    if all(t.positions.near and always_le(LEAST, x.buffer.entries) for x, t in reads):
        return make(nest)
    buffers = dict.fromkeys(x.buffer for x, _ in reads)
    used = {t.positions.name: t for _, t in reads}
    out: list[Stmt] = []
    before: Expr | None = None
    for near, tests in _classes(used.values(), buffers):
        here = reduce(lambda a, b: alu(Op.AND, a, b), tests)
        out += [_guarded(here, before, make(_with(nest, used.values(), near)))]
        before = here if before is None else alu(Op.OR, before, here)
    far = make(_with(nest, used.values(), 0))
    return far if before is None else (*out, _guarded(None, before, far))


def _followed(x: Load, widened: Sym, tables: Tables) -> Table | None:
    """The table whose entries the lanes of `x` follow, when it does so one position for one."""
    for sym in sorted(symbols(x.index), key=lambda s: s.name):
        if isinstance(sym.source, Load) and sym.source.buffer.space is Space.TABLE:
            moved = linear(sym.source.index, widened)
            if moved is not None and moved[0] == 1:
                table = tables.of(sym.source.buffer)
                return None if table is None or isinstance(table.rule, Border) else table  # these may descend
    return None


def _classes(tables: Collection[Table], buffers: Collection[Buffer]) -> Iterator[tuple[int, list[Expr]]]:
    """The classes that may hold, and first, at some sizes: each with what is left to test."""
    earlier: list[frozenset[Expr]] = []
    for near in NEAR:
        asked = [t.reach(near) for t in tables] + [(LEAST, b.entries) for b in buffers]
        tests = [alu(Op.LE, index(a), index(b)) for a, b in asked if not always_le(a, b)]
        if any(always_le(add(b, 1), a) for a, b in asked) or any(e.issubset(tests) for e in earlier):
            continue
        earlier.append(frozenset(tests))
        yield near, tests


def _guarded(here: Expr | None, before: Expr | None, body: tuple[Stmt, ...]) -> Stmt:
    """`body` where its own class holds and no earlier one."""
    if before is None:
        assert here is not None, "the first version has a condition"
        return If(here, body)
    other = alu(Op.NOT, before)
    return If(other if here is None else alu(Op.AND, here, other), body)


def _with(nest: Nest, tables: Iterable[Table], near: int) -> Nest:
    """The nest reading tables of another class."""
    swap = {t.positions: replace(t.positions, name=f"{t.positions.name}.{near}", near=near) for t in tables}
    return Nest(nest.vars, substituted(nest.body, {}, swap))
