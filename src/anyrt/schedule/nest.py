"""Loop nests: naming loop variables, merging neighbours, splitting, and choosing which loop is widened.

A `Nest` is a list of loop variables (outermost first) around statements that are the same at every point.
Everything here is decided by how indices move with the variables (their strides), never by what the
statements compute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anyrt.core.dims import (
    FLOORDIV,
    MOD,
    Dim,
    Fn,
    Sym,
    add,
    always_le,
    depends,
    divmod_dim,
    floordiv,
    linear,
    minimum,
    mod,
    mul,
    product,
    symbols,
)
from anyrt.core.dims import (
    Expr as DimExpr,
)
from anyrt.ir.kernel import (
    Alloc,
    Fold,
    For,
    Let,
    Load,
    Loop,
    Space,
    Stmt,
    Store,
)
from anyrt.ir.statements import indices
from anyrt.ir.visit import parts, substituted

MAX_SPLITS = 6
FEW = 4  # elements that are interleaved when stored
BLOCK = 4096  # elements of one piece of a flat loop: 16 KB of float32, a few microseconds of work


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


# ---- merging ------------------------------------------------------------------------------------


def merge(nest: Nest, names: Names) -> Nest:
    """Neighbouring loops become one wherever every index moves with both as with one flat counter."""
    vars, at = list(nest.vars), 0
    while at + 1 < len(vars):
        outer, inner = vars[at], vars[at + 1]
        assert outer.extent is not None, f"loop {outer} has no extent"
        assert inner.extent is not None, f"loop {inner} has no extent"
        if outer.extent == 1 or inner.extent == 1:
            gone = outer if outer.extent == 1 else inner
            vars.remove(gone)
            nest = nest.replace({gone: 0}, vars)
        elif all(_flat(d, outer, inner) for d in indices(nest.body)):
            flat = names.var(mul(outer.extent, inner.extent))
            vars[at : at + 2] = [flat]
            nest = nest.replace({outer: 0, inner: flat.dim}, vars)
            at = max(at - 1, 0)
        else:
            at += 1
    return nest


def merge_around(loops: Sequence[Sym], body: Sequence[Stmt], names: Names) -> tuple[list[Sym], list[Stmt]]:
    """The loops around statements that have loops of their own, merged in the same way."""
    vars, done = [*loops], [*body]
    for at in range(len(vars) - 1, 0, -1):
        outer, inner = vars[at - 1 : at + 1]
        if all(_flat(d, outer, inner) for d in indices(done)):
            vars[at - 1 : at + 1] = [names.var(mul(outer.extent or 0, inner.extent or 0))]
            done = [*substituted(done, {outer: 0, inner: vars[at - 1].dim})]
    return vars, done


def _flat(dim: Dim, outer: Sym, inner: Sym) -> bool:
    a, b = linear(dim, outer), linear(dim, inner)
    return a is not None and b is not None and inner.extent is not None and a[0] == mul(b[0], inner.extent)


# ---- splitting where an index divides -----------------------------------------------------------


def divided(dims: Sequence[Dim], vars: Sequence[Sym]) -> tuple[Sym, Dim] | None:
    """A loop variable that some index divides, with the divisor of its extent that would make the division
    vanish."""
    for dim in dims:
        for fn in _functions(dim):
            if fn.op in (FLOORDIV, MOD):
                for var in vars:
                    part = _divisor(fn, var)
                    if part is not None:
                        return var, part
    return None


def _divisor(fn: Fn, var: Sym) -> Dim | None:
    """For floor((q·var + …) / k) with q dividing k: k / q, when that divides the extent and is neither 1 nor
    all of it."""
    moved = linear(fn.args[0], var)
    if moved is None or moved[0] == 0 or var.extent is None or not always_le(1, moved[0]):
        return None
    part, rest = divmod_dim(fn.args[1], moved[0])
    if rest != 0 or part in (1, var.extent) or mod(var.extent, part) != 0:
        return None
    return part


def _functions(x: Dim) -> Iterator[Fn]:
    for m, _ in x.terms if isinstance(x, DimExpr) else ():
        for atom in m:
            if isinstance(atom, Fn):
                yield atom
                for a in atom.args:
                    yield from _functions(a)


def split(var: Sym, inner: Dim, names: Names) -> tuple[Sym, Sym, Dim]:
    """(outer, inner, value): `var` as outer·inner.extent + inner, for an extent that `inner` divides."""
    assert var.extent is not None
    a, b = names.var(floordiv(var.extent, inner)), names.var(inner)
    return a, b, add(mul(a.dim, inner), b.dim)


def refined(nest: Nest, names: Names) -> Nest:
    """Loops split until no index divides them any more, as far as that goes."""
    for _ in range(MAX_SPLITS):
        found = divided(indices(nest.body), nest.vars)
        if found is None:
            break
        outer, inner, value = split(found[0], found[1], names)
        at = nest.vars.index(found[0])
        vars = (*nest.vars[:at], outer, inner, *nest.vars[at + 1 :])
        nest = nest.replace({found[0]: value}, vars)
    return nest


def cut(var: Sym, size: int, names: Names) -> tuple[Sym, Sym, Dim]:
    """(block, within, value): pieces of `size`, the last one shorter."""
    assert var.extent is not None
    block = names.var(floordiv(add(var.extent, size - 1), size), "b")
    within = names.var(minimum(size, add(var.extent, mul(block.dim, -size))))
    return block, within, add(mul(block.dim, size), within.dim)


# ---- widening -----------------------------------------------------------------------------------


def loads_of(body: Sequence[Stmt]) -> list[Load]:
    """Loads of memory (not of accumulators) in statements."""
    values = (s.value for s in body if isinstance(s, Store | Fold | Alloc))
    found = (x for value in values for x in parts([value], bound=False) if isinstance(x, Load))
    return list(dict.fromkeys(x for x in found if x.buffer.space is not Space.REGISTER))


def stride(dim: Dim, var: Sym) -> Dim | None:
    """How far an index moves with `var`; None when not evenly."""
    moved = linear(dim, var)
    return None if moved is None else moved[0]


def is_few(var: Sym) -> bool:
    """True for a loop over as many elements as a pixel has."""
    return isinstance(var.extent, int) and 2 <= var.extent <= FEW


def interleaves(nest: Nest) -> bool:
    """True for a few elements innermost (the channels of a photograph) that lie side by side in memory for
    neighbouring turns of the loop around them: that loop is the one to widen."""
    if len(nest.vars) < 2 or not isinstance(nest.body[0], Store):
        return False
    outer, last, at = nest.vars[-2], nest.vars[-1], nest.body[0].index
    return is_few(last) and stride(at, last) == 1 and stride(at, outer) == last.extent


def unit_loads(body: Sequence[Stmt], var: Sym) -> int:
    """How many loads walk memory one element at a time with `var`."""
    return sum(stride(x.index, var) == 1 for x in loads_of(body))


def loops(vars: Sequence[Sym], body: Sequence[Stmt], widened: Sym | None) -> tuple[Stmt, ...]:
    """Loops over `vars` around `body`; `widened` is moved innermost and becomes the vector loop."""
    order = [v for v in vars if v is not widened]
    inner: tuple[Stmt, ...] = tuple(body)
    if widened is not None:
        inner = (For(widened, Loop.VECTOR, inner),)
    for var in reversed(order):
        inner = (For(var, Loop.SERIAL, inner),)
    return inner


def used(body: Sequence[Stmt], var: Sym) -> bool:
    """True when an index of `body` moves with `var`."""
    return any(depends(d, var) for d in indices(body))


def loop_symbols(dims: Sequence[Dim], vars: Sequence[Sym]) -> list[Sym]:
    """Those of `vars` that occur in `dims`, in order."""
    found = frozenset().union(*map(symbols, dims)) if dims else frozenset()
    return [v for v in vars if v in found]


def apart(loops: Sequence[Sym], counter: Dim) -> list[Stmt]:
    """The loops' variables at a flat counter."""
    lets: list[Stmt] = []
    for k, var in enumerate(loops):
        value = floordiv(counter, product(v.extent or 0 for v in loops[k + 1 :]))
        lets.append(Let(var, value if k == 0 else mod(value, var.extent or 0)))
    return lets
