"""The builder creates networks and configurations, and compiles them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from anyrt.api.building.algorithms import Selecting
from anyrt.api.building.calibration import calibrated
from anyrt.api.building.compile import compile_request, stored_layers, this_machine
from anyrt.api.building.config import IBuilderConfig, profiles_in, settings_of, timings_in
from anyrt.api.building.flagbits import check_bits
from anyrt.api.building.freeze import freeze
from anyrt.api.building.permissive import judge
from anyrt.api.building.precision import Precisions
from anyrt.api.building.profile import IOptimizationProfile
from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import IGpuAllocator, ILogger, IProgressMonitor, IStreamWriter, call_user
from anyrt.api.edge.managed import Managed
from anyrt.api.edge.missing import mark_absences
from anyrt.api.edge.module import get_plugin_registry
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import Logged, WrongValue, quiet, wrong_type
from anyrt.api.edge.setting import Setting
from anyrt.api.model.network import INetworkDefinition
from anyrt.api.model.state import TensorState, state_of
from anyrt.api.plugins.registry import IPluginRegistry
from anyrt.api.run.engine import ICudaEngine
from anyrt.api.run.host_memory import IHostMemory
from anyrt.api.run.runtime import Runtime, engine_pool
from anyrt.compiler.request import BuildRequest
from anyrt.core.enums import BuilderFlag, NetworkDefinitionCreationFlag, Severity
from anyrt.core.errors import AnyrtError, ArgumentError, ResourceError
from anyrt.plan.file import CHUNK, PlanParts
from anyrt.plan.pool import Threads

# Flags that permit other types than those of the tensors, which strong typing forbids; TF32 is not among
# them.
TYPE_FLAGS = (
    *(BuilderFlag.FP16, BuilderFlag.BF16, BuilderFlag.INT8),
    *(BuilderFlag.FP8, BuilderFlag.INT4, BuilderFlag.FP4),
)


@fold
class Builder(Logged, Managed):
    """Creates networks and configurations, and builds plans from them.

    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network = builder.create_network()
    """

    __slots__ = ("_gpu_allocator", "_settings")

    max_threads = Setting(int, 1, "Kept: maximum number of threads of a build, which uses one.", low=1)

    def __init__(self, logger: ILogger) -> None:
        self._settings: dict[str, object] = {}
        self._log_to(logger)
        self._gpu_allocator: IGpuAllocator | None = None

    @one_line
    def __repr__(self) -> str:
        return f" that logs to {type(self.logger).__name__}"

    @property
    def platform_has_tf32(self) -> bool:
        """Whether the machine computes in TF32: CPUs do not."""
        return False

    @property
    def platform_has_fast_fp16(self) -> bool:
        """Whether float16 can be faster; it halves the memory traffic."""
        return True

    @property
    def platform_has_fast_int8(self) -> bool:
        """Whether int8 can be faster; it quarters the memory traffic."""
        return True

    @property
    def max_DLA_batch_size(self) -> int:
        """The largest batch size of DLA."""
        return 4096

    @property
    def num_DLA_cores(self) -> int:
        """DLA cores of this machine."""
        return 0

    def _set_allocator(self, allocator: IGpuAllocator | None) -> None:
        if allocator is not None and not isinstance(allocator, IGpuAllocator):
            raise wrong_type("gpu_allocator", allocator, "an IGpuAllocator or None")
        self._gpu_allocator = allocator

    gpu_allocator = property(
        None, _set_allocator, doc="Allocates memory for engines of `build_engine_with_config`."
    )

    def create_network(self, flags: int = 0) -> INetworkDefinition:
        """An empty network. `flags`: bit mask of NetworkDefinitionCreationFlag members.

        Networks always have an explicit batch dimension. STRONGLY_TYPED makes the network strongly typed; the
        PREFER flags select the function of a plug-in that has `impl` and `aot_impl`. Raises ValueError for
        unknown bits."""
        if not isinstance(flags, int):
            do = f"write 1 << int(trt.{flags})" if isinstance(flags, NetworkDefinitionCreationFlag) else ""
            raise wrong_type("create_network: flags", flags, "a bit mask as int", do)
        try:
            check_bits("create_network", flags, NetworkDefinitionCreationFlag)
        except ArgumentError as error:
            raise WrongValue(error) from None
        network = INetworkDefinition(self, flags)
        state_of(network).is_judged = True
        return network

    def create_builder_config(self) -> IBuilderConfig:
        """A configuration with default settings, for networks of this builder."""
        return IBuilderConfig(self._channel)

    def create_optimization_profile(self) -> IOptimizationProfile:
        """An empty profile, for `config.add_optimization_profile`."""
        return IOptimizationProfile()

    @quiet(None)
    def build_serialized_network(
        self, network: INetworkDefinition, config: IBuilderConfig, kernel_text: object = None
    ) -> IHostMemory:
        """Build a network; returns its plan: `plan.nbytes` bytes without machine code.

            plan = builder.build_serialized_network(network, config)
            Path("net.plan").write_bytes(plan)

        Errors: AR401, no marked output; AR501, a dynamic dimension without a profile; AR503 to AR506, an
        invalid profile; AR804, cancelled by the progress monitor; and the errors of the layers.

        kernel_text: ignored with a warning; `anyrt explain` prints kernels."""
        if kernel_text is not None:
            self._channel.log(Severity.WARNING, "kernel_text is ignored; `anyrt explain` prints kernels")
        return IHostMemory(self._build(network, config))

    @quiet(None)
    def build_engine_with_config(self, network: INetworkDefinition, config: IBuilderConfig) -> ICudaEngine:
        """Build an engine: `build_serialized_network`, then `Runtime.deserialize_cuda_engine`.

        engine = builder.build_engine_with_config(network, config)
        y = engine.run(x=array)["y"]
        """
        runtime = Runtime(self.logger)
        runtime.error_recorder = self.error_recorder
        runtime.gpu_allocator = self._gpu_allocator
        return runtime.deserialize_cuda_engine(IHostMemory(self._build(network, config)))

    @quiet(False)
    def build_serialized_network_to_stream(
        self, network: INetworkDefinition, config: IBuilderConfig, writer: IStreamWriter
    ) -> bool:
        """Build a network and write its plan to a stream in chunks of at most 16 MiB. Returns True.

        Weights are not copied. Errors: those of `build_serialized_network`; AR803, the writer wrote less."""
        if not isinstance(writer, IStreamWriter):
            raise wrong_type("build_serialized_network_to_stream", writer, "an IStreamWriter")
        for chunk in chunks(self._build(network, config).chunks(CHUNK), CHUNK):
            written = call_user(0, writer.write, chunk)
            if written != len(chunk):
                raise ResourceError(
                    "AR803",
                    "stream writer",
                    f"{written} bytes written",
                    f"{len(chunk)} bytes",
                    "write all bytes, and return their number",
                )
        return True

    @quiet(False)
    def is_network_supported(self, network: INetworkDefinition, config: IBuilderConfig) -> bool:
        """Whether the network has no errors that AnyRT can find before compiling; logs them."""
        _check_kinds(network, config)
        try:
            judge(network, config)
            _request(network, config, {})
        except AnyrtError as error:
            self._channel.fail(error)
            return False
        return True

    def reset(self) -> None:
        """Reset all settings to their defaults."""
        self.max_threads = 1
        self._channel.recorder = None

    def get_plugin_registry(self) -> IPluginRegistry:
        """The plug-in registry that builds use."""
        return get_plugin_registry()

    def _build(self, network: INetworkDefinition, config: IBuilderConfig) -> PlanParts:
        _check_kinds(network, config)
        judge(network, config)
        scales = calibrated(network, config)
        plan = compile_request(_request(network, config, scales))
        if state_of(network).debugs_unfused:
            # Only a build determines which tensors are stored.
            plan = compile_request(_request(network, config, scales, stored_layers(IHostMemory(plan))))
        return plan


mark_absences(Builder)


def chunks(parts: Iterable[bytes | memoryview], size: int) -> Iterator[bytes]:
    """The bytes of `parts` in chunks of `size`; the last one may be shorter.

    >>> list(chunks((b"abc", b"", b"defgh"), 4))
    [b'abcd', b'efgh']
    """
    held: list[memoryview] = []
    room = size
    for part in parts:
        rest = memoryview(part)
        while rest:
            held.append(rest[:room])
            rest, room = rest[room:], room - held[-1].nbytes
            if not room:
                yield b"".join(held)
                held, room = [], size
    if held:
        yield b"".join(held)


def _check_kinds(network: INetworkDefinition, config: IBuilderConfig) -> None:
    if not isinstance(network, INetworkDefinition) or not isinstance(config, IBuilderConfig):
        if not isinstance(network, INetworkDefinition):
            raise wrong_type("build: network", network, "an INetworkDefinition", "pass the network first")
        raise wrong_type("build: config", config, "an IBuilderConfig", "call builder.create_builder_config()")
    if not state_of(network).is_strong:
        return
    if permitted := [flag.name for flag in TYPE_FLAGS if config.get_flag(flag)]:
        got = f"BuilderFlag.{' and '.join(permitted)} for a strongly typed network"
        do = "clear the flag, or create the network without STRONGLY_TYPED"
        raise ArgumentError("AR310", "build", got, "no precision flags", do)


def _request(
    network: INetworkDefinition,
    config: IBuilderConfig,
    scales: Mapping[TensorState, float],
    unfused: frozenset[str] = frozenset(),
) -> BuildRequest:
    monitor = config.progress_monitor
    progress = None if monitor is None else Progress(monitor)
    timings = timings_in(config)
    precisions = Precisions(state_of(network), config.flags, scales, this_machine)
    request = freeze(network, profiles_in(config), settings_of(config), unfused, precisions, timings)
    precisions.tell()
    selector = (
        None if config.algorithm_selector is None else Selecting(config.algorithm_selector, config.flags)
    )
    return replace(
        request,
        monitor=progress,
        timings=timings,
        pool=lambda: _threads(network, config),
        selector=selector,
    )


def _threads(network: INetworkDefinition, config: IBuilderConfig) -> Threads:
    """The number of threads of the engine, for measurements."""
    pool = engine_pool(config.num_threads, lambda text: state_of(network).channel.log(Severity.WARNING, text))
    pool.ensure()
    return pool


class Progress:
    """Adapts a user's progress monitor to the compiler."""

    def __init__(self, monitor: IProgressMonitor) -> None:
        self._monitor = monitor

    def start(self, phase: str, parent: str | None, steps: int) -> None:
        """A phase begins."""
        call_user(None, self._monitor.phase_start, phase, parent, steps)

    def step(self, phase: str, step: int) -> bool:
        """A step is complete; False cancels the build. It continues if the monitor raises."""
        return bool(call_user(True, self._monitor.step_complete, phase, step))

    def finish(self, phase: str) -> None:
        """A phase ends."""
        call_user(None, self._monitor.phase_finish, phase)
