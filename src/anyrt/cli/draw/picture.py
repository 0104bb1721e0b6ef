"""The content of a drawing of a plan: kernels as frames, layers as boxes in them, tensors as wires between
boxes.

A wire between two frames is a tensor in memory, labelled with its bytes; one inside a frame stays in
registers. Each kernel that writes a part of a tensor has a wire to every reader of it. The kernels of a
loop's or a branch's body are drawn among those around, in a region. A layer that several kernels compute,
since that is cheaper than storing it, has a box in each; all but the first are marked (`Kind.AGAIN`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from math import prod

from anyrt.core.dimtext import print_dim
from anyrt.core.dimvalues import evaluate
from anyrt.core.dtype import short_name, storage_bytes
from anyrt.core.units import counted
from anyrt.ir.compute import Given
from anyrt.ir.graph import Graph, Value, users
from anyrt.plan.plan import LayerRecord, Plan
from anyrt.schedule.launch import Launch, Schedule
from anyrt.schedule.ports import port_names


class Kind(Enum):
    """The kind of a box."""

    INPUT = "input"
    OUTPUT = "output"
    LAYER = "layer"
    AGAIN = "again"  # a layer that an earlier kernel computes, too
    PART = "part"  # a kernel's part of a layer whose result another kernel computes, or copies
    PLACE = "place"  # a tensor that several kernels write parts of


@dataclass(frozen=True, slots=True)
class Box:
    """`layer`: its kind. `frame`: the number of the kernel that computes it. `note`: the part of a layer;
    `details`: shown on request."""

    kind: Kind
    title: str
    layer: str
    frame: int | None
    note: str = ""
    details: tuple[str, ...] = ()
    constant_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """The output of the box `source`: sizes as numbers, dynamic ones with their names."""

    source: int
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    declared: str


@dataclass(frozen=True, slots=True)
class Wire:
    """The box `target` reads `tensor`."""

    tensor: int
    target: int


@dataclass(frozen=True, slots=True)
class Picture:
    """`frames`: the names of kernels. `regions`: loops and conditionals, each with the frames of its bodies.
    `layers`, `constants`: the number of layers in the plan, and of constants among them. `left_out`: layers
    without an effect, which no kernel computes."""

    name: str
    frames: tuple[str, ...]
    boxes: tuple[Box, ...]
    tensors: tuple[Tensor, ...]
    wires: tuple[Wire, ...]
    left_out: tuple[str, ...] = ()
    regions: tuple[tuple[str, tuple[int, ...]], ...] = ()
    layers: int = 0
    constants: int = 0

    @property
    def counts(self) -> str:
        """The numbers of layers and kernels, for people."""
        return f"{counted(self.layers, 'layer')} in {counted(len(self.frames), 'kernel')}"

    @property
    def legend(self) -> str:
        """The same, with the number of constants."""
        constants = f", {counted(self.constants, 'constant')} included, which the build log does not count"
        return self.counts + constants * bool(self.constants)


def picture_of(plan: Plan, graph: Graph, schedule: Schedule, sizes: Mapping[str, int]) -> Picture:
    """The picture of one version of a plan's graph, as it runs at `sizes`."""
    records = {x.name: x for x in plan.layers}
    sketch = _Sketch(graph, schedule, sizes, records, _owners(graph))
    sketch.draw()
    shown = {box.title for box in sketch.boxes}
    # Constants have no inputs and no boxes: their readers show their bytes.
    left_out = tuple(x.name for x in plan.layers if x.inputs and x.name not in shown)
    boxes, tensors = tuple(sketch.finished()), tuple(sketch.tensors.values())
    frames, regions = tuple(sketch.frames), tuple((n, tuple(f)) for n, f in sketch.regions if f)
    wires, constants = tuple(sketch.wires), sum(x.kind == "Constant" for x in plan.layers)
    layers = len(plan.layers)
    return Picture(plan.name, frames, boxes, tensors, wires, left_out, regions, layers, constants)


def shape_text(shape: Sequence[int]) -> str:
    """Sizes for people.

    >>> shape_text((1, 3, 224, 224)), shape_text(())
    ('1×3×224×224', 'scalar')
    """
    return "×".join(map(str, shape)) or "scalar"


