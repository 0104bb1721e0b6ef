"""Vectorise: one loop of each nest becomes its innermost one, and a vector loop.

    for i: 0 … 8                          for r: 0 … 64
      for r: 0 … 64            ->           vector i: 0 … 8
        acc[i] += x[i + 8r]                   acc[i] += x[i + 8r]

Folds vectorise the loop along which most of their loads are contiguous; stores the last one, or, if that runs
over few contiguous elements, the one around it, with the last one as tile.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.core.dims import Sym
from anyrt.ir.kernel import Fold, For, Kernel, Loop, Stmt
from anyrt.ir.rewrite import Fail
from anyrt.loops.nest import Nest, changed, deinterleaves, each_nest, interleaves, serial, unit_loads


def vectorise(kernel: Kernel) -> Kernel | Fail:
    """Every nest of the kernel that has no vector loop yet."""
    return changed(kernel, each_nest(kernel.body, _nest), "no loop is left to widen")


def _nest(nest: Nest) -> tuple[Stmt, ...]:
    if any(isinstance(s, Fold) for s in nest.body):
        return widened(nest, max(nest.vars, key=lambda v: unit_loads(nest.body, v)))
    if deinterleaves(nest):
        return widened(nest, nest.vars[-2])
    if interleaves(nest):
        *vars, position, element = nest.vars
        tiles = tuple(For(element, Loop.TILE, (s,)) for s in nest.body)
        return widened(Nest((*vars, position), tiles), position)
    return widened(nest, nest.vars[-1])


def widened(nest: Nest, var: Sym) -> tuple[Stmt, ...]:
    """The nest's loops, that over `var` innermost and a vector loop."""
    return serial(_without(nest.vars, var), (For(var, Loop.VECTOR, nest.body),))


def _without(vars: Sequence[Sym], var: Sym) -> list[Sym]:
    return [v for v in vars if v is not var]
