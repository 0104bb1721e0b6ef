"""Plug-ins of version 2: with dynamic shapes (`IPluginV2DynamicExt`), or with an implicit batch (the others).

class Doubled(trt.IPluginV2DynamicExt):
    def __init__(self):
        trt.IPluginV2DynamicExt.__init__(self)
        self.plugin_type, self.plugin_version, self.plugin_namespace = "Doubled", "1", ""
        self.num_outputs = 1
"""

from __future__ import annotations

from typing import Final

from anyrt import __version__
from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import Interface, pure
from anyrt.api.model.dims import Dims
from anyrt.api.plugins.desc import DynamicPluginTensorDesc, PluginTensorDesc
from anyrt.api.plugins.exprs import DimsExprs, IExprBuilder
from anyrt.api.plugins.typed import TypedAttribute
from anyrt.api.plugins.v3 import FORMATS
from anyrt.core.enums import DataType, TensorFormat


def version_number() -> int:
    """The version of TensorRT as one number: 101600 for 10.16.0."""
    major, minor, patch = (int(part) for part in __version__.split("."))
    return 10000 * major + 100 * minor + patch


NUMBER: Final = version_number()


@fold
class IPluginV2(Interface):
    """A plug-in whose shapes omit the batch; override its methods."""

    __slots__ = ("__dict__",)

    num_outputs = TypedAttribute(int, 1, "The number of outputs.")
    plugin_type = TypedAttribute(str, "", "The name of its creator in the registry.")
    plugin_version = TypedAttribute(str, "", "The version of its creator in the registry.")
    plugin_namespace = TypedAttribute(str, "", "The namespace of its creator in the registry.")

    @property
    def tensorrt_version(self) -> int:
        """The version of TensorRT that its interface follows."""
        return NUMBER

    @property
    def serialization_size(self) -> int:
        """The number of bytes that `serialize` returns."""
        return len(bytes(self.serialize()))

    def get_output_shape(self, index: int, input_shapes: list[Dims]) -> Dims:
        """The shape of an output without the batch."""
        pure(self, "get_output_shape")

    def supports_format(self, dtype: DataType, format: TensorFormat) -> bool:
        """Whether it supports tensors of this type and format."""
        return dtype is DataType.FLOAT and format is TensorFormat.LINEAR

    def configure_with_format(
        self,
        input_shapes: list[Dims],
        output_shapes: list[Dims],
        dtype: DataType,
        format: TensorFormat,
        max_batch_size: int,
    ) -> None:
        """Receive the shapes, the element type and the format."""

    def initialize(self) -> int | None:
        """Prepare for inferences; any status other than 0 is an error."""
        return 0

    def terminate(self) -> None:
        """Undo `initialize`."""

    def get_workspace_size(self, max_batch_size: int) -> int:
        """The bytes of scratch memory that `execute_async` needs."""
        return 0

    def execute_async(
        self, batch_size: int, inputs: list[int], outputs: list[int], workspace: int, stream_handle: int
    ) -> int | None:
        """Compute the outputs; any status other than 0 is an error."""
        pure(self, "execute_async")

    def serialize(self) -> bytes | memoryview:
        """The bytes from which its creator restores the plug-in."""
        return b""

    def destroy(self) -> None:
        """Called when the plug-in is no longer used."""

    def clone(self) -> IPluginV2:
        """A copy of the plug-in."""
        pure(self, "clone")


@fold
class IPluginV2Ext(IPluginV2):
    """An IPluginV2 that selects the element type of each output."""

    __slots__ = ()

    def get_output_data_type(self, index: int, input_types: list[DataType]) -> DataType:
        """The element type of an output."""
        return input_types[0] if input_types else DataType.FLOAT

    def configure_plugin(
        self,
        input_shapes: list[Dims],
        output_shapes: list[Dims],
        input_types: list[DataType],
        output_types: list[DataType],
        input_is_broadcasted: list[bool],
        output_is_broacasted: list[bool],
        format: TensorFormat,
        max_batch_size: int,
    ) -> None:
        """Receive the shapes, the element types and the format."""

    def attach_to_context(self, cudnn: int | None, cublas: int | None, allocator: int | None) -> None:
        """Called when an execution context attaches it; the handles of CUDA libraries are None."""

    def detach_from_context(self) -> None:
        """Called when the execution context detaches it."""

    def clone(self) -> IPluginV2Ext:
        """A copy of the plug-in."""
        pure(self, "clone")