def _owners(graph: Graph) -> dict[Value, Value]:
    """For each value the layer's result that it is computed for: itself, if it is one; of several the first,
    so that layers with a common step never seem to depend on each other."""
    uses, owner_of = users(graph), dict[Value, Value]()
    order = {v: n for n, v in enumerate(graph.values)}
    for value in reversed(order):
        is_result = value in graph.names or not uses[value]
        owner_of[value] = (
            value if is_result else min((owner_of[u] for u in uses[value]), key=order.__getitem__)
        )
    return owner_of


@dataclass(slots=True)
class _Sketch:
    """A picture while it is made, kernel by kernel in the order in which they run."""

    graph: Graph
    schedule: Schedule
    sizes: Mapping[str, int]
    records: Mapping[str, LayerRecord]
    owners: Mapping[Value, Value]
    boxes: list[Box] = field(default_factory=list)
    tensors: dict[tuple[int, Value], Tensor] = field(default_factory=dict)
    numbers: dict[tuple[int, Value], int] = field(default_factory=dict)
    wires: dict[Wire, None] = field(default_factory=dict)
    constants: dict[int, set[Value]] = field(default_factory=dict)
    sources: dict[Value, int] = field(default_factory=dict)  # the box that computes the tensor in memory
    parts: dict[Value, list[tuple[int, Value]]] = field(default_factory=dict)
    writers: dict[str, tuple[int, Value]] = field(default_factory=dict)  # by the name of an output's buffer
    memory: dict[str, tuple[int, Value]] = field(default_factory=dict)  # who wrote a buffer last, by its name
    frames: list[str] = field(default_factory=list)
    regions: list[tuple[str, list[int]]] = field(default_factory=list)
    drawn: set[Value] = field(default_factory=set)

    def draw(self) -> None:
        """Everything."""
        for name, value in self.graph.inputs:
            self.sources[value] = self._add(Box(Kind.INPUT, name, "", None, "", (self._type(value),)))
            self.memory[self.schedule.buffers[value].name] = self.sources[value], value
        self._steps()
        ports = port_names(self.graph)[len(self.graph.inputs) :]
        for (name, value), port in zip(self.graph.outputs, ports, strict=True):
            box = self._add(Box(Kind.OUTPUT, name, "", None, "", (self._type(value),)))
            if port in self.writers:
                source, stored = self.writers[port]
                self._wire(source, stored, box)
            else:
                self._connect(value, box)

    def _steps(self) -> None:
        """The kernels of the graph in order, those of bodies where their region runs."""
        for step in self.schedule.steps:
            if isinstance(step, Launch):
                self.frames.append(step.call.name)
                self._kernel(len(self.frames) - 1, step)
                continue
            first = len(self.frames)
            for part in step.parts:
                replace(self, graph=part.graph, schedule=part, owners=_owners(part.graph))._steps()
            self.regions.append((step.name, list(range(first, len(self.frames)))))

    def finished(self) -> Iterator[Box]:
        """The boxes, with the bytes of their constants."""
        for number, box in enumerate(self.boxes):
            nbytes = sum(self._bytes(v) for v in self.constants.get(number, ()))
            yield replace(box, constant_bytes=nbytes)

    def _kernel(self, number: int, launch: Launch) -> None:
        values, touched = self._computed(launch), {b.name for b in launch.call.buffers}
        boxes = self._boxes(number, launch, values, touched)
        for value in values:
            for arg in value.args:
                if arg in values:
                    self._wire(boxes[self.owners[arg]], arg, boxes[self.owners[value]])
                else:
                    self._read(touched, arg, boxes[self.owners[value]])
        self._store(launch, values, boxes)

    def _computed(self, launch: Launch) -> dict[Value, None]:
        """The values of a kernel, operands first; none if it copies a stored value."""
        group = launch.group
        own = () if group.part is not None or self._is_copy(launch) else launch.makes
        return dict.fromkeys((*launch.inlined, *reversed(own)))

    def _is_copy(self, launch: Launch) -> bool:
        group = launch.group
        return group.part is None and self.schedule.buffers[group.root].name != group.buffer.name

    def _boxes(
        self, number: int, launch: Launch, values: Mapping[Value, None], touched: Set[str]
    ) -> dict[Value, int]:
        """The kernel's boxes, by the results of layers that they belong to."""
        groups: dict[Value, list[Value]] = {}
        for value in values:
            groups.setdefault(self.owners[value], []).append(value)
        boxes = {owner: self._add(self._layer(number, owner, inner)) for owner, inner in groups.items()}
        if not values:
            moved = launch.group.whole or launch.root
            box = self._add(self._box(Kind.PART, self.owners.get(moved, moved), number, "copy"))
            boxes[moved] = boxes[launch.root] = box
            self._read(touched, launch.root, box)
        return boxes

    def _layer(self, number: int, owner: Value, values: Sequence[Value]) -> Box:
        """The box of a layer in a kernel that computes `values` for it."""
        if owner not in values:
            return self._box(Kind.PART, owner, number, f"part: {type(values[-1].op).__name__.lower()}")
        kind = Kind.AGAIN if owner in self.drawn else Kind.LAYER
        self.drawn.add(owner)
        return self._box(kind, owner, number)

    def _box(self, kind: Kind, value: Value, frame: int | None, note: str = "") -> Box:
        name = self._name(value)
        record = self.records.get(name)
        layer = type(value.op).__name__ if record is None else record.kind
        details = () if record is None else tuple(f"{k}: {v}" for k, v in record.details)
        return Box(kind, name, layer, frame, note, (*details, self._type(value)))

    def _store(self, launch: Launch, values: Mapping[Value, None], boxes: Mapping[Value, int]) -> None:
        group = launch.group
        root = (boxes[self.owners[group.root]] if values else boxes[group.root], group.root)
        self.memory |= {buffer.name: root for buffer in launch.written}
        if group.whole is not None:
            self.parts.setdefault(group.whole, []).append(root)
        elif self._is_copy(launch):
            self.writers[group.buffer.name] = root
        else:
            if group.mends and group.root in self.sources:  # it reads a value that it recomputes
                self._wire(self.sources[group.root], group.root, root[0])
            self.sources.update({v: boxes[self.owners[v]] for v in launch.makes})

    def _read(self, touched: Set[str], value: Value, box: int) -> None:
        """A kernel reads `value` from memory, unless it uses only its shape."""
        match value.compute:
            case Given(constant=True, literal=literal):
                if literal is None:
                    self.constants.setdefault(box, set()).add(value)
                return
        buffer = self.schedule.buffers.get(value)
        if buffer is not None and buffer.name in touched:
            self._connect(value, box)

    def _connect(self, value: Value, box: int) -> None:
        """Wires from all kernels that write a value, or parts of it, to memory."""
        source = self._source(value)
        self._wire(source, value, box)
        if self.boxes[source].kind is not Kind.PLACE:
            for writer, part in self.parts.get(value, ()):
                self._wire(writer, part, box)

    def _source(self, value: Value) -> int:
        buffer = self.schedule.buffers.get(value)
        written = None if buffer is None else self.memory.get(buffer.name)
        if value not in self.sources and value not in self.parts and written is not None:
            return written[0]  # by a body, or around one, where the value has another name
        if value not in self.sources:
            self.sources[value] = place = self._add(self._box(Kind.PLACE, value, None))
            self.drawn.add(value)
            for box, part in self.parts.get(value, ()):
                self._wire(box, part, place)
        return self.sources[value]

    def _wire(self, source: int, value: Value, target: int) -> None:
        if source == target:  # an intermediate value of a layer
            return
        key = source, value
        if key not in self.tensors:
            self.numbers[key] = len(self.numbers)
            shape, declared = self._shape(value), ", ".join(map(print_dim, value.shape))
            dtype, nbytes = short_name(value.dtype), self._bytes(value)
            self.tensors[key] = Tensor(source, shape, dtype, nbytes, f"({declared})")
        self.wires[Wire(self.numbers[key], target)] = None

    def _add(self, box: Box) -> int:
        self.boxes.append(box)
        return len(self.boxes) - 1

    def _name(self, value: Value) -> str:
        return self.graph.names.get(value) or type(value.op).__name__.lower()

    def _type(self, value: Value) -> str:
        return f"{short_name(value.dtype)} ({', '.join(map(print_dim, value.shape))})"

    def _shape(self, value: Value) -> tuple[int, ...]:
        return tuple(evaluate(d, self.sizes) for d in value.shape)

    def _bytes(self, value: Value) -> int:
        return storage_bytes(value.dtype, prod(self._shape(value)))
