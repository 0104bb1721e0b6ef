"""Parts of a network between layers at their borders: loops, and conditionals.

The network lists these layers among the others, in the order in which they were added. The values of a part
are those of its outputs, which follow from all of its layers together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from anyrt.api.edge.fold import fold
from anyrt.api.edge.oneline import one_line, quoted
from anyrt.api.edge.quiet import WrongValue, integer, user_line
from anyrt.api.model.layer import ILayer
from anyrt.api.model.named import Named
from anyrt.api.model.state import LayerState, NetworkState, TensorState
from anyrt.core.dims import Dim, maximum
from anyrt.core.enums import DataType, LayerType, LoopOutput, TripLimit
from anyrt.core.errors import ArgumentError, DTypeError, GraphError, ShapeError
from anyrt.ir.graph import Value, walk
from anyrt.ir.symbolic import known
from anyrt.ops._check import check_axis
from anyrt.ops._elements import elements
from anyrt.ops._regions import Network, Results, depending
from anyrt.ops._types import INTS
from anyrt.ops.if_conditional import Conditional, Either, Passed
from anyrt.ops.loop import MAX_TRIPS, Iterated, Loop, Output, Recurrence
from anyrt.prims.build import expand, param, reshape, scalar

if TYPE_CHECKING:
    from anyrt.api.model.expansion import Expansion

Seen: TypeAlias = Mapping[
    str, Sequence[Value]
]  # by names values, each before those that are computed with it
ENDS: Final = frozenset({LayerType.LOOP_OUTPUT, LayerType.CONDITIONAL_OUTPUT})


@dataclass(slots=True, eq=False, repr=False)
class PartState:
    """A loop or conditional. `layers`: those at its borders; `number`: which part of the network it is."""

    it: Part
    network: NetworkState
    name: str
    number: int
    source: str
    layers: list[BorderState] = field(default_factory=list)

    @property
    def place(self) -> str:
        """Its name in messages, with the line of the user's program that added it."""
        return f"{self.name} ({self.source})"

    def adopt(self, layer: BorderState) -> None:
        """A new layer at its border."""
        layer.part = self
        self.layers.append(layer)
        self.changed()

    def changed(self) -> None:
        """Discard everything computed from its layers."""
        for layer in self.layers:
            layer.changed()

    renamed = changed

    def of_kind(self, kind: LayerType) -> list[BorderState]:
        """The layers of one kind, in the order in which they were added."""
        return [layer for layer in self.layers if layer.op.layer is kind]

    @property
    def ends(self) -> list[BorderState]:
        """The layers whose outputs leave it."""
        return [layer for layer in self.layers if layer.is_end]

    def values(self, expansion: Expansion) -> Results:
        """The values of all outputs, in the order in which they were added."""
        raise NotImplementedError

    def seen(self, expansion: Expansion, values: Seen) -> Results:
        """All values that an inference computes for `values` inside, along a new first axis."""
        raise NotImplementedError


class Part(Named):
    """Base of loops and conditionals."""

    __slots__ = ()
    _state: PartState

    @one_line
    def __repr__(self) -> str:
        titles = ", ".join(layer.op.title for layer in self._state.layers)
        return f" {quoted(self._state.name)}: {titles}"


@dataclass(slots=True, eq=False, repr=False)
class BorderState(LayerState):
    """A layer at the border of `part`."""

    part: PartState = field(init=False)

    @property
    def is_end(self) -> bool:
        """Whether its output leaves the part."""
        return self.op.layer in ENDS

    def needs(self) -> Iterator[LayerState]:
        """An end needs all layers at the borders, and the layers that these read. Any other layer needs only
        the layer of its first input: a recurrence comes before the layers of its next value."""
        if not self.is_end:
            yield from _makers(self.inputs[:1])
            return
        for layer in self.part.layers:
            yield from _makers(layer.inputs)
            if not layer.is_end:
                yield layer

    def followers(self) -> Iterator[LayerState]:
        """The layers that read it; also the ends of the part, unless it is an end itself."""
        for tensor in self.outputs:
            yield from tensor.consumers
        if not self.is_end:
            yield from self.part.ends

    def expand(self, expansion: Expansion) -> tuple[Value, ...]:
        """The value of an end is one of the part's; that of another layer is its value inside the part."""
        if self.is_end:
            return (expansion.part(self.part)[self.part.ends.index(self)],)
        return (self._inside(expansion),) if self.outputs else ()

    def _inside(self, expansion: Expansion) -> Value:
        value = expansion.value(self.first)
        shape = value.shape
        if self.op.layer is LayerType.ITERATOR:
            axis = _axis(self)
            check_axis(self.place, axis, len(shape))
            shape = (*shape[:axis], *shape[axis + 1 :])
        # Its placeholder inside. No name of a user's contains a NUL, so that the name is unique.
        return param(f"\0{self.part.number}.{self.part.layers.index(self)}", shape, value.dtype)

    @property
    def first(self) -> TensorState:
        """The operand that it was added with."""
        tensor = self.inputs[0]
        assert tensor is not None, f"{self.name} was added with a tensor"
        return tensor


