"""The base classes of users' callbacks: loggers, error recorders, allocators, streams.

    class Quiet(trt.ILogger):
        def __init__(self):
            trt.ILogger.__init__(self)          # without this call, creating the object is a TypeError
        def log(self, severity, msg):
            ...

An exception in a callback is printed to stderr and does not propagate.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypeVar, TypeVarTuple

from anyrt.api.edge.fixed import Fixed, Listed
from anyrt.api.edge.fold import fold
from anyrt.api.edge.hints import hint
from anyrt.api.edge.log import printed
from anyrt.api.edge.managed import Managed
from anyrt.api.edge.oneline import one_line
from anyrt.core.enums import APILanguage, DataType, ErrorCodeTRT, SeekPosition, TensorLocation
from anyrt.core.enums import Severity as SeverityLevel
from anyrt.core.errors import ArgumentError
from anyrt.core.trt_enum import named_as_in_pybind

if TYPE_CHECKING:
    from anyrt.api.model.dims import Dims

OURS = "anyrt.api."
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


def tried(callback: Callable[[*Ts], R], *args: *Ts) -> tuple[R | None, Exception | None]:
    """The result of user code, or the exception that it raised; KeyboardInterrupt propagates."""
    try:
        return callback(*args), None
    except Exception as error:  # user code may raise anything
        return None, error


def call_user(default: R, callback: Callable[[*Ts], R], *args: *Ts) -> R:
    """The result of user code, or `default` after printing its exception: the caller continues."""
    result, error = tried(callback, *args)
    if error is not None:
        traceback.print_exception(error, file=sys.stderr)
        return default
    return result  # type: ignore[return-value]  # None only if the callback returned it


@named_as_in_pybind
class InterfaceType(Listed):
    """Rejects an object whose class overrides `__init__` without calling that of the base."""

    if not TYPE_CHECKING:  # otherwise type checkers would ignore the `__init__` of the class itself

        def __call__(cls, *args: object, **kwargs: object) -> object:
            instance = type.__call__(cls, *args, **kwargs)
            if not getattr(instance, "_initialised", False):
                base = next(filter(_is_ours, cls.__mro__)).__name__
                raise TypeError(f"{base}.__init__() must be called when overriding __init__")
            return instance

        @property
        def __signature__(cls) -> inspect.Signature:
            whole = inspect.signature(cls.__init__)
            return whole.replace(parameters=[*whole.parameters.values()][1:])


def _is_ours(base: type) -> bool:
    """Whether a class is a base class of callbacks."""
    return base.__module__.startswith(OURS)


class Interface(metaclass=InterfaceType):
    """Base of all callback classes."""

    # Remains a base of folded classes, since one class may implement several interfaces, whose slots must
    # agree.
    _is_folded = True
    __slots__ = ("__weakref__", "_initialised")

    def __init__(self) -> None:
        self._initialised = True


def pure(owner: object, method: str) -> NoReturn:
    """Raise for a method that a subclass must override."""
    raise NotImplementedError(f"{type(owner).__name__} must override {method}")


@fold
@dataclass(slots=True, weakref_slot=True)
class InterfaceInfo(Fixed):
    """The name and version of an interface."""

    kind: str = ""
    major: int = 1
    minor: int = 0


@fold
class IVersionedInterface(Interface):
    """An interface with a version."""

    __slots__ = ()

    @property
    def api_language(self) -> APILanguage:
        """The language of the implementation."""
        return APILanguage.PYTHON

    @property
    def interface_info(self) -> InterfaceInfo:
        """The name and version of the implemented interface."""
        return InterfaceInfo(next(filter(_is_ours, type(self).__mro__)).__name__)


@fold
class ILogger(Interface, Managed):
    """Receives every message; override `log`, and call this `__init__` in your `__init__`."""

    __slots__ = ()

    Severity: TypeAlias = SeverityLevel
    INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = SeverityLevel

    def log(self, severity: SeverityLevel, msg: str) -> None:
        """Receive one message; errors begin with their code, such as `[AR101]`."""
        pure(self, "log")


class Silence(ILogger):
    """A logger that drops everything, for networks whose problems are reported elsewhere."""

    def log(self, severity: SeverityLevel, msg: str) -> None:
        """Do nothing."""


@fold
class Logger(Fixed, ILogger):
    """Prints messages that are at least as severe as `min_severity`."""

    __slots__ = ("_min_severity",)

    def __init__(self, min_severity: SeverityLevel = SeverityLevel.WARNING) -> None:
        ILogger.__init__(self)
        self.min_severity = min_severity

    @property
    def min_severity(self) -> SeverityLevel:
        """The lowest severity that is printed."""
        return self._min_severity

    @min_severity.setter
    def min_severity(self, severity: SeverityLevel) -> None:
        if not isinstance(severity, SeverityLevel):
            got, do = type(severity).__name__, hint(severity, SeverityLevel)
            raise TypeError(ArgumentError("AR311", "Logger: min_severity", got, "a Logger.Severity", do))
        self._min_severity = severity

    @one_line
    def __repr__(self) -> str:
        return f": prints {self._min_severity.name} and worse"

    def log(self, severity: SeverityLevel, msg: str) -> None:
        """Print one message with the time, `[TRT]` and a letter for the severity."""
        if severity <= self._min_severity:
            print(printed(severity, msg, datetime.now()))


@fold
class IErrorRecorder(IVersionedInterface):
    """Stores errors; override every method. Several threads may report concurrently."""

    __slots__ = ()

    MAX_DESC_LENGTH = 127

    def num_errors(self) -> int:
        """The number of stored errors; override this or `get_num_errors`, which TensorRT looks up."""
        return self.get_num_errors()

    def get_num_errors(self) -> int:
        """The other name of `num_errors` in subclasses."""
        pure(self, "num_errors")

    def get_error_code(self, arg0: int) -> ErrorCodeTRT:
        """The code of error number `arg0`."""
        pure(self, "get_error_code")

    def get_error_desc(self, arg0: int) -> str:
        """The text of error number `arg0`."""
        pure(self, "get_error_desc")

    def has_overflowed(self) -> bool:
        """Whether errors were lost."""
        pure(self, "has_overflowed")

    def clear(self) -> None:
        """Remove all errors."""
        pure(self, "clear")

    def report_error(self, arg0: ErrorCodeTRT, arg1: str) -> bool:
        """Receive an error with the code `arg0` and the text `arg1`; return True to stop the operation."""
        pure(self, "report_error")


@fold
class IProfiler(Interface):
    """Receives the time of every layer; override `report_layer_time`."""

    __slots__ = ()

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        """Receive the time of a kernel in milliseconds; its name contains the names of its layers."""
        pure(self, "report_layer_time")


@fold
class Profiler(Fixed, IProfiler):
    """Prints the time of every layer."""

    __slots__ = ()

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        """Print one line."""
        print(f"{layer_name}: {ms:.6g}ms")


@fold
class IProgressMonitor(IVersionedInterface):
    """Receives the progress of a build, and may cancel it; override every method."""

    __slots__ = ()

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        """A phase with `num_steps` steps begins, inside another phase or at the top level (None)."""
        pure(self, "phase_start")

    def step_complete(self, phase_name: str, step: int) -> bool:
        """A step is complete; return False to cancel the build."""
        pure(self, "step_complete")

    def phase_finish(self, phase_name: str) -> None:
        """A phase ended, completed or cancelled."""
        pure(self, "phase_finish")


@fold
class IOutputAllocator(IVersionedInterface):
    """Supplies memory for an output whose size is known only during an inference.

    Override `reallocate_output(tensor_name, memory, size, alignment)` or `reallocate_output_async`, which
    also receives the stream and has priority; and `notify_shape(tensor_name, shape)`.
    """

    __slots__ = ()

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        """Return the address of at least `size` bytes; 0 or None on failure."""
        pure(self, "reallocate_output")

    def reallocate_output_async(
        self, tensor_name: str, memory: int, size: int, alignment: int, stream: int
    ) -> int:
        """The same, in the order of a stream."""
        return self.reallocate_output(tensor_name, memory, size, alignment)

    def notify_shape(self, tensor_name: str, shape: Dims) -> None:
        """Receive the actual shape of the output."""
        pure(self, "notify_shape")


@fold
class IGpuAllocator(IVersionedInterface):
    """Allocates the memory of engines; addresses are ints."""

    __slots__ = ()

    def allocate(self, size: int, alignment: int, flags: int) -> int | None:
        """Return the address of `size` bytes; None on failure."""
        pure(self, "allocate")

    def reallocate(self, address: int, alignment: int, new_size: int) -> int | None:
        """Return the address of a larger block with the same content; None on failure."""
        return None

    def deallocate(self, memory: int) -> bool:
        """Free memory."""
        pure(self, "deallocate")

    def allocate_async(self, size: int, alignment: int, flags: int, stream: int) -> int | None:
        """`allocate` in the order of a stream."""
        return self.allocate(size, alignment, flags)

    def deallocate_async(self, memory: int, stream: int) -> bool:
        """`deallocate` in the order of a stream."""
        return self.deallocate(memory)


@fold
class IGpuAsyncAllocator(IGpuAllocator):
    """Allocates memory in the order of streams; override the two async methods."""

    __slots__ = ()

    def allocate(self, size: int, alignment: int, flags: int) -> int | None:
        """`allocate_async` on the default stream."""
        return self.allocate_async(size, alignment, 0, flags)

    def deallocate(self, memory: int) -> bool:
        """`deallocate_async` on the default stream."""
        return self.deallocate_async(memory, 0)

    def allocate_async(self, size: int, alignment: int, flags: int, stream: int) -> int | None:
        """Return the address of `size` bytes. Called by position as (size, alignment, stream, flags)."""
        pure(self, "allocate_async")

    def deallocate_async(self, memory: int, stream: int) -> bool:
        """Free memory in the order of a stream."""
        pure(self, "deallocate_async")


@fold
class IStreamReader(IVersionedInterface):
    """Supplies a plan in chunks; override `read(size)`, which returns bytes."""

    __slots__ = ()

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`, fewer at the end."""
        pure(self, "read")


@fold
class IStreamReaderV2(IVersionedInterface):
    """Supplies a plan in chunks; override `read(num_bytes, stream)`; `seek` is never called."""

    __slots__ = ()

    def read(self, num_bytes: int, stream: int) -> bytes:
        """Return the next bytes, at most `num_bytes`, fewer at the end."""
        pure(self, "read")

    def seek(self, offset: int, where: SeekPosition) -> bool:
        """Move to `offset` from the start, the current position or the end."""
        pure(self, "seek")


@fold
class IStreamWriter(IVersionedInterface):
    """Receives a plan in chunks; override `write(data)`, which returns the number of bytes written."""

    __slots__ = ()

    def write(self, data: bytes) -> int:
        """Write bytes and return their number."""
        pure(self, "write")


@fold
class IDebugListener(IVersionedInterface):
    """Receives the debug tensors of an inference; override `process_debug_tensor`."""

    __slots__ = ()

    def process_debug_tensor(
        self, addr: int, location: TensorLocation, type: DataType, shape: Dims, name: str, stream: int
    ) -> bool:
        """Receive one tensor; return False to report an error."""
        pure(self, "process_debug_tensor")
