"""Queries on the statements of a kernel: loops, stores, folds, expressions, buffers; and the vector width for
a loop over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from anyrt.core.counts import named
from anyrt.core.dims import Dim, Sym, linear
from anyrt.core.dims import Expr as DimExpr
from anyrt.ir.buffer import BITS, Buffer, Scalar, Space
from anyrt.ir.kernel import (
    Alloc,
    Alu,
    Cast,
    Expr,
    Fetch,
    Fold,
    For,
    If,
    Index,
    Kernel,
    Load,
    Stmt,
    Store,
    index,
)
from anyrt.ir.visit import held, loads, parts, statements, substituted, written


def loops(body: Iterable[Stmt]) -> list[For]:
    """Every loop in `body`, nested ones included."""
    return [s for s in statements(body) if isinstance(s, For)]


def stores(body: Iterable[Stmt]) -> list[Store]:
    """Every store in `body`, nested loops included."""
    return [s for s in statements(body) if isinstance(s, Store)]


def folds(body: Iterable[Stmt]) -> list[Fold]:
    """Every fold of a single register in `body`, nested loops included."""
    return [s for s in statements(body) if isinstance(s, Fold)]


def allocations(body: Iterable[Stmt]) -> list[Alloc]:
    """Every register that is initialized in `body`, nested loops included."""
    return [s for s in statements(body) if isinstance(s, Alloc)]


def leaves(body: Iterable[Stmt]) -> list[Stmt]:
    """Every statement in `body` that contains no others, those in loops and branches included."""
    return [s for s in statements(body) if not isinstance(s, For | If)]


def roots(stmt: Stmt) -> list[Expr]:
    """The expressions and indices of a statement itself."""
    return [index(x) if isinstance(x, int | DimExpr) else x for x in held(stmt)]


def expressions(body: Iterable[Stmt]) -> list[Expr]:
    """Every expression in statements, and their indices."""
    return [x for s in statements(body) for x in roots(s)]


def indices(body: Iterable[Stmt]) -> list[Dim]:
    """Every index in statements, each once."""
    dims: dict[Dim, None] = {}
    for x in (x for s in statements(body) for x in held(s)):
        dims.update(dict.fromkeys([x] if isinstance(x, int | DimExpr) else dims_of(x)))
    return list(dims)


def decided(kernel: Kernel) -> frozenset[Sym]:
    """The data-dependent sizes that a kernel uses, with those in their bounds."""
    every = (s for size in (kernel.var.extent or 0, *indices(kernel.body)) for s in named(size))
    return frozenset(s for s in every if s.most is not None)


@lru_cache(maxsize=1 << 12)
def dims_of(x: Expr) -> tuple[Dim, ...]:
    """Every index in `x`, those behind bound symbols too, in an order that is the same in every run."""
    dims = (e.dim if isinstance(e, Index) else e.index for e in parts([x]) if isinstance(e, Index | Load))
    return tuple(dict.fromkeys(dims))


def buffers_of(body: Iterable[Stmt]) -> set[Buffer]:
    """Every buffer that statements access."""
    body = tuple(body)
    out = {x.buffer for x in loads(expressions(body))}
    for stmt in statements(body):
        out.update((stmt.buffer,) if isinstance(stmt, Fetch) else written(stmt))
    return out.union(*((b.addresses.starts, b.addresses.offsets) for b in out if b.addresses is not None))


def with_buffers(kernel: Kernel, swap: Mapping[Buffer, Buffer]) -> Kernel:
    """The kernel on other buffers."""
    return replace(kernel, body=substituted(kernel.body, {}, swap)) if swap else kernel


def buffers_in_order(kernel: Kernel) -> tuple[Buffer, ...]:
    """The buffers of a kernel in memory and scratch, in an order that does not depend on names: by the first
    mention."""
    if kernel.touched is None:
        object.__setattr__(kernel, "touched", _touched(kernel))
    return kernel.touched or ()


def _touched(kernel: Kernel) -> tuple[Buffer, ...]:
    buffers: dict[Buffer, None] = {}
    seen: set[Expr] = set()
    for stmt in statements(kernel.body):
        new = [x for x in parts(roots(stmt)) if x not in seen]
        seen.update(new)
        buffers |= dict.fromkeys(x.buffer for x in new if isinstance(x, Load))
        buffers |= dict.fromkeys((stmt.buffer,) if isinstance(stmt, Fetch) else written(stmt))
    for b in list(buffers):
        if b.addresses is not None:
            buffers.update(dict.fromkeys((b.addresses.starts, b.addresses.offsets)))
    return tuple(b for b in buffers if b.space is not Space.REGISTER)


@lru_cache(maxsize=1 << 12)
def changes_of(body: tuple[Stmt, ...]) -> frozenset[str]:
    """Names of the buffers that statements write."""
    return frozenset(b.name for s in statements(body) for b in written(s))


def lanes_for(body: Iterable[Stmt], vector_bits: int) -> int:
    """The lanes that fill a vector of the widest type that is computed; indices do not count, as they have 32
    bits. A 64-bit type counts only if most of the computation has it: otherwise its lanes take two vectors,
    and the other types fill theirs."""
    types = [x.type for x in parts(expressions(body)) if isinstance(x, Load | Alu | Cast)]
    widths = [BITS[t] for t in types if t is not Scalar.BOOL]
    widest = max(widths, default=8)
    if widest == 64 and 2 * widths.count(64) < len(widths):
        widest = 32
    return max(2, vector_bits // widest)


def walks(x: Expr, tile: Sym) -> bool:
    """True if every load is contiguous along `tile` or does not move with it."""
    moves = [linear(e.index, tile) for e in loads([x]) if e.buffer.space is not Space.TABLE]
    return all(m is not None and m[0] in (0, 1) for m in moves)
