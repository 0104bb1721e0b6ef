"""Which outputs are written past the caches: so large that nothing of them would still be there when the next
inference writes them, while every line would be read from memory before it is overwritten.

Where sizes are open, they decide while the engine runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from anyrt.core.dims import Dim, add, always_le, floordiv, maximum, minimum, mul, product
from anyrt.core.dtype import bits
from anyrt.core.enums import DataType
from anyrt.ir.graph import Value
from anyrt.ir.kernel import Buffer, Kernel, Loop, Space
from anyrt.ir.statements import loops, stores
from anyrt.schedule.nest import substitute_stmt

IN_ORDER = 40 << 20  # bytes of inputs and outputs together: of less a last-level cache holds enough
ACROSS = 16 << 20  # bytes of an output that is written in tiles, a line here and a line there


def past_caches(kernels: Sequence[Kernel], ends: Iterable[Value]) -> dict[Buffer, Buffer]:
    """For each output that shall be written past the caches the buffer to use instead; `ends`: all inputs
    and outputs."""
    found: dict[Buffer, Buffer] = {}
    traffic: Dim = 0
    for value in ends:
        traffic = add(traffic, _bytes(value.dtype, product(value.shape)))
    together = _reaches(traffic, IN_ORDER)
    for kernel in kernels:
        tiled = any(s.kind is Loop.TILE for s in loops(kernel.body))
        for store in stores(kernel.body):
            buffer, large = store.buffer, together
            if buffer.space is not Space.OUTPUT:
                continue
            if tiled and isinstance(buffer.type, DataType):
                large = maximum(large, _reaches(_bytes(buffer.type, buffer.size), ACROSS))
            if large != 0:
                found[buffer] = replace(buffer, stream=maximum(large, found.get(buffer, buffer).stream))
    return found


def with_buffers(kernel: Kernel, swap: Mapping[Buffer, Buffer]) -> Kernel:
    """The kernel on other buffers."""
    return replace(kernel, body=tuple(substitute_stmt(s, {}, swap) for s in kernel.body)) if swap else kernel


def _bytes(dtype: DataType, elements: Dim) -> Dim:
    return floordiv(mul(elements, bits(dtype)), 8)


def _reaches(size: Dim, least: int) -> Dim:
    """1 where `size` is at least `least`, else 0."""
    return 0 if always_le(size, least - 1) else minimum(1, floordiv(size, least))
