"""Stored tensors that overwrite another one: a tensor that their kernel reads for the last time, each element
only to compute the element in its place (loops/overwrite.py).

A border around both must be the same, since it is stored before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyrt.ir.buffer import Buffer, Space
from anyrt.schedule.launch import ExternalStep, Launch
from anyrt.schedule.storage import PACKED


def taken_over(
    steps: Sequence[Launch | ExternalStep | Buffer], last: Mapping[Buffer, int]
) -> dict[Buffer, Buffer]:
    """For each tensor that may overwrite another one, that one; `last`: the last step that needs each."""
    launches = {n: x for n, x in enumerate(steps) if isinstance(x, Launch)}
    writers: dict[Buffer, list[int]] = {}
    for n, launch in launches.items():
        for target in launch.written:
            writers.setdefault(target, []).append(n)
    replaced: dict[Buffer, Buffer] = {}
    for n, launch in launches.items():
        target = launch.group.buffer
        if target.space is not Space.ARENA or target.type in PACKED or launch.group.border is not None:
            continue
        for old in launch.call.buffers:
            dies = last[old] == n and old in writers and old not in replaced.values()
            alike = old != target and (old.space, old.type, old.size) == (
                target.space,
                target.type,
                target.size,
            )
            others = [m for m in writers[target] if m != n]
            bordered = _bordered_alike(launches, others, writers.get(old, ()))
            if dies and alike and bordered and launch.may_store_over(old):
                replaced[target] = old
                break
    return replaced


def _bordered_alike(launches: Mapping[int, Launch], others: Sequence[int], before: Sequence[int]) -> bool:
    """True if a tensor has only one other store, of a border alone that the overwritten one already has."""
    there = {_border(launches[m]): m for m in before if launches[m].group.border is not None}
    borders = {m for m in others if launches[m].group.border is not None and not launches[m].group.fills}
    return all(m in borders and there.get(_border(launches[m]), m) < m for m in others)


def _border(launch: Launch) -> object:
    return launch.group.border, launch.group.layout, launch.group.root.type