class Border(ILayer):
    """A layer at the border of a part."""

    __slots__ = ()
    _state: BorderState
    _kind_of_state = BorderState


def _makers(tensors: Sequence[TensorState | None]) -> Iterator[LayerState]:
    for tensor in tensors:
        if tensor is not None and tensor.layer is not None:
            yield tensor.layer


@fold
class ILoopBoundaryLayer(Border):
    """A layer where a loop begins or ends; created by the add methods of an `ILoop`."""

    __slots__ = ()

    @property
    def loop(self) -> Part:
        """The ILoop that it belongs to."""
        return self._state.part.it


def _axis(layer: BorderState) -> int:
    axis = layer.attributes["axis"]
    assert isinstance(axis, int), f"{axis!r} was taken for an int"
    return axis


@fold
class IIfConditionalBoundaryLayer(Border):
    """A layer where a conditional begins or ends; created by the add methods of an `IIfConditional`."""

    __slots__ = ()

    @property
    def conditional(self) -> Part:
        """The IIfConditional that it belongs to."""
        return self._state.part.it


@fold
class ILoop(Part):
    """A part of a network that is executed repeatedly, as its trip limits determine; created by
    `network.add_loop`.

    A recurrence passes a tensor from one iteration to the next. An iterator supplies each iteration with its
    slice of a tensor. Layers inside may read any other tensor; values that depend on no recurrence or
    iterator are computed before the loop. Tensors leave the loop only through loop outputs.
    """

    __slots__ = ()
    _state: LoopState

    def __init__(self, network: NetworkState, name: str, number: int) -> None:
        self._state = LoopState(self, network, name, number, user_line())

    @property
    def max_trips(self) -> int:
        """An extension: the number of iterations after which a loop with a WHILE limit and no COUNT is an
        error (AR412)."""
        return self._state.max_trips

    @max_trips.setter
    def max_trips(self, count: int) -> None:
        if not 0 <= integer(count, "ILoop.max_trips") < 1 << 62:
            raise WrongValue(ArgumentError("AR304", "ILoop.max_trips", f"{count}", "0 or more"))
        self._state.max_trips = count
        self._state.changed()


@dataclass(slots=True, eq=False, repr=False)
class LoopState(PartState):
    """A loop."""

    max_trips: int = MAX_TRIPS

    def values(self, expansion: Expansion) -> Results:
        """The values of all loop outputs."""
        outputs = [_output(x, expansion) for x in self.of_kind(LayerType.LOOP_OUTPUT)]
        return self._loop(expansion, outputs).values(Network(expansion.layer_of, expansion.tells))

    def seen(self, expansion: Expansion, values: Seen) -> Results:
        loop, kind = self._loop(expansion, ()), LoopOutput.CONCATENATE
        turns = None if loop.count is None or loop.condition is not None else known(loop.count)
        length = None if turns is None else maximum(0, turns.reshape(-1)[0])
        outputs = [Output(f"{self.place}: {name}", v, kind, 0, length) for name, (v, *_) in values.items()]
        loop = replace(loop, outputs=outputs, name=f"{self.name} (debug tensors)")
        return loop.values(Network(expansion.layer_of, expansion.tells))

    def _loop(self, expansion: Expansion, outputs: Sequence[Output]) -> Loop:
        """The loop that its layers describe, with these outputs."""
        limits = {kind: [x for x in self.of_kind(LayerType.TRIP_LIMIT) if x.attributes["kind"] is kind]
                  for kind in TripLimit}  # fmt: skip
        return Loop(
            self.place,
            self._limit(expansion, limits[TripLimit.COUNT]),
            self._limit(expansion, limits[TripLimit.WHILE]),
            [_recurrence(x, expansion) for x in self.of_kind(LayerType.RECURRENCE)],
            [_iterated(x, expansion) for x in self.of_kind(LayerType.ITERATOR)],
            outputs,
            self.max_trips,
            self.name,
        )

    def _limit(self, expansion: Expansion, layers: Sequence[BorderState]) -> Value | None:
        """The number or condition of the one trip limit of a kind."""
        for other in layers[1:]:
            got = f"a second {other.attributes['kind']}"
            raise GraphError(
                "AR411", other.place, got, "at most one trip limit of each kind", "remove one of them"
            )
        return _scalar(layers[0], expansion, layers[0].attributes["kind"]) if layers else None


def _scalar(layer: BorderState, expansion: Expansion, kind: object) -> Value:
    """The value of a trip limit or condition: one integer for COUNT, else one bool."""
    value = expansion.value(layer.first)
    is_count = kind is TripLimit.COUNT
    if value.dtype not in (INTS if is_count else {DataType.BOOL}) or value.shape != ():
        wanted = "an int32 or int64 of rank 0" if is_count else "a bool of rank 0"
        do = "cast it with add_cast" if value.shape == () else "reshape it to () with add_shuffle"
        raise DTypeError("AR202", layer.place, f"{value.type}", wanted, do)
    return value


