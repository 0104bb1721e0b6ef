"""Stand-in for `cuda.core`: devices, streams, events and buffers as objects over host memory.

>>> device = Device()
>>> device.set_current()
>>> stream = device.create_stream()
>>> buffer = device.allocate(64, stream=stream)
>>> buffer.size, int(buffer.handle) % 256, buffer.close()
(64, 0, None)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, SupportsIndex

from anyrt.compat.cuda import core_system as system  # noqa: F401  # programs import it from here
from anyrt.compat.cuda.core_kernels import *  # noqa: F403  # a program sees one module
from anyrt.compat.cuda.core_kernels import ProgramOptions
from anyrt.compat.cuda.driver_types import CUdeviceptr, CUevent, CUstream
from anyrt.compat.host import device as host
from anyrt.compat.host.device import ATTRIBUTES, COMPUTE_CAPABILITY, DEVICE, DeviceFault
from anyrt.compat.host.refusing import refusing


class CUDAError(Exception):
    """The exception of `cuda.core`."""


@contextmanager
def _raising() -> Iterator[None]:
    try:
        yield
    except DeviceFault as fault:
        raise CUDAError(f"CUDA_ERROR_{fault.fault.name}") from None


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of a stream, which have no effect."""

    nonblocking: bool = True
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class EventOptions:
    """Options of an event."""

    enable_timing: bool | None = False
    busy_waited_sync: bool | None = False
    support_ipc: bool | None = False


class Event:
    """An event, which stores the time at which it was recorded."""

    def __init__(self, options: EventOptions | None = None) -> None:
        self._timed = bool(options and options.enable_timing)
        self.handle = CUevent(DEVICE.open_event(self._timed))

    def __sub__(self, other: Event) -> float:
        """The milliseconds from another event to this one."""
        if not (self._timed and other._timed):
            raise RuntimeError("Both Events must be created with timing enabled in order to subtract them")
        with _raising():
            return DEVICE.elapsed_ms(other.handle, self.handle)

    @property
    def is_done(self) -> bool:
        """Whether the event has occurred."""
        return True

    @property
    def is_timing_disabled(self) -> bool:
        """Whether the event stores no time."""
        return not self._timed

    def sync(self) -> None:
        """Return when the event has occurred."""

    def close(self) -> None:
        """Destroy the object; a second call has no effect."""
        if self.handle != 0:
            DEVICE.close_event(self.handle)
            self.handle = CUevent()

    def __del__(self) -> None:
        self.close()


class _HasStream(Protocol):
    """A stream of another library."""

    def __cuda_stream__(self) -> tuple[int, int]: ...


class Stream:
    """A stream, whose work is synchronous."""

    def __init__(self, handle: int | None = None) -> None:
        self._owned = handle is None
        self.handle = CUstream(DEVICE.open_stream() if handle is None else handle)

    @staticmethod
    def from_handle(handle: int) -> Stream:
        """The stream of an existing handle."""
        return Stream(int(handle))

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, int(self.handle)

    def __int__(self) -> int:
        return int(self.handle)

    __index__ = __int__

    @property
    def device(self) -> Device:
        """The device of the stream."""
        return Device(0)

    def record(self, event: Event | None = None, options: EventOptions | None = None) -> Event:
        """Record an event, a new one by default, and return it."""
        recorded = event or Event(options)
        with _raising():
            DEVICE.record(recorded.handle, self.handle)
        return recorded

    def wait(self, event_or_stream: Event | Stream) -> None:
        """Wait for an event or for the work of another stream."""
        event = event_or_stream if isinstance(event_or_stream, Event) else event_or_stream.record()
        with _raising():
            DEVICE.wait(self.handle, event.handle)

    def sync(self) -> None:
        """Return when all work is complete."""
        with _raising():
            DEVICE.finish_stream(self.handle)

    def close(self) -> None:
        """Destroy the object; a second call has no effect."""
        if self._owned and self.handle != 0:
            DEVICE.close_stream(self.handle)
        self.handle = CUstream()

    def __del__(self) -> None:
        self.close()


