"""Parallelise: outer loops become the parallel loop of the kernel, whose counter each item divides again.

for i: 0 … 8                          parallel p: 0 … 24
  for j: 0 … 3             ->           let i = p // 3
    for k: …                            let j = p mod 3
                                        for k: …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyrt.core.dims import Dim, Sym, floordiv, mod, product
from anyrt.ir.kernel import Kernel, Let, Stmt
from anyrt.ir.rewrite import Fail
from anyrt.loops.nest import Names, around, serial


def parallelise(kernel: Kernel, names: Names, count: int) -> Kernel | Fail:
    """The `count` outermost loops, each alone in the one before, as the parallel loop; the work of an item is
    computed elsewhere."""
    vars, body = around(kernel)
    if count > len(vars):
        return Fail(f"there are {len(vars)} loops around the kernel's statements, not {count}")
    outer = vars[:count]
    item = names.var(product(v.extent or 0 for v in outer), "p")
    return replace(kernel, var=item, body=(*delinearise(outer, item.dim), *serial(vars[count:], body)))


def delinearise(loops: Sequence[Sym], counter: Dim) -> list[Stmt]:
    """The loops' variables at a flat counter."""
    lets: list[Stmt] = []
    for k, var in enumerate(loops):
        value = floordiv(counter, product(v.extent or 0 for v in loops[k + 1 :]))
        lets.append(Let(var, value if k == 0 else mod(value, var.extent or 0)))
    return lets
