"""Plug-ins of version 3: one object or several, with an interface for each of core, build and runtime.

    class Doubled(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
        def __init__(self):
            trt.IPluginV3.__init__(self)
            trt.IPluginV3OneCore.__init__(self)
            trt.IPluginV3OneBuild.__init__(self)
            trt.IPluginV3OneRuntime.__init__(self)
            self.plugin_name, self.plugin_version, self.plugin_namespace = "Doubled", "1", ""
            self.num_outputs = 1

Addresses are ints; they point to memory of the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import IErrorRecorder, IGpuAllocator, IVersionedInterface, pure
from anyrt.api.edge.quiet import nothing, wrong_type
from anyrt.api.plugins.desc import DynamicPluginTensorDesc, PluginTensorDesc
from anyrt.api.plugins.exprs import DimsExprs, IExprBuilder, ISymExprs, KernelLaunchParams
from anyrt.api.plugins.field import PluginFieldCollection
from anyrt.api.plugins.typed import TypedAttribute
from anyrt.core.enums import DataType, PluginCapabilityType

FORMATS: Final = 100  # the default maximum of format combinations that the builder tries


class Part(IVersionedInterface):
    """The base class of plug-ins and their parts. Attributes are in `__dict__`, and copied with it."""

    __slots__ = ("__dict__",)


def _copied(self: Part, other: Part | None, kind: type) -> None:
    """Initialize `self` as a copy of `other`, if that is not None."""
    IVersionedInterface.__init__(self)
    if other is not None:
        if not isinstance(other, kind):
            raise wrong_type(f"{kind.__name__}()", other, kind.__name__)
        self.__dict__.update(other.__dict__)


@fold
class IPluginCapability(Part):
    """An interface of a plug-in: core, build or runtime."""

    __slots__ = ()


@fold
class IPluginResource(Part):
    """An object that plug-ins share, under a key of the registry; override `clone` and `release`."""

    __slots__ = ()

    def clone(self) -> IPluginResource:
        """The object that the registry keeps."""
        pure(self, "clone")

    def release(self) -> None:
        """Called when the last holder has released it."""
        pure(self, "release")


@fold
class IPluginResourceContext(Part):
    """The services of an execution context for the plug-ins that are attached to it."""

    __slots__ = ()

    @property
    def error_recorder(self) -> IErrorRecorder | None:
        """The error recorder of the context; None if it has none."""
        recorder = self.__dict__.get("_error_recorder")
        return recorder if isinstance(recorder, IErrorRecorder) else None

    @property
    def gpu_allocator(self) -> IGpuAllocator | None:
        """The GPU allocator of the context; None if it has none."""
        allocator = self.__dict__.get("_gpu_allocator")
        return allocator if isinstance(allocator, IGpuAllocator) else None


@fold
class IPluginV3(Part):
    """A plug-in; override `get_capability_interface` and `clone`."""

    __slots__ = ()

    def __init__(self, arg0: IPluginV3 | None = None) -> None:
        _copied(self, arg0, IPluginV3)

    def get_capability_interface(self, type: PluginCapabilityType) -> object:
        """The object that implements this interface of the plug-in, often the plug-in itself."""
        pure(self, "get_capability_interface")

    def clone(self) -> IPluginV3:
        """A copy of the plug-in."""
        pure(self, "clone")

    def destroy(self) -> None:
        """Called when the plug-in is no longer used."""


@fold
class IPluginV3OneCore(IPluginCapability):
    """The identity of a plug-in: its name, version and namespace."""

    __slots__ = ()

    plugin_name = TypedAttribute(str, "", "The name of its creator in the registry.")
    plugin_version = TypedAttribute(str, "", "The version of its creator in the registry.")
    plugin_namespace = TypedAttribute(str, "", "The namespace of its creator in the registry.")

    def __init__(self, arg0: IPluginV3OneCore | None = None) -> None:
        _copied(self, arg0, IPluginV3OneCore)


@fold
class IPluginV3OneBuild(IPluginCapability):
    """The interface for the builder: types, shapes, formats, workspace, tactics."""

    __slots__ = ()

    DEFAULT_FORMAT_COMBINATION_LIMIT = FORMATS
    num_outputs = TypedAttribute(int, 1, "The number of outputs.")
    format_combination_limit = TypedAttribute(
        int, FORMATS, "The maximum number of format combinations to try."
    )
    metadata_string = TypedAttribute(str, "", "The metadata that the engine inspector shows.")
    timing_cache_id = TypedAttribute(
        str, "", "The key of its measured tactics in the timing cache; empty: not stored."
    )

    def __init__(self, arg0: IPluginV3OneBuild | None = None) -> None:
        _copied(self, arg0, IPluginV3OneBuild)

    def get_output_data_types(self, input_types: list[DataType]) -> Sequence[DataType]:
        """The element type of each output."""
        pure(self, "get_output_data_types")

    def get_output_shapes(
        self, inputs: list[DimsExprs], shape_inputs: list[DimsExprs], expr_builder: IExprBuilder
    ) -> Sequence[DimsExprs]:
        """The shape of each output, as expressions of the inputs' shapes and the shape inputs' elements."""
        pure(self, "get_output_shapes")

    def supports_format_combination(
        self, pos: int, in_out: list[DynamicPluginTensorDesc], num_inputs: int
    ) -> bool:
        """Whether the type and format `in_out[pos]` are supported, given those of the tensors before it."""
        pure(self, "supports_format_combination")

    def configure_plugin(
        self, inp: list[DynamicPluginTensorDesc], out: list[DynamicPluginTensorDesc]
    ) -> None:
        """Receive the element types, the formats and the ranges of shapes."""

    def get_workspace_size(
        self, inp: list[DynamicPluginTensorDesc], out: list[DynamicPluginTensorDesc]
    ) -> int:
        """The bytes of scratch memory that `enqueue` needs for the maximum shapes."""
        return 0

    def get_valid_tactics(self) -> Sequence[int]:
        """The tactics, from which the builder selects the fastest; an empty list means one tactic, 0."""
        return []


@fold
class IPluginV3OneBuildV2(IPluginV3OneBuild):
    """An IPluginV3OneBuild whose outputs may share the memory of an input."""

    __slots__ = ()

    def __init__(self, arg0: IPluginV3OneBuildV2 | None = None) -> None:
        _copied(self, arg0, IPluginV3OneBuildV2)

    def get_aliased_input(self, output_index: int) -> int:
        """The input whose memory an output shares; −1 for none."""
        return -1


@fold
class IPluginV3OneRuntime(IPluginCapability):
    """The interface for the runtime."""

    __slots__ = ()

    def __init__(self, arg0: IPluginV3OneRuntime | None = None) -> None:
        _copied(self, arg0, IPluginV3OneRuntime)

    def enqueue(
        self,
        input_desc: list[PluginTensorDesc],
        output_desc: list[PluginTensorDesc],
        inputs: list[int],
        outputs: list[int],
        workspace: int,
        stream: int,
    ) -> None:
        """Compute the outputs: read the memory at `inputs`, write to `outputs`, finish before returning.

        Addresses are valid only during this call. A write outside the outputs and the workspace corrupts
        other memory or crashes the process. An engine built with `config.checked` raises AR825 instead."""
        pure(self, "enqueue")

    def on_shape_change(self, inp: list[PluginTensorDesc], out: list[PluginTensorDesc]) -> None:
        """Called before an inference whose shapes differ from those of the previous one."""

    def set_tactic(self, tactic: int) -> None:
        """Select the tactic of the following calls."""

    def get_fields_to_serialize(self) -> PluginFieldCollection | None:
        """The fields from which its creator restores the plug-in when a plan is loaded."""
        return PluginFieldCollection()

    def attach_to_context(self, resource_context: IPluginResourceContext) -> IPluginV3:
        """A copy of the plug-in for one execution context."""
        clone: Callable[[], IPluginV3] | None = getattr(self, "clone", None)
        return nothing() if clone is None else clone()


@fold
class IPluginV3QuickCore(IPluginCapability):
    """The identity of a plug-in that is made from functions (`trt.plugin`)."""

    __slots__ = ()

    plugin_name = TypedAttribute(str, "", "The name.")
    plugin_version = TypedAttribute(str, "1", "The version.")
    plugin_namespace = TypedAttribute(str, "", "The namespace.")

    def __init__(self, arg0: IPluginV3QuickCore | None = None) -> None:
        _copied(self, arg0, IPluginV3QuickCore)


@fold
class IPluginV3QuickBuild(IPluginCapability):
    """The interface for the builder, of a plug-in made from functions."""

    __slots__ = ()

    def __init__(self, arg0: IPluginV3QuickBuild | None = None) -> None:
        _copied(self, arg0, IPluginV3QuickBuild)

    def get_num_outputs(self) -> int:
        """The number of outputs."""
        pure(self, "get_num_outputs")

    def get_output_data_types(self, input_types: list[DataType], ranks: list[int]) -> Sequence[DataType]:
        """The element type of each output."""
        pure(self, "get_output_data_types")

    def get_output_shapes(
        self,
        inputs: list[DimsExprs],
        shape_inputs: list[DimsExprs],
        expr_builder: IExprBuilder,
        ranks: list[int],
    ) -> Sequence[DimsExprs]:
        """The shape of each output."""
        pure(self, "get_output_shapes")

    def get_supported_format_combinations(
        self, in_out: list[DynamicPluginTensorDesc], num_inputs: int
    ) -> Sequence[PluginTensorDesc]:
        """The supported combinations of types and formats, one after the other."""
        pure(self, "get_supported_format_combinations")

    def configure_plugin(
        self, inp: list[DynamicPluginTensorDesc], out: list[DynamicPluginTensorDesc]
    ) -> None:
        """Receive the element types, the formats and the ranges of shapes."""

    def get_valid_tactics(self) -> Sequence[int]:
        """The numbers of its tactics."""
        return []

    def get_aliased_input(self, output_index: int) -> int:
        """The input whose memory an output shares; −1 for none."""
        return -1

    def get_timing_cache_id(self) -> str:
        """The key of its measured tactics in the timing cache."""
        return ""

    def get_metadata_string(self) -> str:
        """The metadata that the engine inspector shows."""
        return ""


@fold
class IPluginV3QuickAOTBuild(IPluginV3QuickBuild):
    """An IPluginV3QuickBuild whose kernel is compiled ahead of time."""

    __slots__ = ()

    def __init__(self, arg0: IPluginV3QuickAOTBuild | None = None) -> None:
        _copied(self, arg0, IPluginV3QuickAOTBuild)

    def get_kernel(
        self, in_desc: list[PluginTensorDesc], out_desc: list[PluginTensorDesc]
    ) -> tuple[str, bytes]:
        """The name and code of the kernel."""
        pure(self, "get_kernel")

    def get_launch_params(
        self,
        in_dims: list[DimsExprs],
        in_out: list[DynamicPluginTensorDesc],
        num_inputs: int,
        launch: KernelLaunchParams,
        extra_args: ISymExprs,
        expr_builder: IExprBuilder,
    ) -> None:
        """Set the launch parameters of the kernel and its extra arguments."""
        pure(self, "get_launch_params")

    def set_tactic(self, tactic: int) -> None:
        """Select the tactic of the following calls."""


@fold
class IPluginV3QuickRuntime(IPluginCapability):
    """The interface for the runtime, of a plug-in made from functions."""

    __slots__ = ()

    def __init__(self, arg0: IPluginV3QuickRuntime | None = None) -> None:
        _copied(self, arg0, IPluginV3QuickRuntime)

    def enqueue(
        self,
        input_desc: list[PluginTensorDesc],
        output_desc: list[PluginTensorDesc],
        inputs: list[int],
        outputs: list[int],
        in_strides: list[list[int]],
        out_strides: list[list[int]],
        stream: int,
    ) -> None:
        """Compute the outputs."""
        pure(self, "enqueue")

    def set_tactic(self, tactic: int) -> None:
        """Select the tactic of the following calls."""

    def get_fields_to_serialize(self) -> PluginFieldCollection | None:
        """The fields from which its creator restores the plug-in."""
        return PluginFieldCollection()
