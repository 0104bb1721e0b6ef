"""The network that a user describes, layer by layer. `methods` derives its `add_*` methods."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from anyrt.api.building.refittable import default_name
from anyrt.api.derived.methods import add_methods
from anyrt.api.edge.fold import fold
from anyrt.api.edge.managed import Managed
from anyrt.api.edge.missing import mark_absences
from anyrt.api.edge.notebook import network_table
from anyrt.api.edge.oneline import one_line, quoted
from anyrt.api.edge.quiet import (
    Channel,
    Reporting,
    channel_of,
    integer,
    nothing,
    quiet,
    user_line,
    wrong_type,
)
from anyrt.api.model.dims import Dims, sizes
from anyrt.api.model.expansion import Expansion
from anyrt.api.model.handed import handed
from anyrt.api.model.layer import ILayer, no_tensor
from anyrt.api.model.named import checked_name, checked_text
from anyrt.api.model.parts import PARTS, IIfConditional, ILoop
from anyrt.api.model.state import NetworkState, TensorState, state_of
from anyrt.api.model.tensor import ITensor, checked_shape
from anyrt.api.model.weights import Weights, to_weights
from anyrt.api.plugins.layer import add_plugin, add_plugin_v2, add_plugin_v3
from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType, NetworkDefinitionCreationFlag, Severity
from anyrt.core.errors import ArgumentError, DTypeError, GraphError, ShapeError
from anyrt.core.units import counted
from anyrt.ops import BORDERS
from anyrt.plan.file import UNNAMED

if TYPE_CHECKING:
    from anyrt.api.building.builder import Builder
    from anyrt.api.plugins import layer as plugin_layers

_COUNT = itertools.count()


@fold
class INetworkDefinition(Reporting, Managed):
    """Inputs, layers and marked outputs; created by `Builder.create_network`.

    x = network.add_input("x", trt.float32, (1, 3, -1, -1))
    network.mark_output(network.add_identity(x).get_output(0))
    """

    __slots__ = ("_builder", "_flags", "_parts", "_state")
    # Types that inputs and outputs of models have in place of the models' own: TensorRT 8 had no int64.
    _ends: ClassVar[dict[DataType, DataType]] = {}

    if TYPE_CHECKING:  # the loop below sets them
        add_plugin = quiet(None)(plugin_layers.add_plugin)
        add_plugin_v2 = quiet(None)(plugin_layers.add_plugin_v2)
        add_plugin_v3 = quiet(None)(plugin_layers.add_plugin_v3)

    def __init__(self, builder: Builder, flags: int) -> None:
        self._builder = builder
        self._flags = flags
        self._channel = Channel(builder.logger, channel_of(builder))
        self._parts = 0
        is_strong = bool(flags & 1 << NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        name, expansion = f"{UNNAMED}{next(_COUNT)}", Expansion({}, self._channel.fail)
        self._state = NetworkState(self, self._channel, expansion, is_strong, name)

    @property
    def name(self) -> str:
        """The name of the network and of its engine."""
        return self._state.name

    @name.setter
    def name(self, name: str) -> None:
        self._state.name = checked_text(name, "INetworkDefinition.name")

    @property
    def builder(self) -> Builder:
        """The builder of the network."""
        return self._builder

    @property
    def flags(self) -> int:
        """The creation flags as a bit mask."""
        return self._flags

    @property
    def has_implicit_batch_dimension(self) -> bool:
        """False, since all batch dimensions are explicit."""
        return False

    @property
    def num_layers(self) -> int:
        """The number of layers."""
        return len(self._state.layers)

    @property
    def num_inputs(self) -> int:
        """The number of inputs."""
        return len(self._state.inputs)

    @property
    def num_outputs(self) -> int:
        """The number of marked outputs, including those for shapes."""
        return len(self._state.marked)

    def get_flag(self, flag: NetworkDefinitionCreationFlag) -> bool:
        """Whether the network was created with `flag`."""
        if not isinstance(flag, NetworkDefinitionCreationFlag):
            raise wrong_type("get_flag", flag, NetworkDefinitionCreationFlag)
        return bool(self._flags & 1 << flag)

    def get_layer(self, index: int) -> ILayer:
        """Layer `index` in the order of addition; None if out of range.

        Its `type` is a LayerType, also for an activation or a pooling, until `__class__` is assigned."""
        layers = self._state.layers
        return handed(layers[index]) if 0 <= integer(index, "get_layer") < len(layers) else nothing()

    def get_input(self, index: int) -> ITensor:
        """Input `index`; None if out of range."""
        inputs = self._state.inputs
        return inputs[index].it if 0 <= integer(index, "get_input") < len(inputs) else nothing()

    def get_output(self, index: int) -> ITensor:
        """Output `index`; None if out of range."""
        marked = self._state.marked
        return marked[index].it if 0 <= integer(index, "get_output") < len(marked) else nothing()

    def __len__(self) -> int:
        return len(self._state.layers)

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: int) -> ILayer:
        return handed(self._state.layers[index])

    def __iter__(self) -> Iterator[ILayer]:
        return map(handed, tuple(self._state.layers))

    @one_line
    def __repr__(self) -> str:
        counts = (self.num_inputs, "input"), (self.num_layers, "layer"), (self.num_outputs, "output")
        name, title = self._state.name, self._state.title
        title = f" ({quoted(title)})" if title not in ("", name) else ""
        return f" {quoted(name)}{title}: {', '.join(counted(n, what) for n, what in counts)}"

    def _repr_html_(self) -> str:
        return network_table(self)

    @quiet(None)
    def add_input(self, name: str, dtype: DataType, shape: Dims | Sequence[int]) -> ITensor:
        """Add an input. `shape`: 0 to 8 dimensions; −1 is a dynamic dimension in the range of the profile.

            x = network.add_input("x", trt.float32, (1, 3, -1, -1))

        Errors: AR402, a duplicate name; AR405, an empty name; AR120, a dimension below −1."""
        if not isinstance(dtype, DataType):
            raise wrong_type("add_input: dtype", dtype, DataType)
        where = f"add_input ({user_line()})"
        checked_name(name, f"add_input: name ({user_line()})")
        if any(t.name == name for t in self._state.inputs):
            raise GraphError("AR402", where, f"a second input {name!r}", "a unique name")
        tensor = ITensor(self._state, name, None, 0)
        state = state_of(tensor)
        state.shape = checked_shape(sizes(shape, "add_input: shape"), f"{where}: {name}")
        state.dtype = dtype
        self._state.inputs.append(state)
        return tensor

    def add_loop(self) -> ILoop:
        """Add a loop; its methods add the layers of its border.

        loop = network.add_loop()
        total = loop.add_recurrence(zero)
        loop.add_trip_limit(count, trt.TripLimit.COUNT)"""
        self._parts += 1
        return ILoop(self._state, f"(Unnamed Loop* {self._parts - 1})", self._parts)

    def add_if_conditional(self) -> IIfConditional:
        """Add a conditional; its methods add the layers of its border.

        conditional = network.add_if_conditional()
        conditional.set_condition(flag)"""
        self._parts += 1
        return IIfConditional(self._state, f"(Unnamed Conditional* {self._parts - 1})", self._parts)

    @quiet(None)
    def mark_output(self, tensor: ITensor) -> None:
        """Make a tensor an output of the engine. Set its name first: `tensor.name = "y"`.

        Errors: AR404, an input of the network; AR403, a tensor of a different network."""
        state = self._own("mark_output", tensor)
        if state.layer is None:
            do = "pass it through add_identity first"
            raise GraphError("AR404", state.name, "a network input", "an output of a layer", do)
        if state in self._state.outputs:
            self._channel.log(Severity.WARNING, f"{state.name} is already marked as an output")
            return
        self._state.outputs.append(state)

    @quiet(None)
    def unmark_output(self, tensor: ITensor) -> None:
        """Undo `mark_output`; AR407 if the tensor is not marked."""
        state = self._own("unmark_output", tensor)
        _remove(self._state.outputs, state)

    @quiet(False)
    def mark_output_for_shapes(self, tensor: ITensor) -> bool:
        """Make a shape tensor of rank 0 or 1 an output that shape inference computes.

            network.mark_output_for_shapes(network.add_shape(x).get_output(0))

        The build fails if the values depend on data other than shapes (AR121). Errors: AR202, a
        floating-point tensor; AR123, a rank above 1; AR404, an input of the network."""
        state = self._own("mark_output_for_shapes", tensor)
        if is_float(state.element_type):
            raise DTypeError(
                "AR202", state.name, f"{tensor.dtype}", "an integer or bool tensor", "cast it with add_cast"
            )
        if tensor.shape.rank > 1:
            raise ShapeError(
                "AR123",
                state.name,
                f"rank {tensor.shape.rank}",
                "rank 0 or 1",
                "reshape it with add_shuffle",
            )
        if state.layer is None:
            do = "pass it through add_identity first"
            raise GraphError("AR404", state.name, "a network input", "an output of a layer", do)
        if state not in self._state.shape_outputs:
            self._state.shape_outputs.append(state)
        return True

    @quiet(False)
    def unmark_output_for_shapes(self, tensor: ITensor) -> bool:
        """Undo `mark_output_for_shapes`."""
        state = self._own("unmark_output_for_shapes", tensor)
        _remove(self._state.shape_outputs, state)
        return True

    @quiet(False)
    def mark_debug(self, tensor: ITensor) -> bool:
        """Make a tensor a debug tensor, which the debug listener receives after each inference.

        A debug tensor that is not an output is computed separately from the inputs, so that marking it does
        not change the outputs; this takes time in every inference. After the inference, the listener
        receives a tensor inside a loop once per iteration, including those of outer loops, and a tensor
        inside a branch if the branch was executed. Errors: AR402, already marked; AR403, a tensor of a
        different network. The build rejects a tensor of a branch, or of a loop with a data-dependent number
        of iterations, inside another loop (AR123), and a tensor of a loop with elements of less than a byte
        (AR414)."""
        state = self._own("mark_debug", tensor)
        if state in self._state.debug:
            raise GraphError(
                "AR402", state.name, "a debug tensor", "a tensor that is not marked yet", "mark it once"
            )
        self._state.debug.append(state)
        return True

    @quiet(False)
    def unmark_debug(self, tensor: ITensor) -> bool:
        """Undo `mark_debug`."""
        state = self._own("unmark_debug", tensor)
        _remove(self._state.debug, state)
        return True

    def is_debug_tensor(self, tensor: ITensor) -> bool:
        """Whether the tensor is marked by `mark_debug`."""
        return isinstance(tensor, ITensor) and state_of(tensor) in self._state.debug

    def mark_unfused_tensors_as_debug_tensors(self) -> bool:
        """Make every tensor that kernels store a debug tensor, except tensors of loops and branches. Fusion
        does not change.

        The network is built twice, first to find these tensors; they are computed like those of `mark_debug`.
        The listener receives them while `context.unfused_tensors_debug_state` is set."""
        self._state.debugs_unfused = True
        return True

    def unmark_unfused_tensors_as_debug_tensors(self) -> bool:
        """Undo `mark_unfused_tensors_as_debug_tensors`."""
        self._state.debugs_unfused = False
        return True

    @quiet(None)
    def remove_tensor(self, tensor: ITensor) -> None:
        """Remove an unused input; AR407 if a layer reads it."""
        state = self._own("remove_tensor", tensor)
        if state.layer is not None or state.consumers:
            raise GraphError(
                "AR407",
                state.name,
                "a tensor that a layer uses",
                "an unused input",
                "connect the layer to another tensor first",
            )
        _remove(self._state.inputs, state)
        if state in self._state.debug:
            self._state.debug.remove(state)

    @quiet(False)
    def set_weights_name(self, weights: Weights | NDArray[Any], name: str) -> bool:
        """Name weights of this network, for `Refitter.set_named_weights`.

            network.set_weights_name(weights, "w1")

        Weights in the same memory have one name, and are refitted together. Errors: AR304, weights that no
        layer uses."""
        memory = to_weights(weights, "set_weights_name")
        checked_name(name, "set_weights_name")
        values = (x for layer in self._state.layers for x in layer.attributes.values())
        if memory.address not in {w.address for w in values if isinstance(w, Weights) and w.size}:
            got, wanted = "weights that no layer uses", "weights of a layer of this network"
            raise ArgumentError("AR304", f"set_weights_name({name!r})", got, wanted, "add the layer first")
        self._state.weight_names[memory.address] = name
        return True

    @quiet(False)
    def mark_weights_refittable(self, name: str) -> bool:
        """Make the weights of this name refittable in builds with BuilderFlag.REFIT_INDIVIDUAL.

            network.mark_weights_refittable("conv1 KERNEL")

        The name is that of `set_weights_name`; weights without one are named by layer and role. Errors:
        AR304, no such weights."""
        self._state.refittable.add(self._weights(name))
        return True

    @quiet(False)
    def unmark_weights_refittable(self, name: str) -> bool:
        """Undo `mark_weights_refittable`."""
        self._state.refittable.discard(self._weights(name))
        return True

    def are_weights_marked_refittable(self, name: str) -> bool:
        """Whether the weights of this name are marked."""
        return isinstance(name, str) and name in self._state.refittable

    def _weights(self, name: str) -> str:
        by_default = (default_name(layer, key) for layer in self._state.layers for key in layer.attributes)
        known = itertools.chain(self._state.weight_names.values(), by_default)
        if not checked_text(name, "mark_weights_refittable") or name not in known:
            do = "name the weights with set_weights_name, or write layer and role: 'conv1 KERNEL'"
            raise ArgumentError("AR304", "mark_weights_refittable", repr(name), "the name of weights", do)
        return name

    def _own(self, method: str, tensor: object) -> TensorState:
        """The record of a tensor of this network."""
        if not isinstance(tensor, ITensor):
            raise no_tensor(method, tensor)
        state = state_of(tensor)
        if state.network is not self._state:
            raise GraphError(
                "AR403",
                method,
                f"tensor {state.name!r}, which belongs to a different network",
                "a tensor of this network",
            )
        return state


def _remove(marked: list[TensorState], tensor: TensorState) -> None:
    if tensor not in marked:
        raise GraphError("AR407", tensor.name, "a tensor that is not marked", "a marked tensor")
    marked.remove(tensor)


for _add in (add_plugin, add_plugin_v2, add_plugin_v3):
    _add.__qualname__ = f"INetworkDefinition.{_add.__name__}"
    setattr(INetworkDefinition, _add.__name__, quiet(None)(_add))
for _name, _method in add_methods().items():
    setattr(INetworkDefinition, _name, _method)
for _op in BORDERS.values():
    for _name, _method in add_methods([_op]).items():
        setattr(PARTS[_op.within], _name, _method)
mark_absences(INetworkDefinition)
