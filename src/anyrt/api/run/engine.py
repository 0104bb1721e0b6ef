"""Engines: loaded plans."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from anyrt.api.building.formats import describe
from anyrt.api.building.marks import marks_of
from anyrt.api.edge.fold import fold
from anyrt.api.edge.managed import Managed
from anyrt.api.edge.missing import mark_absences
from anyrt.api.edge.notebook import engine_table
from anyrt.api.edge.oneline import bindings_text, one_line, quoted
from anyrt.api.edge.quiet import Channel, Refused, Reporting, integer, nothing, quiet, wrong_type
from anyrt.api.model.dims import Dims, unknown_dims
from anyrt.api.run.context import IExecutionContext
from anyrt.api.run.engine_config import IRuntimeConfig, ISerializationConfig, Strategy
from anyrt.api.run.host_memory import IHostMemory
from anyrt.api.run.inspector import EngineInspector
from anyrt.api.run.source import mixer
from anyrt.api.run.state import EngineState
from anyrt.core.enums import (
    DataType,
    EngineCapability,
    EngineStat,
    HardwareCompatibilityLevel,
    ProfilingVerbosity,
    SerializationFlag,
    TensorFormat,
    TensorIOMode,
    TensorLocation,
)
from anyrt.core.errors import ArgumentError, BindingError, PlanError, RefitError
from anyrt.core.formats import vector_axis, vector_length
from anyrt.plan.file import PlanParts, plan_parts
from anyrt.plan.plan import Binding, Plan, stripped
from anyrt.plan.room import free_bytes
from anyrt.runtime.engine import Engine
from anyrt.runtime.memory import Policy

if TYPE_CHECKING:
    from anyrt.api.run.runtime import Runtime

Array = NDArray[Any]  # Any: the plan determines the element types
POLICIES = {
    Strategy.STATIC: Policy.STATIC,
    Strategy.ON_PROFILE_CHANGE: Policy.ON_PROFILE_CHANGE,
    Strategy.USER_MANAGED: Policy.USER_MANAGED,
}


@fold
class ICudaEngine(Reporting, Managed):
    """A loaded plan. `engine.run(x=array)["y"]` runs one inference; contexts give full control."""

    __slots__ = ("_runtime", "_settings", "_state")

    def __init__(self, runtime: Runtime, parent: Channel, engine: Engine, plan: Plan) -> None:
        self._settings: dict[str, object] = {}
        self._runtime = runtime
        self._channel = Channel(parent.logger, parent)
        marks = marks_of(plan)
        io = tuple(b for b in plan.bindings if b.name not in marks.hidden)
        self._state = EngineState(engine, plan, marks, io)

    def run(self, /, *, communicator: object = None, **inputs: Array) -> dict[str, Array]:
        """Run one inference on arrays by input name; returns the outputs by name.

            y = engine.run(x=np.ones((1, 3, 224, 224), np.float32))["y"]

        Arrays have the types of the inputs and are row-major in every tensor format; strided arrays are
        copied. `communicator` exchanges arrays with the other ranks in this inference, as that of
        `context.set_communicator`. TensorRT has no such method. Errors: AR701, a missing input; AR703, an
        array of another type; AR505, a shape outside all profiles; AR713, no communicator, or one of other
        ranks than the layers name."""
        outputs = self._state.engine.infer(inputs, communicator)
        for name in self._state.marks.hidden:
            del outputs[name]
        return outputs

    def report(self, path: str | os.PathLike[str] | None = None) -> str:
        """An HTML page about this engine, which opens offline: drawing, kernels by time, fusion failures,
        latencies and errors. `path`: also write the page to this file. TensorRT has no such method.

            engine.report("report.html")

        Raises AR803 if the file cannot be written."""
        if not isinstance(path, str | os.PathLike | None):
            raise wrong_type("report: path", path, "a str, a path or None")
        # The package of the command line, a higher layer, writes pages; it is imported by name.
        report_module = import_module("anyrt.cli.report.build")
        page: str = report_module.report(bytes(memoryview(self.serialize())), self.name)
        if path is not None:
            report_module.write_report(page, Path(path))
        return page

    def __getitem__(self, index: int) -> str:
        return self._state.io[index].name

    def __iter__(self) -> Iterator[str]:
        return iter([b.name for b in self._state.io])

    @one_line
    def __repr__(self) -> str:
        return f" {quoted(self.name)}: {bindings_text(self._state.io)}"

    def _repr_html_(self) -> str:
        return engine_table(self)

    @property
    def name(self) -> str:
        """The name of the network."""
        return self._state.plan.name

    @property
    def num_io_tensors(self) -> int:
        """The number of inputs and outputs."""
        return len(self._state.io)

    @property
    def num_layers(self) -> int:
        """The number of kernels, each with a name that the inspector and the profiler report. A kernel
        computes one or more layers of the network, and serves all profiles."""
        return len(self._state.loaded.program.kernels)

    @property
    def num_optimization_profiles(self) -> int:
        """The number of profiles."""
        return max(1, len(self._state.plan.profiles))

    @property
    def has_implicit_batch_dimension(self) -> bool:
        """False, since all batch dimensions are explicit."""
        return False

    @property
    def engine_capability(self) -> EngineCapability:
        """STANDARD, the only supported capability."""
        return EngineCapability.STANDARD

    @property
    def hardware_compatibility_level(self) -> HardwareCompatibilityLevel:
        """NONE, since plans run on every processor."""
        return HardwareCompatibilityLevel.NONE

    @property
    def profiling_verbosity(self) -> ProfilingVerbosity:
        """The detail of layer information."""
        name = dict(self._state.plan.settings).get("verbosity", "")
        return ProfilingVerbosity.__members__.get(name, ProfilingVerbosity.LAYER_NAMES_ONLY)

    @property
    def tactic_sources(self) -> int:
        """The tactic sources: none."""
        return 0

    @property
    def num_aux_streams(self) -> int:
        """The number of auxiliary streams: 0."""
        return 0

    @property
    def refittable(self) -> bool:
        """Whether a Refitter can replace weights: the engine was built with BuilderFlag.REFIT,
        REFIT_INDIVIDUAL, REFIT_IDENTICAL or STRIP_PLAN."""
        return self._state.plan.refit is not None

    @property
    def device_memory_size_v2(self) -> int:
        """The bytes of scratch memory of a context, for any profile."""
        return self._state.loaded.workspace_bytes()

    @property
    def device_memory_size(self) -> int:
        """The same, for older programs."""
        return self.device_memory_size_v2

    @quiet(0)
    def get_device_memory_size_for_profile_v2(self, profile_index: int) -> int:
        """The bytes of scratch memory of a context, for one profile."""
        self._state.loaded.check_profile(integer(profile_index, "get_device_memory_size_for_profile_v2"))
        return self._state.loaded.workspace_bytes(profile_index)

    def get_device_memory_size_for_profile(self, profile_index: int) -> int:
        """The same, for older programs."""
        return self.get_device_memory_size_for_profile_v2(profile_index)

    @property
    def streamable_weights_size(self) -> int:
        """The bytes of all streamable weights (BuilderFlag.WEIGHT_STREAMING); 0 without this flag."""
        return self._state.plan.blob_bytes if self._state.loaded.held.can_stream else 0

    @property
    def weight_streaming_budget_v2(self) -> int:
        """The bytes of weights to keep in memory; default: `streamable_weights_size`.

            engine.weight_streaming_budget_v2 = engine.streamable_weights_size // 2

        The engine streams the other weights: it reads each from the plan when a kernel needs it, into
        `weight_streaming_scratch_memory_size` additional bytes. It reads them from the file of the plan, or
        copies them from a plan in memory. Contexts may exist; they then alternate kernel by kernel. Errors:
        AR304, a negative budget, or an engine built without WEIGHT_STREAMING."""
        held = self._state.loaded.held
        return self.streamable_weights_size if held.budget is None else held.budget

    @weight_streaming_budget_v2.setter
    def weight_streaming_budget_v2(self, budget: int) -> None:
        self._keep("weight_streaming_budget_v2", integer(budget, "weight_streaming_budget_v2"), 0)

    @property
    def weight_streaming_budget(self) -> int:
        """The same, for older programs: 0 for the automatic budget, −1 for all weights."""
        return -1 if self._state.loaded.held.budget is None else self.weight_streaming_budget_v2

    @weight_streaming_budget.setter
    def weight_streaming_budget(self, budget: int) -> None:
        bytes_of = {-1: self.streamable_weights_size, 0: self.get_weight_streaming_automatic_budget()}
        number = integer(budget, "weight_streaming_budget")
        self._keep("weight_streaming_budget", bytes_of.get(number, number), -1)

    @quiet(None)
    def _keep(self, name: str, budget: int, least: int) -> None:
        if budget < 0:
            do = f"the budget stays {self.weight_streaming_budget_v2}"
            raise ArgumentError("AR304", f"ICudaEngine.{name}", f"{budget}", f"{least} or more", do)
        if self._state.loaded.held.can_stream:
            self._state.loaded.held.keep(budget)
        elif budget:
            got, do = f"{budget}", "build it with BuilderFlag.WEIGHT_STREAMING"
            raise ArgumentError(
                "AR304", f"ICudaEngine.{name}", got, "0, since the engine does not stream weights", do
            )

    @property
    def minimum_weight_streaming_budget(self) -> int:
        """The minimum of `weight_streaming_budget`."""
        return 0

    @property
    def weight_streaming_scratch_memory_size(self) -> int:
        """The bytes of memory for streamed weights: those of the kernel that reads most; 0 if all weights
        stay in memory."""
        return self._state.loaded.held.largest_step

    def get_weight_streaming_automatic_budget(self) -> int:
        """The bytes of weights that fit into half of the free memory of the machine."""
        return min(self.streamable_weights_size, free_bytes() // 2)

    def get_engine_stat(self, stat: EngineStat = EngineStat.TOTAL_WEIGHTS_SIZE) -> int:
        """A statistic of the engine: the bytes of all weights, or of the stripped weights."""
        if not isinstance(stat, EngineStat):
            raise wrong_type("get_engine_stat", stat, EngineStat)
        lacks = set(self._state.loaded.held.now.lacks)
        every = stat is EngineStat.TOTAL_WEIGHTS_SIZE
        return (
            self._state.plan.blob_bytes
            if every
            else sum(b.nbytes for b in self._state.plan.blobs if b.name in lacks)
        )

    def get_tensor_name(self, index: int) -> str:
        """The name of tensor `index`, below `num_io_tensors`, inputs first; None out of range."""
        return (
            self._state.io[index].name
            if 0 <= integer(index, "get_tensor_name") < len(self._state.io)
            else nothing()
        )

    def _binding(self, name: str) -> Binding:
        if not isinstance(name, str):
            raise wrong_type("ICudaEngine", name, "the name of a tensor as str")
        if name in self._state.marks.hidden:
            raise BindingError(
                "AR706",
                name,
                "a debug tensor",
                "an input or output",
                "read it in a debug listener: context.set_debug_listener",
            )
        return self._state.plan.bindings[self._state.loaded.find(name)]

    @quiet(TensorIOMode.NONE)
    def get_tensor_mode(self, name: str) -> TensorIOMode:
        """Whether a tensor is an input or an output; AR706 for an unknown name."""
        return TensorIOMode.INPUT if self._binding(name).is_input else TensorIOMode.OUTPUT

    def get_tensor_shape(self, name: str) -> Dims:
        """The shape in the network, −1 for dynamic dimensions; contexts have actual shapes.

        For an unknown name, returns rank −1 and logs AR706."""
        shape = self._declared(name)
        return unknown_dims() if shape is None else shape

    @quiet(None)
    def _declared(self, name: str) -> Dims | None:
        return Dims([d if isinstance(d, int) else -1 for d in self._binding(name).shape])

    @quiet(DataType.FLOAT)
    def get_tensor_dtype(self, name: str) -> DataType:
        """The element type; `trt.nptype` converts it to NumPy's. AR706 for an unknown name."""
        return self._binding(name).dtype

    @quiet(TensorLocation.DEVICE)
    def get_tensor_location(self, name: str) -> TensorLocation:
        """HOST for shape tensors; all memory is host memory."""
        return TensorLocation.HOST if self._binding(name).is_host else TensorLocation.DEVICE

    @quiet(False)
    def is_shape_inference_io(self, name: str) -> bool:
        """Whether the tensor is a shape tensor."""
        return self._binding(name).is_shape

    @quiet(TensorFormat.LINEAR)
    def get_tensor_format(self, name: str, profile_index: int = 0) -> TensorFormat:
        """The selected format of `ITensor.allowed_formats`; equal for all profiles."""
        return self._layout(name, profile_index).format

    @quiet("")
    def get_tensor_format_desc(self, name: str, profile_index: int = 0) -> str:
        """The text of the format."""
        binding = self._layout(name, profile_index)
        return f"{describe(binding.format, binding.dtype)} (k{binding.format.name})"

    @quiet(-1)
    def get_tensor_bytes_per_component(self, name: str, profile_index: int = 0) -> int:
        """The bytes of one component of a vectorized format; −1 for others."""
        binding = self._layout(name, profile_index)
        return -1 if vector_axis(binding.format, binding.shape) < 0 else int(binding.dtype.itemsize)

    @quiet(-1)
    def get_tensor_components_per_element(self, name: str, profile_index: int = 0) -> int:
        """The components of an element of a vectorized format, such as 4 for CHW4; −1 for others."""
        binding = self._layout(name, profile_index)
        length = vector_length(binding.format, binding.shape)
        return length if length > 1 else -1

    @quiet(-1)
    def get_tensor_vectorized_dim(self, name: str, profile_index: int = 0) -> int:
        """The vectorized dimension of the format, which is that of channels; −1 if none."""
        binding = self._layout(name, profile_index)
        return vector_axis(binding.format, binding.shape)

    def _layout(self, name: str, profile_index: int) -> Binding:
        self._state.loaded.check_profile(integer(profile_index, "ICudaEngine"))
        return self._binding(name)

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[Dims]:
        """Minimum, optimum and maximum of an input's shape in a profile.

        For an output, these follow from the inputs; a data-dependent dimension has its upper bound, and an
        unknown one is −1. Returns [] for an unknown name (AR706) or profile (AR507)."""
        return self._profile_shape(name, profile_index) or []

    @quiet(None)
    def _profile_shape(self, name: str, profile_index: int) -> list[Dims] | None:
        binding = self._binding(name)
        self._state.loaded.check_profile(integer(profile_index, "get_tensor_profile_shape"))
        if not binding.is_input:
            corners = ("min", "opt", "max")
            return [Dims(self._state.loaded.output_shape(profile_index, c, binding)) for c in corners]
        limits = self._state.loaded.limits(profile_index, name, is_values=False)
        if limits is None:
            return [Dims([d if isinstance(d, int) else -1 for d in binding.shape]) for _ in range(3)]
        return [Dims(limits.min), Dims(limits.opt), Dims(limits.max)]

    def get_tensor_profile_values(self, name: int, profile_index: str) -> list[list[int]]:
        """Minimum, optimum and maximum values of a shape tensor, for (profile_index, name) in this order.

        The keyword names are swapped in TensorRT, so pass both by position."""
        index, tensor = name, profile_index
        if not isinstance(tensor, str) or not isinstance(index, int):
            raise wrong_type("get_tensor_profile_values", name, "(profile_index: int, name: str)")
        binding = (
            self._state.plan.bindings[self._state.loaded.position.get(tensor, -1)]
            if self._state.plan.bindings
            else None
        )
        if binding is None or binding.name != tensor or not binding.is_input or not binding.is_shape:
            got, wanted = repr(tensor), "a shape tensor input"
            raise Refused(BindingError("AR706", "get_tensor_profile_values", got, wanted))
        limits = self._state.loaded.limits(index, tensor, is_values=True)
        return [] if limits is None else [list(limits.min), list(limits.opt), list(limits.max)]

    def get_aliased_input_tensor(self, name: str) -> str | None:
        """The input whose memory an output shares, such as the update of a cache; None for others."""
        bindings, sources = self._state.plan.bindings, self._state.loaded.sources
        source = sources.get(self._state.loaded.position.get(name, -1))
        return None if source is None else bindings[source].name

    def is_debug_tensor(self, name: str) -> bool:
        """Whether the tensor is a debug tensor."""
        return name in self._state.marks.debug

    @quiet(None)
    def create_execution_context(
        self,
        strategy: Strategy | IRuntimeConfig | None = None,
        runtime_config: IRuntimeConfig | None = None,
    ) -> IExecutionContext:
        """Create a context, which keeps the engine alive and allocates `device_memory_size` bytes.

            context = engine.create_execution_context()
            context.set_input_shape("x", (1, 3, 224, 224))

        `strategy` selects when memory is allocated. Errors: AR801, more than the limit of the build; AR802,
        out of memory."""
        chosen = strategy if strategy is not None else runtime_config
        config = chosen if isinstance(chosen, IRuntimeConfig) else None
        if config is not None:
            chosen = config.get_execution_context_allocation_strategy()
        elif chosen is None:
            chosen = Strategy.STATIC
        if not isinstance(chosen, Strategy):
            raise wrong_type("create_execution_context", chosen, "a strategy or an IRuntimeConfig")
        context = self._state.engine.create_context(
            POLICIES[chosen], limit=self._state.plan.number("memory_limit")
        )
        return IExecutionContext(self, self._channel, context, config)

    def create_execution_context_without_device_memory(self) -> IExecutionContext:
        """Create a context without scratch memory; call `set_device_memory` before the first inference."""
        return self.create_execution_context(Strategy.USER_MANAGED)

    def create_runtime_config(self) -> IRuntimeConfig:
        """Create a configuration for contexts."""
        return IRuntimeConfig()

    def create_engine_inspector(self) -> EngineInspector:
        """Create an inspector of layers and tensors."""
        return EngineInspector(self._state.plan, self._state.io, self._state.loaded.program, self._channel)

    def create_serialization_config(self) -> ISerializationConfig:
        """Create a configuration for `serialize_with_config`."""
        return ISerializationConfig()

    @quiet(None)
    def serialize(self) -> IHostMemory:
        """The plan of the engine, with its present weights.

        A stripped engine that is not refitted returns its plan without weights. Errors: AR608, the plan file
        changed."""
        lacks = bool(self._state.loaded.held.now.lacks)
        return IHostMemory(self._plan_parts(stripped(self._state.plan, lacks)))

    @quiet(None)
    def serialize_with_config(self, arg0: ISerializationConfig) -> IHostMemory:
        """The plan, according to the flags.

        EXCLUDE_WEIGHTS leaves out refittable weights. INCLUDE_REFIT keeps the plan refittable if it contains
        weights; without it the weights are fixed. EXCLUDE_LEAN_RUNTIME has no effect, since plans contain no
        runtime. Errors: AR841, EXCLUDE_WEIGHTS for an engine that is not refittable; AR844, a plan
        with weights of a stripped engine."""
        if not isinstance(arg0, ISerializationConfig):
            raise wrong_type("serialize_with_config", arg0, "an ISerializationConfig")
        excludes = arg0.get_flag(SerializationFlag.EXCLUDE_WEIGHTS)
        where = f"serialize_with_config of {self.name!r}"
        if excludes and self._state.plan.refit is None:
            raise RefitError("AR841", where, "EXCLUDE_WEIGHTS", "a refittable engine")
        lacks = bool(self._state.loaded.held.now.lacks)
        if excludes or arg0.get_flag(SerializationFlag.INCLUDE_REFIT):
            return IHostMemory(self._plan_parts(stripped(self._state.plan, excludes or lacks)))
        if lacks:
            raise RefitError("AR844", where, "an engine without weights", "INCLUDE_REFIT, or a refit first")
        return IHostMemory(self._plan_parts(replace(self._state.plan, refit=None)))

    def _plan_parts(self, plan: Plan) -> PlanParts:
        """The plan, written from the loaded data, so that the engine keeps no copy of the plan."""
        now = self._state.loaded.held.now
        if now.is_intact is not None and not now.is_intact():
            raise PlanError(
                "AR608",
                self.name,
                "a mapped plan file that changed",
                "an unchanged file",
                "copy the file, or load it again",
            )
        views = [now.bytes(b.offset, b.nbytes).data for b in plan.blobs]
        parts = plan_parts(plan, views, mixer, self._state.loaded.checksums if now.lacks else None)
        return replace(parts, owner=now)


mark_absences(ICudaEngine)
