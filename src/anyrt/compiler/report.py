"""The build report: which layers each kernel computes, what it moves, and why something got a buffer of its
own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anyrt.codegen.emit import Function
from anyrt.compiler.native import Lowered
from anyrt.core.dims import Dim, add
from anyrt.core.lines import in_line
from anyrt.ir.buffer import Space
from anyrt.ir.graph import Graph, Value
from anyrt.ir.kernel import Kernel, Loop
from anyrt.ir.statements import expressions, loops
from anyrt.ir.visit import parts
from anyrt.schedule.arena import buffer_bytes
from anyrt.schedule.fuse import Launch
from anyrt.schedule.labels import Layers
from anyrt.schedule.versions import versions

MUCH = 200_000  # characters of a kernel's text, above which the report says why
MEMORY = frozenset({Space.INPUT, Space.OUTPUT, Space.CONST, Space.ARENA})


def report_text(lowered: Lowered, extra: Iterable[str] = ()) -> str:
    """The report as lines of text."""
    graph, schedule = versions(lowered.graph)[0].graph, lowered.schedule
    layers = Layers.in_graph(graph)
    called = value_names(graph, layers)
    lines = [
        f"kernels: {len(schedule.launches)}, tables of taps: {len(schedule.tables.needed)}, "
        f"bytes of intermediate tensors: {lowered.arena_bytes}"
    ]
    lines += [f"  {launch.name}: touches {moved_bytes(launch)} bytes" for launch in schedule.launches]
    if schedule.refused:
        lines.append("stored in memory instead of fused:")
        lines += [f"  {called[r.value]}: {r.reason}" for r in schedule.refused]
    return "\n".join([*lines, *extra])


def written_lines(lowered: Lowered, functions: Mapping[int, Function]) -> list[str]:
    """How much LLVM text was written, and why where a kernel has very much of it."""
    kernels = lowered.module.distinct
    if not kernels:
        return []
    sizes = {k.name: len(functions[id(k)].text) for k in kernels}
    largest = max(sizes, key=lambda name: sizes[name])
    total = f"{sum(sizes.values()) >> 10} KB of LLVM text in {len(kernels)} different kernels"
    lines = [f"{total}, {sizes[largest] >> 10} KB in the largest, {largest}"]
    lines += [f"  {k.name}: {_reason(k)}" for k in kernels if sizes[k.name] > MUCH]
    return lines


def _reason(kernel: Kernel) -> str:
    """What makes a kernel's text long."""
    nests = [loop for loop in loops(kernel.body) if loop.kind is Loop.VECTOR]
    tiles = [loop for loop in loops(kernel.body) if loop.kind is Loop.TILE]
    parts_of = (len(parts(expressions(loop.body))) for loop in nests)
    found = f"{len(nests)} vector loops, the largest of {max(parts_of, default=0)} instructions"
    return f"{found}; {len(tiles)} tiles, each transposed lane by lane" if tiles else found


def value_names(graph: Graph, layers: Layers) -> dict[Value, str]:
    """What to call each value: a layer's result by the layer, what a layer computes on the way as "layer
    (primitive)"."""
    return {v: _value_name(graph, v, layer) for v, layer in layers.of.items()}


def _value_name(graph: Graph, value: Value, layer: str) -> str:
    if not layer:
        return graph.name(value)
    return in_line(layer) if value in graph.names else f"{in_line(layer)} ({graph.name(value)})"


def moved_bytes(launch: Launch) -> Dim:
    """Bytes of all tensors that a kernel reads or writes, each counted once."""
    total: Dim = 0
    for buffer in launch.call.buffers:
        if buffer.space in MEMORY:
            total = add(total, buffer_bytes(buffer))
    return total
