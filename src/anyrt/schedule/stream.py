"""Which outputs are written past the caches: so large that nothing of them would still be there when the next
inference writes them, while every line would be read from memory before it is overwritten.

Where sizes are open, they decide while the engine runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from anyrt.core.dims import Dim, add, always_le, floordiv, maximum, minimum, mul, product
from anyrt.core.dtype import bits
from anyrt.core.enums import DataType
from anyrt.core.machine import Machine
from anyrt.ir.graph import Value
from anyrt.ir.kernel import Buffer, Loop, Space
from anyrt.ir.program import Call
from anyrt.ir.statements import loops, stores


def in_order(machine: Machine) -> int:
    """Bytes of inputs and outputs together, from which the last-level cache does not hold enough of them: a
    quarter more than it has."""
    return machine.last_bytes * 5 // 4


def across(machine: Machine) -> int:
    """Bytes of an output that is written in tiles, a line here and a line there: half of that cache."""
    return machine.last_bytes // 2


def past_caches(calls: Sequence[Call], ends: Iterable[Value], machine: Machine) -> dict[Buffer, Buffer]:
    """For each output that shall be written past the caches the buffer to use instead; `ends`: all inputs
    and outputs."""
    found: dict[Buffer, Buffer] = {}
    traffic: Dim = 0
    for value in ends:
        traffic = add(traffic, _bytes(value.dtype, product(value.shape)))
    together = _reaches(traffic, in_order(machine))
    for call in calls:
        if not any(b.space is Space.OUTPUT for b in call.buffers):
            continue
        tiled = any(s.kind is Loop.TILE for s in loops(call.kernel.body))
        for store in stores(call.kernel.body):
            buffer, large = call.binds.get(store.buffer, store.buffer), together
            if buffer.space is not Space.OUTPUT:
                continue
            if tiled and isinstance(buffer.type, DataType):
                large = maximum(large, _reaches(_bytes(buffer.type, buffer.size), across(machine)))
            if large != 0:
                found[buffer] = replace(buffer, stream=maximum(large, found.get(buffer, buffer).stream))
    return found


def _bytes(dtype: DataType, elements: Dim) -> Dim:
    return floordiv(mul(elements, bits(dtype)), 8)


def _reaches(size: Dim, least: int) -> Dim:
    """1 where `size` is at least `least`, else 0."""
    return 0 if always_le(size, least - 1) else minimum(1, floordiv(size, least))
