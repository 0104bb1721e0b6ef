"""Execution contexts: the shapes, addresses and inferences of one caller."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence, Sized
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from anyrt.api.building.formats import strides
from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import IDebugListener, IGpuAllocator, IOutputAllocator, IProfiler, call_user
from anyrt.api.edge.managed import Managed
from anyrt.api.edge.missing import mark_absences
from anyrt.api.edge.oneline import bindings_text, one_line, quoted
from anyrt.api.edge.quiet import Channel, Refused, Reporting, boolean, quiet, wrong_type
from anyrt.api.edge.setting import Setting
from anyrt.api.model.dims import MAX_DIMS, Dims, integers, unknown_dims
from anyrt.api.model.state import state_of
from anyrt.api.run.debug import DebugTensors
from anyrt.api.run.engine_config import IRuntimeConfig
from anyrt.api.run.output import Allocator
from anyrt.core.dims import INF, Sym, bounds, product
from anyrt.core.dtype import numpy_dtype, storage_bytes
from anyrt.core.enums import ProfilingVerbosity
from anyrt.core.errors import AnyrtError, ArgumentError, BindingError, ShapeError
from anyrt.runtime.arrays import Bindable
from anyrt.runtime.context import Context
from anyrt.runtime.shapes import value_of

if TYPE_CHECKING:
    from anyrt.api.run.engine import ICudaEngine

# From the least detail to the most, which is not the order of their values.
DETAIL = (ProfilingVerbosity.NONE, ProfilingVerbosity.LAYER_NAMES_ONLY, ProfilingVerbosity.DETAILED)


@fold
class IExecutionContext(Reporting, Managed):
    """Executes an engine, in one thread at a time. Several contexts of an engine can execute concurrently.

    context.set_tensor_address("x", x.ctypes.data)
    context.execute_async_v3(0)
    """

    __slots__ = (
        "_allocators",
        "_communicator",
        "_config",
        "_context",
        "_debug",
        "_engine",
        "_event",
        "_is_watched",
        "_last",
        "_nvtx_verbosity",
        "_profiler",
        "_settings",
        "_times",
    )

    name = Setting(str, "", "Kept: a name for use by the program.")
    debug_sync = Setting(bool, False, "Kept: whether to wait after every kernel; inferences always wait.")
    enqueue_emits_profile = Setting(
        bool, True, "Whether each inference reports to the profiler; otherwise `report_to_profiler` does."
    )
    persistent_cache_limit = Setting(
        int, 0, "Kept: bytes of cache for persistent data; the processor manages its caches.", low=0
    )
    temporary_allocator = Setting(IGpuAllocator, None, "Kept; temporary memory is part of the workspace.")
    unfused_tensors_debug_state = Setting(bool, False, "Whether the debug listener receives unfused tensors.")

    def __init__(
        self, engine: ICudaEngine, parent: Channel, context: Context, config: IRuntimeConfig | None
    ) -> None:
        self._settings: dict[str, object] = {}
        self._engine = engine
        self._channel = Channel(parent.logger, parent)
        self._context = context
        self._config = config
        self._allocators: dict[str, Allocator] = {}
        self._times: list[tuple[str, float]] = []  # not yet reported
        self._last: Sequence[tuple[str, float]] = ()
        self._event = 0
        self._communicator: object = None
        self._nvtx_verbosity = engine.profiling_verbosity
        self._debug = DebugTensors(context, state_of(engine).marks)
        self._profiler: IProfiler | None = None
        self._is_watched = self._debug.any

    @one_line
    def __repr__(self) -> str:
        io = [replace(b, shape=self._context.sizing.of(b.name)) for b in state_of(self._engine).io]
        return f" of {quoted(self._engine.name)}: profile {self._context.sizing.profile}, {bindings_text(io)}"

    @property
    def engine(self) -> ICudaEngine:
        """The engine of the context."""
        return self._engine

    @property
    def active_optimization_profile(self) -> int:
        """The index of the selected profile."""
        return self._context.sizing.profile

    @property
    def all_binding_shapes_specified(self) -> bool:
        """Whether every input has a shape."""
        return self._context.sizing.are_set

    @property
    def all_shape_inputs_specified(self) -> bool:
        """Whether every shape tensor input has an address."""
        bindings = self._context.loaded.plan.bindings
        return not {bindings[i].name for i in self._context.loaded.value_inputs} & set(
            self._context.sizing.missing()
        )

    @property
    def nvtx_verbosity(self) -> ProfilingVerbosity:
        """Kept: detail of NVTX ranges; default and maximum: that of the build."""
        return self._nvtx_verbosity

    @nvtx_verbosity.setter
    def nvtx_verbosity(self, verbosity: ProfilingVerbosity) -> None:
        if not isinstance(verbosity, ProfilingVerbosity):
            raise wrong_type("nvtx_verbosity", verbosity, ProfilingVerbosity)
        most = self._engine.profiling_verbosity
        if DETAIL.index(verbosity) > DETAIL.index(most):
            self._channel.fail(
                ArgumentError(
                    "AR304",
                    "nvtx_verbosity",
                    str(verbosity),
                    f"at most {most}",
                    "build with a higher config.profiling_verbosity",
                )
            )
            return
        self._nvtx_verbosity = verbosity

    def get_runtime_config(self) -> IRuntimeConfig | None:
        """The configuration of the context; None without one."""
        return self._config

    def _tensor(self, name: object) -> str:
        """Check the name of an input or output; the user does not own the memory of other debug tensors."""
        if _text(name) in state_of(self._engine).marks.hidden:
            raise BindingError(
                "AR706",
                _text(name),
                "a debug tensor",
                "an input or output",
                "read it in a debug listener: context.set_debug_listener",
            )
        return _text(name)

    # ---- shapes -----------------------------------------------------------------------------------------

    @quiet(False)
    def set_input_shape(self, name: str, shape: Dims | Sequence[int]) -> bool:
        """Set the shape of an input; required for dynamic shapes. Returns True.

            context.set_input_shape("x", (1, 3, 480, 640))

        Errors: AR706, no such input; AR122, another rank; AR123, another static dimension; AR505, a shape
        outside the profile. Raises RuntimeError for more than 8 dimensions."""
        sizes = integers(shape, "set_input_shape")
        if len(sizes) > MAX_DIMS:
            got, wanted = f"{len(sizes)} dimensions", f"at most {MAX_DIMS}"
            raise Refused(ShapeError("AR115", "set_input_shape", got, wanted))
        self._context.set_shape(_text(name), sizes)
        return True

    def get_tensor_shape(self, name: str) -> Dims:
        """The shape of an input or output of the next inference, −1 for an unknown dimension.

        Output shapes are known when every input has a shape. Data-dependent dimensions stay −1; the output
        allocator receives them. For an unknown name, returns rank −1 and logs AR706."""
        shape = self._shape(_text(name))
        return self._engine.get_tensor_shape(name) if shape is None else shape

    @quiet(None)
    def _shape(self, name: str) -> Dims | None:
        if name not in self._context.loaded.position or name in state_of(self._engine).marks.hidden:
            return None  # the engine reports it
        return Dims(self._context.sizing.of(name, is_actual=False))

    @quiet(None)
    def _strides(self, name: str) -> Dims | None:
        shape = self._context.sizing.of(self._tensor(name), is_actual=False)
        binding = self._context.loaded.plan.bindings[self._context.loaded.find(name)]
        sizes = [d if d >= 0 else Sym(f"{name}.{k}").dim for k, d in enumerate(shape)]
        steps = strides(binding.format, binding.dtype, tuple(sizes))
        return Dims([d if isinstance(d, int) else -1 for d in steps])

    def get_tensor_strides(self, name: str) -> Dims:
        """The stride of each dimension in elements, −1 if unknown.

        In a vectorized format an element is a vector; the stride of the channels is that between vectors."""
        steps = self._strides(name)
        return unknown_dims() if steps is None else steps

    def infer_shapes(self) -> list[str]:
        """The names of inputs without a shape or required address; RuntimeError on errors."""
        missing = self._context.sizing.missing()
        if not missing:
            try:
                self._write_shape_outputs()
            except AnyrtError as error:
                self._channel.fail(error)
                raise Refused(error) from error
        return missing

    def _write_shape_outputs(self) -> None:
        """Write the outputs that have an address and depend only on sizes."""
        loaded, context = self._context.loaded, self._context
        sizes = context.sizing.sizes()
        for name, elements in state_of(self._engine).marks.values:
            index, address = loaded.find(name), context.bound_address(name)
            if address:
                dtype = numpy_dtype(loaded.plan.bindings[index].dtype)
                values = np.array([value_of(x, sizes) for x in elements], dtype)
                context.tensors.check_place(index, values.nbytes)
                ctypes.memmove(address, values.ctypes.data, values.nbytes)

    @quiet(-1)
    def get_max_output_size(self, name: str) -> int:
        """The maximum bytes of an output for the shapes that are set; −1 without a bound."""
        context = self._context
        index = context.loaded.find(self._tensor(name))
        if index in context.loaded.late:
            return -1
        if not context.sizing.missing():
            return context.sizing.resolve().nbytes[index]
        binding = context.loaded.plan.bindings[index]
        most = bounds(product(binding.memory))[1]
        return -1 if most >= INF else storage_bytes(binding.dtype, most)

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        """Select a profile, and reset the input shapes. Raises RuntimeError (AR507) for an unknown index."""
        _address(stream_handle, "set_optimization_profile_async")
        try:
            self._context.set_profile(_address(profile_index, "set_optimization_profile_async"))
        except AnyrtError as error:
            self._channel.fail(error)
            raise Refused(error) from error
        return True

    # ---- memory -----------------------------------------------------------------------------------------

    @quiet(False)
    def set_tensor_address(self, name: str, memory: Bindable) -> bool:
        """Set the memory of a tensor: an address (0 resets it), or an array, which is kept alive.

            context.set_tensor_address("x", array.ctypes.data)

        Memory at an address must exist until the inference ends. The inference rejects an address (AR712)
        that is not accessible, or that belongs to a block of the compat layer smaller than the tensor.
        Errors: AR706, no such tensor; AR703, an array of another type; AR705, a strided array."""
        self._context.set_address(self._tensor(name), memory)
        return True

    @quiet(0)
    def get_tensor_address(self, name: str) -> int:
        """The address of a tensor; 0 if none is set."""
        return self._context.bound_address(self._tensor(name))

    @quiet(False)
    def set_output_allocator(self, name: str, output_allocator: IOutputAllocator | None) -> bool:
        """Set the allocator that supplies the memory of an output in each inference; None removes it."""
        if output_allocator is not None and not isinstance(output_allocator, IOutputAllocator):
            raise wrong_type("set_output_allocator", output_allocator, "an IOutputAllocator or None")
        adapted = None if output_allocator is None else Allocator(output_allocator)
        self._context.set_allocator(self._tensor(name), adapted)
        self._allocators.pop(name, None)
        if adapted is not None:
            self._allocators[name] = adapted
        return True

    def get_output_allocator(self, name: str) -> IOutputAllocator | None:
        """The allocator of an output."""
        allocator = self._allocators.get(_text(name))
        return None if allocator is None else allocator.user

    @quiet(None)
    def set_device_memory(self, memory: int, size: int) -> None:
        """Set the scratch memory, `size` bytes at `memory`, of a context without memory of its own."""
        self._context.set_workspace(
            _address(memory, "set_device_memory"), _address(size, "set_device_memory")
        )

    def _set_device_memory(self, memory: int) -> None:
        self.set_device_memory(memory, self._engine.device_memory_size_v2)

    device_memory = property(None, _set_device_memory, doc="The same, of `engine.device_memory_size` bytes.")

    @quiet(0)
    def update_device_memory_size_for_shapes(self) -> int:
        """The bytes of scratch memory for the current shapes; 0 if a shape is unknown."""
        return self._context.workspace_bytes()

    # ---- runs -------------------------------------------------------------------------------------------

    @property
    def profiler(self) -> IProfiler | None:
        """The profiler, which receives the time of each kernel."""
        return self._profiler

    @profiler.setter
    def profiler(self, profiler: IProfiler | None) -> None:
        if not isinstance(profiler, IProfiler | None):
            raise wrong_type("IExecutionContext.profiler", profiler, "IProfiler")
        self._profiler = profiler
        self._is_watched = self._debug.any or profiler is not None

    def execute_async_v3(self, stream_handle: int) -> bool:
        """Run one inference and return True. Outputs are complete when it returns. Only callbacks receive
        the stream.

        Errors: AR707, an input without a shape; AR701, a tensor without an address; AR704, an array of
        another shape; AR712, an inaccessible address; AR708, another thread is running this context;
        AR711, an output in the memory of an input, or the update of a cache outside the memory of the
        cache; AR713, no communicator for an exchange between ranks; AR304, ranks that disagree about one;
        AR802, out of memory; AR811, a rank that is gone or late. Returns False on an error, and logs it with
        its code; under anyrt.strict() it raises."""
        if type(stream_handle) is int and not self._is_watched and self._context.run_again():
            return True
        return self._execute_async_v3(stream_handle)

    @quiet(False)
    def _execute_async_v3(self, stream_handle: int) -> bool:
        stream = stream_handle if type(stream_handle) is int else _address(stream_handle, "execute_async_v3")
        if self._context.caller is not None:
            self._context.caller.stream = stream
        for allocator in self._allocators.values():
            allocator.stream = stream
        if not self._is_watched:
            self._context.run()
            return True
        self._debug.prepare()
        self._times = []
        if self.profiler is None:
            self._context.run()
        else:
            self._context.run_steps(lambda kernel, ms: self._times.append((kernel, ms)))
            self._last = tuple(self._times)
        self._debug.show(stream, self.unfused_tensors_debug_state)
        if self._times and self.enqueue_emits_profile:
            self.report_to_profiler()
        return True

    @quiet(False)
    def execute_v2(self, bindings: Sequence[Bindable]) -> bool:
        """Run one inference on addresses or arrays in the order of `engine.get_tensor_name`.

        Errors: those of `execute_async_v3`; AR701, another number of addresses than tensors."""
        names = list(self._engine)
        if not isinstance(bindings, Sized):
            raise wrong_type("execute_v2", bindings, "a list of addresses")
        if len(bindings) != len(names):
            raise BindingError(
                "AR701",
                "execute_v2",
                f"{len(bindings)} addresses",
                f"{len(names)}, for {', '.join(names)}",
                "pass one address per tensor, in this order",
            )
        for name, memory in zip(names, bindings, strict=True):
            # Memory of an output allocator stays: programs let it grow, and pass the same list again.
            if name not in self._allocators or not self._context.bound_address(name):
                self._context.set_address(name, memory)
        return self.execute_async_v3(0)

    @quiet(False)
    def report_to_profiler(self) -> bool:
        """Report the times of the last inference to the profiler; False if there are none."""
        profiler = self.profiler
        if profiler is None or not self._times:
            do = "set context.profiler before the inference"
            raise ArgumentError("AR310", "report_to_profiler", "no times", "the times of an inference", do)
        times, self._times = self._times, []
        for kernel, milliseconds in times:
            call_user(None, profiler.report_layer_time, kernel, milliseconds)
        return True

    @quiet(False)
    def set_input_consumed_event(self, event: int) -> bool:
        """Set the event that signals when inputs may be overwritten: when an inference returns."""
        self._event = _address(event, "set_input_consumed_event")
        return True

    def get_input_consumed_event(self) -> int:
        """The event that was set; 0 if none."""
        return self._event

    @quiet(None)
    def set_aux_streams(self, aux_streams: Sequence[int]) -> None:
        """Set distinct auxiliary streams other than the default one. The engine uses threads."""
        streams = integers(aux_streams, "set_aux_streams")
        if 0 in streams or len(set(streams)) < len(streams):
            wanted = "distinct streams other than the default stream"
            raise ArgumentError("AR304", "set_aux_streams", str(streams), wanted, "create a stream for each")

    # ---- debug tensors and devices ----------------------------------------------------------------------

    def set_debug_listener(self, listener: IDebugListener | None) -> bool:
        """The listener that receives debug tensors."""
        if listener is not None and not isinstance(listener, IDebugListener):
            raise wrong_type("set_debug_listener", listener, "an IDebugListener or None")
        self._debug.listener = listener
        return True

    def get_debug_listener(self) -> IDebugListener | None:
        """The listener that receives debug tensors."""
        return self._debug.listener

    @quiet(False)
    def set_tensor_debug_state(self, name: str, flag: bool) -> bool:
        """Enable or disable a debug tensor; False if the engine has no such debug tensor."""
        self._debug.switch(_text(name), boolean(flag, "set_tensor_debug_state"))
        return True

    def get_debug_state(self, name: str) -> bool:
        """Whether a debug tensor is enabled."""
        return self._debug.states.get(_text(name), False)

    def set_all_tensors_debug_state(self, flag: bool) -> bool:
        """Enable or disable all debug tensors."""
        self._debug.states = dict.fromkeys(self._debug.states, boolean(flag, "set_all_tensors_debug_state"))
        return True

    @quiet(False)
    def set_communicator(self, communicator: object) -> bool:
        """Set the communicator for DistCollective layers: SharedRanks, MpiRanks or another Communicator, None
        for none. An engine without such layers only stores it.

        Errors: AR713, no communicator, or one of other ranks than the layers name. Returns False then."""
        if self._context.caller is not None:
            self._context.caller.seat.take(communicator)
        self._communicator = communicator
        return True


mark_absences(IExecutionContext)


def run_of(context: IExecutionContext) -> Context:
    """The runtime's context behind a context."""
    return context._context


def last_times(context: IExecutionContext) -> Sequence[tuple[str, float]]:
    """The kernels of the last inference with a profiler, with their milliseconds."""
    return context._last


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise wrong_type("IExecutionContext", name, "the name of a tensor as str")
    return name


def _address(x: object, where: str) -> int:
    """An address, stream or event as int. Handles of other libraries convert to int; text and floats are
    rejected."""
    try:
        if not isinstance(x, str | bytes | float | np.floating):
            return int(x)  # type: ignore[call-overload, no-any-return]  # foreign pointers convert
    except (TypeError, ValueError):
        pass
    raise wrong_type(where, x, "an int")
