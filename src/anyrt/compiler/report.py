"""The build report: which layers each kernel computes, what it moves, and why something got a buffer of its
own."""

from __future__ import annotations

from collections.abc import Iterable

from anyrt.codegen.host import touched
from anyrt.compiler.native import Lowered
from anyrt.core.dims import Dim, add
from anyrt.ir.graph import Graph
from anyrt.ir.kernel import Space
from anyrt.schedule.arena import buffer_bytes
from anyrt.schedule.fuse import Launch

MEMORY = frozenset({Space.INPUT, Space.OUTPUT, Space.CONST, Space.ARENA})


def report_text(lowered: Lowered, extra: Iterable[str] = ()) -> str:
    """The report as lines of text."""
    graph, schedule = lowered.graph, lowered.schedule
    lines = [
        f"kernels: {len(schedule.launches)}, tables of taps: {len(schedule.tables.made)}, "
        f"bytes of intermediate tensors: {lowered.arena_bytes}"
    ]
    for launch in schedule.launches:
        names = ", ".join(layer_names(graph, launch))
        lines.append(f"  {launch.kernel.name}: {names}; touches {moved_bytes(launch)} bytes")
    if schedule.refused:
        lines.append("stored in memory instead of fused:")
        lines += [f"  {graph.name(r.value)}: {r.reason}" for r in schedule.refused]
    return "\n".join([*lines, *extra])


def layer_names(graph: Graph, launch: Launch) -> list[str]:
    """The layers whose values a kernel computes, in the order of the graph."""
    named: dict[str, None] = {}
    for value in reversed((*launch.makes, *launch.inlined)):
        name = graph.names.get(value)
        if name is not None:
            named[name] = None
    return list(named) or [graph.name(launch.makes[0])]


def moved_bytes(launch: Launch) -> Dim:
    """Bytes of all tensors that a kernel reads or writes, each counted once."""
    total: Dim = 0
    for buffer in touched(launch.kernel):
        if buffer.space in MEMORY:
            total = add(total, buffer_bytes(buffer))
    return total
