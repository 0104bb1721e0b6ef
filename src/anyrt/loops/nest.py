"""The parts that transformations share: fresh names, perfect nests, and how indices move with loops.

A *nest* is a chain of serial loops, each the only statement of the one around it, over statements without
loops. Decisions depend on how indices move with the variables (their strides), never on the computation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

from anyrt.core.dims import Dim, Sym, add, depends, floordiv, linear, mul, product
from anyrt.ir.buffer import BITS, Buffer, Scalar, Space
from anyrt.ir.kernel import Alloc, Fold, For, If, Kernel, Let, Load, Loop, Stmt, Store
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import buffers_of
from anyrt.ir.visit import loads, substituted

FEW = 4  # elements that are interleaved when stored
ALIGNMENT = 64  # bytes, of each buffer in scratch

Estimate: TypeAlias = Callable[[Sym], int]  # iterations of a loop of dynamic extent, at the typical sizes


@dataclass(slots=True)
class Names:
    """Fresh loop variables and buffers of one kernel."""

    used: int = 0

    def var(self, extent: Dim, stem: str = "i") -> Sym:
        """A loop variable over 0 … extent − 1."""
        self.used += 1
        return Sym(f"{stem}{self.used}", extent=extent)

    def name(self, stem: str) -> str:
        """A fresh name."""
        self.used += 1
        return f"{stem}{self.used}"


@dataclass(frozen=True, slots=True)
class Nest:
    """Statements inside loops over `vars`, outermost first; the statements hold no loops themselves."""

    vars: tuple[Sym, ...]
    body: tuple[Stmt, ...]

    def replace(self, values: dict[Sym, Dim], vars: Sequence[Sym]) -> Nest:
        """The same nest over other variables."""
        return Nest(tuple(vars), substituted(self.body, values))

    @property
    def loops(self) -> tuple[Stmt, ...]:
        """The nest as statements."""
        return serial(self.vars, self.body)


def serial(vars: Sequence[Sym], body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Serial loops over `vars` around `body`."""
    inner = tuple(body)
    for var in reversed(vars):
        inner = (For(var, Loop.SERIAL, inner),)
    return inner


def nest_of(stmt: Stmt) -> Nest | None:
    """The nest that begins with a statement; None if there is none, or an inner loop is vectorised already. A
    loop whose counter is divided (a let) stays outside of nests."""
    vars: list[Sym] = []
    body: tuple[Stmt, ...] = (stmt,)
    while len(body) == 1 and isinstance(loop := body[0], For) and loop.kind is Loop.SERIAL:
        vars.append(loop.var)
        body = loop.body
    if not vars or any(isinstance(s, For | If | Let) for s in body):
        return None
    return Nest(tuple(vars), body)


def changed_in(body: Iterable[Stmt], change: Callable[[Stmt], Sequence[Stmt] | None]) -> tuple[Stmt, ...]:
    """Statements, each replaced by the result of `change`; if that is None, its nested statements are
    changed."""
    out: list[Stmt] = []
    for stmt in body:
        new = change(stmt)
        if new is not None:
            out += new
        elif isinstance(stmt, For | If):
            out.append(replace(stmt, body=changed_in(stmt.body, change)))
        else:
            out.append(stmt)
    return tuple(out)


def each_nest(body: Iterable[Stmt], change: Callable[[Nest], Sequence[Stmt]]) -> tuple[Stmt, ...]:
    """Statements with every nest in them changed."""

    def at(stmt: Stmt) -> Sequence[Stmt] | None:
        nest = nest_of(stmt)
        if nest is not None:
            return change(nest)
        return (stmt,) if isinstance(stmt, For) and stmt.kind is not Loop.SERIAL else None

    return changed_in(body, at)


def at_loop(
    body: Sequence[Stmt], var: Sym, change: Callable[[For], Sequence[Stmt]], branches: bool = True
) -> tuple[Stmt, ...]:
    """Statements with every loop called `var` changed; without `branches`: none in loops within these."""

    def changed(stmt: Stmt) -> Sequence[Stmt] | None:
        return change(stmt) if isinstance(stmt, For) and stmt.var.name == var.name else None

    def at(stmt: Stmt) -> Sequence[Stmt] | None:
        if isinstance(stmt, If) and not branches:
            own = (changed(s) or (s,) for s in stmt.body)
            return (replace(stmt, body=tuple(chain.from_iterable(own))),)
        return changed(stmt)

    return changed_in(body, at)


def changed(kernel: Kernel, body: tuple[Stmt, ...], otherwise: str) -> Kernel | Fail:
    """The kernel with another body, or the reason why there is none."""
    return Fail(otherwise) if body == kernel.body else replace(kernel, body=body)