class Buffer:
    """Memory that is freed when the buffer is closed or collected."""

    def __init__(self, size: int, resource: MemoryResource, address: int | None = None) -> None:
        self.size, self.memory_resource = int(size), resource
        on_device = resource.is_device_accessible and not resource.is_host_accessible
        self._release: Callable[[int], None] | None = None
        if address is None:
            with _raising():
                address = DEVICE.allocate(self.size, on_device) if size else 0
            self._release = lambda at: DEVICE.release(at, on_device)
        self.handle = CUdeviceptr(address)

    @staticmethod
    def from_handle(ptr: SupportsIndex, size: int, mr: MemoryResource | None = None) -> Buffer:
        """A buffer over memory of another library."""
        return Buffer(size, mr or DeviceMemoryResource(), int(ptr))

    @property
    def device_id(self) -> int:
        """Device 0."""
        return 0

    @property
    def is_device_accessible(self) -> bool:
        """Whether this is device memory."""
        return self.memory_resource.is_device_accessible

    @property
    def is_host_accessible(self) -> bool:
        """Whether this was allocated as host memory; the host can access all memory."""
        return self.memory_resource.is_host_accessible

    def copy_to(self, dst: Buffer | None = None, *, stream: Stream) -> Buffer:
        """Copy all bytes to another buffer, by default a new one, and return that buffer."""
        target = dst or Buffer(self.size, self.memory_resource)
        if target.size != self.size:
            raise ValueError(f"buffer sizes mismatch between src and dst ({self.size} and {target.size})")
        with _raising():
            DEVICE.copy(target.handle, self.handle, self.size, stream.handle)
        return target

    def copy_from(self, src: Buffer, *, stream: Stream) -> None:
        """Copy all bytes of another buffer to this one."""
        src.copy_to(self, stream=stream)

    def fill(self, value: int, *, stream: Stream) -> None:
        """Set every byte to `value`."""
        with _raising():
            DEVICE.fill(self.handle, value, self.size, stream.handle)

    def close(self, stream: Stream | None = None) -> None:
        """Free the memory; a second call has no effect."""
        if self._release is not None and self.handle != 0:
            self._release(int(self.handle))
        self._release, self.handle = None, CUdeviceptr()

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class MemoryResource:
    """An allocator of memory."""

    device_id: int = 0
    is_device_accessible: bool = True
    is_host_accessible: bool = False

    def allocate(self, size: int, stream: object = None) -> Buffer:
        """Allocate memory."""
        return Buffer(size, self)

    def deallocate(self, ptr: SupportsIndex, size: int, stream: object = None) -> None:
        """Free memory."""
        with _raising():
            DEVICE.release(int(ptr), not self.is_host_accessible)


DeviceMemoryResource = MemoryResource


def LegacyPinnedMemoryResource() -> MemoryResource:
    """An allocator of memory that the host can access, too."""
    return MemoryResource(is_host_accessible=True)


def PinnedMemoryResource(options: object = None) -> MemoryResource:
    """An allocator of memory that the host can access, too."""
    return LegacyPinnedMemoryResource()


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """The properties of a device that programs read."""

    multiprocessor_count: int = ATTRIBUTES[16]
    max_threads_per_block: int = ATTRIBUTES[1]
    max_shared_memory_per_block: int = ATTRIBUTES[8]
    warp_size: int = ATTRIBUTES[10]
    clock_rate: int = ATTRIBUTES[13]
    l2_cache_size: int = ATTRIBUTES[38]
    compute_capability_major: int = COMPUTE_CAPABILITY[0]
    compute_capability_minor: int = COMPUTE_CAPABILITY[1]
    integrated: bool = True
    unified_addressing: bool = True


@dataclass(frozen=True, slots=True)
class ComputeCapability:
    """The compute capability of a device: major and minor number."""

    major: int
    minor: int

    def __iter__(self) -> Iterator[int]:
        return iter((self.major, self.minor))


class Device:
    """A device by its number; only number 0 exists."""

    def __init__(self, device_id: int | None = None) -> None:
        with _raising():
            DEVICE.check_device(device_id or 0)
        self.device_id, self.name, self.pci_bus_id = 0, host.NAME, host.BUS
        self.uuid = "00000000-0000-0000-0000-000000000000"
        self.compute_capability = ComputeCapability(*COMPUTE_CAPABILITY)
        self.arch = "".join(map(str, COMPUTE_CAPABILITY))
        self.properties, self.memory_resource = DeviceProperties(), DeviceMemoryResource()
        self.default_stream = Stream(0)

    def set_current(self, ctx: object = None) -> None:
        """Do nothing: the device is always current."""

    def create_stream(self, obj: _HasStream | None = None, options: StreamOptions | None = None) -> Stream:
        """Create a stream, or wrap one of another library."""
        return Stream() if obj is None else Stream(obj.__cuda_stream__()[1])

    def create_event(self, options: EventOptions | None = None) -> Event:
        """Create an event."""
        return Event(options)

    def allocate(self, size: int, stream: object = None) -> Buffer:
        """Allocate device memory."""
        return self.memory_resource.allocate(size, stream)

    def sync(self) -> None:
        """Return when all work is complete."""


LinkerOptions = ProgramOptions
Linker, GraphBuilder = refusing("Linker"), refusing("GraphBuilder")
