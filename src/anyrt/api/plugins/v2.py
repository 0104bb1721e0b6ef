"""Plug-ins of version 2: with open sizes (`IPluginV2DynamicExt`), or with a batch apart (the others).

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
from anyrt.api.plugins.told import Told
from anyrt.api.plugins.v3 import FORMATS
from anyrt.core.enums import DataType, TensorFormat


def version_number() -> int:
    """The version of TensorRT as one number: 101600 for 10.16.0."""
    major, minor, patch = (int(part) for part in __version__.split("."))
    return 10000 * major + 100 * minor + patch


NUMBER: Final = version_number()


@fold
class IPluginV2(Interface):
    """A plug-in whose tensors have a batch that sizes leave out; override its methods."""

    __slots__ = ("__dict__",)

    num_outputs = Told(int, 1, "How many outputs it has.")
    plugin_type = Told(str, "", "The name, under which its creator is registered.")
    plugin_version = Told(str, "", "The version, under which its creator is registered.")
    plugin_namespace = Told(str, "", "The namespace, in which its creator is registered.")

    @property
    def tensorrt_version(self) -> int:
        """The version that it was made for."""
        return NUMBER

    @property
    def serialization_size(self) -> int:
        """The number of bytes that `serialize` returns."""
        return len(bytes(self.serialize()))

    def get_output_shape(self, index: int, input_shapes: list[Dims]) -> Dims:
        """The sizes of an output without the batch."""
        pure(self, "get_output_shape")

    def supports_format(self, dtype: DataType, format: TensorFormat) -> bool:
        """Whether it takes tensors of this type and format."""
        return dtype is DataType.FLOAT and format is TensorFormat.LINEAR

    def configure_with_format(
        self,
        input_shapes: list[Dims],
        output_shapes: list[Dims],
        dtype: DataType,
        format: TensorFormat,
        max_batch_size: int,
    ) -> None:
        """Take note of sizes, type and format."""

    def initialize(self) -> int | None:
        """Get ready to run; another number than 0 is an error."""
        return 0

    def terminate(self) -> None:
        """Undo `initialize`."""

    def get_workspace_size(self, max_batch_size: int) -> int:
        """Bytes of memory that `execute_async` wants to work in."""
        return 0

    def execute_async(
        self, batch_size: int, inputs: list[int], outputs: list[int], workspace: int, stream_handle: int
    ) -> int | None:
        """Compute; another number than 0 is an error."""
        pure(self, "execute_async")

    def serialize(self) -> bytes | memoryview:
        """The bytes of which its creator makes the plug-in again."""
        return b""

    def destroy(self) -> None:
        """It is used no more."""

    def clone(self) -> IPluginV2:
        """Another plug-in that does the same."""
        pure(self, "clone")


@fold
class IPluginV2Ext(IPluginV2):
    """The same, with types of its own for each output."""

    __slots__ = ()

    def get_output_data_type(self, index: int, input_types: list[DataType]) -> DataType:
        """The type of an output."""
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
        """Take note of sizes, types and format."""

    def attach_to_context(self, cudnn: int | None, cublas: int | None, allocator: int | None) -> None:
        """It belongs to a context from now on; there are none of the libraries that TensorRT passes."""

    def detach_from_context(self) -> None:
        """It belongs to no context any more."""

    def clone(self) -> IPluginV2Ext:
        """Another plug-in that does the same."""
        pure(self, "clone")


@fold
class IPluginV2IOExt(IPluginV2Ext):
    """The same, with types and formats of its own for each tensor, as TensorRT's C++ has it."""

    __slots__ = ()

    def supports_format_combination(
        self, pos: int, in_out: list[PluginTensorDesc], num_inputs: int, num_outputs: int
    ) -> bool:
        """Whether tensor `pos` may be as `in_out[pos]` says, where those before it are as said there."""
        pure(self, "supports_format_combination")

    def configure_plugin(  # type: ignore[override]  # as TensorRT's
        self, inp: list[PluginTensorDesc], out: list[PluginTensorDesc]
    ) -> None:
        """Take note of sizes, types and formats."""

    def clone(self) -> IPluginV2IOExt:
        """Another plug-in that does the same."""
        pure(self, "clone")


@fold
class IPluginV2DynamicExtBase(IPluginV2):
    """What plug-ins of version 2 with open sizes derive from."""

    __slots__ = ()


@fold
class IPluginV2DynamicExt(IPluginV2DynamicExtBase):
    """A plug-in of version 2 whose sizes may be open; override its methods."""

    __slots__ = ()

    FORMAT_COMBINATION_LIMIT = FORMATS

    def __init__(self, arg0: IPluginV2DynamicExt | None = None) -> None:
        Interface.__init__(self)
        if arg0 is not None:
            self.__dict__.update(arg0.__dict__)

    def get_output_datatype(self, index: int, input_types: list[DataType]) -> DataType:
        """The type of an output."""
        pure(self, "get_output_datatype")

    def get_output_dimensions(
        self, output_index: int, inputs: list[DimsExprs], expr_builder: IExprBuilder
    ) -> DimsExprs:
        """The sizes of an output, made of those of the inputs."""
        pure(self, "get_output_dimensions")

    def supports_format_combination(self, pos: int, in_out: list[PluginTensorDesc], num_inputs: int) -> bool:
        """Whether tensor `pos` may be as `in_out[pos]` says, where those before it are as said there."""
        pure(self, "supports_format_combination")

    def configure_plugin(
        self, pos: list[DynamicPluginTensorDesc], in_out: list[DynamicPluginTensorDesc]
    ) -> None:
        """Take note of types, formats and sizes."""

    def get_workspace_size(  # type: ignore[override]  # as TensorRT's
        self, inp: list[PluginTensorDesc], out: list[PluginTensorDesc]
    ) -> int:
        """Bytes of memory that `enqueue` wants to work in."""
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
        """Compute: read the memory at `inputs`, write to `outputs`; the work is done on return."""
        pure(self, "enqueue")

    def clone(self) -> IPluginV2DynamicExt:
        """Another plug-in that does the same."""
        pure(self, "clone")


def as_bytes(given: object) -> bytes:
    """What `serialize` gave as bytes; text is taken, too, as TensorRT does."""
    return given.encode() if isinstance(given, str) else bytes(memoryview(given))  # type: ignore[arg-type]  # what has no buffer raises, as wanted
