"""Tensors of a network: its inputs, and the outputs of its layers."""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.api.building.flagbits import check_bits
from anyrt.api.edge.fold import fold
from anyrt.api.edge.oneline import one_line, quoted, tensor_text
from anyrt.api.edge.quiet import boolean, integer, quiet, wrong_type
from anyrt.api.model.dims import Dims, floats, sizes, unknown_dims
from anyrt.api.model.named import Named
from anyrt.api.model.state import LayerState, NetworkState, TensorState
from anyrt.core.enums import DataType, Severity, TensorFormat, TensorLocation
from anyrt.core.errors import ArgumentError, ShapeError


def span(limits: Sequence[float], where: str) -> tuple[float, float]:
    """`limits`, the minimum and maximum of a dynamic range; ArgumentError AR308 if they are invalid."""
    low, high = limits
    if not -float("inf") < low <= high < float("inf") or low == high == 0:
        got, wanted = f"({low}, {high})", "finite numbers, min <= max, not both 0"
        raise ArgumentError("AR308", where, got, wanted, "pass the smallest and the largest value")
    return low, high


@fold
class ITensor(Named):
    """A tensor. Its shape and type are inferred from the current state of the layers before it."""

    __slots__ = ()

    _noun = "tensor"
    _state: TensorState

    def __init__(self, network: NetworkState, name: str, layer: LayerState | None, index: int) -> None:
        self._state = TensorState(self, network, name, layer, index)

    @one_line
    def __repr__(self) -> str:
        return f" {quoted(self._state.name)}: {tensor_text(self._state)}"

    @property
    def shape(self) -> Dims:
        """The dimensions, −1 if dynamic; rank −1 while the layer before it has an error."""
        sizes = self._state.sizes
        return unknown_dims() if sizes is None else Dims(sizes)

    @shape.setter
    def shape(self, shape: Dims | Sequence[int]) -> None:
        self._reshape(sizes(shape, "ITensor.shape"))

    @quiet(None)
    def _reshape(self, shape: tuple[int, ...]) -> None:
        if self._state.layer is not None:
            wanted = "a network input"
            raise ArgumentError(
                "AR310", self._state.name, "the output of a layer", wanted, "set the attributes of the layer"
            )
        self._state.shape = checked_shape(shape, self._state.name)
        self._state.changed()

    @property
    def dtype(self) -> DataType:
        """The element type.

        In a weakly typed network the type of an input may change after layers read it, such as to float16
        for a parsed model. A layer whose operands then have several floating types uses float32."""
        return self._state.element_type

    @dtype.setter
    def dtype(self, dtype: DataType) -> None:
        self._retype(dtype)

    @quiet(None)
    def _retype(self, dtype: DataType) -> None:
        if not isinstance(dtype, DataType):
            raise wrong_type("ITensor.dtype", dtype, DataType)
        if self._state.layer is not None and self._state.network.is_strong:
            if dtype is not self.dtype:
                self._state.layer.refuse_when_strong("dtype of an output")
            return
        self._state.dtype = dtype
        if self._state.layer is None and self._state.consumers and not self._state.network.is_strong:
            self._state.network.widens = True
        self._state.changed()

    @property
    def location(self) -> TensorLocation:
        """The location of its memory: HOST for shape outputs. All memory is host memory."""
        return (
            TensorLocation.HOST if self._state in self._state.network.shape_outputs else self._state.location
        )

    @location.setter
    def location(self, location: TensorLocation) -> None:
        if not isinstance(location, TensorLocation):
            raise wrong_type("ITensor.location", location, TensorLocation)
        self._state.location = location

    @property
    def allowed_formats(self) -> int:
        """Bit mask of the formats that an input or output may have (default: LINEAR).

            x.allowed_formats = 1 << int(trt.TensorFormat.CHW4)

        The build selects LINEAR if it is allowed, and otherwise the first format that supports the type;
        kernels convert while they read or write. Without such a format the build fails with AR415. For an
        internal tensor all formats are returned, with a warning, since the build decides."""
        if not self._is_at_the_edge:
            text = (
                f"{self._state.name}: allowed_formats has no effect, since this is no network input or output"
            )
            self._state.network.channel.log(Severity.WARNING, text)
            return sum(1 << f for f in TensorFormat)
        return self._state.formats

    @allowed_formats.setter
    def allowed_formats(self, formats: int) -> None:
        self._allow(formats)

    @property
    def _is_at_the_edge(self) -> bool:
        return self.is_network_input or self.is_network_output

    @quiet(None)
    def _allow(self, formats: int) -> None:
        if not isinstance(formats, int):
            raise wrong_type("ITensor.allowed_formats", formats, "a bit mask of TensorFormat")
        check_bits(self._state.name, formats, TensorFormat)
        if not formats:
            do = "allow 1 << int(TensorFormat.LINEAR)"
            raise ArgumentError("AR304", self._state.name, "no format", "at least one format", do)
        self._state.formats = formats

    @property
    def broadcast_across_batch(self) -> bool:
        """Kept: a remnant of implicit batches."""
        return self._state.broadcast

    @broadcast_across_batch.setter
    def broadcast_across_batch(self, value: bool) -> None:
        self._state.broadcast = boolean(value, "ITensor.broadcast_across_batch")

    @property
    def is_network_input(self) -> bool:
        """Whether the tensor is a network input."""
        return self._state.layer is None

    @property
    def is_network_output(self) -> bool:
        """Whether the tensor is marked as an output, also for shapes."""
        return self._state in self._state.network.marked

    @property
    def is_shape_tensor(self) -> bool:
        """Whether the values of the tensor set dimensions of another tensor."""
        return self._state.is_shape_tensor

    @property
    def is_execution_tensor(self) -> bool:
        """Whether it is an output, or an input that is not only a shape tensor."""
        if self.is_network_output:
            return True
        return self.is_network_input and (not self.is_shape_tensor or self._state.feeds_values)

    @property
    def dynamic_range(self) -> tuple[float, float] | None:
        """The dynamic range of an INT8 tensor as (min, max); the larger magnitude determines the scale."""
        return self._state.range

    @dynamic_range.setter
    def dynamic_range(self, limits: Sequence[float] | None) -> None:
        if limits is None:
            self.reset_dynamic_range()
            return
        bounds = floats(limits, "ITensor.dynamic_range")
        if len(bounds) != 2:
            raise wrong_type("ITensor.dynamic_range", limits, "a pair (min, max)")
        self.set_dynamic_range(*bounds)

    @quiet(False)
    def set_dynamic_range(self, min: float, max: float) -> bool:
        """Set the dynamic range; returns False and changes nothing if it is invalid."""
        self._state.range = span(floats((min, max), "set_dynamic_range"), self._state.name)
        self._state.changed()
        return True

    def reset_dynamic_range(self) -> None:
        """Reset the dynamic range."""
        self._state.range = None
        self._state.changed()

    @quiet(None)
    def set_dimension_name(self, index: int, name: str) -> None:
        """Name a dimension of a network input. Dynamic dimensions of the same name are equal."""
        index = integer(index, "set_dimension_name: index")
        if not isinstance(name, str):
            raise wrong_type("set_dimension_name: name", name, "a str")
        if self._state.layer is not None:
            raise ArgumentError(
                "AR310",
                self._state.name,
                "the output of a layer",
                "a network input",
                "name the dimensions of inputs",
            )
        if not 0 <= index < len(self._state.shape):
            raise ArgumentError(
                "AR312", self._state.name, f"dimension {index}", f"below {len(self._state.shape)}"
            )
        self._state.dim_names[index] = name
        self._state.changed()

    def get_dimension_name(self, index: int) -> str:
        """The name of a dimension; "" if it has none."""
        return self._state.dim_names.get(integer(index, "get_dimension_name"), "")


def checked_shape(shape: tuple[int, ...], where: str) -> tuple[int, ...]:
    """`shape`; ShapeError AR120 if a dimension is below −1."""
    for size in shape:
        if size < -1:
            raise ShapeError("AR120", where, f"shape {shape}", "sizes of 0 or more, or -1")
    return shape
