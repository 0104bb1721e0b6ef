"""Mend: rows that are there, of which those that hold NaN are made once more.

Sums of products that hide something (`Contracted.hides`) are summed as all others are, in tiles: 0 times NaN
or infinity is NaN there. So what comes of them is looked at, and only where it is NaN each term is, too.
Rows are items, whose work is to look at them; what is made again is seldom there.
"""

from __future__ import annotations

from dataclasses import replace

from anyrt.core.dims import maximum
from anyrt.ir.kernel import For, Kernel
from anyrt.ir.rewrite import Fail
from anyrt.loops.nest import around
from anyrt.loops.parallelise import parallelise
from anyrt.schedule.step import Context, Step, Strategy


def _parallelise(kernel: Kernel, c: Context) -> Kernel | Fail:
    vars, body = around(kernel)
    made = parallelise(kernel, c.names, len(vars))
    if isinstance(made, Fail):
        return made
    looked = next((s.var.extent or 0 for s in body if isinstance(s, For)), 1)
    return replace(made, work=maximum(1, looked))


MEND: Strategy = (Step("parallelise what is looked at", _parallelise),)
