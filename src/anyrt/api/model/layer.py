"""The base class of layers. `layers` derives the classes of particular layers from operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from anyrt.api.edge.fold import fold, public_names
from anyrt.api.edge.hints import FAILED
from anyrt.api.edge.oneline import listed, one_line, quoted, shape_text
from anyrt.api.edge.quiet import Channel, WrongType, integer, nothing, quiet, wrong_type
from anyrt.api.model.named import Named, checked_text
from anyrt.api.model.tensor import ITensor
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ArgumentError, GraphError
from anyrt.ir.graph import Value
from anyrt.ops._record import AnyOp

if TYPE_CHECKING:
    from anyrt.api.model.expansion import Expansion
    from anyrt.api.model.network import INetworkDefinition


@fold
class ILayer(Named):
    """A layer of a network; created by the `add_*` methods of the network."""

    __slots__ = (
        "_attributes",
        "_inputs",
        "_metadata",
        "_network",
        "_node",
        "_num_ranks",
        "_op",
        "_outputs",
        "_precision",
        "_scope",
        "_source",
    )

    _noun = "layer"

    def __init__(
        self,
        network: INetworkDefinition,
        op: AnyOp,
        name: str,
        inputs: tuple[ITensor, ...],
        attributes: dict[str, object],
        source: str,
    ) -> None:
        self._network = network
        self._node = network._node  # what it is one layer of several of
        self._op = op
        self._name = name
        self._source = source
        self._attributes = attributes
        self._inputs: list[ITensor | None] = list(inputs)
        self._outputs: list[ITensor] = []
        self._give_outputs()
        self._precision: DataType | None = None
        self._metadata = ""
        self._num_ranks = 1
        self._scope: object = None
        for tensor in inputs:
            tensor._consumers.append(self)

    def _give_outputs(self) -> None:
        """The outputs that the attributes ask for."""
        op = self._op
        count = len(op.outputs) if op.asked is None else op.asked(op.attrs(**self._attributes))
        for i in range(len(self._outputs), count):
            self._outputs.append(ITensor(self._network, _output_name(op, self._name, i), self, i))

    def _expand(self, expansion: Expansion) -> tuple[Value, ...] | None:
        """What it means, where the layer says so itself; None where its operator does."""
        return None

    @property
    def _channel(self) -> Channel:
        return self._network._channel

    @property
    def _place(self) -> str:
        """How messages name it: with the line of the user's program that added it."""
        return f"{self._name} ({self._source})"

    @property
    def _passes_values(self) -> bool:
        """Whether values of the outputs depend on values of the inputs, not on their sizes alone."""
        return self._op.layer is not LayerType.SHAPE

    def _needs(self) -> Iterator[ILayer]:
        """The layers that are judged before it."""
        return (t._layer for t in self._inputs if t is not None and t._layer is not None)

    def _followers(self) -> Iterator[ILayer]:
        """The layers that must be judged again when it changes."""
        return (layer for tensor in self._outputs for layer in tensor._consumers)

    def _changed(self) -> None:
        self._network._expansion.forget(self)

    def __dir__(self) -> list[str]:
        # A program may have given it another layer's class, whose attributes it lacks.
        return [name for name in public_names(self) if hasattr(self, name)]

    @one_line
    def __repr__(self) -> str:
        takes, gives = (listed([shape_text(t) for t in side]) for side in (self._inputs, self._outputs))
        return f" {quoted(self._name)}: {takes} -> {gives}"

    def _renamed(self) -> None:
        self._changed()

    @property
    def metadata(self) -> str:
        """Text of the user's own, shown by the engine inspector."""
        return self._metadata

    @metadata.setter
    def metadata(self, text: str) -> None:
        self._metadata = checked_text(text, f"layer {self._name}: metadata")

    @property
    def type(self) -> LayerType:
        """The kind of layer."""
        return self._op.layer

    @property
    def num_inputs(self) -> int:
        """The number of inputs."""
        return len(self._inputs)

    @property
    def num_outputs(self) -> int:
        """The number of outputs."""
        return len(self._outputs)

    @property
    def num_ranks(self) -> int:
        """Kept: the number of ranks that run the layer. A DistCollective layer exchanges arrays between so
        many, which are fixed once they are more than 1."""
        return self._num_ranks

    @num_ranks.setter
    def num_ranks(self, count: int) -> None:
        self._set_ranks(count)

    @quiet(None)
    def _set_ranks(self, count: int) -> None:
        if not isinstance(count, int):
            raise wrong_type("ILayer.num_ranks", count, "an int")
        if count < 1:
            raise ArgumentError("AR304", self._place, f"{count} ranks", "1 or more", "use 1")
        if self._op.exchanges and self._num_ranks not in (1, count):
            got, wanted = f"{count} ranks", f"{self._num_ranks}, which were set before"
            raise ArgumentError("AR310", self._place, got, wanted, "add another layer")
        self._num_ranks = count
        if self._op.exchanges:
            self._changed()

    def get_input(self, index: int) -> ITensor:
        """Input `index`; None if out of range or not connected."""
        found = self._inputs[index] if 0 <= _index(index) < len(self._inputs) else None
        return nothing() if found is None else found

    def get_output(self, index: int) -> ITensor:
        """Output `index`, the same object each time; None if out of range."""
        return self._outputs[index] if 0 <= _index(index) < len(self._outputs) else nothing()

    @quiet(None)
    def set_input(self, index: int, tensor: ITensor) -> None:
        """Connect a tensor to an input. Optional inputs are connected by this method only.

        Errors: AR312, the layer has no such input; AR403, the tensor belongs to a different network."""
        if not isinstance(tensor, ITensor):
            raise no_tensor("set_input", tensor)
        if tensor._network is not self._network:
            raise GraphError(
                "AR403",
                self._place,
                f"tensor {tensor._name!r}, which belongs to a different network",
                "a tensor of this network",
            )
        limit = len(self._inputs) if self._op.methods[0].variadic else len(self._op.inputs)
        index = _index(index)
        if not 0 <= index < limit:
            raise ArgumentError("AR312", self._place, f"input {index}", f"below {limit}")
        self._inputs += [None] * (index + 1 - len(self._inputs))
        self._disconnect(index)
        self._inputs[index] = tensor
        tensor._consumers.append(self)
        self._reset(self._op.operand(index).clears)

    def _disconnect(self, index: int) -> None:
        """Take the tensor away from an input; the others keep their places."""
        if index < len(self._inputs) and (old := self._inputs[index]) is not None:
            old._consumers.remove(self)
            self._inputs[index] = None

    def _drop(self, index: int) -> None:
        """Take the tensor away from an input, and count unconnected inputs at the end no longer."""
        self._disconnect(index)
        while self._inputs and self._inputs[-1] is None:
            self._inputs.pop()

    def _reset(self, names: tuple[str, ...]) -> None:
        """Put attributes back to their defaults, and forget what was computed."""
        defaults = {f.name: f.default for f in self._op.attrs.__dataclass_fields__.values()}
        self._attributes.update({name: defaults[name] for name in names})
        self._changed()

    @property
    def precision(self) -> DataType:
        """Kept: the requested type of the computation (default: FLOAT); see `BuilderFlag`."""
        return self._precision or DataType.FLOAT

    @precision.setter
    def precision(self, dtype: DataType) -> None:
        self._set_precision(dtype)

    @quiet(None)
    def _set_precision(self, dtype: DataType) -> None:
        if not isinstance(dtype, DataType):
            raise wrong_type("ILayer.precision", dtype, DataType)
        self._refuse_when_strong("precision")
        self._precision = dtype

    def _refuse_when_strong(self, what: str) -> None:
        if self._network._strongly_typed:
            do = "add a cast layer instead"
            got, wanted = f"{what} in a strongly typed network", "types that are inferred from the inputs"
            raise ArgumentError("AR310", self._place, got, wanted, do)

    @property
    def precision_is_set(self) -> bool:
        """Whether `precision` was assigned."""
        return self._precision is not None

    def reset_precision(self) -> None:
        """Reset the precision."""
        self._precision = None

    @quiet(None)
    def set_output_type(self, index: int, dtype: DataType) -> None:
        """Set the element type of an output, to which its values are converted.

        Each value is rounded to it. With FP16, BF16 or EXCESS_PRECISION only stored values are rounded,
        unless OBEY_PRECISION_CONSTRAINTS makes it a constraint.

        Errors: AR310, the network is strongly typed; AR312, no such output."""
        if not isinstance(dtype, DataType):
            raise wrong_type("set_output_type", dtype, DataType)
        self._refuse_when_strong("set_output_type")
        self._output(index)._dtype = dtype
        self._network._widens = True  # a matter of this layer: those behind it may read float32 beside it
        self._changed()

    def _output(self, index: int) -> ITensor:
        found = self.get_output(index)
        if found is None:
            raise ArgumentError("AR312", self._place, f"output {index}", f"below {len(self._outputs)}")
        return found

    @quiet(DataType.FLOAT)
    def get_output_type(self, index: int) -> DataType:
        """The type of an output."""
        tensor = self._output(index)
        return tensor._dtype or tensor.dtype

    @quiet(False)
    def output_type_is_set(self, index: int) -> bool:
        """Whether `set_output_type` was called."""
        return self._output(index)._dtype is not None

    @quiet(None)
    def reset_output_type(self, index: int) -> None:
        """Reset the output type."""
        self._output(index)._dtype = None
        self._changed()


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


def _index(index: object) -> int:
    return integer(index, "index")


def _output_name(op: AnyOp, layer: str, index: int) -> str:
    return f"{layer}_output{op.more_outputs.format(index)}" if index else f"{layer}_output"
