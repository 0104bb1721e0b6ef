"""Sliding window: the rows of a stencil in bands, each of which begins without kept rows.

    tags = −1                             for b: 0 … (n + 31) // 32
    for i: 0 … n                            tags = −1
      if tags ≠ i: row = …         ->       for j: 0 … min(32, n − 32b)
      y[i] = …row…                            let i = 32b + j
                                              if tags ≠ i: row = …
                                              y[i] = …row…

The kept rows are in a thread's scratch, so only whole bands run in parallel. The statements before the first
row serve all of them: no band should repeat them.
"""

from __future__ import annotations

from dataclasses import replace

from anyrt.ir.kernel import For, If, Kernel, Let, Loop
from anyrt.ir.rewrite import Fail
from anyrt.loops.nest import Names, around, serial
from anyrt.loops.split import pieces


def sliding_window(kernel: Kernel, names: Names, size: int) -> Kernel | Fail:
    """The last loop of the kernel in pieces of `size`, with the statements before it once for each."""
    outer, (*starts, last) = around(kernel)
    if not starts or not isinstance(last, For) or last.kind is not Loop.SERIAL:
        return Fail("no rows are reused by the next iteration")
    if any(isinstance(s, For) for s in starts) or not any(isinstance(s, If) for s in last.body):
        return Fail("the operands of its rows are computed before the first row")
    block, within, value = pieces(names, last.var.extent or 0, size, "i", "b")
    rows = For(within, Loop.SERIAL, (Let(last.var, value), *last.body))
    return replace(kernel, body=serial([*outer, block], [*starts, rows]))
