"""Descriptions of a plug-in's tensors: shape, type, format and scale; and the range of shapes for the
builder.

>>> x = PluginTensorDesc()
>>> x.dims, x.type = (2, 3), DataType.HALF
>>> x
<PluginTensorDesc: float16 (2, 3)>
"""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.fold import fold
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import number, wrong_type
from anyrt.api.model.dims import Dims
from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType, TensorFormat


def _dims(x: object, where: str) -> Dims:
    if isinstance(x, Dims):
        return x
    if isinstance(x, list | tuple):
        return Dims(x)
    raise wrong_type(where, x, "Dims, a tuple or a list")


@fold
class PluginTensorDesc(Fixed):
    """Shape, type, format and scale of an input or output of a plug-in."""

    __slots__ = ("__weakref__", "_dims", "_format", "_scale", "_type")

    def __init__(self) -> None:
        self._dims = Dims()
        self._type = DataType.FLOAT
        self._format = TensorFormat.LINEAR
        self._scale = 0.0

    @property
    def dims(self) -> Dims:
        """The shape; −1 for dynamic dimensions during the build."""
        return self._dims

    @dims.setter
    def dims(self, dims: Dims | Sequence[int]) -> None:
        self._dims = _dims(dims, "PluginTensorDesc.dims")

    @property
    def type(self) -> DataType:
        """The element type."""
        return self._type

    @type.setter
    def type(self, dtype: DataType) -> None:
        if not isinstance(dtype, DataType):
            raise wrong_type("PluginTensorDesc.type", dtype, DataType)
        self._type = dtype

    @property
    def format(self) -> TensorFormat:
        """The memory format."""
        return self._format

    @format.setter
    def format(self, format: TensorFormat) -> None:
        if not isinstance(format, TensorFormat):
            raise wrong_type("PluginTensorDesc.format", format, TensorFormat)
        self._format = format

    @property
    def scale(self) -> float:
        """The scale of an INT8 tensor; 0 for other types."""
        return self._scale

    @scale.setter
    def scale(self, scale: float) -> None:
        self._scale = number(scale, "PluginTensorDesc.scale")

    @one_line
    def __repr__(self) -> str:
        form = "" if self._format is TensorFormat.LINEAR else f" {self._format.name}"
        return f": {short_name(self._type)} {self._dims}{form}"


@fold
class DynamicPluginTensorDesc(Fixed):
    """A tensor during the build: `desc`, and its minimum, optimum and maximum shape."""

    __slots__ = ("__weakref__", "_desc", "_max", "_min", "_opt")

    def __init__(self) -> None:
        self._desc = PluginTensorDesc()
        self._min, self._opt, self._max = Dims(), Dims(), Dims()

    @property
    def desc(self) -> PluginTensorDesc:
        """The description of the tensor in the network."""
        return self._desc

    @desc.setter
    def desc(self, desc: PluginTensorDesc) -> None:
        if not isinstance(desc, PluginTensorDesc):
            raise wrong_type("DynamicPluginTensorDesc.desc", desc, "a PluginTensorDesc")
        self._desc = desc

    @property
    def min(self) -> Dims:
        """The minimum shape."""
        return self._min

    @min.setter
    def min(self, dims: Dims | Sequence[int]) -> None:
        self._min = _dims(dims, "DynamicPluginTensorDesc.min")

    @property
    def opt(self) -> Dims:
        """The optimum shape."""
        return self._opt

    @opt.setter
    def opt(self, dims: Dims | Sequence[int]) -> None:
        self._opt = _dims(dims, "DynamicPluginTensorDesc.opt")

    @property
    def max(self) -> Dims:
        """The maximum shape."""
        return self._max

    @max.setter
    def max(self, dims: Dims | Sequence[int]) -> None:
        self._max = _dims(dims, "DynamicPluginTensorDesc.max")

    @one_line
    def __repr__(self) -> str:
        return f": {short_name(self._desc._type)} {self._min} to {self._max}, best {self._opt}"
