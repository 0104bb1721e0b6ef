"""Steps that several strategies have."""

from __future__ import annotations

from dataclasses import replace

from anyrt.core.dims import maximum
from anyrt.ir.buffer import BITS
from anyrt.ir.kernel import Kernel, Loop
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import loops, stores
from anyrt.loops import tile as tiles
from anyrt.loops.collapse import collapse
from anyrt.loops.interleave import interleave
from anyrt.loops.nest import around
from anyrt.loops.nontemporal import nontemporal
from anyrt.loops.parallelise import parallelise
from anyrt.loops.precompute_addresses import precompute_addresses
from anyrt.loops.split_by_range import split_by_range
from anyrt.loops.vectorise import vectorise
from anyrt.loops.version import version
from anyrt.loops.work import work
from anyrt.schedule.step import Context, Step

SPLIT = 256  # parts of expressions that the ranges of a loop may have together
LONGER = 4  # times: the runs of large outputs, whose ends share fewer cache lines


def tiled(kernel: Kernel, c: Context, few: bool = False) -> Kernel | Fail:
    """Strips of the model's or of the measured size; `few`: also of nests whose few last elements are
    contiguous."""
    width = max(BITS[s.buffer.stored] for s in stores(kernel.body)) // 8
    p, large = c.pieces, c.volume * width > c.pieces.longer
    run = p.run * (LONGER if large else 1)
    sizes = tiles.Strips(p.line, run, p.least_run, p.chunk, p.items, few)
    return tiles.tile(kernel, c.names, sizes, c.estimate)


def parallel(kernel: Kernel, c: Context, count: int) -> Kernel | Fail:
    """So many outer loops in parallel; with the work of an item."""
    new = parallelise(kernel, c.names, count)
    if isinstance(new, Fail):
        return new
    return replace(new, work=maximum(1, work(new, c.sizes.of)))


def all_parallel(kernel: Kernel, c: Context) -> Kernel | Fail:
    """All loops around the kernel's statements in parallel."""
    return parallel(kernel, c, len(around(kernel)[0]))


def past_caches(kernel: Kernel, c: Context) -> Kernel | Fail:
    """Outputs larger than the caches are stored past them."""
    tiled = any(loop.kind is Loop.TILE for loop in loops(kernel.body))
    return nontemporal(kernel, {b: p.tiles if tiled else p.rows for b, p in c.past.items()})


COLLAPSE = Step("collapse", lambda kernel, c: collapse(kernel, c.names))
INTERLEAVE = Step("interleave", lambda kernel, c: interleave(kernel, c.tables, c.names))
TILE = Step("tile", tiled)
PARALLELISE = Step("parallelise", all_parallel)
VECTORISE = Step("vectorise", lambda kernel, c: vectorise(kernel))
SPLIT_BY_RANGE = Step("split by range", lambda kernel, c: split_by_range(kernel, c.names, c.estimate, SPLIT))
VERSION = Step("version", lambda kernel, c: version(kernel, c.tables))
PRECOMPUTE = Step("precompute addresses", lambda kernel, c: precompute_addresses(kernel, c.tables))
NONTEMPORAL = Step("non-temporal stores", past_caches)
