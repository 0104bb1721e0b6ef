"""Window: a kernel that sums products over the windows of one image, such as a depthwise convolution.

The image is copied to scratch with its border, and rows of windows become tiles whose sums stay in registers
(window_tile.py). A band of the image fits the nearest cache together with the other data that is read and
written; small images share an item.
"""

from __future__ import annotations

from math import prod

from anyrt.backends.cpu.strategies.common import COLLAPSE, NONTEMPORAL, VERSION, parallel
from anyrt.ir.buffer import BITS
from anyrt.ir.kernel import Kernel, Load
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import parts
from anyrt.loops.nest import stride
from anyrt.loops.window_tile import Size, Slide, Windows, window_tile, windows_of
from anyrt.schedule.step import Context, Step, Strategy

SHARE = 2  # of the nearest cache: the share of a copy
WIDE = 2  # registers of a row of windows
IMAGES = 16  # of an item, at most: a line of cache holds as many factors


def is_windowed(kernel: Kernel) -> bool:
    """Whether a kernel sums windows of images with contiguous columns."""
    windows = windows_of(kernel)
    if isinstance(windows, Fail):
        return False
    loads = [x for x in parts([windows.element], bound=False) if isinstance(x, Load)]
    return not any(stride(x.index, v) == 1 for x in loads for v in windows.outer)


def _tile(kernel: Kernel, c: Context) -> Kernel | Fail:
    windows = windows_of(kernel)
    if isinstance(windows, Fail):
        return windows
    tiled, items = window_tile(kernel, c.names, windows, _size(windows, c), c.estimate)
    return parallel(tiled, c, items)


def _size(w: Windows, c: Context) -> Size:
    """Rows and vectors that fit half of the registers, a band that fits the nearest cache, and as many images
    as leave all threads some."""
    lanes = c.machine.vector_bits // BITS[w.sum.buffer.stored]
    registers = WIDE if c.estimate(w.columns.out) > lanes else 1
    most = max(1, c.machine.registers // 2 // registers)
    rows = 1 if w.rows is None else c.estimate(w.rows.out)
    tile = -(-rows // -(-rows // most))
    band = None if w.rows is None else _band(w, w.rows, tile, c)
    bands = 1 if band is None else -(-rows // band)
    images = prod(map(c.estimate, w.outer))
    return Size(band, tile, registers, lanes, max(1, min(IMAGES, images * bands // c.pieces.items)))


def _band(w: Windows, rows: Slide, tile: int, c: Context) -> int | None:
    """Rows of windows whose image takes its share of the nearest cache, in whole tiles; None for all of them,
    if their number is known."""
    planes = prod(map(c.estimate, w.planes)) * BITS[w.element.type] // 8
    line = planes * c.estimate(w.columns.at)
    most = max(tile, c.machine.l1_bytes // SHARE // line // rows.step)
    count = c.estimate(rows.out)
    if count <= most:
        return None if isinstance(rows.out.extent, int) else most // tile * tile
    bands = -(-count // most)
    return -(-count // bands // tile) * tile


WINDOW: Strategy = (
    COLLAPSE,
    Step("window tile", _tile),
    VERSION,
    NONTEMPORAL,
)
