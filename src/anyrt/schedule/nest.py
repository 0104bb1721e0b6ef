"""The regions of a node on the memory of the values around them.

Each state of a loop has one place, which holds its final value. It is copied there before the first
iteration, unless it is computed there. In an iteration, its successor may be computed there as well if
nothing reads the state later, or if the kernel reads only the element that it stores. Otherwise it is
computed elsewhere, and copied at the end of the iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from anyrt.core.dims import product
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.compute import External, Nested
from anyrt.ir.counted import computed_sizes, results
from anyrt.ir.graph import Graph, Node, Type, Value
from anyrt.prims.build import param
from anyrt.schedule.launch import ExternalStep, Launch, RegionStep, Schedule, Step, mentioned, touched

Names = Callable[[Graph], Sequence[str]]  # names of the memory of a graph's inputs, and outputs


@dataclass(frozen=True, slots=True)
class Move:
    """A copy of `value`, or of its elements, to another place."""

    value: Value | Buffer
    type: Type
    to: Buffer


@dataclass(slots=True)
class Numbers:
    """Numbers the stored tensors of a graph and its regions: `next` is the next number."""

    next: int = 0

    def take(self) -> int:
        """A number that no other tensor has."""
        self.next += 1
        return self.next - 1


@dataclass(frozen=True, slots=True)
class Around:
    """What regions need from the graph around them: their schedules, those of copies, the names of a graph's
    memory, new memory, and the buffers of values (none for a known number)."""

    schedule: Callable[[Graph], Schedule]
    copies: Callable[[Graph], Schedule]
    names: Names
    fresh: Callable[[Type], Buffer]
    buffers: Mapping[Value, Buffer]

    def moves(self, moves: Sequence[Move], name: str) -> Schedule:
        """The schedule of copies, which are called `name`."""
        inputs, outputs, swap = dict[str, Value](), dict[str, Value](), dict[str, Buffer]()
        for number, move in enumerate(moves):
            if isinstance(move.value, Buffer):
                inputs[f"from{number}"] = param(f"from{number}", move.type.shape, move.type.dtype)
                swap[f"from{number}"] = move.value
                outputs[f"to{number}"] = inputs[f"from{number}"]
            else:
                outputs[f"to{number}"] = move.value
            swap[f"to{number}"] = move.to
        names = dict.fromkeys((*inputs.values(), *outputs.values()), name)
        graph = Graph(tuple(inputs.items()), tuple(outputs.items()), names)
        ends = [name for name, _ in (*graph.inputs, *graph.outputs)]
        ports = dict(zip(self.names(graph), ends, strict=True))
        copies = self.copies(graph)
        own = {b for x in copies.everywhere for b in x.call.buffers} | set(copies.buffers.values())
        return copies.on({b: swap[ports[b.name]] for b in own if b.name in ports})


def at_first(node: Node) -> dict[int, Value]:
    """The copies of operands to the results that start as these operands."""
    match Value(node).compute:
        case Nested(turns=True):
            return {k: Value(node, k) for k in range(len(node.types))}
        case External(over=over):
            return {operand: Value(node, k) for k, operand in enumerate(over) if operand >= 0}
    return {}


def region_step(node: Node, around: Around) -> RegionStep:
    """The regions of a node, with the copies that they need."""
    how = Value(node).compute
    assert isinstance(how, Nested), f"{node} has no regions"
    name = how.name or type(node.op).__name__.lower()
    return _repeated(node, around, name) if how.turns else _chosen(node, around, name)


def external_step(node: Node, around: Around) -> ExternalStep:
    """The call of foreign code, with the copies that it needs: a result that overwrites an operand is a copy
    of it first."""
    how = Value(node).compute
    assert isinstance(how, External), f"{node} is computed here"
    moves = list[Move]()
    writes = tuple(around.buffers[Value(node, k)] for k in range(len(node.types)))
    over = {operand: writes[k] for k, operand in enumerate(how.over) if operand >= 0}
    reads = []
    for k, arg in enumerate(node.args):
        if k in over:
            source = around.buffers.get(arg, arg)
            moves += [Move(source, arg.type, over[k])] if source != over[k] else []
        reads.append(over[k] if k in over else _held(arg, around, moves))
    return ExternalStep(node, around.moves(moves, how.name), tuple(reads), writes, how.name)


def _chosen(node: Node, around: Around, name: str) -> RegionStep:
    """Two regions, which write the results."""
    moves = list[Move]()
    held = [_held(a, around, moves) for a in node.args]
    outputs = [around.buffers[Value(node, k)] for k in range(len(node.types))]
    bodies, swaps = list[Schedule](), list[Mapping[Buffer, Buffer]]()
    for region in node.op.regions:
        ins, outs = _ends(region, around)
        places = [*outputs, *_places_of_sizes(region, around)]
        bodies.append(around.schedule(region))
        swaps.append(_swap(ins, held[1:]) | _swap(outs, places))
    return RegionStep(node, held[0], False, around.moves(moves, name), tuple(bodies), name, tuple(swaps))


def _repeated(node: Node, around: Around, name: str) -> RegionStep:
    """A region that computes the results from their previous values."""
    moves = list[Move]()
    (region,) = node.op.regions
    states = [around.buffers[Value(node, k)] for k in range(len(node.types))]
    for arg, place in zip(node.args, states, strict=False):
        source = around.buffers.get(arg, arg)
        if source != place:
            moves.append(Move(source, arg.type, place))
    held = [_held(a, around, moves) for a in node.args[len(states) :]]
    body = around.schedule(region)
    ins, outs = _ends(region, around)
    swap, back = _swap(ins, [*states, *held]), list[Move]()
    swap |= _swap(outs[len(states) :], _places_of_sizes(region, around))
    updated = dict(region.updates)
    for number, ((name_of, result), successor) in enumerate(zip(results(region), outs, strict=False)):
        if name_of in updated or _may_stay(body, ins[number], successor):
            swap[successor] = states[number]
        else:
            swap[successor] = around.fresh(result.type)
            back.append(Move(swap[successor], result.type, states[number]))
    after = around.moves(back, name)
    same = {b: b for b in mentioned(after)}
    return RegionStep(node, states[0], True, around.moves(moves, name), (body, after), name, (swap, same))


def _held(value: Value, around: Around, moves: list[Move]) -> Buffer:
    """The buffer of an operand; a number is stored first."""
    if value not in around.buffers:
        moves.append(Move(value, value.type, around.fresh(value.type)))
        return moves[-1].to
    return around.buffers[value]


def _places_of_sizes(region: Graph, around: Around) -> list[Buffer]:
    """New memory for the sizes that a region computes."""
    return [around.fresh(v.type) for _, v in computed_sizes(region)]


def _ends(region: Graph, around: Around) -> tuple[list[Buffer], list[Buffer]]:
    """The memory of a region's inputs and outputs, by its kernels' names."""
    names, count = around.names(region), len(region.inputs)
    ins = _named(names[:count], region.inputs, Space.INPUT)
    return ins, _named(names[count:], region.outputs, Space.OUTPUT)


def _named(names: Sequence[str], ends: Sequence[tuple[str, Value]], space: Space) -> list[Buffer]:
    pairs = zip(names, ends, strict=True)
    return [Buffer(name, v.dtype, space, product(v.shape)) for name, (_, v) in pairs]


def _swap(mine: Sequence[Buffer], theirs: Sequence[Buffer]) -> dict[Buffer, Buffer]:
    return dict(zip(mine, theirs, strict=True))


def _may_stay(body: Schedule, old: Buffer, successor: Buffer) -> bool:
    """True if the successor of a state may overwrite it."""
    reads = [n for n, x in enumerate(body.steps) if old in touched(x)]
    writes = [n for n, x in enumerate(body.steps) if successor in _written(x)]
    if not reads or not writes or reads[-1] < writes[0]:
        return True
    return reads[-1] == writes[0] and len(writes) == 1 and _stores_over(body.steps[writes[0]], old)


def _stores_over(step: Step, old: Buffer) -> bool:
    return isinstance(step, Launch) and step.group.border is None and step.may_store_over(old)


def _written(step: Step) -> frozenset[Buffer]:
    return frozenset(step.written) if isinstance(step, Launch) else step.touched
