"""Update: a kernel whose result is in the memory of an operand, and has few new elements.

Unchanged elements are neither read nor stored. Items are distinguished by the conditions; few of them store,
so their work is that of all new elements, about as many as are read, divided evenly.
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
    new, updates = parallel(kernel, c, len(vars)), stores(kernel.body)
    if isinstance(new, Fail):
        return new
    elements = max((c.sizes.of(x.buffer.entries) for x in loads_of(updates)), default=1)
    return replace(new, work=max(1, elements // prod(map(c.estimate, vars))))


UPDATE: Strategy = (
    Step("keep", lambda kernel, c: keep(kernel)),
    Step("parallelise by condition", _parallelise),
    VECTORISE,
)
