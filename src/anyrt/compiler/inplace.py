"""Which stored tensors take the memory of another one: of a tensor that the kernel which makes them reads for
the last time, each element only to write the same one in its place (loops/overwrite.py).

A border around both must be the same one, for it is stored again before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyrt.core.dims import product
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.graph import Value
from anyrt.ir.statements import buffers_in_order
from anyrt.loops.overwrite import reads_what_it_stores, stores_of
from anyrt.schedule.fuse import Launch
from anyrt.schedule.storage import PACKED


def taken_over(launches: Sequence[Launch], buffers: Mapping[Value, Buffer]) -> dict[Buffer, Buffer]:
    """For each tensor that may have another one's memory, that one."""
    last = {b: n for n, x in enumerate(launches) for b in x.call.buffers}
    writers: dict[Buffer, list[int]] = {}
    for n, launch in enumerate(launches):
        for value in launch.makes:
            writers.setdefault(buffers.get(value, launch.group.buffer), []).append(n)
    found: dict[Buffer, Buffer] = {}
    for n, launch in enumerate(launches):
        made = launch.group.buffer
        if made.space is not Space.ARENA or made.type in PACKED or launch.group.border is not None:
            continue
        for old in launch.call.buffers:
            dies = last[old] == n and old in writers and old not in found.values()
            alike = old != made and (old.space, old.type, old.size) == (made.space, made.type, made.size)
            others = [m for m in writers[made] if m != n]
            if dies and alike and _bordered_alike(launches, others, writers[old]) and _in_place(launch, old):
                found[made] = old
                break
    return found


def _bordered_alike(launches: Sequence[Launch], others: Sequence[int], before: Sequence[int]) -> bool:
    """True where nothing else is stored to a tensor but a border that the one before it has already."""
    there = {_border(launches[m]): m for m in before if launches[m].group.border is not None}
    return all(
        launches[m].group.border is not None and there.get(_border(launches[m]), m) < m for m in others
    )


def _border(launch: Launch) -> object:
    return launch.group.border, launch.group.layout, launch.group.root.type


def _in_place(launch: Launch, old: Buffer) -> bool:
    """True where a kernel stores each element once, and reads that of `old` before, no other, nor later."""
    kernel, call = launch.call.kernel, launch.call
    own = {call.binds.get(b, b): b for b in buffers_in_order(kernel)}
    made, read = own[launch.group.buffer], own[old]
    if call.first.get(made, 0) != call.first.get(read, 0) or not reads_what_it_stores(kernel, made, read):
        return False
    return stores_of(kernel, made) == product(launch.root.shape)
