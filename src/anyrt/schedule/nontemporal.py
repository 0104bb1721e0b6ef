"""The outputs that are stored past the caches: so large that nothing of them remains in a cache until the
next inference writes them, while every line would be read from memory before it is overwritten.

A second kernel that reads an output again (hidden.py) would then read it from memory, so the gain is smaller
by that much. For dynamic sizes, the engine decides at run time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyrt.core.dims import Dim, add, always_le, floordiv, maximum, minimum, mul, product, total
from anyrt.core.dtype import bits
from anyrt.core.enums import DataType
from anyrt.core.errors import NotSupportedError
from anyrt.core.machine import Machine
from anyrt.ir.compute import Elements
from anyrt.ir.graph import Graph, Value, users


@dataclass(frozen=True, slots=True)
class Past:
    """Sizes that are not 0 if an output is stored past the caches: in order by rows, or in tiles, whose lines
    are scattered."""

    rows: Dim
    tiles: Dim


NOT_PAST = Past(0, 0)


def in_order(machine: Machine) -> int:
    """The bytes of inputs and outputs together that the last-level cache does not hold: a quarter more than
    its size."""
    return machine.last_bytes * 5 // 4


def in_tiles(machine: Machine) -> int:
    """Bytes of an output that is written in tiles: half of that cache."""
    return machine.last_bytes // 2


def past_caches(graph: Graph, machine: Machine, again: Mapping[Value, Dim]) -> dict[Value, Past]:
    """For each of a network's outputs, whether it is stored past the caches; never if too many dynamic sizes
    decide. `again`: the number of elements of an output that a second kernel reads."""
    try:
        return _past_caches(graph, machine, again)
    except NotSupportedError:
        return {v: NOT_PAST for _, v in graph.outputs}


def _past_caches(graph: Graph, machine: Machine, again: Mapping[Value, Dim]) -> dict[Value, Past]:
    uses, outputs = users(graph), {v for _, v in graph.outputs}
    reads = [_bytes(v.dtype, _read(v, uses.get(v, []))) for _, v in graph.inputs]
    gains = {v: _bytes(v.dtype, add(product(v.shape), mul(again.get(v, 0), -1))) for v in outputs}
    traffic = total((*reads, *(gains[v] for _, v in graph.outputs)))
    rows = _reaches(traffic, in_order(machine))
    return {v: _past(rows, gain, machine) for v, gain in gains.items()}


def _past(rows: Dim, gain: Dim, machine: Machine) -> Past:
    """`gain`: bytes of an output that are not read again; `rows`: 1 if outputs written in order bypass the
    caches."""
    return NOT_PAST if gain == 0 else Past(rows, maximum(rows, _reaches(gain, in_tiles(machine))))


def _read(value: Value, uses: Sequence[Value]) -> Dim:
    """Elements of an input that are read: of a table only those at the positions that are gathered."""
    whole = product(value.shape)
    if not uses or any(not isinstance(u.compute, Elements) or u.compute.same for u in uses):
        return whole
    return minimum(whole, total(product(u.shape) for u in uses))


def _bytes(dtype: DataType, elements: Dim) -> Dim:
    return floordiv(mul(elements, bits(dtype)), 8)


def _reaches(size: Dim, least: int) -> Dim:
    """1 where `size` is at least `least`, else 0."""
    return 0 if always_le(size, least - 1) else minimum(1, floordiv(size, least))
