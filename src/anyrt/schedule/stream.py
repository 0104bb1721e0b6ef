"""Which outputs are written past the caches: so large that nothing of them would still be there when the next
inference writes them, while every line would be read from memory before it is overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from anyrt.core.dtype import bits
from anyrt.core.enums import DataType
from anyrt.ir.kernel import Buffer, Kernel, Loop, Space
from anyrt.ir.statements import loops, stores
from anyrt.schedule.cost import Sizes
from anyrt.schedule.nest import substitute_stmt

IN_ORDER = 40 << 20  # bytes of inputs and outputs together: of less a last-level cache holds enough
ACROSS = 16 << 20  # bytes of an output that is written in tiles, a line here and a line there


def past_caches(kernels: Sequence[Kernel], traffic: int, sizes: Sizes) -> dict[Buffer, Buffer]:
    """For each output that shall be written past the caches the buffer to use instead; `traffic`: bytes of
    inputs and outputs."""
    found: dict[Buffer, Buffer] = {}
    for kernel in kernels:
        tiled = any(s.kind is Loop.TILE for s in loops(kernel.body))
        for store in stores(kernel.body):
            large = traffic >= IN_ORDER or (tiled and _bytes(store.buffer, sizes) >= ACROSS)
            if store.buffer.space is Space.OUTPUT and large:
                found[store.buffer] = replace(store.buffer, stream=True)
    return found


def with_buffers(kernel: Kernel, swap: Mapping[Buffer, Buffer]) -> Kernel:
    """The kernel on other buffers."""
    return replace(kernel, body=tuple(substitute_stmt(s, {}, swap) for s in kernel.body)) if swap else kernel


def _bytes(buffer: Buffer, sizes: Sizes) -> int:
    return sizes.of(buffer.size) * bits(buffer.type) // 8 if isinstance(buffer.type, DataType) else 0