def around(kernel: Kernel) -> tuple[tuple[Sym, ...], tuple[Stmt, ...]]:
    """The serial loops around all of a kernel, each alone in the one before, and their body."""
    vars: list[Sym] = []
    body = kernel.body
    while len(body) == 1 and isinstance(loop := body[0], For) and loop.kind is Loop.SERIAL:
        vars.append(loop.var)
        body = loop.body
    return tuple(vars), body


def lets_of(kernel: Kernel) -> tuple[list[Let], list[Stmt]]:
    """The declarations at a kernel's beginning, and the rest of it."""
    lets = [s for s in kernel.body if isinstance(s, Let)]
    return lets, [s for s in kernel.body if not isinstance(s, Let)]


def scratch_of(body: Sequence[Stmt]) -> list[Buffer]:
    """The scratch in which a row passes values from one loop to the next."""
    return sorted((b for b in buffers_of(body) if b.space is Space.SCRATCH), key=lambda b: b.name)


def reserve(kernel: Kernel, name: str, kind: Scalar, count: Dim) -> tuple[Kernel, Buffer]:
    """A kernel with one more buffer in the thread's scratch."""
    offset = kernel.scratch
    buffer = Buffer(name, kind, Space.SCRATCH, count, offset)
    return replace(kernel, scratch=add(offset, room(kind, count))), buffer


def room(kind: Scalar, count: Dim) -> Dim:
    """Bytes of so many elements in the thread's scratch, in whole lines of cache."""
    return mul(ALIGNMENT, floordiv(add(mul(count, BITS[kind] // 8), ALIGNMENT - 1), ALIGNMENT))


def loads_of(body: Sequence[Stmt]) -> list[Load]:
    """Loads of memory (not of accumulators) in statements."""
    values = (s.value for s in body if isinstance(s, Store | Fold | Alloc))
    all_loads = (x for value in values for x in loads([value], bound=False))
    return list(dict.fromkeys(x for x in all_loads if x.buffer.space is not Space.REGISTER))


def stride(dim: Dim, var: Sym) -> Dim | None:
    """How far an index moves with `var`; None when not evenly."""
    moved = linear(dim, var)
    return None if moved is None else moved[0]


def is_few(var: Sym) -> bool:
    """True for a loop over at most as many elements as a pixel has."""
    return isinstance(var.extent, int) and 2 <= var.extent <= FEW


def interleaves(nest: Nest) -> bool:
    """True if a few innermost elements (the channels of a photograph) are contiguous in memory across
    iterations of the loop around them: that loop is the one to widen."""
    if len(nest.vars) < 2 or not isinstance(nest.body[0], Store):
        return False
    outer, last, at = nest.vars[-2], nest.vars[-1], nest.body[0].index
    return is_few(last) and stride(at, last) == 1 and stride(at, outer) == last.extent


def deinterleaves(nest: Nest) -> bool:
    """True if a few innermost elements are contiguous where they are read, across iterations of the loop
    around them, but not where they are stored."""
    if len(nest.vars) < 2 or not isinstance(nest.body[0], Store) or not is_few(nest.vars[-1]):
        return False
    outer, last = nest.vars[-2:]
    if stride(nest.body[0].index, last) == 1:
        return False
    return any(
        stride(x.index, last) == 1 and stride(x.index, outer) == last.extent for x in loads_of(nest.body)
    )


def read_across(nest: Nest) -> Sym | None:
    """An outer loop along which some load is contiguous while the innermost loop makes it stride."""
    last = nest.vars[-1]
    for x in loads_of(nest.body):
        step = stride(x.index, last)
        if step is not None and step != 0 and not (isinstance(step, int) and abs(step) <= FEW):
            for var in nest.vars[:-1]:
                if stride(x.index, var) == 1:
                    return var
    return None


def unit_loads(body: Sequence[Stmt], var: Sym) -> int:
    """How many loads are contiguous along `var`."""
    return sum(stride(x.index, var) == 1 for x in loads_of(body))


def turn(var: Sym) -> Dim:
    """The counter of a loop; 0 for a single iteration, whose loop is omitted."""
    return 0 if var.extent == 1 else var.dim


def flat(vars: Sequence[Sym]) -> tuple[Dim, Dim]:
    """(the iterations of nested loops as one counter, their number)."""
    at: Dim = 0
    for v in vars:
        at = add(mul(at, v.extent or 0), v.dim)
    return at, product(v.extent or 0 for v in vars)


def moves(dims: Iterable[Dim], var: Sym) -> bool:
    """True when an index moves with `var`."""
    return any(depends(d, var) for d in dims)
