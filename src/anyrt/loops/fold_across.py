"""Fold across: neighbouring rows whose elements are strided in memory are folded at once, side by side.

for i: 0 … n                          for b: 0 … (n + 255) // 256
  acc = 0                               vector j: 0 … min(256, n − 256b)
  for r: 0 … m                 ->         acc = 0
    acc += x[n·r + i]                     for r: 0 … m
  y[i] = acc                                acc += x[n·r + 256b + j]
                                          y[256b + j] = acc
"""

from __future__ import annotations

from dataclasses import replace

from anyrt.core.dims import Sym
from anyrt.ir.kernel import Fold, For, Kernel, Loop
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import statements, substituted
from anyrt.loops.nest import Names, around, nest_of, serial, unit_loads
from anyrt.loops.split import pieces


def fold_across(kernel: Kernel, names: Names, size: int) -> Kernel | Fail:
    """The outer loop along which folds read memory contiguously, in pieces of `size`, as a vector loop around
    all statements of its iterations."""
    outer, body = around(kernel)
    var = _across(kernel)
    if var is None:
        return Fail("its folds read contiguous rows")
    block, within, value = pieces(names, var.extent or 0, size, "i", "b")
    moved = substituted(body, {var: value})
    rest = [block if v is var else v for v in outer]
    return replace(kernel, body=serial(rest, (For(within, Loop.VECTOR, moved),)))


def _across(kernel: Kernel) -> Sym | None:
    outer, body = around(kernel)
    nests = [n for s in statements(body) if (n := nest_of(s)) is not None]
    folds = {id(f): (f, n.vars) for n in nests for f in n.body if isinstance(f, Fold)}
    for var in reversed(outer):
        along = sum(unit_loads([f], var) for f, _ in folds.values())
        own = sum(unit_loads([f], v) for f, vars in folds.values() for v in vars)
        if along > own:
            return var
    return None
