"""Share: few iterations of an outer loop become one body, if they share much of their computation (positions
in an image, for each of its channels).

    for c: 0 … 3                          for i: 0 … 640
      for i: 0 … 640                        y[i]        = x[p(i)]
        y[640c + i] = x[100c + p(i)]   ->   y[640 + i]  = x[100 + p(i)]
                                            y[1280 + i] = x[200 + p(i)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyrt.core.dims import Sym
from anyrt.ir.kernel import Alu, Cast, Kernel, Stmt, Store, free_symbols
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import expressions
from anyrt.ir.visit import parts, substituted
from anyrt.loops.nest import Nest, deinterleaves, each_nest, interleaves, is_few

DEAR = 6  # shared instructions that are worth longer bodies


def share(kernel: Kernel) -> Kernel | Fail:
    """Every nest with such a loop."""
    changed: list[Nest] = []

    def change(nest: Nest) -> Sequence[Stmt]:
        shared = _shared(nest)
        changed.extend([shared] if shared is not nest else [])
        return shared.loops

    body = each_nest(kernel.body, change)
    return replace(kernel, body=body) if changed else Fail("no short loop repeats expensive expressions")


def _shared(nest: Nest) -> Nest:
    if not isinstance(nest.body[0], Store) or _is_tile(nest):
        return nest
    dear = [v for v in nest.vars[:-1] if is_few(v) and _same(nest, v) >= DEAR]
    candidates = (_turned(nest, v) for v in dear)
    return next((n for n in candidates if not _is_tile(n)), nest)


def _is_tile(nest: Nest) -> bool:
    """True for a nest that becomes a tile, with one store."""
    return interleaves(nest) or deinterleaves(nest)


def _turned(nest: Nest, var: Sym) -> Nest:
    """The nest with all iterations of one of its loops in the body."""
    assert isinstance(var.extent, int), "a loop of few turns has a fixed extent"
    turns = (substituted(nest.body, {var: k}) for k in range(var.extent))
    return Nest(tuple(v for v in nest.vars if v is not var), tuple(s for turn in turns for s in turn))


def _same(nest: Nest, var: Sym) -> int:
    """Instructions per element of the innermost loop that do not depend on `var`."""
    computed = (x for x in parts(expressions(nest.body)) if isinstance(x, Alu | Cast))
    last = nest.vars[-1]
    return sum(last in (of := free_symbols(x)) and var not in of for x in computed)
