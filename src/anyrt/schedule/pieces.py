"""The sizes of the pieces of kernels: computed from the machine, unless a measurement selected another one
(tuning.py).

The sizes were measured on one machine. A formula states the resource that bounds each, so that another
machine gets its own; sizes that do not depend on the machine, such as the rows of a band, are constants.

>>> pieces(Machine(l1_bytes=48 << 10)).block, pieces(Machine(l1_bytes=64 << 10)).block
(4096, 8192)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from anyrt.core.machine import Machine
from anyrt.loops.distribute import ShortRows
from anyrt.schedule.tuning import MODEL, Tuning

FLOAT: Final = 4  # bytes of the elements that sizes are counted in
PAGE: Final = 4096  # bytes: a hardware prefetcher stops at the end of one


@dataclass(frozen=True, slots=True)
class Pieces:
    """Sizes for one kernel; the first ones are those that a `Tuning` can name."""

    item: int  # elements that one iteration of the parallel loop should hold
    block: int  # elements of one piece of a loop
    column: int  # positions across memory at which rows are folded at a time
    short: int  # elements read and written per row, below which its own latencies count
    band: int  # output rows of a stencil that one thread takes at a time
    items: int  # minimum number of bands or strips for the threads
    line: int  # bytes of a cache line: what a strip reads across memory
    run: int  # elements that a strip writes in a row (more if much is written), and pages read at a time
    chunk: int  # strips in a row, so that reading continues where the last strip stopped
    least_run: int  # bytes that a strip writes in a row
    longer: int  # bytes of an output from which runs are longer
    large: int  # bytes of a buffer that no cache near a core holds
    row: int  # elements of a row that taps read again; it and the next one must fit near the core
    row_piece: int  # elements of the innermost loop of a larger row
    alone: int  # elements of an output that one thread may write alone
    rows: int  # items from which two at a time still leave enough for the threads
    folded: int  # elements of a chunk of a long row
    cached: int  # elements of a row that loops pass to one another as float32
    short_rows: ShortRows


def pieces(machine: Machine, tuning: Tuning = MODEL) -> Pieces:
    """The sizes of the machine, with those that a tuning overrides."""
    return replace(_model(machine), **tuning.sizes)  # type: ignore[arg-type]  # only sizes have names there


@lru_cache(maxsize=8)
def _model(machine: Machine) -> Pieces:
    block, line = half_of_l1(machine), machine.line_bytes
    # One thread that is late delays the others by a quarter at most; there may be more than cores.
    items = 4 * max(4, machine.cores) if machine.cores > 1 else 1
    return Pieces(
        item=2 * block,
        block=block,
        column=16 * line // FLOAT,  # sixteen vectors of a line each for every row
        short=256 * machine.costs.latency * machine.lanes,  # a row takes 256 times as long as an addition
        band=32,  # of which the first ones compute rows that another band has computed, too: a tenth of them
        items=items,
        line=line,
        run=machine.pages,
        chunk=PAGE // 2 // line,
        least_run=2 * line,  # lines are fetched in pairs
        longer=4 * machine.pages * PAGE,  # alike where the second cache has 1 MB and where it has 2
        large=machine.l2_bytes,
        row=machine.l2_bytes // 2 // 2 // FLOAT,  # two of them fill half of the second cache
        row_piece=4 * line // FLOAT,
        alone=4 * block,
        rows=4 * items,
        folded=block,
        cached=machine.l1_bytes * 2 // 3 // FLOAT,
        short_rows=_short_rows(machine),
    )


def _short_rows(machine: Machine) -> ShortRows:
    """Two additions begin in each cycle: as many rows as fill the latency of one, in a third of the first
    cache; with the values that they pass to one another less than half of it."""
    rows = 2 * machine.costs.latency
    return ShortRows(machine.l1_bytes // 3 // rows, rows, machine.l1_bytes * 5 // 12)


def half_of_l1(machine: Machine) -> int:
    """The largest power of two of float32 elements that half of the first cache holds, since their operands
    need room, too."""
    return 1 << ((machine.l1_bytes // 2 // FLOAT).bit_length() - 1)