def _recurrence(layer: BorderState, expansion: Expansion) -> Recurrence:
    if len(layer.inputs) < 2 or layer.inputs[1] is None:
        do = "call layer.set_input(1, tensor) with the value for the next iteration"
        raise GraphError("AR406", layer.place, "a recurrence without its second input", "both inputs", do)
    inner, first = expansion.value(layer.outputs[0]), expansion.value(layer.first)
    return Recurrence(layer.place, inner, first, expansion.value(layer.inputs[1]))


def _iterated(layer: BorderState, expansion: Expansion) -> Iterated:
    inner, tensor = expansion.value(layer.outputs[0]), expansion.value(layer.first)
    return Iterated(layer.place, inner, tensor, _axis(layer), bool(layer.attributes["reverse"]))


def _output(layer: BorderState, expansion: Expansion) -> Output:
    kind = layer.attributes["kind"]
    assert isinstance(kind, LoopOutput), f"{kind!r} was taken for a LoopOutput"
    length: Dim | None = None
    tells: tuple[Value, ...] = ()
    if kind is LoopOutput.LAST_VALUE:
        length = 0
    elif len(layer.inputs) > 1 and layer.inputs[1] is not None:
        length, tells = _length(layer, expansion.value(layer.inputs[1]))
    return Output(layer.place, expansion.value(layer.first), kind, _axis(layer), length, tells)


def _length(layer: BorderState, value: Value) -> tuple[Dim, tuple[Value, ...]]:
    """The length in a tensor, and the output that reports it if an inference determines it."""
    if value.shape not in ((), (1,)):
        do = "pass a tensor of shape ()"
        raise ShapeError("AR123", layer.place, f"a length of type {value.type}", "a scalar", do)
    ((length, tells),) = elements(layer.name, 1, value)
    return length, () if tells is None else (tells,)


@fold
class IIfConditional(Part):
    """Two branches of a network, one of which is executed, as a condition selects; created by
    `network.add_if_conditional`.

    A branch is the layers between the inputs of the conditional and one side of its outputs.
    """

    __slots__ = ()

    def __init__(self, network: NetworkState, name: str, number: int) -> None:
        self._state = ConditionalState(self, network, name, number, user_line())


@dataclass(slots=True, eq=False, repr=False)
class ConditionalState(PartState):
    """A conditional."""

    def values(self, expansion: Expansion) -> Results:
        return self._conditional(expansion, self._either(expansion), self.name)

    def seen(self, expansion: Expansion, values: Seen) -> Results:
        either, eithers = self._either(expansion), list[Either]()
        inside = [expansion.value(x.outputs[0]) for x in self.of_kind(LayerType.CONDITIONAL_INPUT)]
        then = depending((x.then for x in either), inside)
        otherwise = depending((x.otherwise for x in either), inside)
        for name, (value, *beside) in values.items():
            needs = set(walk((value, *beside)))
            once = reshape(value, (1, *value.shape))
            never = expand(scalar(0, once), (0, *value.shape))
            # A value that no branch reads belongs to the branch of its operands; to both if it reads neither.
            sides = (never if needs & other else once for other in (otherwise - then, then - otherwise))
            eithers.append(Either(f"{self.place}: {name}", *sides))
        return self._conditional(expansion, eithers, f"{self.name} (debug tensors)")

    def _either(self, expansion: Expansion) -> list[Either]:
        outputs = self.of_kind(LayerType.CONDITIONAL_OUTPUT)
        return [Either(x.place, *(expansion.value(t) for t in x.inputs if t is not None)) for x in outputs]

    def _conditional(self, expansion: Expansion, outputs: Sequence[Either], name: str) -> Results:
        """The values of the conditional that its layers describe, with these outputs."""
        conditions = self.of_kind(LayerType.CONDITION)
        if len(conditions) != 1:
            do = "call conditional.set_condition(flag) once"
            raise GraphError("AR411", self.place, f"{len(conditions)} conditions", "one", do)
        inputs = self.of_kind(LayerType.CONDITIONAL_INPUT)
        passed = [Passed(expansion.value(x.outputs[0]), expansion.value(x.first)) for x in inputs]
        flag = _scalar(conditions[0], expansion, None)
        network = Network(expansion.layer_of, expansion.tells)
        return Conditional(self.place, flag, passed, outputs, name).values(network)


PARTS: dict[str, type[Part]] = {"ILoop": ILoop, "IIfConditional": IIfConditional}
BORDER_CLASSES: dict[str, type[Border]] = {
    "ILoop": ILoopBoundaryLayer,
    "IIfConditional": IIfConditionalBoundaryLayer,
}
