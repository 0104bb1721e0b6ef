"""Stand-in for `cupy.cuda`: the host as one device, with memory, streams and events.

>>> pointer = alloc(8)
>>> (pointer + 4).ptr - pointer.ptr, pointer.mem.size
(4, 8)
>>> with Stream() as stream:
...     get_current_stream() is stream
True
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace, TracebackType
from typing import ClassVar, Final, SupportsIndex

from anyrt.compat.host import device as host
from anyrt.compat.host.device import DEVICE


class Device:
    """Device 0, for every number."""

    compute_capability: Final = "".join(map(str, host.COMPUTE_CAPABILITY))

    def __init__(self, device: SupportsIndex = 0) -> None:
        DEVICE.check_device(device)
        self.id = int(device)

    def __enter__(self) -> Device:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        pass

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def mem_info(self) -> tuple[int, int]:
        """The free and the total memory in bytes."""
        return host.free_memory(), host.total_memory()

    def use(self) -> None:
        """Do nothing: the device is always current."""

    def synchronize(self) -> None:
        """Return when all work is complete: at once."""


class UnownedMemory:
    """Memory of another library; keeps `owner` alive."""

    def __init__(self, ptr: SupportsIndex, size: int, owner: object, device_id: int = -1) -> None:
        self.ptr, self.size, self.owner, self.device_id = int(ptr), int(size), owner, 0
        self.device = Device()


class Memory(UnownedMemory):
    """Memory that is freed when the object is collected."""

    def __init__(self, size: int) -> None:
        address = DEVICE.allocate(size) if size else 0
        UnownedMemory.__init__(self, address, size, None)
        weakref.finalize(self, DEVICE.release, address)


class MemoryPointer:
    """A pointer into memory."""

    def __init__(self, mem: UnownedMemory, offset: int) -> None:
        self.mem, self.ptr, self.device, self.device_id = mem, mem.ptr + int(offset), mem.device, 0

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + int(offset))

    def __int__(self) -> int:
        return self.ptr

    __index__ = __int__


def alloc(size: int) -> MemoryPointer:
    """Allocate memory."""
    return MemoryPointer(Memory(int(size)), 0)


def alloc_pinned_memory(size: int) -> ctypes.Array[ctypes.c_uint8]:
    """Allocate memory that is a buffer for NumPy."""
    return (ctypes.c_uint8 * int(size))()


class MemoryPool:
    """A pool that keeps no freed memory."""

    def __init__(self, allocator: object = None) -> None:
        pass

    def malloc(self, size: int) -> MemoryPointer:
        """Allocate memory."""
        return alloc(size)

    def free_all_blocks(self, stream: object = None) -> None:
        """Do nothing: the pool keeps no memory."""

    def used_bytes(self) -> int:
        """The kept memory in bytes: 0."""
        return 0

    total_bytes = free_bytes = n_free_blocks = used_bytes


PinnedMemoryPool = MemoryPool


def set_allocator(allocator: object = None) -> None:
    """Do nothing: NumPy allocates the memory of arrays."""


set_pinned_memory_allocator = set_allocator


class Event:
    """An event, which stores the time at which it was recorded."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.ptr = DEVICE.open_event(not disable_timing)
        self.done = True
        weakref.finalize(self, DEVICE.close_event, self.ptr)

    def record(self, stream: Stream | None = None) -> None:
        """Record the event now."""
        DEVICE.record(self.ptr, (stream or get_current_stream()).ptr)

    def synchronize(self) -> None:
        """Return when the event has occurred: at once."""


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """The milliseconds between two events."""
    return DEVICE.elapsed_ms(start_event.ptr, end_event.ptr)


class Stream:
    """A stream, whose work is synchronous."""

    null: ClassVar[Stream]
    ptds: ClassVar[Stream]

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False) -> None:
        self.ptr = 2 if ptds else 0 if null else DEVICE.open_stream()
        self.done, self.device_id = True, 0
        if self.ptr > 2:
            weakref.finalize(self, DEVICE.close_stream, self.ptr)

    def __enter__(self) -> Stream:
        _streams().append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _streams().pop()

    def use(self) -> Stream:
        """Make this the current stream."""
        _streams()[-1] = self
        return self

    def synchronize(self) -> None:
        """Return when all work is complete: at once."""
        DEVICE.finish_stream(self.ptr)

    def record(self, event: Event | None = None) -> Event:
        """Record an event."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Return when the event has occurred: at once."""
        DEVICE.wait(self.ptr, event.ptr)

    def launch_host_func(self, callback: Callable[[object], None], arg: object) -> None:
        """Call a function after all work of the stream."""
        if not DEVICE.captures.note(self.ptr, lambda: callback(arg)):
            callback(arg)


class ExternalStream(Stream):
    """A stream of another library."""

    def __init__(self, ptr: SupportsIndex, device_id: int = -1) -> None:
        self.ptr, self.done, self.device_id = int(ptr), True, 0


Stream.null, Stream.ptds = Stream(null=True), Stream(ptds=True)
_LOCAL: Final = threading.local()


def _streams() -> list[Stream]:
    """The stack of this thread's current streams; the last one is current."""
    if not hasattr(_LOCAL, "streams"):
        _LOCAL.streams = [Stream.null]
    used: list[Stream] = _LOCAL.streams
    return used


def get_current_stream(device_id: int = -1) -> Stream:
    """The current stream of this thread."""
    return _streams()[-1]


def get_device_id() -> int:
    """Device 0."""
    return 0


def is_available() -> bool:
    """True: the host is a device."""
    return True


def _copy(
    dst: SupportsIndex, src: SupportsIndex, size: int, kind: int = 4, stream: int | None = None
) -> None:
    DEVICE.copy(int(dst), int(src), int(size), stream)


runtime: Final = SimpleNamespace(
    memcpyHostToHost=0,
    memcpyHostToDevice=1,
    memcpyDeviceToHost=2,
    memcpyDeviceToDevice=3,
    memcpyDefault=4,
    getDeviceCount=lambda: 1,
    getDevice=get_device_id,
    setDevice=lambda device: DEVICE.check_device(device),
    getDeviceProperties=lambda device: {"name": host.NAME.encode(), "totalGlobalMem": host.total_memory()},
    memGetInfo=lambda: Device().mem_info,
    deviceSynchronize=lambda: None,
    runtimeGetVersion=lambda: host.CUDA_VERSION,
    driverGetVersion=lambda: host.CUDA_VERSION,
    malloc=DEVICE.allocate,
    free=DEVICE.release,
    memcpy=_copy,
    memcpyAsync=_copy,
    memset=lambda ptr, value, size: DEVICE.fill(ptr, value, size),
    memsetAsync=lambda ptr, value, size, stream: DEVICE.fill(ptr, value, size, stream),
    streamCreate=DEVICE.open_stream,
    streamDestroy=DEVICE.close_stream,
    streamSynchronize=DEVICE.finish_stream,
)
