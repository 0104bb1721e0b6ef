"""Cache read, with a cast: rows of half types that several loops read are stored as float32 in the thread's
scratch by the first one, so that the others need not convert them again.

    vector r: acc += f32(x[r])            vector r: wide[r] = f32(x[r]); acc += f32(x[r])
    vector r: sq += f32(x[r])²     ->     vector r: sq += wide[r]²
    vector r: y[r] = f32(x[r]) …          vector r: y[r] = wide[r] …
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from anyrt.core.dims import Dim, Sym, substitute
from anyrt.ir.kernel import Buffer, Cast, Expr, Fold, For, Kernel, Load, Loop, Scalar, Stmt, Store, load
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import Rewrite, parts
from anyrt.loops.nest import Names, reserve, stride

HALVES = frozenset({Scalar.BF16, Scalar.F16})
PASSES = 3  # over a row, from which storing costs less than converting
MOST = 8192  # elements of a row: as float32 still in the cache nearest the core

Row = tuple[Buffer, Dim, int]  # what is read, from where on, and how many elements


def cache_read(kernel: Kernel, names: Names, most: int = MOST, passes: int = PASSES) -> Kernel | Fail:
    """Rows that at least `passes` loops convert, of at most `most` elements, converted by the first one."""
    found, readers = list(kernel.body), dict[Row, list[int]]()
    for n, stmt in enumerate(found):
        if isinstance(stmt, For) and stmt.kind is Loop.VECTOR:
            for row in dict.fromkeys(row for _, row in _conversions(stmt, most)):
                readers.setdefault(row, []).append(n)
    dear = {row: loops for row, loops in readers.items() if len(loops) >= passes}
    for row, (first, *later) in dear.items():
        kernel, wide = reserve(kernel, names.name("wide"), Scalar.F32, row[2])
        found[first] = _storing(found[first], row, wide)
        for n in later:
            found[n] = _reading(found[n], row, wide)
    return replace(kernel, body=tuple(found)) if dear else Fail(f"no row is converted by {passes} loops")


def _conversions(loop: For, most: int) -> Iterator[tuple[Expr, Row]]:
    """Elements of half types that a loop reads one by one, as float32."""
    for x in parts((s.value for s in loop.body if isinstance(s, Fold | Store)), bound=False):
        row = _row(x, loop.var, most)
        if row is not None:
            yield x, row


def _row(x: Expr, var: Sym, most: int) -> Row | None:
    match x:
        case Cast(arg=Load(buffer=buffer, index=at), type=Scalar.F32) if buffer.stored in HALVES:
            if isinstance(var.extent, int) and var.extent <= most and stride(at, var) == 1:
                return buffer, substitute(at, {var: 0}), var.extent
    return None


def _storing(stmt: Stmt, row: Row, wide: Buffer) -> Stmt:
    assert isinstance(stmt, For), "rows are read by loops"
    element = next(x for x, found in _conversions(stmt, row[2]) if found == row)
    return replace(stmt, body=(Store(wide, stmt.var.dim, element), *stmt.body))


def _reading(stmt: Stmt, row: Row, wide: Buffer) -> Stmt:
    assert isinstance(stmt, For), "rows are read by loops"
    done = {x: load(wide, stmt.var.dim) for x, found in _conversions(stmt, row[2]) if found == row}
    return Rewrite(rule=done.get, bound=False).stmt(stmt)
