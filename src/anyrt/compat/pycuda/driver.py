"""Stand-in for `pycuda.driver`: classes that own host memory instead of device memory; errors are exceptions.

>>> there = mem_alloc(8)
>>> memcpy_htod(there, np.arange(2, dtype=np.int32))
>>> from_device(there, (2,), np.int32)
array([0, 1], dtype=int32)
"""

from __future__ import annotations

from typing import SupportsIndex

import numpy.typing as npt

from anyrt.compat.host import device as host
from anyrt.compat.host.device import DEVICE, Pointer
from anyrt.compat.host.refusing import refusing
from anyrt.compat.pycuda.errors import *  # noqa: F403
from anyrt.compat.pycuda.errors import calling
from anyrt.compat.pycuda.kernels import *  # noqa: F403
from anyrt.compat.pycuda.pagelocked import *  # noqa: F403  # a program sees one module
from anyrt.compat.pycuda.pagelocked import Array, Shape, pagelocked_empty


class device_attribute:
    """Device attributes that programs read."""

    MAX_THREADS_PER_BLOCK, WARP_SIZE, MULTIPROCESSOR_COUNT, L2_CACHE_SIZE = 1, 10, 16, 38
    MAX_SHARED_MEMORY_PER_BLOCK, CLOCK_RATE, INTEGRATED, UNIFIED_ADDRESSING = 8, 13, 18, 41
    COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR = 75, 76


class ctx_flags:
    """Flags of a context, which have no effect."""

    SCHED_AUTO, SCHED_SPIN, SCHED_YIELD, SCHED_BLOCKING_SYNC, MAP_HOST = 0, 1, 2, 4, 8


class event_flags:
    """Flags of an event."""

    DEFAULT, BLOCKING_SYNC, DISABLE_TIMING, INTERPROCESS = 0, 1, 2, 4


class stream_flags:
    """Flags of a stream, which have no effect."""

    DEFAULT, NON_BLOCKING = 0, 1


class PointerHolderBase:
    """The base class for memory of another library; `get_pointer` returns its address."""

    def get_pointer(self) -> int:
        """The address."""
        raise NotImplementedError(f"{type(self).__name__} must override get_pointer")

    def __int__(self) -> int:
        return self.get_pointer()

    __index__ = __int__


class DeviceAllocation:
    """Device memory, freed when the object is collected."""

    def __init__(self, nbytes: int) -> None:
        self._address = 0
        with calling("cuMemAlloc"):
            self._address = DEVICE.allocate(nbytes)

    def __int__(self) -> int:
        return self._address

    def __index__(self) -> int:
        return self._address

    def as_buffer(self, size: int, offset: int = 0) -> memoryview:
        """The memory as a buffer of bytes."""
        return DEVICE.array(self._address + offset, size).data

    def free(self) -> None:
        """Free the memory now."""
        with calling("cuMemFree"):
            DEVICE.release(self._address)
        self._address = 0

    def __del__(self) -> None:
        if self._address:
            self.free()


class Stream:
    """A stream, whose work is synchronous."""

    def __init__(self, flags: int = 0) -> None:
        self.handle = DEVICE.open_stream()

    def __index__(self) -> int:
        return self.handle

    def synchronize(self) -> None:
        """Return when all work is complete."""
        with calling("cuStreamSynchronize"):
            DEVICE.finish_stream(self.handle)

    def is_done(self) -> bool:
        """Whether all work is complete."""
        return True

    def wait_for_event(self, event: Event) -> None:
        """Wait for the event before further work."""
        DEVICE.wait(self.handle, event.handle)

    def __del__(self) -> None:
        DEVICE.close_stream(self.handle)


class Event:
    """An event, which stores the time at which it was recorded."""

    def __init__(self, flags: int = 0) -> None:
        self.handle = DEVICE.open_event(timed=not flags & event_flags.DISABLE_TIMING)

    def record(self, stream: Stream | None = None) -> Event:
        """Store the current time."""
        DEVICE.record(self.handle, stream)
        return self

    def synchronize(self) -> Event:
        """Return when the event has occurred."""
        return self

    def query(self) -> bool:
        """Whether the event has occurred."""
        return True

    def time_since(self, event: Event) -> float:
        """The milliseconds from `event` to this one."""
        with calling("cuEventElapsedTime"):
            return DEVICE.elapsed_ms(event.handle, self.handle)

    def time_till(self, event: Event) -> float:
        """The milliseconds from this event to `event`."""
        return event.time_since(self)

    def __del__(self) -> None:
        DEVICE.close_event(self.handle)


class Context:
    """The context, which always exists and is always current."""

    def push(self) -> None:
        """Do nothing: the context is always current."""

    def detach(self) -> None:
        """Do nothing: the context always exists."""

    @staticmethod
    def pop() -> None:
        """Do nothing: the context always exists."""

    @staticmethod
    def synchronize() -> None:
        """Return when all work is complete."""

    @staticmethod
    def get_api_version() -> int:
        """The version that is reported: CUDA 12."""
        return host.CUDA_VERSION

    @staticmethod
    def get_device() -> Device:
        """The device."""
        return Device(0)

    @staticmethod
    def get_current() -> Context:
        """The context."""
        return Context()


