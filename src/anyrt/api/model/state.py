"""The content of a network's objects: a record of each network, layer and tensor.

    state = state_of(tensor)
    state.layer.op.title if state.layer is not None else "an input"

Programs hold `INetworkDefinition`, `ILayer` and `ITensor`, whose names are TensorRT's. Each holds one record,
and records refer to records. Code that reads a network (expansion, freezing, calibration, importers) follows
these. `it` of a record is the object that the program holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from anyrt.api.edge.quiet import Channel
from anyrt.core.dtype import is_float, is_integer
from anyrt.core.enums import DataType, LayerType, TensorFormat, TensorLocation
from anyrt.core.errors import ArgumentError
from anyrt.ir.graph import Type, Value
from anyrt.ops._record import AnyOp
from anyrt.prims._check import VALUE_LIMIT

if TYPE_CHECKING:
    from anyrt.api.model.expansion import Expansion
    from anyrt.api.model.layer import ILayer
    from anyrt.api.model.network import INetworkDefinition
    from anyrt.api.model.tensor import ITensor

State = TypeVar("State", covariant=True)


class HasState(Protocol[State]):
    """An object that holds a record."""

    @property
    def _state(self) -> State: ...


def state_of(x: HasState[State]) -> State:
    """The record of a network, layer, tensor, loop or conditional."""
    return x._state


@dataclass(slots=True, eq=False, repr=False)
class TensorState:
    """A tensor. `layer`: the one whose output `index` it is, None for inputs; `consumers`: a layer for each
    operand that it is; `shape`: of an input, as declared; `dtype`: the requested type; `formats`: those
    allowed, a bit for each.

    `rank`: an int64 tensor with the rank of an output, if an inference determines it. The shape then has the
    highest rank; axes above the actual rank are the last ones, of size 1."""

    it: ITensor
    network: NetworkState
    name: str
    layer: LayerState | None
    index: int
    consumers: list[LayerState] = field(default_factory=list)
    shape: tuple[int, ...] = ()
    dtype: DataType | None = None
    range: tuple[float, float] | None = None
    dim_names: dict[int, str] = field(default_factory=dict)
    location: TensorLocation = TensorLocation.DEVICE
    formats: int = 1 << TensorFormat.LINEAR
    broadcast: bool = False
    rank: TensorState | None = None

    def type(self) -> Type | None:
        """Shape and type, inferred from the layers before it; None while one of these has an error."""
        return self.network.expansion.type_of(self)

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The shape, −1 for dynamic dimensions; None while a layer before it has an error."""
        type_ = self.type()
        return None if type_ is None else tuple(d if isinstance(d, int) else -1 for d in type_.shape)

    @property
    def element_type(self) -> DataType:
        """The element type; the requested type while a layer before it has an error."""
        type_ = self.type()
        return type_.dtype if type_ is not None else self.dtype or DataType.FLOAT

    @property
    def scale(self) -> float | None:
        """The scale of int8 codes that the dynamic range sets; None without one."""
        return None if self.range is None else max(abs(v) for v in self.range) / 127

    @property
    def may_be_sizes(self) -> bool:
        """Whether elements of an input may be dimensions: it has few elements, all integers."""
        shape, dtype = self.shape, self.dtype or DataType.FLOAT
        return is_integer(dtype) and len(shape) <= 1 and all(0 <= d <= VALUE_LIMIT for d in shape)

    @property
    def is_shape_tensor(self) -> bool:
        """Whether its values set dimensions of another tensor."""
        may = self.layer is not None or self.may_be_sizes  # else sizes may follow from it as from any data
        return self in self.network.shape_outputs or (may and self._sizes_depend())

    @property
    def feeds_values(self) -> bool:
        """Whether a layer reads its values other than as dimensions."""
        uses = [(c, i) for c in self.consumers for i, t in enumerate(c.inputs) if t is self]
        return any(not c.op.operand(i).shape_values for c, i in uses)

    def _sizes_depend(self) -> bool:
        """Whether a chain of layers leads from here to an operand whose values are dimensions."""
        todo, seen = [self], {self}
        while todo:
            tensor = todo.pop()
            for layer in tensor.consumers:
                # Scales are floats. They determine dimensions only as any other data may.
                if not is_float(tensor.element_type) and any(
                    t is tensor and layer.op.operand(i).shape_values for i, t in enumerate(layer.inputs)
                ):
                    return True
                new = [t for t in layer.outputs if layer.passes_values and t not in seen]
                seen.update(new)
                todo += new
        return False

    def changed(self) -> None:
        """Discard everything computed from it."""
        self.network.expansion.forget_tensor(self)

    def renamed(self) -> None:
        """Discard everything computed from an input, whose value contains its name."""
        if self.layer is None:
            self.changed()


