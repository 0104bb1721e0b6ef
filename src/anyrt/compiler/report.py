"""The build report: which layers each kernel computes, what it moves, and why something got a buffer of its
own."""

from __future__ import annotations

from collections.abc import Iterable

from anyrt.compiler.native import Lowered
from anyrt.core.dims import Dim, add
from anyrt.ir.graph import Graph, Value, users, walk
from anyrt.ir.kernel import Space
from anyrt.schedule.arena import buffer_bytes
from anyrt.schedule.fuse import Launch
from anyrt.schedule.versions import versions

MEMORY = frozenset({Space.INPUT, Space.OUTPUT, Space.CONST, Space.ARENA})


def report_text(lowered: Lowered, extra: Iterable[str] = ()) -> str:
    """The report as lines of text."""
    graph, schedule = versions(lowered.graph)[0].graph, lowered.schedule
    called = value_names(graph)
    lines = [
        f"kernels: {len(schedule.launches)}, tables of taps: {len(schedule.tables.made)}, "
        f"bytes of intermediate tensors: {lowered.arena_bytes}"
    ]
    for launch in schedule.launches:
        names = ", ".join(layer_names(graph, launch)) or called[launch.makes[0]]
        lines.append(f"  {launch.kernel.name}: {names}; touches {moved_bytes(launch)} bytes")
    if schedule.refused:
        lines.append("stored in memory instead of fused:")
        lines += [f"  {called[r.value]}: {r.reason}" for r in schedule.refused]
    return "\n".join([*lines, *extra])


def layer_names(graph: Graph, launch: Launch) -> list[str]:
    """The layers whose values a kernel computes, in the order of the graph."""
    named: dict[str, None] = {}
    for value in reversed((*launch.makes, *launch.inlined)):
        name = graph.names.get(value)
        if name is not None:
            named[name] = None
    return list(named)


def value_names(graph: Graph) -> dict[Value, str]:
    """What to call each value: a layer's result by the layer, what a layer computes on the way as "layer
    (primitive)"."""
    uses, layers = users(graph), dict[Value, str]()
    for value in reversed(list(walk(v for _, v in graph.outputs))):
        layers[value] = graph.names.get(value) or next((layers[u] for u in uses[value]), "")
    inner = {v: f"{layer} ({graph.name(v)})" if layer else graph.name(v) for v, layer in layers.items()}
    return {**inner, **graph.names}


def moved_bytes(launch: Launch) -> Dim:
    """Bytes of all tensors that a kernel reads or writes, each counted once."""
    total: Dim = 0
    for buffer in launch.call.buffers:
        if buffer.space in MEMORY:
            total = add(total, buffer_bytes(buffer))
    return total
