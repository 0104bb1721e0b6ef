"""The runtime: makes engines from plans."""

from __future__ import annotations

import os
from collections.abc import Callable

from anyrt.api.allocator import AllocatedDevice
from anyrt.api.edge import Channel, Reporting, quiet, wrong_type
from anyrt.api.engine import ICudaEngine
from anyrt.api.interfaces import IGpuAllocator, ILogger, IStreamReader, IStreamReaderV2, call_user
from anyrt.api.managed import Managed
from anyrt.api.module import get_plugin_registry
from anyrt.api.registry import IPluginRegistry
from anyrt.api.setting import Setting
from anyrt.backends.cpu.device import CpuDevice
from anyrt.compiler.cached import obtain, obtain_pool
from anyrt.core.enums import Severity, TempfileControlFlag
from anyrt.core.errors import ArgumentError, PlanError
from anyrt.plan.device import Device
from anyrt.plan.file import PlanFile, read_plan
from anyrt.runtime.engine import load
from anyrt.runtime.pool import MAX_THREADS, Pool, shared_pool

CHUNK = 1 << 24
TEMPFILES = 1 << TempfileControlFlag.ALLOW_IN_MEMORY_FILES | 1 << TempfileControlFlag.ALLOW_TEMPORARY_FILES

# A plan comes from elsewhere, and cannot make its reader start more than this; numbers do not depend on it.
PLAN_THREADS = 64


class Runtime(Reporting, Managed):
    """Makes engines from plans; an engine keeps its runtime alive."""

    max_threads = Setting(int, 1, "Kept: most threads that loading may use; it uses one.", low=1)
    DLA_core = Setting(int, -1, "Kept: the DLA core for engines; none exist here.")
    temporary_directory = Setting(str, "", "Kept: where temporary files may go; none are made.")
    tempfile_control_flags = Setting(
        int, TEMPFILES, "Kept: which temporary files are allowed, as bits; none are made.", low=0
    )
    engine_host_code_allowed = Setting(bool, False, "Kept: whether plans may bring code; ours never do.")

    def __init__(self, logger: ILogger) -> None:
        if not isinstance(logger, ILogger):
            raise wrong_type("Runtime", logger, "an ILogger")
        self._channel = Channel(logger)
        self._gpu_allocator: IGpuAllocator | None = None

    @property
    def logger(self) -> ILogger:
        """Where messages go."""
        return self._channel.logger

    @property
    def num_DLA_cores(self) -> int:
        """DLA cores of this machine."""
        return 0

    def _set_allocator(self, allocator: IGpuAllocator | None) -> None:
        if allocator is not None and not isinstance(allocator, IGpuAllocator):
            raise wrong_type("gpu_allocator", allocator, "an IGpuAllocator or None")
        self._gpu_allocator = allocator

    gpu_allocator = property(
        None, _set_allocator, doc="Gives the memory that engines loaded from now on work in."
    )

    @quiet(None)
    def deserialize_cuda_engine(self, serialized_engine: object) -> ICudaEngine:
        """The engine of a plan, given as a buffer or a stream reader; None when it is no plan."""
        if isinstance(serialized_engine, IStreamReader | IStreamReaderV2):
            serialized_engine = _read_all(serialized_engine)
        try:
            data = memoryview(serialized_engine)  # type: ignore[arg-type]  # what is no buffer raises, as wanted
        except TypeError:
            raise wrong_type(
                "deserialize_cuda_engine", serialized_engine, "a buffer or a stream reader"
            ) from None
        if not data.c_contiguous:
            raise PlanError("AR605", "plan", "a strided buffer", "contiguous bytes")
        return self._load(read_plan(data))

    def _load(self, file: PlanFile) -> ICudaEngine:
        device: Device = CpuDevice()
        if self._gpu_allocator is not None:
            device = AllocatedDevice(device, self._gpu_allocator)
        pool = engine_pool(file.plan.number("threads"), self._warn)
        engine = load(file, device, pool, lambda plan: obtain(plan, self._warn))
        self._channel.log(Severity.INFO, f"loaded engine {file.plan.name!r}")
        return ICudaEngine(self, self._channel, engine, file.plan)

    def _warn(self, text: str) -> None:
        self._channel.log(Severity.WARNING, text)

    @quiet(None)
    def load_runtime(self, path: str) -> Runtime:
        """A runtime for plans of other versions: one like this, which loads all; the file is not run."""
        if not isinstance(path, str):
            raise wrong_type("load_runtime", path, "a path as str")
        if not os.path.isfile(path):
            raise ArgumentError("AR304", "load_runtime", repr(path), "a file that exists")
        runtime = Runtime(self.logger)
        runtime._channel.parent = self._channel
        return runtime

    def get_plugin_registry(self) -> IPluginRegistry:
        """The registry that loading looks plug-ins up in."""
        return get_plugin_registry()


def engine_pool(wanted: int | None, warn: Callable[[str], None]) -> Pool:
    """The threads of an engine that wants so many; None: the machine's own number."""
    threads = PLAN_THREADS if wanted in range(PLAN_THREADS, MAX_THREADS + 1) else wanted
    return shared_pool(threads, CpuDevice(), lambda: obtain_pool(warn))


def _read_all(reader: IStreamReader | IStreamReaderV2) -> bytes:
    """Everything that a user's reader hands out."""
    pieces: list[bytes] = []
    while True:
        match reader:
            case IStreamReader():
                piece = call_user(b"", reader.read, CHUNK)
            case IStreamReaderV2():
                piece = call_user(b"", reader.read, CHUNK, 0)
        if not piece:
            return b"".join(pieces)
        pieces.append(bytes(piece))
