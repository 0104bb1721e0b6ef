"""The inspector's record of each kernel, derived from the schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from anyrt.compiler.native import Lowered
from anyrt.core.dims import symbols
from anyrt.core.enums import DataType
from anyrt.core.requirement import Fence
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.graph import Graph, Value
from anyrt.plan.kernels import KernelRecord, TensorRecord, print_records
from anyrt.plan.program import Compiled
from anyrt.prims.collective import Collective
from anyrt.schedule.labels import Layers, distinct
from anyrt.schedule.launch import ExternalStep, RegionStep, Schedule
from anyrt.schedule.ports import port_names

COPY = "copy"
TURNS, WAYS, PLUGIN, EXCHANGE = "loop", "conditional", "plug-in", "exchange"
Parts: TypeAlias = "Iterator[KernelRecord | Parts]"
TENSORS = frozenset({Space.INPUT, Space.OUTPUT, Space.ARENA})


def with_records(compiled: Compiled, lowered: Lowered) -> Compiled:
    """The code of an engine with the records of its kernels."""
    about = print_records(kernel_records(lowered))
    fences = tuple(_fences(lowered, compiled.program.fences))
    return replace(compiled, program=replace(compiled.program, about=about, fences=fences))


def kernel_records(lowered: Lowered) -> tuple[KernelRecord, ...]:
    """A record for each step of every version, in the order of the program's names."""
    records = (record for schedule in lowered.schedules for record in _flat(_of_graph(schedule, {})))
    inner = frozenset(lowered.module.inner)

    def known(tensors: Iterable[TensorRecord]) -> tuple[TensorRecord, ...]:
        """With −1 for sizes inside regions, which no plan knows."""
        shapes = ((t, (-1 if inner & symbols(d) else d for d in t.shape)) for t in tensors)
        return tuple(replace(t, shape=tuple(shape)) for t, shape in shapes)

    return tuple(replace(r, inputs=known(r.inputs), outputs=known(r.outputs)) for r in records)


def _fences(lowered: Lowered, fences: Sequence[Fence]) -> Iterator[Fence]:
    """The access checks of all calls, with the names that tensors have in the network."""
    filled = len(lowered.module.fills)
    yield from fences[:filled]
    rest = iter(fences[filled:])
    for schedule in lowered.schedules:
        names = dict(_names(schedule))
        for _, fence in zip(schedule.everywhere, rest, strict=False):
            yield replace(fence, tensors=tuple(names.get(t, t) for t in fence.tensors))


def _names(schedule: Schedule) -> Iterator[tuple[str, str]]:
    """The names of tensors of a graph and its regions, by the names of their buffers; a shared tensor has its
    name in the outer graph."""
    for part in reversed([*schedule.nested]):
        tensors = _tensors(part.graph, part, Layers.in_graph(part.graph))
        yield from ((buffer, record.name) for buffer, record in tensors.items())


def _flat(parts: Parts) -> Iterator[KernelRecord]:
    """All nested records, in order, without recursion: regions may be hundreds deep."""
    todo = [parts]
    while todo:
        part = next(todo[-1], None)
        if isinstance(part, KernelRecord):
            yield part
        elif part is None:
            todo.pop()
        else:
            todo.append(part)


def _of_graph(schedule: Schedule, around: Mapping[str, TensorRecord]) -> Parts:
    """Those of a graph and its regions; `around`: the tensors of the graphs around it."""
    graph = schedule.graph
    layers = Layers.in_graph(graph)
    tensors = {**_tensors(graph, schedule, layers), **around}
    for step in schedule.steps:
        if isinstance(step, RegionStep):
            yield _of_nest(step, tensors)
            continue
        if isinstance(step, ExternalStep):
            yield _of_graph(step.before, tensors)
            yield _of_plugin(step, tensors)
            continue
        touched = [b for b in step.call.buffers if b.space in TENSORS]
        written = {b.name for b in step.written}
        for name in written:  # a copy for the next iteration of a loop is not a separate value
            tensors.setdefault(name, TensorRecord(name, "", step.root.dtype, step.root.shape))
        yield KernelRecord(
            COPY if step.group.copy else step.kind,
            str(step.tuning),
            step.tuning.tactic,
            tuple(layers.computed(step)),
            tuple(tensors[b.name] for b in touched if b.name not in written),
            tuple(tensors[b.name] for b in touched if b.name in written),
            tuple(_weights(step.call.buffers)),
        )


def _of_plugin(step: ExternalStep, tensors: Mapping[str, TensorRecord]) -> KernelRecord:
    own = (x for x in zip(step.writes, step.node.types, strict=True) if x[0].name not in tensors)
    known = {**tensors, **{b.name: TensorRecord(b.name, "", t.dtype, t.shape) for b, t in own}}
    takes, gives = (
        tuple(known[b.name] for b in side if b.name in known and b.space in TENSORS)
        for side in (step.reads, step.writes)
    )
    kind = EXCHANGE if isinstance(step.node.op, Collective) else PLUGIN
    return KernelRecord(kind, "", 0, (step.name,), takes, gives, tuple(_weights(step.reads)))


def _of_nest(nest: RegionStep, tensors: Mapping[str, TensorRecord]) -> Parts:
    before = _tensors(nest.before.graph, nest.before, Layers.in_graph(nest.before.graph))
    flag = {**before, **tensors}[nest.flag.name]  # a condition decided earlier may be a constant
    yield _of_graph(nest.before, tensors)
    yield KernelRecord(TURNS if nest.turns else WAYS, "", 0, (nest.name,), (flag,), (), ())
    for body in nest.bodies:
        yield _of_graph(body, tensors)


def _tensors(graph: Graph, schedule: Schedule, layers: Layers) -> Mapping[str, TensorRecord]:
    """The tensors in memory, by the names of their buffers."""
    ends = (*graph.inputs, *graph.outputs)
    records = {
        port: TensorRecord(name, "", value.dtype, value.shape)
        for port, (name, value) in zip(port_names(graph), ends, strict=True)
    }
    inner = {v: b for v, b in schedule.buffers.items() if b.space is Space.ARENA}
    called = (_tensor_name(graph, v, layers.of.get(v, "")) for v in inner)
    names = distinct(called, (r.name for r in records.values()))
    for (value, buffer), name in zip(inner.items(), names, strict=True):
        layer = layers.of.get(value, "") if value in graph.names else ""
        records[buffer.name] = TensorRecord(name, layer, value.dtype, value.shape)
    return records


def _tensor_name(graph: Graph, value: Value, layer: str) -> str:
    """The name of tensors without a name."""
    if value in graph.names:
        return f"{layer}_output"
    return f"{layer} ({graph.name(value)})_output" if layer else f"{graph.name(value)}_output"


def _weights(buffers: Iterable[Buffer]) -> Iterator[tuple[DataType, int]]:
    counts = Counter[DataType]()
    for buffer in buffers:
        if buffer.space is Space.CONST and isinstance(buffer.type, DataType) and isinstance(buffer.size, int):
            counts[buffer.type] += buffer.size
    yield from counts.items()
