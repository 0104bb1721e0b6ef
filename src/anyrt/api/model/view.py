"""A read-only view of a network for building: the content of its objects at one moment, as values.

    view = view_of(network)
    [layer.name for layer in view.layers if layer.updates]

`it` of a layer or tensor is its record, which is its key in an `Expansion`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from anyrt.api.model.expansion import Expansion
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.parts import BorderState, PartState
from anyrt.api.model.state import LayerState, TensorState, state_of
from anyrt.core.enums import Severity, TensorLocation
from anyrt.ops._record import AnyOp


@dataclass(frozen=True, slots=True, eq=False)
class TensorView:
    """A tensor. `maker`: the layer whose output it is, None for inputs; `shape`: of an input, as declared;
    `formats`: those allowed, a bit for each; `readers`: the layers that read it; `rank`: the value of an
    output's rank if an inference determines it."""

    it: TensorState
    name: str
    maker: LayerState | None
    maker_name: str
    shape: tuple[int, ...]
    dim_names: Mapping[int, str]
    scale: float | None
    location: TensorLocation
    formats: int
    readers: tuple[LayerState, ...]
    rank: TensorState | None


@dataclass(frozen=True, slots=True, eq=False)
class LayerView:
    """A layer. `place`: its name in messages; `part`: the loop or conditional at whose border it is."""

    it: LayerState
    name: str
    place: str
    source: str
    metadata: str
    op: AnyOp
    attributes: Mapping[str, object]
    inputs: tuple[TensorView | None, ...]
    outputs: tuple[TensorView, ...]
    part: PartState | None
    is_part_output: bool

    @property
    def updates(self) -> tuple[tuple[TensorView, TensorView], ...]:
        """Each output that shares the memory of an operand, and that operand."""
        pairs = ((self.outputs[output], self.inputs[operand]) for output, operand in self.op.shares)
        return tuple((output, source) for output, source in pairs if source is not None)


@dataclass(frozen=True, eq=False)
class NetworkView:
    """A network. `title`: of the model that it was parsed from; `outputs`: marked ones; `shape_outputs`:
    those marked for shapes; `expansion`: its own."""

    name: str
    title: str
    is_strong: bool
    inputs: tuple[TensorView, ...]
    layers: tuple[LayerView, ...]
    outputs: tuple[TensorView, ...]
    shape_outputs: tuple[TensorView, ...]
    debug: tuple[TensorView, ...]
    expansion: Expansion
    log: Callable[[Severity, str], None]

    @cached_property
    def marked(self) -> tuple[TensorView, ...]:
        """The outputs, then those for shapes alone."""
        return tuple(dict.fromkeys([*self.outputs, *self.shape_outputs]))

    @cached_property
    def borders(self) -> tuple[LayerView, ...]:
        """Layers at borders of loops and conditionals that have an output."""
        return tuple(x for x in self.layers if x.part is not None and x.outputs)

    @cached_property
    def layer_of(self) -> Mapping[LayerState, LayerView]:
        """The view of each layer."""
        return {layer.it: layer for layer in self.layers}

    @cached_property
    def updated(self) -> frozenset[TensorView]:
        """The tensors that share memory with another."""
        return frozenset(t for layer in self.layers for pair in layer.updates for t in pair)


def view_of(network: INetworkDefinition) -> NetworkView:
    """The present content of a network."""
    state = state_of(network)
    ends = (t for layer in state.layers for t in (*layer.operands, *layer.outputs))
    tensors = {t: _tensor(t) for t in dict.fromkeys((*state.inputs, *ends))}

    def views(states: list[TensorState]) -> tuple[TensorView, ...]:
        return tuple(tensors[t] for t in states)

    return NetworkView(
        state.name,
        state.title,
        state.is_strong,
        views(state.inputs),
        tuple(_layer(x, tensors) for x in state.layers),
        views(state.outputs),
        views(state.shape_outputs),
        views(state.debug),
        state.expansion,
        state.channel.log,
    )


def _tensor(t: TensorState) -> TensorView:
    maker, name = t.layer, "" if t.layer is None else t.layer.name
    kept = t.shape, dict(t.dim_names), t.scale, t.location, t.formats, tuple(t.consumers), t.rank
    return TensorView(t, t.name, maker, name, *kept)


def _layer(x: LayerState, tensors: Mapping[TensorState, TensorView]) -> LayerView:
    inputs = tuple(None if t is None else tensors[t] for t in x.inputs)
    outputs = tuple(tensors[t] for t in x.outputs)
    part, is_end = (x.part, x.is_end) if isinstance(x, BorderState) else (None, False)
    kept = dict(x.attributes)
    return LayerView(x, x.name, x.place, x.source, x.metadata, x.op, kept, inputs, outputs, part, is_end)
