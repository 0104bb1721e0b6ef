"""A network as building reads it: what its objects hold at one moment, as values.

    view = view_of(network)
    [layer.name for layer in view.layers if layer.updates]

`it` of a layer or tensor is the object that a user holds; an `Expansion` knows by it what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from anyrt.api.model.expansion import Expansion
from anyrt.api.model.layer import ILayer
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.parts import BORDER_CLASSES, Part
from anyrt.api.model.tensor import ITensor
from anyrt.core.enums import Severity, TensorLocation
from anyrt.ops._record import AnyOp

BORDERS = tuple(BORDER_CLASSES.values())


@dataclass(frozen=True, slots=True, eq=False)
class TensorView:
    """A tensor. `maker`: the layer whose output it is, None for inputs; `shape`: of an input, as declared;
    `formats`: those allowed, a bit for each; `readers`: the layers that read it; `rank`: what tells the rank
    of an output where a run decides it."""

    it: ITensor
    name: str
    maker: ILayer | None
    maker_name: str
    shape: tuple[int, ...]
    dim_names: Mapping[int, str]
    scale: float | None
    location: TensorLocation
    formats: int
    readers: tuple[ILayer, ...]
    rank: ITensor | None


@dataclass(frozen=True, slots=True, eq=False)
class LayerView:
    """A layer. `place`: how messages name it; `part`: the loop or conditional at whose border it stands."""

    it: ILayer
    name: str
    place: str
    source: str
    metadata: str
    op: AnyOp
    attributes: Mapping[str, object]
    inputs: tuple[TensorView | None, ...]
    outputs: tuple[TensorView, ...]
    part: Part | None
    is_part_output: bool

    @property
    def updates(self) -> tuple[tuple[TensorView, TensorView], ...]:
        """Each output that has the memory of an operand, and that operand."""
        found = ((self.outputs[output], self.inputs[operand]) for output, operand in self.op.shares)
        return tuple((output, source) for output, source in found if source is not None)


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
    def layer_of(self) -> Mapping[ILayer, LayerView]:
        """The view of each layer."""
        return {layer.it: layer for layer in self.layers}

    @cached_property
    def updated(self) -> frozenset[TensorView]:
        """The tensors that have one memory with another."""
        return frozenset(t for layer in self.layers for pair in layer.updates for t in pair)


def view_of(network: INetworkDefinition) -> NetworkView:
    """What a network holds now."""
    ends = (t for layer in network._layers for t in (*layer._inputs, *layer._outputs) if t is not None)
    tensors = {t: _tensor(t) for t in dict.fromkeys((*network._inputs, *ends))}

    def views(found: list[ITensor]) -> tuple[TensorView, ...]:
        return tuple(tensors[t] for t in found)

    return NetworkView(
        network.name,
        network._title,
        network._strongly_typed,
        views(network._inputs),
        tuple(_layer(x, tensors) for x in network._layers),
        views(network._outputs),
        views(network._shape_outputs),
        views(network._debug),
        network._expansion,
        network._channel.log,
    )


def _tensor(t: ITensor) -> TensorView:
    maker, name = t._layer, "" if t._layer is None else t._layer._name
    named, readers = dict(t._dim_names), tuple(t._consumers)
    kept = t._shape, named, t._scale, t._location, t._formats, readers, t._rank
    return TensorView(t, t._name, maker, name, *kept)


def _layer(x: ILayer, tensors: Mapping[ITensor, TensorView]) -> LayerView:
    inputs = tuple(None if t is None else tensors[t] for t in x._inputs)
    outputs = tuple(tensors[t] for t in x._outputs)
    part, is_output = (x._part, x._is_output) if isinstance(x, BORDERS) else (None, False)
    kept = dict(x._attributes)
    return LayerView(
        x, x._name, x._place, x._source, x._metadata, x._op, kept, inputs, outputs, part, is_output
    )
