"""Parts of a network between layers at their borders: loops, and conditionals.

The network shows these layers among the others, in the order in which they were added. What a part means is
said by its outputs, which follow from all of its layers together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, cast

from anyrt.api.edge.fold import fold
from anyrt.api.edge.oneline import one_line, quoted
from anyrt.api.edge.quiet import Channel, WrongValue, integer, user_line
from anyrt.api.model.layer import ILayer
from anyrt.api.model.named import Named
from anyrt.api.model.tensor import ITensor
from anyrt.core.dims import Dim, maximum
from anyrt.core.enums import DataType, LayerType, LoopOutput, TripLimit
from anyrt.core.errors import ArgumentError, DTypeError, GraphError, ShapeError
from anyrt.ir.graph import Value, walk
from anyrt.ir.symbolic import known
from anyrt.ops._check import check_axis
from anyrt.ops._regions import Made, Network, depending
from anyrt.ops._told import elements
from anyrt.ops._types import INTS
from anyrt.ops.if_conditional import Conditional, Either, Passed
from anyrt.ops.loop import MAX_TRIPS, Iterated, Loop, Output, Recurrence
from anyrt.prims.build import expand, param, reshape, scalar

if TYPE_CHECKING:
    from anyrt.api.model.expansion import Expansion
    from anyrt.api.model.network import INetworkDefinition


Seen: TypeAlias = Mapping[
    str, Sequence[Value]
]  # by names values, each before those that are computed with it


class Part(Named):
    """What loops and conditionals have; `layers`: those at the borders."""

    __slots__ = ("_layers", "_network", "_number", "_source")

    def __init__(self, network: INetworkDefinition, name: str, number: int) -> None:
        self._network = network
        self._name = name
        self._number = number
        self._source = user_line()
        self._layers: list[Border] = []

    @property
    def _channel(self) -> Channel:
        return self._network._channel

    @property
    def _place(self) -> str:
        return f"{self._name} ({self._source})"

    @one_line
    def __repr__(self) -> str:
        return f" {quoted(self._name)}: {', '.join(layer._op.title for layer in self._layers)}"

    def _renamed(self) -> None:
        self._forget()

    def _adopt(self, layer: Border) -> None:
        """A new layer at its border."""
        self._layers.append(layer)
        self._forget()

    def _forget(self) -> None:
        for layer in self._layers:
            self._network._expansion.forget(layer)

    def _of(self, kind: LayerType) -> list[Border]:
        return [layer for layer in self._layers if layer._op.layer is kind]

    def _values(self, expansion: Expansion) -> Made:
        """Those of all outputs, in the order in which they were added."""
        raise NotImplementedError

    def _seen(self, expansion: Expansion, values: Seen) -> Made:
        """What values inside are each time that they are computed, along a new first axis."""
        raise NotImplementedError


def seen_in(part: Part, expansion: Expansion, values: Seen) -> Made:
    """What values inside of a part are each time that they are computed, along a new first axis."""
    return part._seen(expansion, values)


class Border(ILayer):
    """A layer at the border of a part."""

    __slots__ = ()
    _OUTPUT: LayerType

    @property
    def _part(self) -> Part:
        return cast("Part", self._scope)  # `Part` is folded into its classes

    @property
    def _is_output(self) -> bool:
        return self._op.layer is self._OUTPUT

    def _needs(self) -> Iterator[ILayer]:
        """An output needs all layers at the borders, and what these read; another one what it reads first: a
        recurrence comes before what it is made of in the next turn."""
        if not self._is_output:
            yield from _makers(self._inputs[:1])
            return
        for layer in self._part._layers:
            yield from _makers(layer._inputs)
            if not layer._is_output:
                yield layer

    def _followers(self) -> Iterator[ILayer]:
        for tensor in self._outputs:
            yield from tensor._consumers
        if not self._is_output:
            yield from self._part._of(self._OUTPUT)

    def _expand(self, expansion: Expansion) -> tuple[Value, ...]:
        """An output's value is one of those of its part; another layer's, as it is inside."""
        if self._is_output:
            return (expansion.part(self._part)[self._part._of(self._OUTPUT).index(self)],)
        return (self._inside(expansion),) if self._outputs else ()

    def _inside(self, expansion: Expansion) -> Value:
        value = expansion.value(self._first)
        return param(self._key, value.shape, value.dtype)

    @property
    def _key(self) -> str:
        """What stands for it inside, like nothing else in the network."""
        return f"\0{self._part._number}.{self._part._layers.index(self)}"  # which no name of a user's holds

    @property
    def _first(self) -> ITensor:
        tensor = self._inputs[0]
        assert tensor is not None, f"{self._name} was added with a tensor"
        return tensor


def _makers(tensors: Sequence[ITensor | None]) -> Iterator[ILayer]:
    for tensor in tensors:
        if tensor is not None and tensor._layer is not None:
            yield tensor._layer


@fold
class ILoopBoundaryLayer(Border):
    """A layer where a loop begins or ends; made by the add methods of an `ILoop`."""

    __slots__ = ()
    _OUTPUT = LayerType.LOOP_OUTPUT

    @property
    def loop(self) -> Part:
        """The ILoop that it belongs to."""
        return self._part

    def _inside(self, expansion: Expansion) -> Value:
        value = expansion.value(self._first)
        shape = value.shape
        if self._op.layer is LayerType.ITERATOR:
            axis = _axis(self)
            check_axis(self._place, axis, len(shape))
            shape = (*shape[:axis], *shape[axis + 1 :])
        return param(self._key, shape, value.dtype)


def _axis(layer: Border) -> int:
    axis = layer._attributes["axis"]
    assert isinstance(axis, int), f"{axis!r} was taken for an int"
    return axis


@fold
class IIfConditionalBoundaryLayer(Border):
    """A layer where a conditional begins or ends; made by the add methods of an `IIfConditional`."""

    __slots__ = ()
    _OUTPUT = LayerType.CONDITIONAL_OUTPUT

    @property
    def conditional(self) -> Part:
        """The IIfConditional that it belongs to."""
        return self._part


@fold
class ILoop(Part):
    """A part of a network that is computed again and again, as long as its trip limits say; made by
    `network.add_loop`.

    A recurrence passes a tensor from turn to turn, an iterator gives each turn its slice of a tensor. Other
    tensors may be read inside as they are; what depends on none of both is computed before the loop. Loop
    outputs are the only way out.
    """

    __slots__ = ("_max_trips",)

    def __init__(self, network: INetworkDefinition, name: str, number: int) -> None:
        Part.__init__(self, network, name, number)
        self._max_trips = MAX_TRIPS

    @property
    def max_trips(self) -> int:
        """An extension: the turns after which a loop with a WHILE limit and no COUNT is an error (AR412)."""
        return self._max_trips

    @max_trips.setter
    def max_trips(self, count: int) -> None:
        if not 0 <= integer(count, "ILoop.max_trips") < 1 << 62:
            raise WrongValue(ArgumentError("AR304", "ILoop.max_trips", f"{count}", "0 or more"))
        self._max_trips = count
        self._forget()

    def _values(self, expansion: Expansion) -> Made:
        outputs = [_output(x, expansion) for x in self._of(LayerType.LOOP_OUTPUT)]
        return self._loop(expansion, outputs).values(Network(expansion.layer_of, expansion.tells))

    def _seen(self, expansion: Expansion, values: Seen) -> Made:
        loop, kind = self._loop(expansion, ()), LoopOutput.CONCATENATE
        turns = None if loop.count is None or loop.condition is not None else known(loop.count)
        length = None if turns is None else maximum(0, turns.reshape(-1)[0])
        outputs = [Output(f"{self._place}: {name}", v, kind, 0, length) for name, (v, *_) in values.items()]
        loop = replace(loop, outputs=outputs, name=f"{self._name} (debug tensors)")
        return loop.values(Network(expansion.layer_of, expansion.tells))

    def _loop(self, expansion: Expansion, outputs: Sequence[Output]) -> Loop:
        """What its layers say, with these outputs."""
        limits = {kind: [x for x in self._of(LayerType.TRIP_LIMIT) if x._attributes["kind"] is kind]
                  for kind in TripLimit}  # fmt: skip
        return Loop(
            self._place,
            self._limit(expansion, limits[TripLimit.COUNT]),
            self._limit(expansion, limits[TripLimit.WHILE]),
            [_recurrence(x, expansion) for x in self._of(LayerType.RECURRENCE)],
            [_iterated(x, expansion) for x in self._of(LayerType.ITERATOR)],
            outputs,
            self._max_trips,
            self._name,
        )

    def _limit(self, expansion: Expansion, layers: Sequence[Border]) -> Value | None:
        """The number or condition of the one trip limit of a kind."""
        for other in layers[1:]:
            got = f"a second {other._attributes['kind']}"
            raise GraphError(
                "AR411", other._place, got, "at most one trip limit of each kind", "remove one of them"
            )
        return _scalar(layers[0], expansion, layers[0]._attributes["kind"]) if layers else None


def _scalar(layer: Border, expansion: Expansion, kind: object) -> Value:
    """What a limit or condition is: one number, a bool but for a COUNT."""
    value = expansion.value(layer._first)
    is_count = kind is TripLimit.COUNT
    if value.dtype not in (INTS if is_count else {DataType.BOOL}) or value.shape != ():
        wanted = "an int32 or int64 of rank 0" if is_count else "a bool of rank 0"
        do = "cast it with add_cast" if value.shape == () else "reshape it to () with add_shuffle"
        raise DTypeError("AR202", layer._place, f"{value.type}", wanted, do)
    return value


def _recurrence(layer: Border, expansion: Expansion) -> Recurrence:
    if len(layer._inputs) < 2 or layer._inputs[1] is None:
        do = "call layer.set_input(1, tensor) with the value for the next iteration"
        raise GraphError("AR406", layer._place, "a recurrence without its second input", "both inputs", do)
    inner, first = expansion.value(layer._outputs[0]), expansion.value(layer._first)
    return Recurrence(layer._place, inner, first, expansion.value(layer._inputs[1]))


def _iterated(layer: Border, expansion: Expansion) -> Iterated:
    inner, tensor = expansion.value(layer._outputs[0]), expansion.value(layer._first)
    return Iterated(layer._place, inner, tensor, _axis(layer), bool(layer._attributes["reverse"]))


def _output(layer: Border, expansion: Expansion) -> Output:
    kind = layer._attributes["kind"]
    assert isinstance(kind, LoopOutput), f"{kind!r} was taken for a LoopOutput"
    length: Dim | None = None
    tells: tuple[Value, ...] = ()
    if kind is LoopOutput.LAST_VALUE:
        length = 0
    elif len(layer._inputs) > 1 and layer._inputs[1] is not None:
        length, tells = _length(layer, expansion.value(layer._inputs[1]))
    return Output(layer._place, expansion.value(layer._first), kind, _axis(layer), length, tells)


def _length(layer: Border, value: Value) -> tuple[Dim, tuple[Value, ...]]:
    """The length that a tensor gives, and what tells it where only a run knows it."""
    if value.shape not in ((), (1,)):
        do = "pass a tensor of shape ()"
        raise ShapeError("AR123", layer._place, f"a length of type {value.type}", "a scalar", do)
    ((length, tells),) = elements(layer._name, 1, value)
    return length, () if tells is None else (tells,)


@fold
class IIfConditional(Part):
    """Two branches of a network, of which one is computed, as a condition says; made by
    `network.add_if_conditional`.

    A branch is what leads from the conditional's inputs to one side of its outputs.
    """

    __slots__ = ()

    def _values(self, expansion: Expansion) -> Made:
        return self._conditional(expansion, self._either(expansion), self._name)

    def _seen(self, expansion: Expansion, values: Seen) -> Made:
        either, found = self._either(expansion), list[Either]()
        inside = [expansion.value(x._outputs[0]) for x in self._of(LayerType.CONDITIONAL_INPUT)]
        then = depending((x.then for x in either), inside)
        otherwise = depending((x.otherwise for x in either), inside)
        for name, (value, *beside) in values.items():
            needs = set(walk((value, *beside)))
            once = reshape(value, (1, *value.shape))
            never = expand(scalar(0, once), (0, *value.shape))
            # What neither branch needs is computed with that which it is made of, in either where in neither.
            sides = (never if needs & other else once for other in (otherwise - then, then - otherwise))
            found.append(Either(f"{self._place}: {name}", *sides))
        return self._conditional(expansion, found, f"{self._name} (debug tensors)")

    def _either(self, expansion: Expansion) -> list[Either]:
        outputs = self._of(LayerType.CONDITIONAL_OUTPUT)
        return [Either(x._place, *(expansion.value(t) for t in x._inputs if t is not None)) for x in outputs]

    def _conditional(self, expansion: Expansion, outputs: Sequence[Either], name: str) -> Made:
        """What its layers say, with these outputs."""
        conditions = self._of(LayerType.CONDITION)
        if len(conditions) != 1:
            do = "call conditional.set_condition(flag) once"
            raise GraphError("AR411", self._place, f"{len(conditions)} conditions", "one", do)
        inputs = self._of(LayerType.CONDITIONAL_INPUT)
        passed = [Passed(expansion.value(x._outputs[0]), expansion.value(x._first)) for x in inputs]
        flag = _scalar(conditions[0], expansion, None)
        network = Network(expansion.layer_of, expansion.tells)
        return Conditional(self._place, flag, passed, outputs, name).values(network)


PARTS: dict[str, type[Part]] = {"ILoop": ILoop, "IIfConditional": IIfConditional}
BORDER_CLASSES: dict[str, type[Border]] = {
    "ILoop": ILoopBoundaryLayer,
    "IIfConditional": IIfConditionalBoundaryLayer,
}
