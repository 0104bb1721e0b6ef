"""`torch.cuda` over host memory: streams, events, and properties of the device.

Work is synchronous, so that a stream is only a number, and an event only stores a time.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Final

from anyrt.compat.host import device as host
from anyrt.compat.host.device import DEVICE

_current = threading.local()


class Stream:
    """A stream: a new one, or the existing one at `stream_ptr`; 0 is the default stream."""

    def __init__(self, device: object = None, priority: int = 0, stream_ptr: int | None = None) -> None:
        self._owned = stream_ptr is None
        self.cuda_stream: int = DEVICE.open_stream() if stream_ptr is None else int(stream_ptr)
        self.priority = priority
        self.device_index = 0

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_stream)

    def synchronize(self) -> None:
        """Return when all work is complete."""
        DEVICE.finish_stream(self.cuda_stream)

    def query(self) -> bool:
        """Whether all work is complete."""
        return True

    def wait_event(self, event: Event) -> None:
        """Wait for the event before further work."""
        DEVICE.wait(self.cuda_stream, event.cuda_event)

    def wait_stream(self, stream: Stream) -> None:
        """Wait for the work of another stream before further work."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, by default a new one, and return it."""
        event = event or Event(enable_timing=True)
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        StreamContext(self).__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        set_stream(_before().pop())

    def __index__(self) -> int:
        return self.cuda_stream

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:0 cuda_stream={self.cuda_stream:#x}>"

    def __del__(self) -> None:
        if self._owned:
            DEVICE.close_stream(self.cuda_stream)


class ExternalStream(Stream):
    """A stream of another library."""

    def __init__(self, stream_ptr: int, device: object = None) -> None:
        super().__init__(device, stream_ptr=stream_ptr)


class Event:
    """An event, which stores the time at which it was recorded."""

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        self.cuda_event = DEVICE.open_event(timed=enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        """Store the current time."""
        DEVICE.record(self.cuda_event, stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Make a stream wait for this event."""
        (stream or current_stream()).wait_event(self)

    def query(self) -> bool:
        """Whether the event has occurred."""
        return True

    def synchronize(self) -> None:
        """Return when the event has occurred."""

    def elapsed_time(self, end_event: Event) -> float:
        """The milliseconds from this event to another one."""
        return DEVICE.elapsed_ms(self.cuda_event, end_event.cuda_event)

    def __del__(self) -> None:
        DEVICE.close_event(self.cuda_event)


_DEFAULT: Final = Stream(stream_ptr=0)


def current_stream(device: object = None) -> Stream:
    """The current stream of this thread, by default stream 0."""
    stream: Stream = getattr(_current, "stream", _DEFAULT)
    return stream


def default_stream(device: object = None) -> Stream:
    """Stream 0."""
    return _DEFAULT


def set_stream(stream: Stream | None) -> None:
    """Set the current stream of this thread."""
    if stream is not None:
        _current.stream = stream


def _before() -> list[Stream]:
    """The streams that this thread's active `with` statements replaced."""
    if not hasattr(_current, "before"):
        _current.before = []
    streams: list[Stream] = _current.before
    return streams


@dataclass(frozen=True, slots=True)
class StreamContext:
    """Makes a stream current for this thread inside a `with` statement; None has no effect."""

    stream: Stream | None

    def __enter__(self) -> None:
        _before().append(current_stream())
        set_stream(self.stream)

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_stream(_before().pop())


def stream(stream: Stream | None) -> StreamContext:
    """A context manager that makes a stream current."""
    return StreamContext(stream)


class Device:
    """`torch.cuda.device`: makes a device current; there is only one."""

    def __init__(self, device: object) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        """The device is current."""

    def __exit__(self, *raised: object) -> None:
        """Do nothing: the device stays current."""


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a device that programs print."""

    name: str = host.NAME
    major: int = host.COMPUTE_CAPABILITY[0]
    minor: int = host.COMPUTE_CAPABILITY[1]
    total_memory: int = host.total_memory()
    multi_processor_count: int = host.ATTRIBUTES[16]
    warp_size: int = host.ATTRIBUTES[10]
    L2_cache_size: int = host.ATTRIBUTES[38]


def is_pytorch(names: Mapping[str, object]) -> bool:
    """Whether these are the globals of a module of PyTorch."""
    module = names.get("__name__")
    return isinstance(module, str) and module.partition(".")[0] == "torch"


def asks_for_itself() -> bool:
    """Whether the caller is PyTorch: its own modules must not choose CUDA code, which this build lacks."""
    return is_pytorch(sys._getframe(2).f_globals)


def is_available() -> bool:
    """True; False if PyTorch itself calls."""
    return not asks_for_itself()


def device_count() -> int:
    """1; 0 if PyTorch itself calls."""
    return 0 if asks_for_itself() else 1


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True; False if PyTorch itself calls."""
    return not asks_for_itself()


def current_device() -> int:
    """Device 0."""
    return 0


def init() -> None:
    """Do nothing: the device needs no initialisation."""


def set_device(device: object) -> None:
    """Do nothing: the only device is always current."""


def synchronize(device: object = None) -> None:
    """Return when all work is complete."""


def empty_cache() -> None:
    """Do nothing: there is no cache."""


def ipc_collect() -> None:
    """Do nothing: no memory is shared with other processes."""


def get_device_name(device: object = None) -> str:
    """The device's name."""
    return host.NAME


def get_device_capability(device: object = None) -> tuple[int, int]:
    """The compute capability: major and minor number."""
    return host.COMPUTE_CAPABILITY


def get_device_properties(device: object = None) -> Properties:
    """The properties of the device that programs print."""
    return Properties()


def mem_get_info(device: object = None) -> tuple[int, int]:
    """The free and the total memory in bytes."""
    return host.free_memory(), host.total_memory()


def reset_peak_memory_stats(device: object = None) -> None:
    """Do nothing: memory is not counted."""


_FUNCTIONS: Final = (
    *(current_stream, default_stream, set_stream, stream, is_available, device_count, is_initialized),
    is_bf16_supported,
    *(current_device, init, set_device, synchronize, empty_cache, ipc_collect, get_device_name),
    *(get_device_capability, get_device_properties, mem_get_info, reset_peak_memory_stats),
)
_BYTES: Final = tuple(f"{m}memory_{n}" for m in ("", "max_") for n in ("allocated", "reserved"))


_KINDS: Final = ("Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double")


def members(torch: ModuleType) -> dict[str, Callable[..., object]]:
    """The names of `torch.cuda` that programs use."""
    functions: tuple[Callable[..., object], ...] = _FUNCTIONS
    classes = {"Stream": Stream, "ExternalStream": ExternalStream, "Event": Event}
    return {
        **{f.__name__: f for f in functions},
        **classes,
        "StreamContext": StreamContext,
        "_CudaDeviceProperties": Properties,
        "device": Device,
        **{f"{kind}Tensor": getattr(torch, f"{kind}Tensor") for kind in _KINDS},
        "device_of": type("device_of", (Device,), {}),
        **{name: _no_bytes(name) for name in _BYTES},
    }


def _no_bytes(name: str) -> Callable[..., int]:
    def count(device: object = None) -> int:
        """0: memory is not counted."""
        return 0

    count.__name__ = name
    return count
