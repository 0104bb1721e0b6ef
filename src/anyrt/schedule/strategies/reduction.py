"""Reduction: a kernel that folds rows and computes with them.

Loops over what the folds keep are outside; the loop of each fold, and then the output's loops, are inside,
so that the row stays in cache. Where rows are read across memory, neighbouring ones are folded at once.
"""

from __future__ import annotations

from anyrt.core.dims import Sym
from anyrt.ir.kernel import Fold, For, Kernel, Let, Loop
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import allocations, expressions, loops
from anyrt.ir.visit import parts, statements
from anyrt.loops.cache_read import cache_read
from anyrt.loops.distribute import distribute
from anyrt.loops.fold_across import fold_across
from anyrt.loops.fuse_folds import fuse_folds
from anyrt.loops.nest import interleaves, nest_of, read_across
from anyrt.loops.prefetch import prefetch
from anyrt.loops.sum_in_blocks import sum_in_blocks
from anyrt.loops.unroll_and_jam import unroll_and_jam
from anyrt.schedule.elements import Refusal
from anyrt.schedule.strategies.common import (
    COLLAPSE,
    INTERLEAVE,
    NONTEMPORAL,
    PARALLELISE,
    PRECOMPUTE,
    SPLIT_BY_RANGE,
    VECTORISE,
    VERSION,
)
from anyrt.schedule.strategies.step import Apply, Context, Step, Strategy

TWICE = 192  # parts of expressions of a row: longer ones hide their latencies, and are not written twice
DISTANCE = 2  # rows
TERMS = 512  # that an accumulator adds up by itself


def _leave_tiles(kernel: Kernel, c: Context) -> Kernel | Fail:
    """A row that is stored across memory is better left to a kernel of tiles."""
    nests = [n for s in statements(kernel.body) if (n := nest_of(s)) is not None]
    rest = [n for n in nests if not any(isinstance(s, Fold) for s in n.body) and not interleaves(n)]
    if any(read_across(nest) is not None for nest in rest):
        first = allocations(kernel.body)[0].buffer
        raise Refusal(c.folded[first], "the rest of its row is transposed, and better in tiles")
    return Fail("the rest of its rows lies along memory")


def _several(kernel: Kernel, c: Context) -> Fail | None:
    """Why to leave rows one by one, None where several of them may share an item."""
    if any(isinstance(s, For) and s.kind is Loop.VECTOR and loops(s.body) for s in kernel.body):
        return Fail("its rows are folded across memory")
    rows = c.estimate(Sym("rows", extent=kernel.var.extent))
    if not isinstance(kernel.work, int) or kernel.work > c.pieces.short:
        return Fail(f"a row takes {kernel.work}, more than {c.pieces.short}")
    if rows < c.pieces.rows:
        return Fail(f"there are {rows} rows, fewer than {c.pieces.rows}")
    rest = [s for s in kernel.body if not isinstance(s, Let)]
    weight = len(parts(expressions(rest)))
    return Fail(f"its body has {weight} parts, more than {TWICE}") if weight > TWICE else None


def together(make: Apply) -> Apply:
    """The step where several rows may share an item, and do not yet."""

    def apply(kernel: Kernel, c: Context) -> Kernel | Fail:
        if kernel.var.extent == 1:
            return Fail("there is one row")
        if not any(isinstance(s, Let) for s in kernel.body):
            return Fail("several rows share an item already")
        return _several(kernel, c) or make(kernel, c)

    return apply


def _distribute(kernel: Kernel, c: Context) -> Kernel | Fail:
    return distribute(kernel, c.names, c.estimate, c.pieces.row_strips)


def _sum_in_blocks(kernel: Kernel, c: Context) -> Kernel | Fail:
    """Of as many terms as the accumulators of a row, which hide the latency of additions, add up."""
    accumulators = c.machine.lanes * c.machine.costs.latency
    return sum_in_blocks(kernel, c.names, c.estimate, TERMS, accumulators)


def _prefetch(kernel: Kernel, c: Context) -> Kernel | Fail:
    """Of buffers that no cache near a core holds."""
    return prefetch(kernel, DISTANCE, lambda buffer: c.bytes(buffer) >= c.pieces.large)


REDUCTION: Strategy = (
    Step("fold across", lambda kernel, c: fold_across(kernel, c.names, c.pieces.column)),
    COLLAPSE,
    Step("leave tiles", _leave_tiles),
    INTERLEAVE,
    Step("fuse folds", lambda kernel, c: fuse_folds(kernel, c.names, c.estimate, c.pieces.folded)),
    Step("sum in blocks", _sum_in_blocks),
    PARALLELISE,
    VECTORISE,
    SPLIT_BY_RANGE,
    VERSION,
    Step("cache read", lambda kernel, c: cache_read(kernel, c.names, c.pieces.cached, c.machine.costs)),
    Step("distribute", together(_distribute)),
    Step("prefetch", together(_prefetch)),
    Step("unroll and jam", together(lambda kernel, c: unroll_and_jam(kernel, c.names))),
    PRECOMPUTE,
    NONTEMPORAL,
)
