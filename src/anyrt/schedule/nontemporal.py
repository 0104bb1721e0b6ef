"""Which outputs are written past the caches: so large that nothing of them would still be there when the next
inference writes them, while every line would be read from memory before it is overwritten.

Where sizes are open, they decide while the engine runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyrt.core.dims import Dim, always_le, floordiv, maximum, minimum, mul, product, total
from anyrt.core.dtype import bits
from anyrt.core.enums import DataType
from anyrt.core.errors import NotSupportedError
from anyrt.core.machine import Machine
from anyrt.ir.compute import Elements
from anyrt.ir.graph import Graph, Value, users


@dataclass(frozen=True, slots=True)
class Past:
    """Sizes that are not 0 where an output is written past the caches: by rows in order, or in tiles, a line
    here and a line there."""

    rows: Dim
    tiles: Dim


NOT_PAST = Past(0, 0)


def in_order(machine: Machine) -> int:
    """Bytes of inputs and outputs together, from which the last-level cache does not hold enough of them: a
    quarter more than it has."""
    return machine.last_bytes * 5 // 4


def in_tiles(machine: Machine) -> int:
    """Bytes of an output that is written in tiles: half of that cache."""
    return machine.last_bytes // 2


def past_caches(graph: Graph, machine: Machine) -> dict[Value, Past]:
    """For each of a network's outputs, whether it is written past the caches: not where so many open sizes
    decide it that no formula shall."""
    try:
        return _past_caches(graph, machine)
    except NotSupportedError:
        return {v: NOT_PAST for _, v in graph.outputs}


def _past_caches(graph: Graph, machine: Machine) -> dict[Value, Past]:
    uses, outputs = users(graph), {v for _, v in graph.outputs}
    reads = [_bytes(v.dtype, _read(v, uses.get(v, []))) for _, v in graph.inputs]
    sizes = {v: _bytes(v.dtype, product(v.shape)) for v in outputs}
    traffic = total((*reads, *(sizes[v] for _, v in graph.outputs)))
    rows = _reaches(traffic, in_order(machine))
    return {v: Past(rows, maximum(rows, _reaches(size, in_tiles(machine)))) for v, size in sizes.items()}


def _read(value: Value, uses: Sequence[Value]) -> Dim:
    """Elements of an input that are read: of a table only those at the positions that are asked for."""
    whole = product(value.shape)
    if not uses or any(not isinstance(u.compute, Elements) or u.compute.same for u in uses):
        return whole
    return minimum(whole, total(product(u.shape) for u in uses))


def _bytes(dtype: DataType, elements: Dim) -> Dim:
    return floordiv(mul(elements, bits(dtype)), 8)


def _reaches(size: Dim, least: int) -> Dim:
    """1 where `size` is at least `least`, else 0."""
    return 0 if always_le(size, least - 1) else minimum(1, floordiv(size, least))
