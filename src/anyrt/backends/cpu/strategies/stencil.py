"""Stencil: taps along an axis over an operand worth keeping.

A thread processes a band of output rows and keeps the last rows of the operand in its scratch, or one row if
taps run along the row.
"""

from __future__ import annotations

from math import prod

from anyrt.backends.cpu.strategies.common import (
    COLLAPSE,
    INTERLEAVE,
    NONTEMPORAL,
    PARALLELISE,
    PRECOMPUTE,
    SPLIT_BY_RANGE,
    TILE,
    VECTORISE,
    VERSION,
)
from anyrt.ir.kernel import For, Kernel
from anyrt.ir.rewrite import Fail
from anyrt.loops.nest import around
from anyrt.loops.sliding_window import sliding_window
from anyrt.schedule.step import Context, Step, Strategy

LEAST_BAND = 4  # rows


def _bands(kernel: Kernel, c: Context) -> Kernel | Fail:
    """As many rows as the model selects, but so few that all threads have bands."""
    outer, body = around(kernel)
    rows = body[-1]
    if not isinstance(rows, For):
        return Fail("it ends with no loop over rows")
    count = c.estimate(rows.var) * prod(map(c.estimate, outer))
    return sliding_window(kernel, c.names, min(c.pieces.band, max(LEAST_BAND, count // c.pieces.items)))


STENCIL: Strategy = (
    Step("sliding window", _bands),
    COLLAPSE,
    INTERLEAVE,
    TILE,
    PARALLELISE,
    VECTORISE,
    SPLIT_BY_RANGE,
    VERSION,
    PRECOMPUTE,
    NONTEMPORAL,
)
