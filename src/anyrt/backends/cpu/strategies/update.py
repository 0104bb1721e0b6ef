"""Update: a kernel whose result lies in the memory of what it reads, and has few new elements.

What stays as it is is neither read nor stored. Items are what the conditions tell apart; few of them store,
so their work is that of all new elements, which are about as many as there are to be read, shared evenly.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from anyrt.backends.cpu.strategies.common import VECTORISE, parallel
from anyrt.ir.kernel import Kernel
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import stores
from anyrt.loops.keep import keep
from anyrt.loops.nest import around, loads_of
from anyrt.schedule.step import Context, Step, Strategy


def _parallelise(kernel: Kernel, c: Context) -> Kernel | Fail:
    vars, _ = around(kernel)
    made, new = parallel(kernel, c, len(vars)), stores(kernel.body)
    if isinstance(made, Fail):
        return made
    elements = max((c.sizes.of(x.buffer.entries) for x in loads_of(new)), default=1)
    return replace(made, work=max(1, elements // prod(map(c.estimate, vars))))


UPDATE: Strategy = (
    Step("keep", lambda kernel, c: keep(kernel)),
    Step("parallelise what is told apart", _parallelise),
    VECTORISE,
)
