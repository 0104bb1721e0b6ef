"""Rows of half types that several loops read: the first one stores them as float32 in the thread's scratch,
so that the others need not convert them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from anyrt.core.dims import Dim, Sym, substitute
from anyrt.ir.kernel import Buffer, Cast, Expr, Fold, For, Load, Loop, Scalar, Stmt, Store, load
from anyrt.ir.visit import Rewrite, parts
from anyrt.schedule.nest import stride

HALVES = frozenset({Scalar.BF16, Scalar.F16})
PASSES = 3  # over a row, from which storing costs less than converting
MOST = 8192  # elements of a row: as float32 still in the cache nearest the core

Reserve = Callable[[str, Scalar, Dim], Buffer]
Row = tuple[Buffer, Dim, int]  # what is read, from where on, and how many elements


def converted_once(body: Sequence[Stmt], reserve: Reserve) -> list[Stmt]:
    """The statements of a row, with its operands converted by the first loop that reads them."""
    found, readers = list(body), dict[Row, list[int]]()
    for n, stmt in enumerate(body):
        if isinstance(stmt, For) and stmt.kind is Loop.VECTOR:
            for row in dict.fromkeys(row for _, row in _conversions(stmt)):
                readers.setdefault(row, []).append(n)
    for row, (first, *later) in readers.items():
        if len(later) + 1 >= PASSES:
            wide = reserve("wide", Scalar.F32, row[2])
            found[first] = _storing(found[first], row, wide)
            for n in later:
                found[n] = _reading(found[n], row, wide)
    return found


def _conversions(loop: For) -> Iterator[tuple[Expr, Row]]:
    """Elements of half types that a loop reads one by one, as float32."""
    for x in parts((s.value for s in loop.body if isinstance(s, Fold | Store)), bound=False):
        row = _row(x, loop.var)
        if row is not None:
            yield x, row


def _row(x: Expr, var: Sym) -> Row | None:
    match x:
        case Cast(arg=Load(buffer=buffer, index=at), type=Scalar.F32) if buffer.stored in HALVES:
            if isinstance(var.extent, int) and var.extent <= MOST and stride(at, var) == 1:
                return buffer, substitute(at, {var: 0}), var.extent
    return None


def _storing(stmt: Stmt, row: Row, wide: Buffer) -> Stmt:
    assert isinstance(stmt, For), "rows are read by loops"
    element = next(x for x, found in _conversions(stmt) if found == row)
    return replace(stmt, body=(Store(wide, stmt.var.dim, element), *stmt.body))


def _reading(stmt: Stmt, row: Row, wide: Buffer) -> Stmt:
    assert isinstance(stmt, For), "rows are read by loops"
    done = {x: load(wide, stmt.var.dim) for x, found in _conversions(stmt) if found == row}
    return Rewrite(rule=done.get, bound=False).stmt(stmt)
