"""The expansions of a network's current layers: values of the graph, computed on request.

A layer is checked once; changing it discards its expansion and those that depend on it. An error is stored
with its layer and reported once, and everything that depends on it is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Final

from anyrt.api.model.state import LayerState, TensorState
from anyrt.api.model.weights import Weights, is_steady
from anyrt.core.dimlimits import SizeTooLong
from anyrt.core.dims import INF, Dim, Sym
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import AnyrtError, DTypeError, GraphError
from anyrt.ir.graph import Symbol, Type, Value, apply, walk
from anyrt.ops._expand import expand_layer, output_scale
from anyrt.ops._record import Attrs, Layer
from anyrt.ops._regions import Results
from anyrt.ops._scales import Scale
from anyrt.passes.round_layers import rounded, rounded_outputs
from anyrt.prims.build import cast, converted
from anyrt.prims.const import Blob, Const, Param

if TYPE_CHECKING:
    from anyrt.api.building.refittable import Refittable
    from anyrt.api.model.parts import PartState
    from anyrt.api.plugins.expand import Building

Limits = Mapping[
    tuple[str, int, bool], tuple[int, int]
]  # (input, axis or element, whether element) -> (low, high)

FLOATS: Final = frozenset({DataType.FLOAT, DataType.HALF, DataType.BF16})
# Layers that are expanded again by each build, since they depend on its profiles.
PROFILED: Final = frozenset({LayerType.PLUGIN, LayerType.PLUGIN_V2, LayerType.PLUGIN_V3})


@dataclass(frozen=True, slots=True)
class Stage:
    """A layer that computes in another type than its tensors have. `scales`: of its operands; `rounds`:
    whether each operand and result is rounded to `dtype`, stored or not."""

    record: Layer[Attrs]
    scales: tuple[Scale, ...]
    dtype: DataType
    rounds: bool = False


Staged = Callable[[LayerState, Layer[Attrs], tuple[Scale, ...]], Stage | None]


def as_they_are(layer: LayerState, record: Layer[Attrs], scales: tuple[Scale, ...]) -> None:
    """Layers compute in the types of their tensors."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The expansion of a layer: values and the scale of an INT8 output, or the error that prevents them.
    `inner`: the values for layers of the same node of a model, which are not rounded; `reads`: the operands
    of such a node."""

    values: tuple[Value, ...] = ()
    scale: Scale = 1.0
    error: AnyrtError | None = None
    inner: tuple[Value, ...] = ()
    reads: frozenset[Value] = frozenset()

    def forms(self, index: int) -> tuple[Value, ...]:
        """An output as others read it, and the float32 that layers of the same node compute with."""
        value, inner = self.values[index], self.inner[index] if self.inner else self.values[index]
        return (
            (value,)
            if inner is value
            else (value, *rounded_outputs(self.reads, (cast(inner, DataType.FLOAT),)))
        )


class Expansion:
    """Values of the tensors of one network. `limits`: ranges of dynamic sizes, where profiles give them.

    `report` receives the errors that `type_of` finds. `all_values`: give every short integer input symbols
    for its elements; otherwise only shape tensors get them. `staged`: a layer that computes in another type
    than its tensors have, see `precision`. `refittable`: the constants of weights that may be refitted.
    `rounds`: tensors are rounded to their types, stored or not. `building`: the data for plug-ins when an
    engine is built; until then only their types and sizes are requested.

    Without profiles an input's values may be negative or 0, which have special meanings for many layers. If
    that makes a size too complicated, they are assumed to be positive: a tensor then has its rank and the
    known part of its shape, and the build, which has the limits, checks again.
    """

    def __init__(
        self,
        limits: Limits,
        report: Callable[[AnyrtError], None] | None = None,
        all_values: bool = True,
        staged: Staged = as_they_are,
        refittable: Refittable | None = None,
        rounds: bool = True,
    ) -> None:
        self._refittable = refittable
        self._rounds = rounds
        self._limits = limits
        self._staged = staged
        self._report = report
        self._all_values = all_values
        self._layers: dict[LayerState, Outcome] = {}
        self._inputs: dict[TensorState, Value] = {}
        self._blobs: dict[int, tuple[Weights, Blob]] = {}
        self._parts: dict[PartState, Results] = {}
        self._names: dict[Value, str] = {}
        self._least = -INF  # that an input's value can be
        self.symbols: dict[str, Symbol] = {}
        self.building: Building | None = None

    def value(self, tensor: TensorState) -> Value:
        """The value of `tensor`; raises the error that makes it unknown."""
        if tensor.layer is None:
            return self._input(tensor)
        return self.values(tensor.layer)[tensor.index]

    def values(self, layer: LayerState) -> tuple[Value, ...]:
        """The values of `layer`: its outputs', or the condition of a layer without any; raises its error."""
        outcome = self._outcome(layer)
        if outcome.error is not None:
            raise outcome.error
        return outcome.values

    def type_of(self, tensor: TensorState) -> Type | None:
        """Shape and type of `tensor`; None if an error makes them unknown. The error is reported once."""
        if tensor.layer is None:
            return self._input(tensor).type
        known = tensor.layer in self._layers
        outcome = self._queried(tensor.layer)
        if outcome.error is not None and not known and self._report is not None:
            self._report(outcome.error)
        return None if outcome.error is not None else outcome.values[tensor.index].type

    def peek(self, tensor: TensorState) -> Type | None:
        """`type_of` without a report: an error is reported when `type_of` finds it again."""
        if tensor.layer is None:
            return self._input(tensor).type
        before, least = len(self._layers), self._least
        outcome = self._queried(tensor.layer)
        before = before if self._least == least else 0  # all were expanded again
        if outcome.error is None:
            return outcome.values[tensor.index].type
        for layer in [*islice(reversed(self._layers), len(self._layers) - before)]:
            if self._layers[layer].error is not None:
                del self._layers[layer]
        return None

    def record(self, layer: LayerState) -> Layer[Attrs]:
        """`layer` as its operator sees it."""
        inputs = tuple(None if t is None else self._read(layer, t) for t in layer.inputs)
        items = layer.attributes.items()
        attributes = {n: self._blob(layer, n, x) if isinstance(x, Weights) else x for n, x in items}
        return Layer(layer.name, layer.op.attrs(**attributes), inputs, ranks=layer.num_ranks)

    def scale(self, tensor: TensorState) -> Scale:
        """The scale of an INT8 tensor: the number that code 1 stands for."""
        if tensor.scale is not None:
            return self.held(tensor, tensor.scale)
        return 1.0 if tensor.layer is None else self._outcome(tensor.layer).scale

    def held(self, tensor: TensorState, scale: float) -> Scale:
        """The scale of a tensor, as a value of the graph if a refit may change its dynamic range."""
        return scale if self._refittable is None else self._refittable.scale(tensor, scale)

    def fixed_scale(self, tensor: TensorState) -> float:
        """The same as a number, for callers that store it."""
        scale = self.scale(tensor)
        return scale if isinstance(scale, float) else _fixed(scale)

    def forget(self, layer: LayerState) -> None:
        """`layer` has changed: discard everything computed from it."""
        todo = [layer]
        self._blobs.clear()  # else arrays that were replaced would stay in memory
        self._parts.clear()
        self._pop(layer)
        while todo:
            # A layer that was never expanded has no expanded successors.
            todo += [c for c in todo.pop().followers() if self._pop(c)]

    def _pop(self, layer: LayerState) -> bool:
        """Discard the expansion of a layer; False if there was none."""
        outcome = self._layers.pop(layer, None)
        for value in () if outcome is None else self._named(layer, outcome):
            self._names.pop(value, None)
        return outcome is not None

    def holds_of(self, inputs: Sequence[TensorState], layers: Sequence[LayerState]) -> bool:
        """Whether all of these layers were expanded without errors, and would be expanded equally for all
        profiles: no size is dynamic, and weights are unchanged."""
        for tensor in inputs:  # those that no layer reads, too
            self._input(tensor)
        if self.symbols or not all(map(self._is_settled, layers)):
            return False
        attributes = (x for layer in layers for x in layer.attributes.values())
        weights = [x for x in attributes if isinstance(x, Weights) and x.size]
        # Weights that several layers share are one constant, which `forget` may have created twice.
        return len(set(map(id, weights))) == len(weights) and all(is_steady(w) for w in weights)

    def _is_settled(self, layer: LayerState) -> bool:
        outcome = self._layers.get(layer)
        if outcome is None or outcome.error is not None or layer.op.within or layer.op.layer in PROFILED:
            return False
        return all(v.op.tells is None for v in outcome.values)

    def part(self, part: PartState) -> tuple[Value, ...]:
        """The outputs of a loop or conditional."""
        if part not in self._parts:
            self._parts[part] = part.values(self)
        return self._parts[part].values

    def tells(self) -> list[Value]:
        """The values of data-dependent sizes, of the layers expanded so far. The values of a part replace
        those inside of it."""
        parts = [v for results in self._parts.values() for v in results.tells]
        layers = walk(v for outcome in self._layers.values() for v in outcome.values)
        around = {v.op.tells for v in parts}
        return [*parts, *(v for v in layers if v.op.tells is not None and v.op.tells not in around)]

    def layer_of(self, value: Value) -> str | None:
        """The layer whose output `value` is; None if no layer expanded so far has it."""
        return self._names.get(value)

    def forms(self, tensor: TensorState) -> tuple[Value, ...]:
        """The value of a tensor, and its replacement inside of its node of a model."""
        if tensor.layer is None or tensor.layer.node is None:
            return (self.value(tensor),)
        self.value(tensor)
        return self._outcome(tensor.layer).forms(tensor.index)

    @staticmethod
    def _named(layer: LayerState, outcome: Outcome) -> Iterator[Value]:
        """The values that have the name of a layer."""
        for n, value in enumerate(outcome.values):
            yield from (value,) if layer.node is None else outcome.forms(n)

    def take(self, tensor: TensorState, value: Value) -> None:
        """Use `value` for an input of the network."""
        self._inputs[tensor] = value

    def forget_tensor(self, tensor: TensorState) -> None:
        """`tensor` has changed."""
        self._inputs.pop(tensor, None)
        for layer in [tensor.layer] if tensor.layer is not None else tensor.consumers:
            self.forget(layer)

    def _queried(self, layer: LayerState) -> Outcome:
        """The expansion of a layer for queries of its types, with positive values if it is too complicated
        otherwise."""
        outcome = self._outcome(layer)
        if not isinstance(outcome.error, SizeTooLong) or self._limits or self._least > 0:
            return outcome
        self._least = 1
        for records in (self._layers, self._inputs, self._parts, self._names, self.symbols):
            records.clear()
        return self._outcome(layer)

    def _outcome(self, target: LayerState) -> Outcome:
        known = self._layers.get(target)
        if known is not None:
            return known
        # A stack instead of recursion: networks may be thousands of layers deep.
        todo, open_ = [target], set[LayerState]()
        while todo:
            layer = todo[-1]
            waiting = [w for w in layer.needs() if w not in self._layers]
            if layer not in self._layers and waiting and layer not in open_:
                open_.add(layer)
                todo += waiting
                continue
            todo.pop()
            if layer not in self._layers:
                self._layers[layer] = self._cycle(layer) if waiting else self._judge(layer)
        return self._layers[target]

    def _cycle(self, layer: LayerState) -> Outcome:
        got, wanted = "a layer that depends on itself", "inputs that do not depend on its outputs"
        return Outcome(error=GraphError("AR408", layer.place, got, wanted))

    def _judge(self, layer: LayerState) -> Outcome:
        outcome = self._of_itself(layer) or self._of_layer(layer)
        if self._rounds and outcome.values and not layer.op.within:  # what leaves a part was rounded in it
            reads = frozenset[Value]().union(*(self._reads(layer, t) for t in layer.inputs if t is not None))
            values = rounded_outputs(reads, outcome.values)
            outcome = replace(outcome, values=values, inner=outcome.values, reads=reads)
        for value in self._named(layer, outcome):
            self._names.setdefault(value, layer.name)
        return outcome

    def _read(self, layer: LayerState, tensor: TensorState) -> Value:
        """An operand of a layer: not rounded if the layer that computes it is part of the same node."""
        maker = tensor.layer
        if maker is None or not self._shares_node(layer, maker):
            return self.value(tensor)
        outcome = self._outcome(maker)
        if outcome.error is not None:
            raise outcome.error
        return outcome.inner[tensor.index]

    def _reads(self, layer: LayerState, tensor: TensorState) -> frozenset[Value]:
        """The operands of the node of a layer, including this operand."""
        maker = tensor.layer
        if maker is None or not self._shares_node(layer, maker):
            return frozenset({self.value(tensor)})
        return self._outcome(maker).reads

    def _shares_node(self, layer: LayerState, maker: LayerState) -> bool:
        """Whether both layers belong to one node of a model; only the tensors of the node are rounded."""
        if not self._rounds or layer.op.within or maker.op.within:
            return False
        return layer.node is not None and layer.node is maker.node

    def _of_itself(self, layer: LayerState) -> Outcome | None:
        """The result of the layer's own `expand`; None if its operator defines the expansion."""
        try:
            values = layer.expand(self)
            first = layer.inputs[0] if layer.inputs else None
            return None if values is None else Outcome(values, 1.0 if first is None else self.scale(first))
        except AnyrtError as error:
            return Outcome(error=error)

    def _of_layer(self, layer: LayerState) -> Outcome:
        try:
            record = self.record(layer)
            try:
                return self._with(layer, record)
            except DTypeError as error:
                if not layer.network.widens or error.code != "AR203":
                    raise
                return self._with(layer, _widened(record))
        except AnyrtError as error:
            return Outcome(error=error.at(layer.place) if error.where == layer.name else error)

    def _with(self, layer: LayerState, record: Layer[Attrs]) -> Outcome:
        """The result of a layer for the operands in `record`."""
        scales = tuple(1.0 if t is None else self.scale(t) for t in layer.inputs)
        first = layer.outputs[0] if layer.outputs else None
        asked, dtype = (self._asked(first), first.dtype) if first else (None, None)
        stage = self._staged(layer, record, scales)
        if stage is None:
            values = expand_layer(layer.op, record, scales, asked, dtype)
            types = [t.dtype for t in layer.outputs[1:]]
            rest = (converted(v, t or v.dtype) for v, t in zip(values[1:], types, strict=True))
            values = (values[0], *rest)
        else:
            values = _otherwise(layer, stage, asked)
        return Outcome(values, output_scale(layer.op, record, scales, asked))

    def _asked(self, tensor: TensorState) -> Scale | None:
        """The scale that the dynamic range of a tensor sets; None without one."""
        return None if tensor.scale is None else self.held(tensor, tensor.scale)

    def _input(self, tensor: TensorState) -> Value:
        if tensor not in self._inputs:
            shape = tuple(self._size(tensor, axis) for axis in range(len(tensor.shape)))
            of = Type(shape, tensor.dtype or DataType.FLOAT)
            self._inputs[tensor] = apply(Param(tensor.name, of, self._elements(tensor)))
        return self._inputs[tensor]

    def _size(self, tensor: TensorState, axis: int) -> Dim:
        if tensor.shape[axis] >= 0:
            return tensor.shape[axis]
        shared = tensor.dim_names.get(axis)
        return self._symbol(shared or f"{tensor.name}.{axis}", tensor.name, axis, False).dim

    def _elements(self, tensor: TensorState) -> tuple[Sym, ...]:
        """Symbols for the elements of an input whose values may decide sizes."""
        if not tensor.may_be_sizes or not (self._all_values or tensor.is_shape_tensor):
            return ()
        many = prod(tensor.shape)
        return tuple(self._symbol(f"{tensor.name}#{i}", tensor.name, i, True) for i in range(many))

    def _symbol(self, key: str, tensor: str, axis: int, is_value: bool) -> Sym:
        """The symbol named `key`, created with the limits of this dimension or element if it is new."""
        low, high = self._limits.get((tensor, axis, is_value), (self._least if is_value else 0, INF))
        if key not in self.symbols:
            self.symbols[key] = Symbol(Sym(key, low, high), tensor, axis, is_value)
        return self.symbols[key].sym

    def _blob(self, layer: LayerState, attribute: str, weights: Weights) -> Blob:
        blob = None if self._refittable is None else self._refittable.blob(layer, attribute, weights)
        return self.blob(weights) if blob is None else blob

    def blob(self, weights: Weights) -> Blob:
        """The constant for `weights`."""
        if id(weights) not in self._blobs:
            is_steady(weights)
            self._blobs[id(weights)] = (weights, Blob(weights.elements(), weights.dtype))
        return self._blobs[id(weights)][1]


def _fixed(scale: Value) -> float:
    assert isinstance(scale.op, Const), "a scale is a constant"
    return float(scale.op.blob.fixed().item())


def _widened(record: Layer[Attrs]) -> Layer[Attrs]:
    """The layer with operands of several floating types in float32, so that they agree."""
    wide = (cast(v, DataType.FLOAT) if v is not None and v.dtype in FLOATS else v for v in record.inputs)
    return replace(record, inputs=tuple(wide))


def _otherwise(layer: LayerState, stage: Stage, asked: Scale | None) -> tuple[Value, ...]:
    """The outputs of a layer that computes in another type, in the types that they have without it."""
    types = [t.element_type for t in layer.outputs]
    first = types[0] if DataType.INT8 in (stage.dtype, types[0]) else None
    values = expand_layer(layer.op, stage.record, stage.scales, asked, first)
    if stage.rounds:
        values = tuple(map(rounded, values))
    return tuple(converted(v, t) for v, t in zip(values, types, strict=True))
