"""Reorder: interchanges the loops around a kernel's statements.

A loop over few elements that are contiguous at every position of the innermost one (channels of a photograph
that is converted to planes) becomes the last one, so that one contiguous run is read for all of them.

    for c: 0 … 3                          for i: 0 … 640
      for i: 0 … 640           ->           for c: 0 … 3
        y[640c + i] = x[3i + c]               y[640c + i] = x[3i + c]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyrt.core.dims import Dim, Sym
from anyrt.ir.kernel import Kernel, Stmt
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import substituted
from anyrt.loops.nest import Nest, around, each_nest, is_few, loads_of, serial, stride


def reorder(kernel: Kernel, order: Sequence[Sym]) -> Kernel | Fail:
    """The loops in this order; one of a single iteration may be omitted."""
    vars, body = around(kernel)
    if tuple(order) == vars:
        return Fail("its loops are in the best order already")
    rest: dict[Sym, Dim] = {v: 0 for v in vars if v not in order}
    if any(v.extent != 1 for v in rest) or not set(order) <= set(vars):
        return Fail(f"its loops are {vars}, not {tuple(order)}")
    return replace(kernel, body=serial(order, substituted(body, rest)))


def few_last(kernel: Kernel) -> Kernel | Fail:
    """Every nest with such a loop."""
    reordered: list[Nest] = []

    def change(nest: Nest) -> Sequence[Stmt]:
        moved = _few_last(nest)
        reordered.extend([moved] if moved is not nest else [])
        return moved.loops

    body = each_nest(kernel.body, change)
    return (
        replace(kernel, body=body)
        if reordered
        else Fail("no short loop reads contiguous elements and stores them apart")
    )


def _few_last(nest: Nest) -> Nest:
    last = nest.vars[-1]
    for var in filter(is_few, nest.vars[:-1]):
        for x in loads_of(nest.body):
            if stride(x.index, var) == 1 and stride(x.index, last) == var.extent:
                return Nest((*(v for v in nest.vars if v is not var), var), nest.body)
    return nest
