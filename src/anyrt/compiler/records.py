"""What the inspector tells of each kernel, read off the schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from anyrt.compiler.native import Lowered
from anyrt.core.enums import DataType
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.graph import Graph, Value
from anyrt.plan.kernels import KernelRecord, TensorRecord, print_records
from anyrt.plan.program import Compiled
from anyrt.schedule.fuse import Schedule, port_names
from anyrt.schedule.labels import Layers, distinct
from anyrt.schedule.versions import versions

COPY = "copy"
TENSORS = frozenset({Space.INPUT, Space.OUTPUT, Space.ARENA})


def with_records(compiled: Compiled, lowered: Lowered) -> Compiled:
    """The code of an engine with what is told of its kernels."""
    about = print_records(kernel_records(lowered))
    return replace(compiled, program=replace(compiled.program, about=about))


def kernel_records(lowered: Lowered) -> tuple[KernelRecord, ...]:
    """A record for each kernel of every version, in the order of the program's names."""
    pairs = zip(versions(lowered.graph), lowered.schedules, strict=True)
    return tuple(record for version, schedule in pairs for record in _of_version(version.graph, schedule))


def _of_version(graph: Graph, schedule: Schedule) -> Iterator[KernelRecord]:
    layers = Layers.in_graph(graph)
    tensors = _tensors(graph, schedule, layers)
    for launch in schedule.launches:
        written = {launch.group.buffer.name, *(b.name for _, b in launch.group.also)}
        buffers = launch.call.buffers
        touched = [b for b in buffers if b.space in TENSORS]
        yield KernelRecord(
            COPY if launch.group.copy else launch.kind,
            str(launch.tuning),
            launch.tuning.tactic,
            tuple(layers.computed(launch)),
            tuple(tensors[b.name] for b in touched if b.name not in written),
            tuple(tensors[b.name] for b in touched if b.name in written),
            tuple(_weights(buffers)),
        )


def _tensors(graph: Graph, schedule: Schedule, layers: Layers) -> Mapping[str, TensorRecord]:
    """The tensors in memory, by the names of their buffers."""
    ends = (*graph.inputs, *graph.outputs)
    found = {
        port: TensorRecord(name, "", value.dtype, value.shape)
        for port, (name, value) in zip(port_names(graph), ends, strict=True)
    }
    inner = {v: b for v, b in schedule.buffers.items() if b.space is Space.ARENA}
    names = distinct((_tensor_name(graph, v, layers.of[v]) for v in inner), (r.name for r in found.values()))
    for (value, buffer), name in zip(inner.items(), names, strict=True):
        layer = layers.of[value] if value in graph.names else ""
        found[buffer.name] = TensorRecord(name, layer, value.dtype, value.shape)
    return found


def _tensor_name(graph: Graph, value: Value, layer: str) -> str:
    """As tensors are called that nobody has named."""
    if value in graph.names:
        return f"{layer}_output"
    return f"{layer} ({graph.name(value)})_output" if layer else f"{graph.name(value)}_output"


def _weights(buffers: Iterable[Buffer]) -> Iterator[tuple[DataType, int]]:
    counts = Counter[DataType]()
    for buffer in buffers:
        if buffer.space is Space.CONST and isinstance(buffer.type, DataType) and isinstance(buffer.size, int):
            counts[buffer.type] += buffer.size
    yield from counts.items()
