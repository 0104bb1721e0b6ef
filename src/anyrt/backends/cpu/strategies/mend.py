"""Mend: recomputes the rows of a stored value that contain NaN.

Masked sums of products (`Contracted.hides`) are summed like all others, in tiles: 0 times NaN or infinity is
NaN there. This kernel examines the result, and where it is NaN, computes the sum term by term. Items are
rows; their work is the examination, since recomputing is rare.
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
    new = parallelise(kernel, c.names, len(vars))
    if isinstance(new, Fail):
        return new
    examined = next((s.var.extent or 0 for s in body if isinstance(s, For)), 1)
    return replace(new, work=maximum(1, examined))


MEND: Strategy = (Step("parallelise the examination", _parallelise),)