class Device:
    """A device by its number; only number 0 exists."""

    def __init__(self, number: int) -> None:
        with calling("cuDeviceGet"):
            DEVICE.check_device(number)

    @staticmethod
    def count() -> int:
        """The number of devices: 1."""
        return 1

    def name(self) -> str:
        """The device's name."""
        return host.NAME

    def compute_capability(self) -> tuple[int, int]:
        """The compute capability: major and minor number."""
        return host.COMPUTE_CAPABILITY

    def total_memory(self) -> int:
        """The memory of this machine in bytes."""
        return host.total_memory()

    def get_attribute(self, attribute: SupportsIndex) -> int:
        """An attribute of the device."""
        return DEVICE.attribute(attribute)

    def make_context(self, flags: int = 0) -> Context:
        """The context."""
        return Context()

    retain_primary_context = make_context

    def get_attributes(self) -> dict[int, int]:
        """All known attributes, by their numbers."""
        return dict(host.ATTRIBUTES)

    def pci_bus_id(self) -> str:
        """A PCI address that does not exist."""
        return host.BUS

    def can_access_peer(self, peer: Device) -> bool:
        """False: there is no other device."""
        return False


def init(flags: int = 0) -> None:
    """Do nothing: the device needs no initialisation."""


def get_version() -> tuple[int, int, int]:
    """The version that is reported: CUDA 12."""
    return host.CUDA_VERSION // 1000, host.CUDA_VERSION % 1000 // 10, 0


def get_driver_version() -> int:
    """The version that is reported: CUDA 12."""
    return host.CUDA_VERSION


def mem_get_info() -> tuple[int, int]:
    """The free and the total memory in bytes."""
    return host.free_memory(), host.total_memory()


def mem_alloc(nbytes: int) -> DeviceAllocation:
    """Allocate device memory."""
    return DeviceAllocation(int(nbytes))


def mem_alloc_like(ary: Array) -> DeviceAllocation:
    """Allocate device memory of the size of an array."""
    return DeviceAllocation(ary.nbytes)


def memcpy_htod(dest: Pointer, src: Pointer, stream: Stream | None = None) -> None:
    """Copy an array or buffer to the device."""
    with calling("cuMemcpyHtoD"):
        DEVICE.copy(dest, src, _size(src), stream, to_device=True)


def memcpy_dtoh(dest: Pointer, src: Pointer, stream: Stream | None = None) -> None:
    """Copy from the device to an array or buffer."""
    with calling("cuMemcpyDtoH"):
        DEVICE.copy(dest, src, _size(dest), stream, from_device=True)


def memcpy_dtod(dest: Pointer, src: Pointer, size: int, stream: Stream | None = None) -> None:
    """Copy within the device."""
    with calling("cuMemcpyDtoD"):
        DEVICE.copy(dest, src, size, stream, to_device=True, from_device=True)


memcpy_htod_async, memcpy_dtoh_async, memcpy_dtod_async = memcpy_htod, memcpy_dtoh, memcpy_dtod


def _size(buffer: Pointer) -> int:
    nbytes = host.span_of(buffer).nbytes
    if nbytes is None:
        raise TypeError(f"expected an array or buffer, got {type(buffer).__name__}")
    return nbytes


def memset_d8(dest: Pointer, data: int, count: int, stream: Stream | None = None) -> None:
    """Fill memory with a byte."""
    with calling("cuMemsetD8"):
        DEVICE.fill(dest, data, count, stream)


def memset_d32(dest: Pointer, data: int, count: int, stream: Stream | None = None) -> None:
    """Fill memory with a 32-bit number."""
    with calling("cuMemsetD32"):
        DEVICE.fill(dest, data, count, stream, width=4)


memset_d8_async, memset_d32_async = memset_d8, memset_d32

module_from_file = refusing("module_from_file")


def start_profiler() -> None:
    """Do nothing: there is no profiler."""


def stop_profiler() -> None:
    """Do nothing: there is no profiler."""


def to_device(buffer: Array) -> DeviceAllocation:
    """Allocate device memory and copy `buffer` to it."""
    there = mem_alloc(_size(buffer))
    memcpy_htod(there, buffer)
    return there


def from_device(devptr: Pointer, shape: Shape, dtype: npt.DTypeLike, order: str = "C") -> Array:
    """A new array with a copy of the elements at `devptr`."""
    out = pagelocked_empty(shape, dtype, order)
    memcpy_dtoh(out, devptr)
    return out


def from_device_like(devptr: Pointer, other_ary: Array) -> Array:
    """A new array like `other_ary` with a copy of the elements at `devptr`."""
    return from_device(devptr, other_ary.shape, other_ary.dtype)
