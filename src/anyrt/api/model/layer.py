"""The base class of layers. `layers` derives the classes of particular layers from operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from anyrt.api.edge.fold import fold, public_names
from anyrt.api.edge.hints import FAILED
from anyrt.api.edge.oneline import listed, one_line, quoted, shape_text
from anyrt.api.edge.quiet import WrongType, integer, nothing, quiet, wrong_type
from anyrt.api.model.named import Named, checked_text
from anyrt.api.model.state import LayerState, NetworkState, TensorState, state_of
from anyrt.api.model.tensor import ITensor
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ArgumentError, GraphError
from anyrt.ops._record import AnyOp


@fold
class ILayer(Named):
    """A layer of a network; created by the `add_*` methods of the network."""

    __slots__ = ()

    _noun = "layer"
    _state: LayerState
    _kind_of_state: ClassVar[type[LayerState]] = LayerState

    def __init__(
        self,
        network: NetworkState,
        op: AnyOp,
        name: str,
        inputs: Sequence[TensorState],
        attributes: dict[str, object],
        source: str,
    ) -> None:
        self._state = self._kind_of_state(
            self, network, op, name, source, attributes, list(inputs), network.node
        )
        self._give_outputs()
        for tensor in inputs:
            tensor.consumers.append(self._state)

    def _give_outputs(self) -> None:
        """Add the outputs that the attributes require and that do not exist yet."""
        state, op = self._state, self._state.op
        count = len(op.outputs) if op.asked is None else op.asked(op.attrs(**state.attributes))
        for i in range(len(state.outputs), count):
            tensor = ITensor(state.network, _output_name(op, state.name, i), state, i)
            state.outputs.append(state_of(tensor))

    def __dir__(self) -> list[str]:
        # A program may have assigned the class of another layer, whose attributes this one lacks.
        return [name for name in public_names(self) if hasattr(self, name)]

    @one_line
    def __repr__(self) -> str:
        return f" {quoted(self._state.name)}: {ends_text(self._state, self._state)}"

    @property
    def metadata(self) -> str:
        """Any text; the engine inspector shows it."""
        return self._state.metadata

    @metadata.setter
    def metadata(self, text: str) -> None:
        self._state.metadata = checked_text(text, f"layer {self._state.name}: metadata")

    @property
    def type(self) -> LayerType:
        """The kind of layer."""
        return self._state.op.layer

    @property
    def num_inputs(self) -> int:
        """The number of inputs."""
        return len(self._state.inputs)

    @property
    def num_outputs(self) -> int:
        """The number of outputs."""
        return len(self._state.outputs)

    @property
    def num_ranks(self) -> int:
        """Kept: the number of ranks that execute the layer. A DistCollective layer exchanges arrays between
        this number of ranks, which cannot change once it is above 1."""
        return self._state.num_ranks

    @num_ranks.setter
    def num_ranks(self, count: int) -> None:
        self._set_ranks(count)

    @quiet(None)
    def _set_ranks(self, count: int) -> None:
        if not isinstance(count, int):
            raise wrong_type("ILayer.num_ranks", count, "an int")
        if count < 1:
            raise ArgumentError("AR304", self._state.place, f"{count} ranks", "1 or more", "use 1")
        if self._state.op.exchanges and self._state.num_ranks not in (1, count):
            got, wanted = f"{count} ranks", f"{self._state.num_ranks}, which were set before"
            raise ArgumentError("AR310", self._state.place, got, wanted, "add another layer")
        self._state.num_ranks = count
        if self._state.op.exchanges:
            self._state.changed()

    def get_input(self, index: int) -> ITensor:
        """Input `index`; None if out of range or not connected."""
        inputs = self._state.inputs
        tensor = inputs[index] if 0 <= _index(index) < len(inputs) else None
        return nothing() if tensor is None else tensor.it

    def get_output(self, index: int) -> ITensor:
        """Output `index`, the same object each time; None if out of range."""
        outputs = self._state.outputs
        return outputs[index].it if 0 <= _index(index) < len(outputs) else nothing()

    @quiet(None)
    def set_input(self, index: int, tensor: ITensor) -> None:
        """Connect a tensor to an input. Optional inputs are connected by this method only.

        Errors: AR312, the layer has no such input; AR403, the tensor belongs to a different network."""
        if not isinstance(tensor, ITensor):
            raise no_tensor("set_input", tensor)
        state, new = self._state, state_of(tensor)
        if new.network is not state.network:
            raise GraphError(
                "AR403",
                state.place,
                f"tensor {new.name!r}, which belongs to a different network",
                "a tensor of this network",
            )
        limit = len(state.inputs) if state.op.methods[0].variadic else len(state.op.inputs)
        index = _index(index)
        if not 0 <= index < limit:
            raise ArgumentError("AR312", state.place, f"input {index}", f"below {limit}")
        state.inputs += [None] * (index + 1 - len(state.inputs))
        state.disconnect(index)
        state.inputs[index] = new
        new.consumers.append(state)
        state.reset(state.op.operand(index).clears)

    @property
    def precision(self) -> DataType:
        """Kept: the requested type of the computation (default: FLOAT); see `BuilderFlag`."""
        return self._state.precision or DataType.FLOAT

    @precision.setter
    def precision(self, dtype: DataType) -> None:
        self._set_precision(dtype)

    @quiet(None)
    def _set_precision(self, dtype: DataType) -> None:
        if not isinstance(dtype, DataType):
            raise wrong_type("ILayer.precision", dtype, DataType)
        self._state.refuse_when_strong("precision")
        self._state.precision = dtype

    @property
    def precision_is_set(self) -> bool:
        """Whether `precision` was assigned."""
        return self._state.precision is not None

    def reset_precision(self) -> None:
        """Reset the precision."""
        self._state.precision = None

    @quiet(None)
    def set_output_type(self, index: int, dtype: DataType) -> None:
        """Set the element type of an output, to which its values are converted.

        Each value is rounded to it. With FP16, BF16 or EXCESS_PRECISION only stored values are rounded,
        unless OBEY_PRECISION_CONSTRAINTS makes it a constraint.

        Errors: AR310, the network is strongly typed; AR312, no such output."""
        if not isinstance(dtype, DataType):
            raise wrong_type("set_output_type", dtype, DataType)
        self._state.refuse_when_strong("set_output_type")
        self._output(index).dtype = dtype
        self._state.network.widens = (
            True  # a matter of this layer: those behind it may read float32 beside it
        )
        self._state.changed()

    def _output(self, index: int) -> TensorState:
        tensor: ITensor | None = self.get_output(index)
        if tensor is None:
            got, wanted = f"output {index}", f"below {len(self._state.outputs)}"
            raise ArgumentError("AR312", self._state.place, got, wanted)
        return state_of(tensor)

    @quiet(DataType.FLOAT)
    def get_output_type(self, index: int) -> DataType:
        """The type of an output."""
        tensor = self._output(index)
        return tensor.dtype or tensor.element_type

    @quiet(False)
    def output_type_is_set(self, index: int) -> bool:
        """Whether `set_output_type` was called."""
        return self._output(index).dtype is not None

    @quiet(None)
    def reset_output_type(self, index: int) -> None:
        """Reset the output type."""
        self._output(index).dtype = None
        self._state.changed()


def no_tensor(where: str, got: object) -> WrongType:
    """The TypeError for `got` where a tensor is expected."""
    do = ""
    if isinstance(got, ILayer):
        do = "write layer.get_output(0)"
    elif isinstance(got, np.ndarray):
        do = "write network.add_constant(array.shape, array).get_output(0)"
    elif got is None:
        do = FAILED
    return wrong_type(where, got, "an ITensor", do)


def ends_text(first: LayerState, last: LayerState) -> str:
    """The shapes of the inputs of `first` and of the outputs of `last`, which may be the same layer."""
    takes = listed([shape_text(t) for t in first.inputs])
    return f"{takes} -> {listed([shape_text(t) for t in last.outputs])}"


def _index(index: object) -> int:
    return integer(index, "index")


def _output_name(op: AnyOp, layer: str, index: int) -> str:
    return f"{layer}_output{op.more_outputs.format(index)}" if index else f"{layer}_output"
