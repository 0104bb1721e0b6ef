"""Loop versioning: vector loops that read at positions from a table, in versions for tables whose neighbours
are close together.

    vector i: 0 … m                       if n <= 2m:
      y[i] = x[pos[i]]         ->           vector i: 0 … m
                                              y[i] = x[pos.2[i]]
                                          if not n <= 2m:
                                            vector i: 0 … m
                                              y[i] = x[pos[i]]

Upsampling, and downsampling by a small factor, reads only a few registers of memory for a whole vector of
output positions: loading those and permuting lanes is several times faster than gathering. If sizes are
dynamic, the loop is written for each class of table, with the test in front of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce

from anyrt.core.dims import Sym, add, always_le, linear, symbols
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.kernel import Expr, Fetch, Fold, For, If, Kernel, Load, Loop, Op, Stmt, Store, alu, index
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import leaves, loops
from anyrt.ir.visit import substituted
from anyrt.loops.nest import changed, changed_in, is_few, loads_of
from anyrt.loops.tables import LEAST, SLOPES, Table, Tables


def version(kernel: Kernel, tables: Tables) -> Kernel | Fail:
    """Every nest around a vector loop, in versions for the classes of the tables that the loop reads; other
    loops use a class only if all sizes imply it."""
    body = changed_in(kernel.body, lambda s: _versions(s, tables))
    return changed(kernel, body, "no vector loop follows a table of a class")


def _versions(stmt: Stmt, tables: Tables) -> Sequence[Stmt] | None:
    loop = _vector_loop(stmt)
    if loop is not None:
        return _nest(stmt, loop, tables)
    holds = isinstance(stmt, If) or (isinstance(stmt, For) and stmt.kind is not Loop.VECTOR)
    return None if holds else (_settled(stmt, tables),)


def _settled(stmt: Stmt, tables: Tables) -> Stmt:
    """A statement that is written once, reading tables of the classes that are certain."""
    read: dict[Table, list[Buffer]] = {}
    for x in loads_of(leaves((stmt,))):
        for sym in symbols(x.index):
            table = _table(sym, tables)
            if table is not None:
                read.setdefault(table, []).append(x.buffer)
    for table, buffers in read.items():
        slope, tests = next(_classes([table], buffers), (0, []))
        if slope and not tests:
            (stmt,) = _with(stmt, [table], slope)
    return stmt


def _vector_loop(stmt: Stmt) -> For | None:
    """The vector loop at the end of a chain of serial loops, over statements without loops but tiles."""
    match stmt:
        case For(kind=Loop.SERIAL, body=(inner,)):
            return _vector_loop(inner)
        case For(kind=Loop.VECTOR, body=body) if all(is_few(s.var) for s in loops(body)):
            # Larger tiles read along their own axis.
            return stmt if all(isinstance(s, Store | Fold | Fetch) for s in leaves(body)) else None
    return None


def _nest(stmt: Stmt, loop: For, tables: Tables) -> Sequence[Stmt]:
    followed = ((x, _followed(x, loop.var, tables)) for x in loads_of(leaves(loop.body)))
    reads = [(x, t) for x, t in followed if t is not None]
    if not reads:
        return (stmt,)
    buffers = dict.fromkeys(x.buffer for x, _ in reads)
    used = {t.positions.name: t for _, t in reads}
    out: list[Stmt] = []
    before: Expr | None = None
    for slope, tests in _classes(used.values(), buffers):
        if not tests:  # nor a class after one that always holds
            last = _with(stmt, used.values(), slope)
            return last if before is None else (*out, _guarded(None, before, last))
        here = reduce(lambda a, b: alu(Op.AND, a, b), tests)
        out += [_guarded(here, before, _with(stmt, used.values(), slope))]
        before = here if before is None else alu(Op.OR, before, here)
    far = (stmt,)
    return far if before is None else (*out, _guarded(None, before, far))


def _followed(x: Load, widened: Sym, tables: Tables) -> Table | None:
    """The table whose entries the lanes of `x` follow one for one."""
    for sym in sorted(symbols(x.index), key=lambda s: s.name):
        if isinstance(sym.source, Load) and sym.source.buffer.space is Space.TABLE:
            moved = linear(sym.source.index, widened)
            if moved is not None and moved[0] == 1:
                return _table(sym, tables)
    return None


def _table(sym: Sym, tables: Tables) -> Table | None:
    """The ascending table that a position comes from."""
    if not isinstance(sym.source, Load) or sym.source.buffer.space is not Space.TABLE:
        return None
    table = tables.of(sym.source.buffer)
    return None if table is None or not table.ascends else table


def _classes(tables: Collection[Table], buffers: Collection[Buffer]) -> Iterator[tuple[int, list[Expr]]]:
    """The classes that may hold, and first, at some sizes: each with the remaining test, which is worth a
    version for some of them."""
    earlier: list[frozenset[Expr]] = []
    for slope in range(1, SLOPES[-1] + 1):
        limits = [t.reach(slope) for t in tables] + [(LEAST, b.entries) for b in buffers]
        tests = [alu(Op.LE, index(a), index(b)) for a, b in limits if not always_le(a, b)]
        never = any(always_le(add(b, 1), a) for a, b in limits)
        if never or any(e.issubset(tests) for e in earlier) or (tests and slope not in SLOPES):
            continue
        earlier.append(frozenset(tests))
        yield slope, tests


def _guarded(here: Expr | None, before: Expr | None, body: tuple[Stmt, ...]) -> Stmt:
    """`body` if its own class holds and no earlier one."""
    if before is None:
        assert here is not None, "the first version has a condition"
        return If(here, body)
    other = alu(Op.NOT, before)
    return If(other if here is None else alu(Op.AND, here, other), body)


def _with(stmt: Stmt, tables: Iterable[Table], slope: int) -> tuple[Stmt, ...]:
    """The statement reading tables of another class."""
    swap = {
        t.positions: replace(t.positions, name=f"{t.positions.name}.{slope}", slope=slope) for t in tables
    }
    return substituted((stmt,), {}, swap)