@dataclass(slots=True, eq=False, repr=False)
class LayerState:
    """A layer. `source`: the line of the program that added it; `node`: the node of a model that it belongs
    to; `is_imported`: whether an importer of models added it, which names its own weights; `scope`: the
    object of which it is one end, such as an `IAttention`."""

    it: ILayer
    network: NetworkState
    op: AnyOp
    name: str
    source: str
    attributes: dict[str, object]
    inputs: list[TensorState | None]
    node: object
    outputs: list[TensorState] = field(default_factory=list)
    precision: DataType | None = None
    metadata: str = ""
    num_ranks: int = 1
    is_imported: bool = False
    scope: object = None

    @property
    def place(self) -> str:
        """Its name in messages, with the line of the user's program that added it."""
        return f"{self.name} ({self.source})"

    @property
    def operands(self) -> list[TensorState]:
        """The inputs that are connected."""
        return [t for t in self.inputs if t is not None]

    @property
    def passes_values(self) -> bool:
        """Whether values of the outputs depend on values of the inputs, not on their sizes alone."""
        return self.op.layer is not LayerType.SHAPE

    def needs(self) -> Iterator[LayerState]:
        """The layers that are expanded before it."""
        return (t.layer for t in self.operands if t.layer is not None)

    def followers(self) -> Iterator[LayerState]:
        """The layers that must be expanded again when it changes."""
        return (layer for tensor in self.outputs for layer in tensor.consumers)

    def expand(self, expansion: Expansion) -> tuple[Value, ...] | None:
        """The values of the outputs, if the layer itself defines them; None if its operator does."""
        return None

    def changed(self) -> None:
        """Discard everything computed from it."""
        self.network.expansion.forget(self)

    renamed = changed

    def disconnect(self, index: int) -> None:
        """Disconnect the tensor of an input; the other inputs keep their indices."""
        if index < len(self.inputs) and (old := self.inputs[index]) is not None:
            old.consumers.remove(self)
            self.inputs[index] = None

    def drop(self, index: int) -> None:
        """Disconnect the tensor of an input, and remove unconnected inputs at the end."""
        self.disconnect(index)
        while self.inputs and self.inputs[-1] is None:
            self.inputs.pop()

    def reset(self, names: tuple[str, ...]) -> None:
        """Reset attributes to their defaults, and discard everything computed."""
        defaults = {f.name: f.default for f in self.op.attrs.__dataclass_fields__.values()}
        self.attributes.update({name: defaults[name] for name in names})
        self.changed()

    def become(self, op: AnyOp, **attributes: object) -> None:
        """Replace the operator by one that has the attributes of the present one and `attributes`."""
        self.op = op
        self.attributes.update(attributes)
        self.changed()

    def refuse_when_strong(self, what: str) -> None:
        """ArgumentError AR310 if the network is strongly typed."""
        if self.network.is_strong:
            do = "add a cast layer instead"
            got, wanted = f"{what} in a strongly typed network", "types that are inferred from the inputs"
            raise ArgumentError("AR310", self.place, got, wanted, do)


@dataclass(slots=True, eq=False, repr=False)
class NetworkState:
    """A network. `outputs`: marked ones, `shape_outputs`: those marked for shapes alone.

    `node`: the node of a model that layers are added for, of which only the results are rounded to their
    types. `widens`: set if the type of an input that layers already read is changed in a weakly typed
    network: layers described for the previous type are widened. `is_judged`: user code describes it, so
    TensorRT would have to build it, too. `title`: the title of the parsed model."""

    it: INetworkDefinition
    channel: Channel
    expansion: Expansion
    is_strong: bool
    name: str
    inputs: list[TensorState] = field(default_factory=list)
    layers: list[LayerState] = field(default_factory=list)
    outputs: list[TensorState] = field(default_factory=list)
    shape_outputs: list[TensorState] = field(default_factory=list)
    debug: list[TensorState] = field(default_factory=list)
    debugs_unfused: bool = False
    refittable: set[str] = field(default_factory=set)
    weight_names: dict[int, str] = field(default_factory=dict)  # by address
    node: object = None
    widens: bool = False
    is_judged: bool = False
    title: str = ""

    @property
    def marked(self) -> list[TensorState]:
        """The outputs, then those for shapes alone."""
        return list(dict.fromkeys([*self.outputs, *self.shape_outputs]))

    def retract(self, count: int) -> None:
        """Remove all layers but the first `count`, which read none of their outputs."""
        for layer in reversed(self.layers[count:]):
            self.expansion.forget(layer)
            for tensor in layer.operands:
                tensor.consumers.remove(layer)
        del self.layers[count:]
