"""The build report: the layers of each kernel, its memory traffic, and why values were stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from anyrt.codegen.emit import Function
from anyrt.compiler.native import Lowered
from anyrt.compiler.traffic import traffic
from anyrt.core.counts import at_most
from anyrt.core.dtype import storage_bytes
from anyrt.core.lines import in_line
from anyrt.core.units import counted
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.compute import Given
from anyrt.ir.counted import sizes_of
from anyrt.ir.graph import Graph, Value, nested
from anyrt.ir.kernel import Kernel, Loop
from anyrt.ir.statements import expressions, loops
from anyrt.ir.visit import parts
from anyrt.plan.report import KernelTraffic, Report, StoredTensor
from anyrt.prims.reshape import elements_of
from anyrt.schedule.cost import Sizes
from anyrt.schedule.labels import Layers
from anyrt.schedule.launch import Launch, Schedule
from anyrt.schedule.versions import serving, versions

MUCH = 200_000  # characters of a kernel's text, above which the report gives the reason


def build_report(lowered: Lowered, sizes: Sizes, at: Iterable[str] = (), notes: Iterable[str] = ()) -> Report:
    """The report of the version for `sizes`, which `at` describes."""
    sizes = Sizes(at_most(sizes.values, sizes_of(lowered.graph)))
    kinds = versions(lowered.graph)
    number = serving((v.guard for v in kinds), sizes.values)
    graph, schedule = kinds[number].graph, lowered.schedules[number]
    layers = Layers.in_graph(graph)
    called = value_names(graph, layers)
    values = graph.values
    results = layer_results(graph, values)
    fused = [v for v in results if not _has_memory(schedule.buffers.get(v))]
    return Report(
        at=tuple(at),
        kernels=tuple(_traffics(schedule, sizes)),
        stored=tuple(
            StoredTensor(called[r.value], _bytes(r.value, sizes), r.reason) for r in schedule.refused
        ),
        layers=len({name for part in nested(graph) for name in _computing(part)}),
        results=len(results),
        fused=len(fused),
        result_bytes=sum(_bytes(v, sizes) for v in results),
        fused_bytes=sum(_bytes(v, sizes) for v in fused),
        tables=len(schedule.tables.needed),
        arena_bytes=sizes.of(lowered.arena_bytes),
        notes=(*notes, *_unmet(schedule)),
    )


def _traffics(schedule: Schedule, sizes: Sizes) -> list[KernelTraffic]:
    """The kernels of a graph, and the traffic of one iteration of its loops, and of each branch."""
    layers, kernels = Layers.in_graph(schedule.graph), list[KernelTraffic]()
    for step in schedule.steps:
        if isinstance(step, Launch):
            kernels.append(kernel_traffic(layers, step, sizes))
        else:
            for part in step.parts:
                kernels += _traffics(part, sizes)
    return kernels


def _unmet(schedule: Schedule) -> Iterator[str]:
    """Why products are summed without the instruction intended for them, and in which kernels."""
    names: dict[str, list[str]] = {}
    for part in schedule.nested:
        for launch in part.launches:
            for why in launch.unmet:
                names.setdefault(why, []).append(launch.name)
    for why, kernels in names.items():
        yield f"no instruction of this machine, as {why}: {', '.join(kernels)}"


def _computing(graph: Graph) -> Iterator[str]:
    """The layers of a graph that compute something."""
    for v in graph.values:
        if v in graph.names and not isinstance(v.compute, Given):
            yield graph.names[v]


def kernel_traffic(layers: Layers, launch: Launch, sizes: Sizes) -> KernelTraffic:
    """The report's record of a kernel."""
    moved = traffic(launch, sizes)
    return KernelTraffic(launch.name, tuple(layers.computed(launch)), moved.reads, moved.writes)


def layer_results(graph: Graph, values: Iterable[Value]) -> list[Value]:
    """The results that layers pass on: these `values`, each once, that have a layer's name and are no
    outputs; a reshaped value counts as its source."""
    ends = {elements_of(v) for _, v in (*graph.inputs, *graph.outputs)}
    results = dict.fromkeys(elements_of(v) for v in values if v in graph.names)
    return [v for v in results if v not in ends and not isinstance(v.compute, Given)]


def _has_memory(buffer: Buffer | None) -> bool:
    return buffer is not None and buffer.space is Space.ARENA


def _bytes(value: Value, sizes: Sizes) -> int:
    return storage_bytes(value.dtype, sizes.volume(value))


def written_lines(lowered: Lowered, functions: Mapping[int, Function]) -> tuple[str, ...]:
    """The size of the LLVM text, and the reason if a kernel's text is very long."""
    kernels = lowered.module.distinct
    if not kernels:
        return ()
    sizes = {k.name: len(functions[id(k)].text) for k in kernels}
    largest = max(sizes, key=lambda name: sizes[name])
    different = counted(len(kernels), "kernel", "different kernels")
    total = f"{sum(sizes.values()) >> 10} KB of LLVM text in {different}"
    line = f"{total}, {sizes[largest] >> 10} KB in the largest, {largest}"
    return line, *(f"  {k.name}: {_reason(k)}" for k in kernels if sizes[k.name] > MUCH)


def _reason(kernel: Kernel) -> str:
    """The reason why a kernel's text is long."""
    nests = [loop for loop in loops(kernel.body) if loop.kind is Loop.VECTOR]
    tiles = [loop for loop in loops(kernel.body) if loop.kind is Loop.TILE]
    parts_of = (len(parts(expressions(loop.body))) for loop in nests)
    text = f"{len(nests)} vector loops, the largest of {max(parts_of, default=0)} instructions"
    return f"{text}; {len(tiles)} tiles, each transposed lane by lane" if tiles else text


def value_names(graph: Graph, layers: Layers) -> dict[Value, str]:
    """The name of each value: a layer's result by the layer, an intermediate value of a layer as "layer
    (primitive)"."""
    return {v: _value_name(graph, v, layer) for v, layer in layers.of.items()}


def _value_name(graph: Graph, value: Value, layer: str) -> str:
    if not layer:
        return graph.name(value)
    return in_line(layer) if value in graph.names else f"{in_line(layer)} ({graph.name(value)})"
