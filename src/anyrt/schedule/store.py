"""Store: the values of a graph that are stored, and why; the first of four steps (fuse.py).

Inputs, outputs and constants are stored, the operands and results of regions and foreign code, values that
are expensive to recompute (partition.py), and values that kernels have failed to compute inside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anyrt.core.dims import product
from anyrt.core.enums import DataType
from anyrt.core.requirement import FINE, Assertion
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.compute import Elements, Extern, Folded, Given, HostStep
from anyrt.ir.counted import in_turn, mentioned
from anyrt.ir.graph import Shape, Value, users, walk
from anyrt.schedule.compute_at import FusedTile
from anyrt.schedule.hidden import operands, read_again, stored_to_show
from anyrt.schedule.layout import keeps_order
from anyrt.schedule.nest import Numbers, at_first
from anyrt.schedule.nontemporal import Past, past_caches
from anyrt.schedule.partition import Stored, partition
from anyrt.schedule.ports import port_names
from anyrt.schedule.score_tiles import fused_tiles
from anyrt.schedule.stages import staged
from anyrt.schedule.task import Task


@dataclass(frozen=True, slots=True)
class Memory:
    """The stored values of a graph: `buffers`, and why those have one that need not. `order`: all values,
    each after its operands; `outputs`: the buffer of each output by name; `alone`: values that nothing is
    fused with; `past`: outputs that may bypass the caches; `reshaped`: outputs that are written through
    another shape; `assertions`: the results of conditions on data; `judged`: copies of those results that no
    kernel computes, such as inputs, since kernels report them; `tiles`: the tiles, by the value that they
    compute."""

    buffers: Mapping[Value, Buffer]
    reasons: tuple[Stored, ...]
    order: Mapping[Value, int]
    outputs: Mapping[str, Buffer]
    alone: frozenset[Value]
    past: Mapping[Buffer, Past]
    reshaped: frozenset[Value] = frozenset()
    assertions: Mapping[Value, Assertion] = field(default_factory=dict)
    judged: Mapping[Value, Buffer] = field(default_factory=dict)
    tiles: dict[Value, FusedTile] = field(default_factory=dict)

    def reads(self, root: Value, mends: bool = True) -> tuple[Value, ...]:
        """The values that a kernel for `root` computes or loads; `mends`: with those of the kernel that mends
        it."""
        seen: dict[Value, None] = {}
        todo = [*operands(root, mends)]
        while todo:
            v = todo.pop()
            if v not in seen:
                seen[v] = None
                if v not in self.buffers or v is root:
                    todo += operands(v, mends)
        return tuple(seen)

    def storing(self, more: Iterable[Stored], task: Task) -> Memory:
        """The same with buffers for more values."""
        buffers, reasons = dict(self.buffers), list(self.reasons)
        for stored in more:
            if stored.value not in buffers:
                buffers[stored.value] = arena(stored.value.dtype, task.shape(stored.value), task.numbers)
                reasons.append(stored)
        return replace(self, buffers=buffers, reasons=tuple(reasons))


def store(task: Task) -> Memory:
    """The values stored before any kernel is created."""
    graph, outputs = task.graph, [v for _, v in task.graph.outputs]
    # Data-dependent sizes are stored and conditions are tested before anything else is written.
    judged = [v.args[-1] for v in walk(outputs) if v.op.asserts is not None]
    copied = _copies_of_states(task)
    order = {v: k for k, v in enumerate(walk((*in_turn(graph, judged), *copied, *outputs)))}
    places = _outputs(task)
    buffers = _leaves(task, places, order)
    for name, value in graph.outputs:
        buffers.setdefault(value, places[name])
    reshaped = _reshaped(task, buffers)
    fed = _regions(order, buffers, task.numbers)
    alone = task.alone | frozenset(copied)
    memory = Memory(buffers, (), order, places, alone, task.item.past, reshaped).storing(fed, task)
    memory = memory.storing(partition(graph, task.sizes, alone, task.machine), task)
    memory = memory.storing([*stored_to_show(order, users(graph), memory.buffers)], task)
    memory = _judged(_marked(memory, task), task)
    return _in_tiles(memory, task) if task.item.may_tile else memory


def _marked(memory: Memory, task: Task) -> Memory:
    """With the outputs that may bypass the caches, except those that share the memory of an input."""
    graph = task.graph
    if not task.is_whole:
        return memory
    again = {v: read_again(v, memory.buffers) for _, v in graph.outputs}
    past, updated = past_caches(graph, task.machine, again), dict(graph.updates)
    marks = {memory.outputs[n]: past[v] for n, v in graph.outputs if n not in updated}
    return replace(memory, past=marks | dict(memory.past))


def arena(dtype: DataType, shape: Shape, numbers: Numbers) -> Buffer:
    """New memory for a tensor between kernels."""
    return Buffer(f"v{numbers.take()}", dtype, Space.ARENA, product(shape))


def _copies_of_states(task: Task) -> list[Value]:
    """Copies of inputs that are updated in place, which are written first (passes/copy_caches.py)."""
    inputs, readers = dict(task.graph.inputs), users(task.graph)
    copies = (v for _, source in task.graph.updates for v in readers.get(inputs[source], ()))
    return [v for v in copies if isinstance(v.compute, Elements) and v.compute.same and v.compute.moves]


def _outputs(task: Task) -> dict[str, Buffer]:
    """The buffer of each output; a part lies in that of the whole."""
    names = port_names(task.graph)[len(task.graph.inputs) :]
    return {
        name: task.item.parts[v][1]
        if v in task.item.parts
        else Buffer(port, v.dtype, Space.OUTPUT, product(v.shape))
        for (name, v), port in zip(task.graph.outputs, names, strict=True)
    }


def _leaves(task: Task, outputs: Mapping[str, Buffer], order: Iterable[Value]) -> dict[Value, Buffer]:
    """Inputs and constants. An input that shares the memory of an output has its buffer, so that unchanged
    elements need not be stored (loops/keep.py)."""
    graph, buffers = task.graph, dict[Value, Buffer]()
    for (_, value), name in zip(graph.inputs, port_names(graph), strict=False):
        buffers[value] = Buffer(name, value.dtype, Space.INPUT, product(value.shape))
    inputs, results = dict(graph.inputs), dict(graph.outputs)
    first = {value: name for name, value in reversed(graph.outputs)}
    for output, source in graph.updates:
        if first[results[output]] == output:
            buffers[inputs[source]] = outputs[output]
    for value in order:
        match value.compute:
            case Given(constant=True, literal=None):
                name, size = f"const{task.numbers.take()}", product(value.shape)
                buffers[value] = Buffer(name, value.dtype, Space.CONST, size)
    return buffers


def _reshaped(task: Task, buffers: dict[Value, Buffer]) -> frozenset[Value]:
    """A value that only an output reads, with the same elements in the same order under another shape, is
    written to the output directly, unless memory for its sizes is allocated during the inference."""
    readers, reshaped = users(task.graph), set[Value]()
    for value in dict.fromkeys(v for _, v in task.graph.outputs):
        if not task.is_whole or buffers[value].space is not Space.OUTPUT or not keeps_order(value):
            continue
        (source,) = value.args
        whole = isinstance(source.compute, Extern | HostStep) and not mentioned((source, value))
        if whole and readers[source] == [value]:
            buffers[source] = buffers[value]
            reshaped.add(value)
    return frozenset(reshaped)


def _regions(order: Iterable[Value], buffers: dict[Value, Buffer], numbers: Numbers) -> list[Stored]:
    """Memory for the results of steps of their own. The initial value of a result, such as a state, is
    computed in its place if nothing else reads it; other operands of such a step must be stored."""
    nodes = dict.fromkeys(v.node for v in order if isinstance(v.compute, HostStep))
    uses = Counter(a for node in dict.fromkeys(v.node for v in order) for a in node.args)
    for node in nodes:
        results = [Value(node, k) for k in range(len(node.types))]
        buffers |= {x: arena(x.dtype, x.shape, numbers) for x in results if x not in buffers}
        for k, result in at_first(node).items():
            if uses[node.args[k]] == 1 and not isinstance(node.args[k].compute, Given):
                buffers.setdefault(node.args[k], buffers[result])
    fed = (a for node in nodes for a in node.args if not isinstance(a.compute, Given))
    return [Stored(a, "a region or plug-in reads it") for a in fed]


def _judged(memory: Memory, task: Task) -> Memory:
    """The results of conditions on data are stored; a constant one is tested here."""
    assertions: dict[Value, Assertion] = {}
    for value in memory.order:
        assertion = value.op.asserts
        if assertion is None:
            continue
        match value.args[-1].compute:
            case Given(literal=bytes() as literal):
                if (number := int.from_bytes(literal, "little", signed=True)) != FINE:
                    raise assertion.broken(number)
            case _:
                assertions.setdefault(value.args[-1], assertion)
    literals = [v for v in assertions if isinstance(v.compute, Given)]
    judged = {v: arena(v.dtype, v.shape, task.numbers) for v in literals}
    return replace(memory, assertions=assertions, judged=judged).storing(
        (Stored(v, "it is judged") for v in assertions), task
    )


def _in_tiles(memory: Memory, task: Task) -> Memory:
    """The result of a tile has a buffer; values in its scratch have none."""
    kept = {v for _, v in task.graph.outputs} | memory.alone
    memory = _with_tiles(memory, fused_tiles(task.graph, task.sizes, task.machine, kept), task)
    price = task.strategies.stages
    if price is None or not task.is_whole:
        return memory
    inner = memory.tiles.values()
    tiles = staged(task.graph, memory.buffers.keys(), kept, task.sizes, task.machine, price)
    # A tile of scores is inside an item, or separate.
    whole = [s for s in tiles if all(t.inside <= s.inside or t.inside.isdisjoint(s.inside) for t in inner)]
    return _with_tiles(memory, whole, task)


def _with_tiles(memory: Memory, tiles: Sequence[FusedTile], task: Task) -> Memory:
    scratch = {v for tile in tiles for v in tile.inside - {tile.root}}
    buffers = {v: b for v, b in memory.buffers.items() if v not in scratch}
    tiled = replace(memory, buffers=buffers, tiles=memory.tiles | {tile.root: tile for tile in tiles})
    outer = [s.root for n, s in enumerate(tiles) if not any(s.root in t.inside for t in tiles[n + 1 :])]
    return tiled.storing((Stored(root, "it is made in tiles") for root in outer), task)


def shared_folds(memory: Memory) -> dict[Value, list[Value]]:
    """For each reduction the kernels that read it, in order."""
    readers: dict[Value, list[Value]] = {}
    for root in (v for v in memory.order if v in memory.buffers and not isinstance(v.compute, Given)):
        for v in memory.reads(root):
            if isinstance(v.compute, Folded):
                readers.setdefault(v, []).append(root)
    return readers


def storing_shared(memory: Memory, task: Task) -> Memory:
    """The same with buffers for reductions that several kernels read, so that one of them may fold for all
    (group.py)."""
    shared = shared_folds(memory).items()
    more = [Stored(v, f"{len(roots)} kernels read it") for v, roots in shared if len(roots) > 1]
    return memory.storing(more, task)
