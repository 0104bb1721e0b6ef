"""Plug-ins of version 3: one object, or several, with a face for each of core, build and run.

    class Doubled(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
        def __init__(self):
            trt.IPluginV3.__init__(self)
            trt.IPluginV3OneCore.__init__(self)
            trt.IPluginV3OneBuild.__init__(self)
            trt.IPluginV3OneRuntime.__init__(self)
            self.plugin_name, self.plugin_version, self.plugin_namespace = "Doubled", "1", ""
            self.num_outputs = 1

Addresses are ints, of memory that the processor reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import IErrorRecorder, IGpuAllocator, IVersionedInterface, pure
from anyrt.api.edge.quiet import nothing, type_name, wrong_type
from anyrt.api.plugins.desc import DynamicPluginTensorDesc, PluginTensorDesc
from anyrt.api.plugins.exprs import DimsExprs, IExprBuilder, ISymExprs, KernelLaunchParams
from anyrt.api.plugins.field import PluginFieldCollection
from anyrt.api.plugins.told import Told
from anyrt.core.enums import DataType
from anyrt.core.enums_more import PluginCapabilityType

FORMATS: Final = 100  # combinations of formats that are tried, where a plug-in says nothing else


class Part(IVersionedInterface):
    """What programs derive plug-ins from: their attributes lie in `__dict__`, and are copied with it."""

    __slots__ = ("__dict__",)


def _copied(self: Part, other: Part | None, kind: type) -> None:
    """Begin as a copy of `other`, where there is one."""
    IVersionedInterface.__init__(self)
    if other is not None:
        if not isinstance(other, kind):
            raise wrong_type(f"{kind.__name__}()", other, kind.__name__)
        self.__dict__.update(other.__dict__)


@fold
class IPluginCapability(Part):
    """A face of a plug-in."""

    __slots__ = ()


@fold
class IPluginResource(Part):
    """What plug-ins share, under a key of the registry; override `clone` and `release`."""

    __slots__ = ()

    def clone(self) -> IPluginResource:
        """The object that the registry keeps."""
        pure(self, "clone")

    def release(self) -> None:
        """Nobody holds it any more."""
        pure(self, "release")


@fold
class IPluginResourceContext(Part):
    """What a context offers a plug-in that is attached to it."""

    __slots__ = ()

    @property
    def error_recorder(self) -> IErrorRecorder | None:
        """Where errors go."""
        found = self.__dict__.get("_error_recorder")
        return found if isinstance(found, IErrorRecorder) else None

    @property
    def gpu_allocator(self) -> IGpuAllocator | None:
        """Who gives memory."""
        found = self.__dict__.get("_gpu_allocator")
        return found if isinstance(found, IGpuAllocator) else None


@fold
class IPluginV3(Part):
    """A plug-in; override `get_capability_interface` and `clone`."""

    __slots__ = ()

    def __init__(self, arg0: IPluginV3 | None = None) -> None:
        _copied(self, arg0, IPluginV3)

    def get_capability_interface(self, type: PluginCapabilityType) -> object:
        """The object with this face of the plug-in, often the plug-in itself."""
        pure(self, "get_capability_interface")

    def clone(self) -> IPluginV3:
        """Another plug-in that does the same."""
        pure(self, "clone")

    def destroy(self) -> None:
        """It is used no more."""


@fold
class IPluginV3OneCore(IPluginCapability):
    """Who a plug-in is."""

    __slots__ = ()

    plugin_name = Told(str, "", "The name, under which its creator is registered.")
    plugin_version = Told(str, "", "The version, under which its creator is registered.")
    plugin_namespace = Told(str, "", "The namespace, in which its creator is registered.")

    def __init__(self, arg0: IPluginV3OneCore | None = None) -> None:
        _copied(self, arg0, IPluginV3OneCore)


@fold
class IPluginV3OneBuild(IPluginCapability):
    """The interface for building: types, sizes, formats, memory, tactics."""

    __slots__ = ()

    DEFAULT_FORMAT_COMBINATION_LIMIT = FORMATS
    num_outputs = Told(int, 1, "How many outputs it has.")
    format_combination_limit = Told(int, FORMATS, "How many combinations of formats are tried at most.")
    metadata_string = Told(str, "", "What the inspector shows of it.")
    timing_cache_id = Told(str, "", "What times of tactics are kept under; none are where it is empty.")

    def __init__(self, arg0: IPluginV3OneBuild | None = None) -> None:
        _copied(self, arg0, IPluginV3OneBuild)

    def get_output_data_types(self, input_types: list[DataType]) -> Sequence[DataType]:
        """The type of each output."""
        pure(self, "get_output_data_types")

    def get_output_shapes(
        self, inputs: list[DimsExprs], shape_inputs: list[DimsExprs], expr_builder: IExprBuilder
    ) -> Sequence[DimsExprs]:
        """The sizes of each output, made of those of the inputs and of the elements of the shape inputs."""
        pure(self, "get_output_shapes")

    def supports_format_combination(
        self, pos: int, in_out: list[DynamicPluginTensorDesc], num_inputs: int
    ) -> bool:
        """Whether tensor `pos` may be as `in_out[pos]` says, where those before it are as said there."""
        pure(self, "supports_format_combination")

    def configure_plugin(
        self, inp: list[DynamicPluginTensorDesc], out: list[DynamicPluginTensorDesc]
    ) -> None:
        """Take note of types, formats and ranges of sizes."""

    def get_workspace_size(
        self, inp: list[DynamicPluginTensorDesc], out: list[DynamicPluginTensorDesc]
    ) -> int:
        """Bytes of memory that `enqueue` wants to work in, at the greatest sizes."""
        return 0

    def get_valid_tactics(self) -> Sequence[int]:
        """Numbers of ways to compute, of which building chooses the fastest; none: one way, number 0."""
        return []


@fold
class IPluginV3OneBuildV2(IPluginV3OneBuild):
    """The same, of a plug-in that may write its output over an input."""

    __slots__ = ()

    def __init__(self, arg0: IPluginV3OneBuildV2 | None = None) -> None:
        _copied(self, arg0, IPluginV3OneBuildV2)

    def get_aliased_input(self, output_index: int) -> int:
        """The input in whose memory an output lies; −1 for none."""
        return -1


@fold
class IPluginV3OneRuntime(IPluginCapability):
    """The interface for running."""

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
        """Compute: read the memory at `inputs`, write to `outputs`; the work is done on return.

        Addresses are valid only during this call. A write outside of outputs and workspace damages other
        memory, or ends the process; a build with `config.checked` ends the inference with AR825 instead."""
        pure(self, "enqueue")

    def on_shape_change(self, inp: list[PluginTensorDesc], out: list[PluginTensorDesc]) -> None:
        """Sizes are others than in the run before."""

    def set_tactic(self, tactic: int) -> None:
        """Compute in this way from now on."""

    def get_fields_to_serialize(self) -> PluginFieldCollection | None:
        """What its creator makes the plug-in of again when a plan is loaded."""
        return PluginFieldCollection()

    def attach_to_context(self, resource_context: IPluginResourceContext) -> IPluginV3:
        """A plug-in like this one, for one execution context."""
        clone: Callable[[], IPluginV3] | None = getattr(self, "clone", None)
        return nothing() if clone is None else clone()


@fold
class IPluginV3QuickCore(IPluginCapability):
    """Who a plug-in is that was made of functions (`trt.plugin`)."""

    __slots__ = ()

    plugin_name = Told(str, "", "The name.")
    plugin_version = Told(str, "1", "The version.")
    plugin_namespace = Told(str, "", "The namespace.")

    def __init__(self, arg0: IPluginV3QuickCore | None = None) -> None:
        _copied(self, arg0, IPluginV3QuickCore)


@fold
class IPluginV3QuickBuild(IPluginCapability):
    """The interface for building of a plug-in made of functions."""

    __slots__ = ()

    def __init__(self, arg0: IPluginV3QuickBuild | None = None) -> None:
        _copied(self, arg0, IPluginV3QuickBuild)

    def get_num_outputs(self) -> int:
        """How many outputs it has."""
        pure(self, "get_num_outputs")

    def get_output_data_types(self, input_types: list[DataType], ranks: list[int]) -> Sequence[DataType]:
        """The type of each output."""
        pure(self, "get_output_data_types")

    def get_output_shapes(
        self,
        inputs: list[DimsExprs],
        shape_inputs: list[DimsExprs],
        expr_builder: IExprBuilder,
        ranks: list[int],
    ) -> Sequence[DimsExprs]:
        """The sizes of each output."""
        pure(self, "get_output_shapes")

    def get_supported_format_combinations(
        self, in_out: list[DynamicPluginTensorDesc], num_inputs: int
    ) -> Sequence[PluginTensorDesc]:
        """The combinations of types and formats that it takes, one after the other."""
        pure(self, "get_supported_format_combinations")

    def configure_plugin(
        self, inp: list[DynamicPluginTensorDesc], out: list[DynamicPluginTensorDesc]
    ) -> None:
        """Take note of types, formats and ranges of sizes."""

    def get_valid_tactics(self) -> Sequence[int]:
        """Numbers of ways to compute."""
        return []

    def get_aliased_input(self, output_index: int) -> int:
        """The input in whose memory an output lies; −1 for none."""
        return -1

    def get_timing_cache_id(self) -> str:
        """What times of tactics are kept under."""
        return ""

    def get_metadata_string(self) -> str:
        """What the inspector shows of it."""
        return ""


@fold
class IPluginV3QuickAOTBuild(IPluginV3QuickBuild):
    """The same, of a plug-in whose kernel was compiled ahead of time."""

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
        """Set how the kernel is launched, and its further arguments."""
        pure(self, "get_launch_params")

    def set_tactic(self, tactic: int) -> None:
        """Compute in this way from now on."""


@fold
class IPluginV3QuickRuntime(IPluginCapability):
    """The interface for running of a plug-in made of functions."""

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
        """Compute."""
        pure(self, "enqueue")

    def set_tactic(self, tactic: int) -> None:
        """Compute in this way from now on."""

    def get_fields_to_serialize(self) -> PluginFieldCollection | None:
        """What its creator makes the plug-in of again."""
        return PluginFieldCollection()


def face(plugin: object, capability: PluginCapabilityType) -> object:
    """The object with a face of a plug-in of version 3; None where it has none."""
    get = getattr(plugin, "get_capability_interface", None)
    return None if get is None else get(capability)


def kind_of(plugin: object) -> str:
    """How messages name a plug-in: its type."""
    return type_name(plugin)
