"""Reduction: a kernel that folds rows, and computes with the results.

Loops over the axes that the folds keep are outside; the loop of each fold, and then the output's loops, are
inside, so that the row stays in cache. If rows are read across memory, neighbouring ones are folded at once.
"""

from __future__ import annotations

from dataclasses import replace

from anyrt.backends.cpu.strategies.common import (
    COLLAPSE,
    INTERLEAVE,
    NONTEMPORAL,
    PARALLELISE,
    PRECOMPUTE,
    SPLIT_BY_RANGE,
    VECTORISE,
    VERSION,
)
from anyrt.core.dims import Sym
from anyrt.ir.buffer import Space
from anyrt.ir.kernel import Fold, For, Kernel, Let, Loop
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import allocations, buffers_of, expressions, loops, stores
from anyrt.ir.visit import parts, statements
from anyrt.loops.cache_read import cache_read
from anyrt.loops.distribute import ShortRows, distribute, rows_of_item
from anyrt.loops.fold_across import fold_across
from anyrt.loops.fold_along import fold_along
from anyrt.loops.fuse_folds import fuse_folds
from anyrt.loops.nest import interleaves, nest_of, read_across
from anyrt.loops.prefetch import prefetch
from anyrt.loops.store_in_place import store_in_place
from anyrt.loops.sum_in_blocks import sum_in_blocks
from anyrt.loops.unroll_and_jam import unroll_and_jam
from anyrt.schedule.step import Apply, Context, Result, Step, Strategy

LONG = 32  # parts: two rows of a longer body at once would exceed the first cache
TWICE = 192  # parts of expressions of a row: longer ones hide their own latencies, and are not duplicated
DISTANCE = 2  # rows
OUTSIDE = frozenset({Space.INPUT, Space.ARENA, Space.OUTPUT})
SMALL = 4  # times fewer bytes than a buffer that counts
TERMS = 512  # elements that an accumulator adds up by itself


def _leave_tiles(kernel: Kernel, c: Context) -> Result:
    """A row that is stored across memory is better left to a kernel of tiles."""
    nests = [n for s in statements(kernel.body) if (n := nest_of(s)) is not None]
    rest = [n for n in nests if not any(isinstance(s, Fold) for s in n.body) and not interleaves(n)]
    if any(read_across(nest) is not None for nest in rest):
        first = allocations(kernel.body)[0].buffer
        return c.stored_first(c.folded[first], "the rest of its row is transposed, and better in tiles")
    return Fail("the other loops of its rows read contiguous memory")


def _several(kernel: Kernel, c: Context) -> Fail | None:
    """The reason to keep rows apart, None if several of them may share an item."""
    if any(isinstance(s, For) and s.kind is Loop.VECTOR and loops(s.body) for s in kernel.body):
        return Fail("its rows are folded across memory")
    rows = c.estimate(Sym("rows", extent=kernel.var.extent))
    if c.sizes.of(kernel.work) > c.pieces.short:
        return Fail(f"a row takes {kernel.work}, more than {c.pieces.short}")
    if rows < c.pieces.rows:
        return Fail(f"there are {rows} rows, fewer than {c.pieces.rows}")
    weight = _weight(kernel)
    return Fail(f"its body has {weight} parts, more than {TWICE}") if weight > TWICE else None


def _weight(kernel: Kernel) -> int:
    return len(parts(expressions(s for s in kernel.body if not isinstance(s, Let))))


def together(make: Apply) -> Apply:
    """The step, if several rows may share an item, and do not yet."""

    def apply(kernel: Kernel, c: Context) -> Result:
        if kernel.var.extent == 1:
            return Fail("there is one row")
        if not any(isinstance(s, Let) for s in kernel.body):
            return Fail("several rows share an item already")
        return _several(kernel, c) or make(kernel, c)

    return apply


def _distribute(kernel: Kernel, c: Context) -> Kernel | Fail:
    return distribute(kernel, c.names, c.estimate, _short_rows(kernel, c))


def _short_rows(kernel: Kernel, c: Context) -> ShortRows:
    """Fewer rows if a long body hides their latencies: their results are then stored while others are
    computed."""
    limits = c.pieces.short_rows
    return replace(limits, bytes=c.machine.l1_bytes // 8) if _weight(kernel) > LONG else limits


def _unroll_and_jam(kernel: Kernel, c: Context) -> Kernel | Fail:
    weight = _weight(kernel)
    if weight > LONG:
        return Fail(f"its body has {weight} parts, more than {LONG}")
    return unroll_and_jam(kernel, c.names)


def _sum_in_blocks(kernel: Kernel, c: Context) -> Kernel | Fail:
    """Blocks of as many terms as the accumulators of a row add up, which hide the latency of additions."""
    accumulators = c.machine.lanes * c.machine.costs.latency
    return sum_in_blocks(kernel, c.names, c.estimate, TERMS, accumulators)


def _prefetch(kernel: Kernel, c: Context) -> Kernel | Fail:
    """Prefetch by as many rows as share an item, which may be one long row; for buffers that exceed the
    caches near a core, alone, or with the other operands if a long body leaves time for it."""
    if kernel.var.extent == 1:
        return Fail("there is one row")
    is_long, why = _weight(kernel) > LONG, _several(kernel, c)
    bytes = {b: c.bytes(b) for b in buffers_of(kernel.body) if b.space in OUTSIDE}
    row = max(bytes.values(), default=0) // max(1, c.estimate(kernel.var))
    if why is not None and not (is_long and c.machine.l1_bytes // 2 < row < c.machine.l2_bytes // 4):
        return why
    more = sum(bytes.values()) if is_long else 0
    rows = 1 if why else max(DISTANCE, rows_of_item(kernel, c.estimate, _short_rows(kernel, c)))
    return prefetch(kernel, rows, lambda b: max(bytes[b], min(more, SMALL * bytes[b])) >= c.pieces.large)


def _store_in_place(kernel: Kernel, c: Context) -> Kernel | Fail:
    """For rows that are computed once, unless results are stored past the caches."""
    if _weight(kernel) <= LONG or not any(isinstance(s, Let) for s in kernel.body):
        return Fail("rows may come twice")
    if any(c.past_of(s.buffer).rows != 0 for s in stores(kernel.body)):
        return Fail("its results are written past the caches")
    return store_in_place(kernel)


REDUCTION: Strategy = (
    Step("fold along", lambda kernel, c: fold_along(kernel, c.names, c.machine.lanes // 2, TERMS)),
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
    Step("prefetch", _prefetch),
    Step("distribute", together(_distribute)),
    Step("unroll and jam", together(_unroll_and_jam)),
    Step("store in place", _store_in_place),
    PRECOMPUTE,
    NONTEMPORAL,
)
