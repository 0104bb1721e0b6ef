"""`torch.cuda` over host memory: streams, events, and what programs ask about a device.

Work has ended when a call returns, so that streams are numbers, and events points in time.
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
    """A stream; with `stream_ptr` one that exists, and 0 is the default stream."""

    def __init__(self, device: object = None, priority: int = 0, stream_ptr: int | None = None) -> None:
        self._owned = stream_ptr is None
        self.cuda_stream: int = DEVICE.open_stream() if stream_ptr is None else int(stream_ptr)
        self.priority = priority
        self.device_index = 0

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_stream)

    def synchronize(self) -> None:
        """Return when all work has ended."""
        DEVICE.finish_stream(self.cuda_stream)

    def query(self) -> bool:
        """Whether all work has ended."""
        return True

    def wait_event(self, event: Event) -> None:
        """Start no work before the event."""
        DEVICE.wait(self.cuda_stream, event.cuda_event)

    def wait_stream(self, stream: Stream) -> None:
        """Start no work before that of another stream has ended."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """An event that has the present time."""
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
    """A stream that another library made."""

    def __init__(self, stream_ptr: int, device: object = None) -> None:
        super().__init__(device, stream_ptr=stream_ptr)


class Event:
    """A point in time."""

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        self.cuda_event = DEVICE.open_event(timed=enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        """Hold the present time."""
        DEVICE.record(self.cuda_event, stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Have a stream start no work before this."""
        (stream or current_stream()).wait_event(self)

    def query(self) -> bool:
        """Whether the event has happened."""
        return True

    def synchronize(self) -> None:
        """Return when the event has happened."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another one."""
        return DEVICE.elapsed_ms(self.cuda_event, end_event.cuda_event)

    def __del__(self) -> None:
        DEVICE.close_event(self.cuda_event)


_DEFAULT: Final = Stream(stream_ptr=0)


def current_stream(device: object = None) -> Stream:
    """The stream that this thread has chosen, or the default one."""
    stream: Stream = getattr(_current, "stream", _DEFAULT)
    return stream


def default_stream(device: object = None) -> Stream:
    """Stream 0."""
    return _DEFAULT


def set_stream(stream: Stream | None) -> None:
    """Choose this thread's stream."""
    if stream is not None:
        _current.stream = stream


def _before() -> list[Stream]:
    """The streams that this thread's `with` statements have left."""
    if not hasattr(_current, "before"):
        _current.before = []
    streams: list[Stream] = _current.before
    return streams


@dataclass(frozen=True, slots=True)
class StreamContext:
    """Makes a stream this thread's, as long as a `with` statement runs; None changes nothing."""

    stream: Stream | None

    def __enter__(self) -> None:
        _before().append(current_stream())
        set_stream(self.stream)

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_stream(_before().pop())


def stream(stream: Stream | None) -> StreamContext:
    """What makes a stream this thread's."""
    return StreamContext(stream)


class Device:
    """`torch.cuda.device`: makes a device current, of which there is one."""

    def __init__(self, device: object) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        """The device is current."""

    def __exit__(self, *raised: object) -> None:
        """It stays so."""


@dataclass(frozen=True, slots=True)
class Properties:
    """What programs print of a device."""

    name: str = host.NAME
    major: int = host.COMPUTE_CAPABILITY[0]
    minor: int = host.COMPUTE_CAPABILITY[1]
    total_memory: int = host.total_memory()
    multi_processor_count: int = host.ATTRIBUTES[16]
    warp_size: int = host.ATTRIBUTES[10]
    L2_cache_size: int = host.ATTRIBUTES[38]


def is_pytorch(names: Mapping[str, object]) -> bool:
    """Whether a module's names are those of one of PyTorch's own."""
    module = names.get("__name__")
    return isinstance(module, str) and module.partition(".")[0] == "torch"


def asks_for_itself() -> bool:
    """Whether PyTorch asks: its own modules choose code by what was compiled in, which is none for CUDA."""
    return is_pytorch(sys._getframe(2).f_globals)


def is_available() -> bool:
    """True, except to PyTorch itself."""
    return not asks_for_itself()


def device_count() -> int:
    """One device, except to PyTorch itself."""
    return 0 if asks_for_itself() else 1


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True, except to PyTorch itself."""
    return not asks_for_itself()


def current_device() -> int:
    """Device 0."""
    return 0


def init() -> None:
    """Nothing is left to initialise."""


def set_device(device: object) -> None:
    """Make a device current, of which there is one."""


def synchronize(device: object = None) -> None:
    """Return when all work has ended."""


def empty_cache() -> None:
    """Nothing is kept."""


def ipc_collect() -> None:
    """Nothing is shared."""


def get_device_name(device: object = None) -> str:
    """The device's name."""
    return host.NAME


def get_device_capability(device: object = None) -> tuple[int, int]:
    """Major and minor number."""
    return host.COMPUTE_CAPABILITY


def get_device_properties(device: object = None) -> Properties:
    """What programs print of the device."""
    return Properties()


def mem_get_info(device: object = None) -> tuple[int, int]:
    """Free and total bytes."""
    return host.free_memory(), host.total_memory()


def reset_peak_memory_stats(device: object = None) -> None:
    """Nothing is counted."""


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
        """Nothing is counted."""
        return 0

    count.__name__ = name
    return count
