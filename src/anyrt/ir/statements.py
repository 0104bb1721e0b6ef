"""What the statements of a kernel hold: loops, stores, folds, expressions, buffers; how wide a loop over them
should be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from anyrt.core.dims import Dim, Sym, linear, substitute
from anyrt.ir.kernel import (
    BITS,
    Alloc,
    Alu,
    Buffer,
    Cast,
    Const,
    Expr,
    Fetch,
    Fold,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Scalar,
    Space,
    Stmt,
    Store,
    free_symbols,
    index,
    substitute_expr,
)


def loops(body: Iterable[Stmt]) -> Iterator[For]:
    """Every loop in `body`, inner ones included."""
    for stmt in body:
        if isinstance(stmt, For):
            yield stmt
        if isinstance(stmt, For | If):
            yield from loops(stmt.body)


def stores(body: Iterable[Stmt]) -> list[Store]:
    """Every store in `body`, nested loops included."""
    out: list[Store] = []
    for stmt in body:
        match stmt:
            case Store():
                out.append(stmt)
            case For(body=inner) | If(body=inner):
                out += stores(inner)
            case _:
                pass
    return out


def folds(body: Iterable[Stmt]) -> list[Fold]:
    """Every fold in `body`, nested loops included."""
    out: list[Fold] = []
    for stmt in body:
        match stmt:
            case Fold():
                out.append(stmt)
            case For(body=inner) | If(body=inner):
                out += folds(inner)
            case _:
                pass
    return out


def expressions(body: Iterable[Stmt]) -> list[Expr]:
    """Every expression that statements hold."""
    out: list[Expr] = []
    for stmt in body:
        match stmt:
            case For(body=inner):
                out += expressions(inner)
            case If(condition=condition, body=inner):
                out += [condition, *expressions(inner)]
            case Let(value=dim):
                out.append(index(dim))
            case Alloc(value=value) | Store(value=value) | Fold(value=value):
                out.append(value)
                if isinstance(stmt, Store):
                    out.append(index(stmt.index))
            case Fetch(index=at):
                out.append(index(at))
    return out


def parts(roots: Iterable[Expr]) -> list[Expr]:
    """Every expression below `roots`, each once, values behind bound symbols included, in an order that is
    the same in every run."""
    seen: dict[Expr, None] = {}
    todo = list(roots)
    while todo:
        x = todo.pop()
        if x in seen:
            continue
        seen[x] = None
        match x:
            case Alu(args=args):
                todo += args
            case Cast(arg=arg):
                todo.append(arg)
            case _:
                todo += behind(x)
    return list(seen)


def behind(x: Expr) -> list[Expr]:
    """The defining expressions of the bound symbols in an index."""
    from_symbols = (s.source for s in sorted(free_symbols(x), key=lambda s: s.name))
    return [s for s in from_symbols if isinstance(s, Index | Load | Alu | Cast)]


@lru_cache(maxsize=1 << 12)
def dims_of(x: Expr) -> tuple[Dim, ...]:
    """Every index in `x`, those behind bound symbols too, in an order that is the same in every run."""
    found = (e.dim if isinstance(e, Index) else e.index for e in parts([x]) if isinstance(e, Index | Load))
    return tuple(dict.fromkeys(found))


def buffers_of(body: Iterable[Stmt]) -> set[Buffer]:
    """Every buffer that statements touch."""
    out = {x.buffer for x in parts(expressions(body)) if isinstance(x, Load)}
    for stmt in body:
        match stmt:
            case For(body=inner) | If(body=inner):
                out |= buffers_of(inner)
            case Store(buffer=b) | Fold(buffer=b) | Alloc(buffer=b) | Fetch(buffer=b):
                out.add(b)
            case _:
                pass
    return out.union(*((b.places.starts, b.places.offsets) for b in out if b.places is not None))


def substitute_stmt(
    stmt: Stmt, values: Mapping[Sym, Dim], buffers: Mapping[Buffer, Buffer] | None = None
) -> Stmt:
    """`stmt` with symbols (and buffers) replaced."""
    swap = buffers or {}

    def expr(x: Expr) -> Expr:
        return substitute_expr(x, values, buffers)

    match stmt:
        case Store(buffer=b, index=at, value=value):
            return Store(swap.get(b, b), _at(expr(index(at))), expr(value))
        case Fold(buffer=b, op=op, value=value):
            return Fold(swap.get(b, b), op, expr(value))
        case Alloc(buffer=b, value=value):
            return Alloc(swap.get(b, b), expr(value))
        case For(var=var, kind=kind, body=body):
            new = Sym(var.name, extent=substitute(var.extent or 0, values))
            inner = {**values, var: new.dim}
            return For(new, kind, tuple(substitute_stmt(s, inner, buffers) for s in body))
        case If(condition=condition, body=body):
            return If(expr(condition), tuple(substitute_stmt(s, values, buffers) for s in body))
        case Fetch(buffer=b, index=at):
            return Fetch(swap.get(b, b), substitute(at, values))
        case Let(var=var, value=value):
            return Let(var, substitute(value, values))


def _at(x: Expr) -> Dim:
    if isinstance(x, Index):
        return x.dim
    assert isinstance(x, Const), f"an index became {x!r}"
    return int(x.value)


def with_buffers(kernel: Kernel, swap: Mapping[Buffer, Buffer]) -> Kernel:
    """The kernel on other buffers."""
    return replace(kernel, body=tuple(substitute_stmt(s, {}, swap) for s in kernel.body)) if swap else kernel


def buffers_in_order(kernel: Kernel) -> tuple[Buffer, ...]:
    """What a kernel touches in memory and scratch, in an order that does not depend on names: by the first
    mention."""
    found: dict[Buffer, None] = {}
    _mentioned(kernel.body, found)
    for b in list(found):
        if b.places is not None:
            found.update(dict.fromkeys((b.places.starts, b.places.offsets)))
    return tuple(b for b in found if b.space is not Space.REGISTER)


def _mentioned(body: Iterable[Stmt], found: dict[Buffer, None]) -> None:
    for stmt in body:
        if not isinstance(stmt, For):
            held = replace(stmt, body=()) if isinstance(stmt, If) else stmt
            found.update((x.buffer, None) for x in parts(expressions((held,))) if isinstance(x, Load))
        match stmt:
            case For(body=inner) | If(body=inner):
                _mentioned(inner, found)
            case Store(buffer=b) | Fold(buffer=b) | Alloc(buffer=b) | Fetch(buffer=b):
                found[b] = None
            case _:
                pass


@lru_cache(maxsize=1 << 12)
def changes_of(body: tuple[Stmt, ...]) -> frozenset[str]:
    """Names of the registers and scratch buffers that statements write."""
    found: frozenset[str] = frozenset()
    for stmt in body:
        match stmt:
            case For(body=inner) | If(body=inner):
                found |= changes_of(inner)
            case Store(buffer=b) | Fold(buffer=b) | Alloc(buffer=b):
                found |= {b.name} if b.space in (Space.REGISTER, Space.SCRATCH) else set()
            case _:
                pass
    return found


def lanes_for(body: Iterable[Stmt], vector_bits: int) -> int:
    """Lanes that fill a vector with the widest type computed; indices do not count, they are 32 bits wide."""
    widest = 8
    for x in parts(expressions(body)):
        if isinstance(x, Load | Alu | Cast) and x.type is not Scalar.BOOL:
            widest = max(widest, BITS[x.type])
    return max(2, vector_bits // widest)


def walks(x: Expr, tile: Sym) -> bool:
    """True when every load either walks memory with `tile` or does not move with it."""
    moves = [
        linear(e.index, tile) for e in parts([x]) if isinstance(e, Load) and e.buffer.space is not Space.TABLE
    ]
    return all(m is not None and m[0] in (0, 1) for m in moves)
