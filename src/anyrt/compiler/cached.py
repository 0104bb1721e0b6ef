"""Native code for a plan or for the thread pool: from the cache, or compiled and stored there.

Nothing here imports the code generator: with a warm cache an engine loads without LLVM. Callers pass the
device that the code is for, and a function that returns its target, which is called only to compile.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from anyrt.codegen.sources import codegen_version
from anyrt.core.enums import Severity
from anyrt.core.errors import CompileError, ResourceError
from anyrt.core.flags import read_flags
from anyrt.core.machine import this_machine
from anyrt.plan.cache import DEFAULT_LIMIT, KernelCache, cache_key, default_directory
from anyrt.plan.checksum import MIX, Mixer, Words, mix
from anyrt.plan.device import Code, Device
from anyrt.plan.file import PlanFile
from anyrt.plan.json import Json, Reader, dump, load
from anyrt.plan.plan import Plan
from anyrt.plan.program import Compiled
from anyrt.plan.room import require_room

if TYPE_CHECKING:  # as above
    from anyrt.codegen.target import NativeTarget
    from anyrt.schedule.step import Strategies

DRIVER: Final = "anyrt.compiler.driver"
MAX_SECONDS: Final = 1 << 16  # bytes
DRIVER_ROOM: Final = 256 << 20  # LLVM's library takes 160 MB of addresses, the thread that it runs in 72 MB


Warn = Callable[[str], None]
Log = Callable[[Severity, str], None]
ToTarget: TypeAlias = "Callable[[], NativeTarget[Strategies]]"


class Compiler(Protocol):
    """The interface of the code generator."""

    def compile_plan(
        self, file: PlanFile, target: NativeTarget[Strategies], warn: Warn, log: Log
    ) -> Compiled:
        """Native code for a plan; `warn` receives problems of the kernel cache, `log` the progress."""


def warn_python(text: str) -> None:
    """For callers without a logger: a RuntimeWarning."""
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def once(warn: Warn) -> Warn:
    """`warn`, called once per text: every kernel would report the same unusable folder."""
    warned: set[str] = set()

    def call(text: str) -> None:
        if text not in warned:
            warned.add(text)
            warn(text)

    return call


def kernel_cache(warn: Warn = warn_python) -> KernelCache:
    """The cache of this user; `warn` receives its problems."""
    return KernelCache(default_directory(), warn, read_flags().cache_limit or DEFAULT_LIMIT)


@dataclass(frozen=True, slots=True)
class FunctionCache:
    """Code of single functions in the cache; code of another version of the compiler is not found."""

    cache: KernelCache

    def get_bytes(self, key: str) -> bytes | None:
        """The content stored at `key`, or None."""
        return self.cache.get_bytes(cache_key(key, codegen_version()))

    def put_bytes(self, key: str, parts: Sequence[bytes | memoryview]) -> bool:
        """Store `parts`, joined; False if that was not possible."""
        return self.cache.put_bytes(cache_key(key, codegen_version()), parts)


def obtain(
    file: PlanFile,
    device: Device,
    target: ToTarget,
    warn: Warn = warn_python,
    log: Log = lambda severity, text: None,
) -> Compiled:
    """Native code for a plan on a device; `log` receives the progress if it must be compiled."""
    symbols = file.plan.sym_by_name
    make = partial(_compiled, file, target, warn, log)
    return kernel_cache(warn).obtain(plan_key(device, file.code), symbols, make)


def _compiled(file: PlanFile, target: ToTarget, warn: Warn, log: Log) -> Compiled:
    log(Severity.INFO, f"compiling {file.plan.name!r}, whose code is not in the cache")
    return _compiler().compile_plan(file, target(), warn, log)


def obtain_pool(device: Device, target: ToTarget, warn: Warn = warn_python) -> Compiled:
    """Native code of the thread pool on a device."""
    return kernel_cache(warn).obtain(pool_key(device), {}, lambda: _with_room(target).compile_pool())


def obtain_mix(device: Device, target: ToTarget, warn: Warn = warn_python) -> Compiled:
    """Native code of checksums on a device."""
    return kernel_cache(warn).obtain(mix_key(device), {}, lambda: _with_room(target).compile_mix())


def mixer(device: Device, target: ToTarget) -> Mixer:
    """The mixing function of checksums for constants: native code, or NumPy's if there is none.

    An unusable cache is not reported here: the code of a plan is looked up there, too."""
    try:
        code = device.load(obtain_mix(device, target, lambda text: None))
    except (CompileError, ImportError, ResourceError):  # an engine runs without LLVM, too
        return mix
    return partial(_mix, code, code.function(MIX, 3))


def _mix(code: Code, native: Callable[..., int], rows: Words, lanes: Words) -> None:
    """`code` stays mapped as long as this may be called."""
    native(rows.ctypes.data, len(rows), lanes.ctypes.data)


def plan_key(device: Device, digest: bytes) -> str:
    """The key of the code of the plan with this digest."""
    return cache_key("plan", digest, *_machine(device))


def pool_key(device: Device) -> str:
    """The key of the code of the thread pool."""
    return cache_key("pool", *_machine(device))


def mix_key(device: Device) -> str:
    """The key of the code of checksums."""
    return cache_key("mix", *_machine(device))


def report_key(device: Device, *source: str | bytes) -> str:
    """The key of the report of an earlier build, from the graph and everything else that its schedule depends
    on."""
    return cache_key("report", *source, *_machine(device))


def request_key(device: Device, *source: str | bytes) -> str:
    """The key of the plan of an earlier build, without its weights, from the whole request."""
    return cache_key("request", *source, *_machine(device))


def computed_key(*contents: bytes) -> str:
    """The key of constants that were computed for a plan."""
    return cache_key("computed", *contents)


def keep_seconds(graph: str, report: str, seconds: Iterable[tuple[str, float]], warn: Warn) -> None:
    """Store how long the steps of a build took: not in the plan, which must not depend on it."""
    rows: list[Json] = [[name, round(time, 3)] for name, time in seconds]
    kernel_cache(warn).put_bytes(_seconds_key(graph, report), [dump(rows)])


def build_seconds(plan: Plan) -> tuple[tuple[str, float], ...]:
    """How long the steps of the build took that compiled the plan's kernels; none if that was elsewhere."""
    entry = kernel_cache(lambda text: None).get_bytes(_seconds_key(plan.graph_text, plan.report))
    if entry is None:
        return ()
    rows = Reader(load(entry, "build seconds", MAX_SECONDS), "build seconds").items(MAX_SECONDS)
    return tuple((name.text(), time.number()) for name, time in (row.exactly(2) for row in rows))


def _seconds_key(graph: str, report: str) -> str:
    return cache_key("seconds", graph, report)


def _machine(device: Device) -> tuple[str, str, str, str]:
    """Everything that the schedule and code of a graph depend on: the machine is the compiler's description,
    without the instructions that the processor lacks."""
    flags = read_flags()
    return codegen_version(), device.identity(), flags.cpu or "", str(this_machine(flags))


def load_driver() -> ModuleType:
    """The compiler, imported only to compile, since it loads LLVM."""
    if DRIVER not in sys.modules:
        require_room(DRIVER_ROOM, "compiler")
    return import_module(DRIVER)


def _compiler() -> Compiler:
    return cast(Compiler, load_driver())


def _with_room(target: ToTarget) -> NativeTarget[Strategies]:
    load_driver()  # there is room for LLVM then
    return target()
