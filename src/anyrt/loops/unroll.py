"""Unroll: a loop over the parts of a byte becomes its turns, one after another.

Each turn shifts another part down. Where the number of the turn is written out, so is the shift, and what is
read for one turn is read for all.

    for r: 0 … 512                         for r: 0 … 512
      for h: 0 … 2               ->          acc += x[r] · (codes[r] & 15)
        acc += x[512h + r] · …               acc += x[512 + r] · (codes[r] >> 4 & 15)
"""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.core.dims import Sym, depends
from anyrt.ir.kernel import Index, Kernel, Stmt
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import expressions
from anyrt.ir.visit import parts, substituted
from anyrt.loops.nest import Nest, changed, each_nest, serial

MOST = 4  # turns: parts of a byte


def unroll(kernel: Kernel) -> Kernel | Fail:
    """Every such loop of a nest."""
    return changed(kernel, each_nest(kernel.body, _written_out), "no loop is over parts of bytes")


def _written_out(nest: Nest) -> Sequence[Stmt]:
    vars, body = nest.vars, nest.body
    for var in [v for v in vars if len(vars) > 1 and _shifts(v, nest.body)]:
        assert isinstance(var.extent, int), "it shifts"
        body = tuple(s for turn in range(var.extent) for s in substituted(body, {var: turn}))
        vars = tuple(v for v in vars if v is not var)
    return serial(vars, body)


def _shifts(var: Sym, body: Sequence[Stmt]) -> bool:
    """True for a loop of few turns, by whose number something is computed."""
    few = isinstance(var.extent, int) and 1 < var.extent <= MOST
    return few and any(isinstance(x, Index) and depends(x.dim, var) for x in parts(expressions(body)))
