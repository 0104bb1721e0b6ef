"""Tensors of a network: its inputs, and the outputs of its layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyrt.api.building.flagbits import check_bits
from anyrt.api.edge.fold import fold
from anyrt.api.edge.oneline import one_line, quoted, tensor_text
from anyrt.api.edge.quiet import Channel, boolean, integer, quiet, wrong_type
from anyrt.api.model.dims import Dims, floats, sizes, unknown_dims
from anyrt.api.model.named import Named
from anyrt.core.dtype import is_float, is_integer
from anyrt.core.enums import DataType, Severity, TensorFormat, TensorLocation
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.ir.graph import Type
from anyrt.prims._check import VALUE_LIMIT

if TYPE_CHECKING:
    from anyrt.api.model.layer import ILayer
    from anyrt.api.model.network import INetworkDefinition


def span(limits: Sequence[float], where: str) -> tuple[float, float]:
    """The least and the greatest number that int8 shall hold; ArgumentError AR308 where they are none."""
    low, high = limits
    if not -float("inf") < low <= high < float("inf") or low == high == 0:
        got, wanted = f"({low}, {high})", "finite numbers, min <= max, not both 0"
        raise ArgumentError("AR308", where, got, wanted, "pass the smallest and the largest value")
    return low, high


@fold
class ITensor(Named):
    """A tensor. Its shape and type follow from the present state of the layers before it."""

    __slots__ = (
        "_broadcast",
        "_consumers",
        "_dim_names",
        "_dtype",
        "_formats",
        "_index",
        "_layer",
        "_location",
        "_network",
        "_range",
        "_rank",
        "_shape",
    )

    _noun = "tensor"

    def __init__(self, network: INetworkDefinition, name: str, layer: ILayer | None, index: int) -> None:
        self._network = network
        self._name = name
        self._layer = layer
        self._index = index
        self._consumers: list[ILayer] = []
        self._shape: tuple[int, ...] = ()
        self._dtype: DataType | None = None
        self._range: tuple[float, float] | None = None
        self._dim_names: dict[int, str] = {}
        self._location = TensorLocation.DEVICE
        self._formats = 1 << TensorFormat.LINEAR
        self._broadcast = False
        # Of an output whose rank a run decides: an int64 with it. Its shape has the highest rank; axes that a
        # run leaves out are the last ones, of size 1.
        self._rank: ITensor | None = None

    @property
    def _channel(self) -> Channel:
        return self._network._channel

    @property
    def _sizes(self) -> tuple[int, ...] | None:
        """The sizes, −1 where they are dynamic; None while the layer before it has a mistake."""
        found = self._type()
        return None if found is None else tuple(d if isinstance(d, int) else -1 for d in found.shape)

    def _type(self) -> Type | None:
        return self._network._expansion.type_of(self)

    @one_line
    def __repr__(self) -> str:
        return f" {quoted(self._name)}: {tensor_text(self)}"

    def _renamed(self) -> None:
        if self._layer is None:  # of an input, the name is part of its value
            self._network._expansion.forget_tensor(self)

    @property
    def shape(self) -> Dims:
        """The dimensions, −1 if dynamic; rank −1 while the layer before it has an error."""
        sizes = self._sizes
        return unknown_dims() if sizes is None else Dims(sizes)

    @shape.setter
    def shape(self, shape: Dims | Sequence[int]) -> None:
        self._reshape(sizes(shape, "ITensor.shape"))

    @quiet(None)
    def _reshape(self, shape: tuple[int, ...]) -> None:
        if self._layer is not None:
            wanted = "a network input"
            raise ArgumentError(
                "AR310", self._name, "the output of a layer", wanted, "set the attributes of the layer"
            )
        self._shape = checked_shape(shape, self._name)
        self._network._expansion.forget_tensor(self)

    @property
    def dtype(self) -> DataType:
        """The element type.

        In a weakly typed network the type of an input may change after layers read it, such as to float16
        for a parsed model. A layer whose operands then have several floating types uses float32."""
        found = self._type()
        return found.dtype if found is not None else self._dtype or DataType.FLOAT

    @dtype.setter
    def dtype(self, dtype: DataType) -> None:
        self._retype(dtype)

    @quiet(None)
    def _retype(self, dtype: DataType) -> None:
        if not isinstance(dtype, DataType):
            raise wrong_type("ITensor.dtype", dtype, DataType)
        if self._layer is not None and self._network._strongly_typed:
            if dtype is not self.dtype:
                self._layer._refuse_when_strong("dtype of an output")
            return
        self._dtype = dtype
        if self._layer is None and self._consumers and not self._network._strongly_typed:
            self._network._widens = True
        self._network._expansion.forget_tensor(self)

    @property
    def location(self) -> TensorLocation:
        """The location of its memory: HOST for shape outputs. All memory is host memory."""
        return TensorLocation.HOST if self in self._network._shape_outputs else self._location

    @location.setter
    def location(self, location: TensorLocation) -> None:
        if not isinstance(location, TensorLocation):
            raise wrong_type("ITensor.location", location, TensorLocation)
        self._location = location

    @property
    def allowed_formats(self) -> int:
        """Bit mask of the formats that an input or output may have (default: LINEAR).

            x.allowed_formats = 1 << int(trt.TensorFormat.CHW4)

        The build selects LINEAR if it is allowed, and otherwise the first format that supports the type;
        kernels convert while they read or write. Without such a format the build fails with AR415. For an
        internal tensor all formats are returned, with a warning, since the build decides."""
        if not self._is_at_the_edge:
            text = f"{self._name}: formats of what is no input or output are determined by the build"
            self._channel.log(Severity.WARNING, text)
            return sum(1 << f for f in TensorFormat)
        return self._formats

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
        check_bits(self._name, formats, TensorFormat)
        if not formats:
            do = "allow 1 << int(TensorFormat.LINEAR)"
            raise ArgumentError("AR304", self._name, "no format", "at least one format", do)
        self._formats = formats

    @property
    def broadcast_across_batch(self) -> bool:
        """Kept: a remnant of implicit batches."""
        return self._broadcast

    @broadcast_across_batch.setter
    def broadcast_across_batch(self, value: bool) -> None:
        self._broadcast = boolean(value, "ITensor.broadcast_across_batch")

    @property
    def is_network_input(self) -> bool:
        """Whether the tensor is a network input."""
        return self._layer is None

    @property
    def is_network_output(self) -> bool:
        """Whether the tensor is marked as an output, also for shapes."""
        return self in self._network._marked

    @property
    def is_shape_tensor(self) -> bool:
        """Whether the values of the tensor set dimensions of another tensor."""
        may = self._layer is not None or self._is_followed  # else sizes may follow from it as from any data
        return self in self._network._shape_outputs or (may and self._sizes_depend())

    @property
    def _is_followed(self) -> bool:
        """Whether each element of an input may be a size: of a few integers."""
        shape, dtype = self._shape, self._dtype or DataType.FLOAT
        return is_integer(dtype) and len(shape) <= 1 and all(0 <= d <= VALUE_LIMIT for d in shape)

    @property
    def is_execution_tensor(self) -> bool:
        """Whether it is an input or output whose values are those of a run: one that is more than a shape
        tensor."""
        if self.is_network_output:
            return True
        return self.is_network_input and (not self.is_shape_tensor or self._feeds_values())

    def _feeds_values(self) -> bool:
        uses = [(c, i) for c in self._consumers for i, t in enumerate(c._inputs) if t is self]
        return any(not c._op.operand(i).shape_values for c, i in uses)

    def _sizes_depend(self) -> bool:
        """Whether a chain of layers leads from here to an operand whose values are sizes."""
        todo, seen = [self], {self}
        while todo:
            tensor = todo.pop()
            for layer in tensor._consumers:
                # Scales, which are floats, decide sizes as any data may.
                if not tensor._holds_floats() and any(
                    t is tensor and layer._op.operand(i).shape_values for i, t in enumerate(layer._inputs)
                ):
                    return True
                new = [t for t in layer._outputs if layer._passes_values and t not in seen]
                seen.update(new)
                todo += new
        return False

    @property
    def dynamic_range(self) -> tuple[float, float] | None:
        """(min, max) of an INT8 tensor's numbers; the larger magnitude determines the scale."""
        return self._range

    @dynamic_range.setter
    def dynamic_range(self, limits: Sequence[float] | None) -> None:
        if limits is None:
            self.reset_dynamic_range()
            return
        given = floats(limits, "ITensor.dynamic_range")
        if len(given) != 2:
            raise wrong_type("ITensor.dynamic_range", limits, "a pair (min, max)")
        self.set_dynamic_range(*given)

    @quiet(False)
    def set_dynamic_range(self, min: float, max: float) -> bool:
        """Set the dynamic range; returns False and changes nothing if it is invalid."""
        self._range = span(floats((min, max), "set_dynamic_range"), self._name)
        self._network._expansion.forget_tensor(self)
        return True

    def reset_dynamic_range(self) -> None:
        """Reset the dynamic range."""
        self._range = None
        self._network._expansion.forget_tensor(self)

    @property
    def _scale(self) -> float | None:
        return None if self._range is None else max(abs(v) for v in self._range) / 127

    @quiet(None)
    def set_dimension_name(self, index: int, name: str) -> None:
        """Name a dimension of a network input. Dynamic dimensions of the same name are equal."""
        index = integer(index, "set_dimension_name: index")
        if not isinstance(name, str):
            raise wrong_type("set_dimension_name: name", name, "a str")
        if self._layer is not None:
            raise ArgumentError(
                "AR310",
                self._name,
                "the output of a layer",
                "a network input",
                "name the dimensions of inputs",
            )
        if not 0 <= index < len(self._shape):
            raise ArgumentError("AR312", self._name, f"dimension {index}", f"below {len(self._shape)}")
        self._dim_names[index] = name
        self._network._expansion.forget_tensor(self)

    def get_dimension_name(self, index: int) -> str:
        """The name of a dimension; "" if it has none."""
        return self._dim_names.get(integer(index, "get_dimension_name"), "")

    def _holds_floats(self) -> bool:
        return is_float(self.dtype)


def checked_shape(shape: tuple[int, ...], where: str) -> tuple[int, ...]:
    """`shape` when an input can have it."""
    for size in shape:
        if size < -1:
            raise ShapeError("AR120", where, f"shape {shape}", "sizes of 0 or more, or -1")
    return shape
