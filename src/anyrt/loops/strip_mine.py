"""Strip-mine: a loop becomes a loop over pieces around a loop within a piece.

for i: 0 … 100               for b: 0 … 7
  y[i] = x[i]       ->         for j: 0 … min(16, 100 − 16b)
                                 y[16b + j] = x[16b + j]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anyrt.core.dims import (
    FLOORDIV,
    MOD,
    Dim,
    Fn,
    Sym,
    add,
    always_le,
    divmod_dim,
    floordiv,
    linear,
    mod,
    mul,
)
from anyrt.core.dims import Expr as DimExpr
from anyrt.ir.kernel import Kernel
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import indices
from anyrt.loops.nest import Names, Nest
from anyrt.loops.split import pieces, split

MAX_SPLITS = 6


def strip_mine(kernel: Kernel, names: Names, var: Sym, size: int) -> Kernel | Fail:
    """One of the loops around a kernel's statements in pieces of `size`; the loop over pieces takes its
    place, that within a piece is innermost."""
    block, within, value = pieces(names, var.extent or 0, size, "i", "b")
    return split(kernel, var, (block, within), value)


def divide(var: Sym, inner: Dim, names: Names) -> tuple[Sym, Sym, Dim]:
    """(outer, inner, value): `var` as outer·inner.extent + inner, for an extent that `inner` divides."""
    assert var.extent is not None
    a, b = names.var(floordiv(var.extent, inner)), names.var(inner)
    return a, b, add(mul(a.dim, inner), b.dim)


def delinearised(nest: Nest, names: Names) -> Nest:
    """A nest with loops split until no index divides them, as far as possible."""
    for _ in range(MAX_SPLITS):
        division = divided(indices(nest.body), nest.vars)
        if division is None:
            break
        outer, inner, value = divide(division[0], division[1], names)
        at = nest.vars.index(division[0])
        vars = (*nest.vars[:at], outer, inner, *nest.vars[at + 1 :])
        nest = nest.replace({division[0]: value}, vars)
    return nest


def divided(dims: Sequence[Dim], vars: Sequence[Sym]) -> tuple[Sym, Dim] | None:
    """A loop variable that some index divides, with the divisor of its extent that would remove the
    division."""
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