@fold
class IPluginV2IOExt(IPluginV2Ext):
    """An IPluginV2Ext with an element type and a format for each tensor, as in TensorRT's C++ API."""

    __slots__ = ()

    def supports_format_combination(
        self, pos: int, in_out: list[PluginTensorDesc], num_inputs: int, num_outputs: int
    ) -> bool:
        """Whether the type and format `in_out[pos]` are supported, given those of the tensors before it."""
        pure(self, "supports_format_combination")

    def configure_plugin(  # type: ignore[override]  # as TensorRT's
        self, inp: list[PluginTensorDesc], out: list[PluginTensorDesc]
    ) -> None:
        """Receive the shapes, the element types and the formats."""

    def clone(self) -> IPluginV2IOExt:
        """A copy of the plug-in."""
        pure(self, "clone")


@fold
class IPluginV2DynamicExtBase(IPluginV2):
    """The base class of plug-ins of version 2 with dynamic shapes."""

    __slots__ = ()


@fold
class IPluginV2DynamicExt(IPluginV2DynamicExtBase):
    """A plug-in of version 2 with dynamic shapes; override its methods."""

    __slots__ = ()

    FORMAT_COMBINATION_LIMIT = FORMATS

    def __init__(self, arg0: IPluginV2DynamicExt | None = None) -> None:
        Interface.__init__(self)
        if arg0 is not None:
            self.__dict__.update(arg0.__dict__)

    def get_output_datatype(self, index: int, input_types: list[DataType]) -> DataType:
        """The element type of an output."""
        pure(self, "get_output_datatype")

    def get_output_dimensions(
        self, output_index: int, inputs: list[DimsExprs], expr_builder: IExprBuilder
    ) -> DimsExprs:
        """The shape of an output, as expressions of the shapes of the inputs."""
        pure(self, "get_output_dimensions")

    def supports_format_combination(self, pos: int, in_out: list[PluginTensorDesc], num_inputs: int) -> bool:
        """Whether the type and format `in_out[pos]` are supported, given those of the tensors before it."""
        pure(self, "supports_format_combination")

    def configure_plugin(
        self, pos: list[DynamicPluginTensorDesc], in_out: list[DynamicPluginTensorDesc]
    ) -> None:
        """Receive the element types, the formats and the shapes."""

    def get_workspace_size(  # type: ignore[override]  # as TensorRT's
        self, inp: list[PluginTensorDesc], out: list[PluginTensorDesc]
    ) -> int:
        """The bytes of scratch memory that `enqueue` needs."""
        return 0

    def get_serialization_size(self) -> int:
        """The number of bytes that `serialize` returns."""
        return len(as_bytes(self.serialize()))

    def enqueue(
        self,
        input_desc: list[PluginTensorDesc],
        output_desc: list[PluginTensorDesc],
        inputs: list[int],
        outputs: list[int],
        workspace: int,
        stream: int,
    ) -> None:
        """Compute the outputs: read the memory at `inputs`, write to `outputs`, finish before returning."""
        pure(self, "enqueue")

    def clone(self) -> IPluginV2DynamicExt:
        """A copy of the plug-in."""
        pure(self, "clone")


def as_bytes(serialized: object) -> bytes:
    """The return value of `serialize` as bytes; a str is accepted, too, as in TensorRT."""
    return serialized.encode() if isinstance(serialized, str) else bytes(memoryview(serialized))  # type: ignore[arg-type]  # an object without a buffer raises TypeError, as intended
