"""The runtime creates engines from plans."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from anyrt.api.building.flagbits import Flags
from anyrt.api.edge.fold import fold
from anyrt.api.edge.interfaces import IGpuAllocator, ILogger, IStreamReader, IStreamReaderV2
from anyrt.api.edge.managed import Managed
from anyrt.api.edge.module import get_plugin_registry
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import Logged, channel_of, quiet, wrong_type
from anyrt.api.edge.setting import Setting
from anyrt.api.plugins.host import callers
from anyrt.api.plugins.registry import IPluginRegistry
from anyrt.api.run.allocator import AllocatedDevice
from anyrt.api.run.engine import ICudaEngine
from anyrt.api.run.source import read_source
from anyrt.backends import loader
from anyrt.compiler.cached import obtain, obtain_pool, once
from anyrt.core.enums import Severity, TempfileControlFlag
from anyrt.core.errors import ArgumentError
from anyrt.core.flags import read_flags
from anyrt.plan.file import PlanFile
from anyrt.runtime.engine import load
from anyrt.runtime.pool import MAX_THREADS, Pool, shared_pool

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


# Limits the threads that a plan, which is foreign data, can start; results do not depend on their number.
PLAN_THREADS = 64


@fold
class Runtime(Logged, Managed):
    """Creates engines from plans; an engine keeps its runtime alive.

    engine = trt.Runtime(trt.Logger(trt.Logger.WARNING)).deserialize_cuda_engine(plan)
    """

    __slots__ = ("_gpu_allocator", "_settings")

    max_threads = Setting(
        int, 1, "Kept: maximum number of threads; checksums use as many threads as engines.", low=1
    )
    DLA_core = Setting(int, -1, "Kept: DLA core for engines; the machine has none.")
    temporary_directory = Setting(str, "", "Kept: directory for temporary files; there are none.")
    tempfile_control_flags = Flags(
        TempfileControlFlag,
        TempfileControlFlag,
        TempfileControlFlag,
        "Kept: allowed temporary files as a bit mask; there are none.",
    )
    check_weights = Setting(
        bool, None, "Whether loading compares weights with checksums; None: the value of ANYRT_CHECK_WEIGHTS."
    )
    engine_host_code_allowed = Setting(
        bool, False, "Kept: whether plans may contain code; those of AnyRT never do."
    )

    def __init__(self, logger: ILogger) -> None:
        self._settings: dict[str, object] = {}
        self._log_to(logger)
        self._gpu_allocator: IGpuAllocator | None = None

    @one_line
    def __repr__(self) -> str:
        return f" that logs to {type(self.logger).__name__}"

    @property
    def num_DLA_cores(self) -> int:
        """DLA cores of this machine."""
        return 0

    def _set_allocator(self, allocator: IGpuAllocator | None) -> None:
        if allocator is not None and not isinstance(allocator, IGpuAllocator):
            raise wrong_type("gpu_allocator", allocator, "an IGpuAllocator or None")
        self._gpu_allocator = allocator

    gpu_allocator = property(
        None, _set_allocator, doc="Allocates the memory of engines that are deserialized afterwards."
    )

    @quiet(None)
    def deserialize_cuda_engine(
        self,
        serialized_engine: ReadableBuffer | NDArray[Any] | os.PathLike[str] | IStreamReader | IStreamReaderV2,
    ) -> ICudaEngine:
        """Create the engine of a plan, which is a `pathlib.Path`, a buffer or a stream reader.

            engine = runtime.deserialize_cuda_engine(Path("net.plan"))

        The header and the structure are always checked, the weights unless `check_weights` is False. A file
        is mapped; it may be replaced, but not written to. A read-only buffer that is aligned to 64 bytes is
        used in place and must not change; `memoryview(buffer).toreadonly()` makes a buffer read-only.
        Weights in other buffers are copied once. Errors: AR606, not a plan; AR601 to AR605, a damaged plan;
        AR304, an unreadable file.
        """
        check = self.check_weights if self.check_weights is not None else read_flags().check_weights
        return opened(self, read_source(serialized_engine, check))

    @quiet(None)
    def load_runtime(self, path: str) -> Runtime:
        """A runtime for plans of other versions. It is equal to this one; the file is not executed."""
        if not isinstance(path, str):
            raise wrong_type("load_runtime", path, "a path as str")
        if not os.path.isfile(path):
            raise ArgumentError("AR304", "load_runtime", repr(path), "an existing file", "check the path")
        runtime = Runtime(self.logger)
        channel_of(runtime).parent = self._channel
        return runtime

    def get_plugin_registry(self) -> IPluginRegistry:
        """The plug-in registry for loading plans."""
        return get_plugin_registry()


def opened(runtime: Runtime, file: PlanFile) -> ICudaEngine:
    """The engine of a plan file."""
    channel, allocator, device = runtime._channel, runtime._gpu_allocator, loader.device()
    if allocator is not None:
        device = AllocatedDevice(device, allocator)
    warn = once(partial(channel.log, Severity.WARNING))
    pool = engine_pool(file.plan.number("threads"), warn)
    host = partial(callers, registry=runtime.get_plugin_registry(), channel=channel)
    code = partial(obtain, device=device, target=loader.target, warn=warn, log=channel.log)
    engine = load(file, device, pool, code, host)
    channel.log(Severity.INFO, f"loaded engine {file.shown!r}")
    return ICudaEngine(runtime, channel, engine, file.plan)


def engine_pool(count: int | None, warn: Callable[[str], None]) -> Pool:
    """A thread pool for an engine with this number of threads; None: that of the machine."""
    threads = PLAN_THREADS if count in range(PLAN_THREADS, MAX_THREADS + 1) else count
    device = loader.device()
    return shared_pool(threads, device, lambda: obtain_pool(device, loader.target, warn))
