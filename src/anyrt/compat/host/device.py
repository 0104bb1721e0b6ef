"""A device in host memory, which the stand-ins for cuda-python and pycuda share.

Addresses are real addresses of this process, so that an engine can use them. Work is synchronous: a copy is
complete when the call returns. A stream is only a number, unless it is captured (`capture.py`): then its work
is recorded in a graph. Invalid use raises `DeviceFault`, which each stand-in translates to the error of its
library.

>>> device = Device()
>>> p = device.allocate(16)
>>> device.fill(p, 1, 16)
>>> out = np.zeros(2, np.uint8)
>>> device.copy(out, p, 2, from_device=True)
>>> out
array([1, 1], dtype=uint8)
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
import time
from bisect import bisect_right, insort
from dataclasses import dataclass
from enum import Enum
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from anyrt.compat.host.capture import Captures, Steps
from anyrt.core.lent import is_lent
from anyrt.runtime.reach import freed, lack, tell_rooms

NAME = "AnyRT host memory"
COMPUTE_CAPABILITY = (8, 0)
CUDA_VERSION = 12080
# A PCI address in the form that programs parse.
BUS = "0000:00:00.0"
# The alignment that cudaMalloc guarantees; programs rely on it.
ALIGNMENT = 256
# Freed blocks are kept up to this total size. Their addresses are not reused, so that a use after free is
# detected. The system unmaps larger blocks at once (M_MMAP_THRESHOLD of malloc is at most 32 MiB).
HELD_BYTES = 32 << 20
HELD_BLOCKS = 4096
# Device attributes, by the numbers that cudaDeviceAttr and CUdevice_attribute share.
ATTRIBUTES = {
    1: 1024,  # threads per block
    8: 48 << 10,  # shared memory per block
    10: 32,  # warp size
    13: 1_000_000,  # clock rate in kHz
    16: os.cpu_count() or 1,  # multiprocessors
    18: 1,  # integrated: device memory is host memory
    31: 0,  # concurrent kernels
    36: 1_000_000,  # memory clock rate in kHz
    37: 64,  # bus width in bits
    38: 1 << 20,  # L2 cache
    41: 1,  # unified addressing
    75: COMPUTE_CAPABILITY[0],
    76: COMPUTE_CAPABILITY[1],
    83: 1,  # managed memory
    115: 1,  # memory pools
}

Pointer = object
"""An address, or an array or buffer that stands for its memory; None is address 0."""


class Fault(Enum):
    """The kind of an error, which each stand-in translates to its own codes."""

    INVALID_VALUE, OUT_OF_MEMORY, INVALID_DEVICE, INVALID_HANDLE = range(4)
    IS_CAPTURED, IS_NOT_CAPTURED, LAUNCH_FAILED, NOT_SUPPORTED = range(4, 8)


class DeviceFault(Exception):
    """The device rejects a call."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.name)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Block:
    """One allocation; `memory` owns the bytes."""

    address: int
    nbytes: int
    on_device: bool
    memory: npt.NDArray[np.uint8]


class Blocks:
    """Allocations, sorted by address."""

    def __init__(self) -> None:
        self._by_address: dict[int, Block] = {}
        self._addresses: list[int] = []
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, block: Block) -> None:
        """Add a block."""
        self._by_address[block.address] = block
        insort(self._addresses, block.address)
        self.nbytes += block.nbytes

    def at(self, address: int) -> Block | None:
        """The block that begins at an address; None if there is none."""
        return self._by_address.get(address)

    def around(self, address: int) -> Block | None:
        """The block that contains an address; None if there is none."""
        k = bisect_right(self._addresses, address) - 1
        block = self._by_address[self._addresses[k]] if k >= 0 else None
        return block if block is not None and address < block.address + block.nbytes else None

    def pop(self, address: int) -> Block:
        """Remove and return the block that begins at an address."""
        block = self._by_address.pop(address)
        self._addresses.pop(bisect_right(self._addresses, address) - 1)
        self.nbytes -= block.nbytes
        return block

    def pop_oldest(self) -> Block:
        """Remove and return the block that was added first."""
        return self.pop(next(iter(self._by_address)))


@dataclass(frozen=True, slots=True)
class Span:
    """The memory that a caller passes; `nbytes` is None if the caller passed only an address."""

    address: int
    nbytes: int | None
    writable: bool


@dataclass(frozen=True, slots=True)
class Event:
    """An event: the time at which it was recorded, None before."""

    seconds: float | None
    timed: bool


def total_memory() -> int:
    """The memory of this machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_memory() -> int:
    """The free memory in bytes, or the total if the system does not report it."""
    if "SC_AVPHYS_PAGES" not in os.sysconf_names:
        return total_memory()
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def _address(array: npt.NDArray[np.generic]) -> int:
    """The address of an array. Not `array.ctypes`: it imports, which fails while the interpreter exits."""
    address: int = array.__array_interface__["data"][0]
    return address


def span_of(pointer: Pointer) -> Span:
    """The memory that `pointer` stands for."""
    if pointer is None:
        return Span(0, None, True)
    if isinstance(pointer, np.ndarray):
        if not pointer.flags.c_contiguous:
            raise DeviceFault(Fault.INVALID_VALUE)
        return Span(_address(pointer), pointer.nbytes, pointer.flags.writeable)
    if isinstance(pointer, SupportsIndex):
        return Span(int(pointer), None, True)
    try:
        view = memoryview(pointer)  # type: ignore[arg-type]  # this tests whether it is a buffer
        flat = np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
    except (TypeError, ValueError, BufferError):
        raise DeviceFault(Fault.INVALID_VALUE) from None
    return Span(_address(flat), flat.nbytes, not view.readonly)


def write(buffer: Pointer, data: bytes) -> None:
    """Write bytes to the memory of a buffer, even a read-only one."""
    span = span_of(buffer)
    room = span.nbytes
    is_short = bool(lack(span.address, len(data), writes=True)) if room is None else room < len(data)
    if not span.address or is_short:
        raise DeviceFault(Fault.INVALID_VALUE)
    ctypes.memmove(span.address, data, len(data))


class Device:
    """The memory, streams and events of one device; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._blocks, self._gone = Blocks(), Blocks()
        self._handles = itertools.count(0x1000, 16)
        # 0, 1 and 2 are the default streams, which always exist.
        self._streams = {0, 1, 2}
        self._events: dict[int, Event] = {}
        self.captures = Captures()
        self._graphs: dict[int, Steps] = {}
        self._kept: dict[tuple[str, int], int] = {}
        self.knows_all = True
        """Whether all device memory comes from `allocate`; False if other libraries allocate device
        memory."""

    def allocate(self, nbytes: int, on_device: bool = True) -> int:
        """Allocate `nbytes` bytes and return the address."""
        if not 0 < nbytes <= total_memory():
            raise DeviceFault(Fault.OUT_OF_MEMORY if nbytes > 0 else Fault.INVALID_VALUE)
        try:
            memory = np.empty(nbytes + ALIGNMENT, np.uint8)
        except MemoryError:
            raise DeviceFault(Fault.OUT_OF_MEMORY) from None
        address = -(-_address(memory) // ALIGNMENT) * ALIGNMENT
        with self._lock:
            self._blocks.add(Block(address, nbytes, on_device, memory))
        return address

    def release(self, pointer: Pointer, on_device: bool = True) -> None:
        """Free memory of `allocate`; address 0 is ignored."""
        block = self._taken_out(pointer, on_device)
        if block is None:
            return
        with self._lock:
            if block.nbytes <= HELD_BYTES:
                self._gone.add(block)
            while self._gone.nbytes > HELD_BYTES or len(self._gone) > HELD_BLOCKS:
                self._gone.pop_oldest()
        freed(block.address, block.nbytes)

    def _taken_out(self, pointer: Pointer, on_device: bool) -> Block | None:
        """Remove and return an allocation; None for address 0."""
        address = span_of(pointer).address
        with self._lock:
            block = self._blocks.at(address)
            if address and (block is None or block.on_device is not on_device):
                raise DeviceFault(Fault.INVALID_VALUE)
            return self._blocks.pop(address) if block is not None else None

    def adopt(self, pointer: Pointer, nbytes: int, flags: int = 0) -> None:
        """Register memory of the program as host memory of the device, without a copy."""
        span = span_of(pointer)
        if not span.address or nbytes <= 0 or self.find(pointer) or lack(span.address, nbytes, writes=False):
            raise DeviceFault(Fault.INVALID_VALUE)
        memory = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(span.address))
        with self._lock:
            self._blocks.add(Block(span.address, nbytes, False, memory))

    def disown(self, pointer: Pointer) -> None:
        """Undo `adopt`."""
        if self.find(pointer) is None:
            raise DeviceFault(Fault.INVALID_VALUE)
        block = self._taken_out(pointer, on_device=False)
        if block is not None:
            freed(block.address, block.nbytes)

    def find(self, pointer: Pointer) -> Block | None:
        """The allocation that contains an address."""
        address = span_of(pointer).address
        with self._lock:
            return self._blocks.around(address)

    def room(self, address: int) -> int | None:
        """The number of bytes from an address to the end of its allocation: 0 if that was freed, None if the
        address is in no allocation."""
        with self._lock:
            block = self._blocks.around(address)
            if block is not None:
                return block.address + block.nbytes - address
            return None if self._gone.around(address) is None else 0

    def array(self, address: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """An array of the bytes at an address; it keeps their allocation alive."""
        block = self.find(address)
        if block is None:
            if lack(address, nbytes, writes=False):
                raise DeviceFault(Fault.INVALID_VALUE)
            return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
        start = address - _address(block.memory)
        return block.memory[start : start + nbytes]

    def own(self, pointer: Pointer) -> Span:
        """The allocated memory at an address; a fault for other addresses."""
        if self.find(pointer) is None:
            raise DeviceFault(Fault.INVALID_VALUE)
        return span_of(pointer)

    def keep(self, what: str, number: SupportsIndex, value: SupportsIndex) -> None:
        """Store a setting that has no effect."""
        self._kept[what, int(number)] = int(value)

    def kept(self, what: str, number: SupportsIndex) -> int:
        """A stored setting, or 0."""
        return self._kept.get((what, int(number)), 0)

    def call_back(self, stream: SupportsIndex | None, function: SupportsIndex, argument: Pointer) -> None:
        """Call a C function with an address as its argument, after all work of the stream."""
        self.check_stream(stream)
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(int(function))
        address = span_of(argument).address
        if not self.captures.note(stream, lambda: call(address)):
            call(address)

    def copy_rows(
        self,
        to: Pointer,
        to_pitch: int,
        source: Pointer,
        pitch: int,
        width: int,
        height: int,
        stream: SupportsIndex | None = None,
        to_device: bool = False,
        from_device: bool = False,
    ) -> None:
        """Copy rows of `width` bytes; `to_pitch` and `pitch` are the bytes between the starts of two rows."""
        target, start = span_of(to).address, span_of(source).address
        if width > min(to_pitch, pitch):
            raise DeviceFault(Fault.INVALID_VALUE)
        for row in range(height):
            places = target + row * to_pitch, start + row * pitch
            self.copy(*places, width, stream, to_device, from_device)

    def copy(
        self,
        to: Pointer,
        source: Pointer,
        nbytes: int,
        stream: SupportsIndex | None = None,
        to_device: bool = False,
        from_device: bool = False,
    ) -> None:
        """Copy bytes synchronously; both ends must have at least `nbytes` bytes, if their size is known."""
        self.check_stream(stream)
        if not nbytes:
            return
        with self._lock:
            target = self._checked(to, nbytes, to_device, writes=True)
            start = self._checked(source, nbytes, from_device)
            if not target.writable:
                raise DeviceFault(Fault.INVALID_VALUE)
            # A graph keeps the arrays of its copies alive, not only their addresses.
            if not self.captures.note(stream, lambda: self.copy(to, source, nbytes)):
                ctypes.memmove(target.address, start.address, nbytes)

    def fill(
        self, pointer: Pointer, value: int, count: int, stream: SupportsIndex | None = None, width: int = 1
    ) -> None:
        """Write `value`, truncated to `width` bytes, `count` times into device memory."""
        self.check_stream(stream)
        if not count:
            return
        pattern = (value & ((1 << 8 * width) - 1)).to_bytes(width, sys.byteorder)
        with self._lock:
            address = self._checked(pointer, count * width, True, writes=True).address
            if self.captures.note(stream, lambda: self.fill(pointer, value, count, width=width)):
                return
            if width == 1:
                ctypes.memset(address, pattern[0], count)
            else:
                ctypes.memmove(address, pattern * count, count * width)

    def _checked(self, pointer: Pointer, nbytes: int, on_device: bool, writes: bool = False) -> Span:
        """The span of `pointer`, if it has `nbytes` bytes and, for device memory, is an allocation of this
        device."""
        span = span_of(pointer)
        block = self._blocks.around(span.address)
        room = block.address + block.nbytes - span.address if block else 0
        # Other memory is an array of the program or an invalid address, which must not be accessed.
        # Allocated host memory may be used as device memory: the real libraries map it to the same addresses.
        foreign = room <= 0
        limits = [span.nbytes, None if foreign else room]
        fits = 0 <= nbytes <= min(x for x in (*limits, nbytes) if x is not None)
        is_wild = foreign and on_device and self.knows_all and not is_lent()
        is_bare = foreign and span.nbytes is None and fits and not is_wild
        if not fits or not span.address or is_wild or (is_bare and lack(span.address, nbytes, writes=writes)):
            raise DeviceFault(Fault.INVALID_VALUE)
        return span

    def open_stream(self) -> int:
        """Create a stream and return its handle."""
        with self._lock:
            handle = next(self._handles)
            self._streams.add(handle)
        return handle

    def check_stream(self, stream: SupportsIndex | None) -> None:
        """Raise a fault if a stream does not exist; None is the default stream."""
        if stream is not None and int(stream) not in self._streams:
            raise DeviceFault(Fault.INVALID_HANDLE)

    def finish_stream(self, stream: SupportsIndex | None = None) -> None:
        """Return at once, since all work of a stream is complete; a fault if the stream is captured."""
        self.check_stream(stream)
        if self.captures.of(stream) is not None:
            raise DeviceFault(Fault.IS_CAPTURED)

    def close_stream(self, stream: SupportsIndex) -> None:
        """Destroy a stream of `open_stream`."""
        with self._lock:
            if int(stream) <= 2 or int(stream) not in self._streams:
                raise DeviceFault(Fault.INVALID_HANDLE)
            self._streams.remove(int(stream))

    def open_event(self, timed: bool = True) -> int:
        """Create an event and return its handle."""
        with self._lock:
            handle = next(self._handles)
            self._events[handle] = Event(None, timed)
        return handle

    def check_event(self, event: SupportsIndex) -> Event:
        """The state of an event; a fault if it does not exist."""
        if int(event) not in self._events:
            raise DeviceFault(Fault.INVALID_HANDLE)
        return self._events[int(event)]

    def close_event(self, event: SupportsIndex) -> None:
        """Destroy an event."""
        self.check_event(event)
        del self._events[int(event)]

    def record(self, event: SupportsIndex, stream: SupportsIndex | None = None) -> None:
        """Store the current time in an event: all earlier work is complete."""
        self.check_stream(stream)
        timed = self.check_event(event).timed
        if not self.captures.note(stream, lambda: self.record(event)):
            self._events[int(event)] = Event(time.perf_counter(), timed)
        self.captures.mark(event, stream)

    def wait(self, stream: SupportsIndex | None, event: SupportsIndex, flags: int = 0) -> None:
        """Make a stream wait for an event. Work is complete already; an event of a capture adds the stream to
        it."""
        self.check_stream(stream)
        self.check_event(event)
        self.captures.join(stream, event)

    def elapsed_ms(self, start: SupportsIndex, end: SupportsIndex) -> float:
        """The milliseconds between two recorded events."""
        first, last = self.check_event(start), self.check_event(end)
        if first.seconds is None or last.seconds is None or not (first.timed and last.timed):
            raise DeviceFault(Fault.INVALID_HANDLE)
        return (last.seconds - first.seconds) * 1e3

    def begin_capture(self, stream: SupportsIndex, mode: SupportsIndex = 0) -> None:
        """Begin to record the work of a stream in a graph instead of executing it."""
        self.finish_stream(stream)
        if int(stream) == 0 or int(mode) not in range(3):
            raise DeviceFault(Fault.INVALID_VALUE)
        self.captures.begin(stream)

    def end_capture(self, stream: SupportsIndex) -> int:
        """End a capture and return the handle of its graph."""
        self.check_stream(stream)
        steps = self.captures.end(stream)
        if steps is None:
            raise DeviceFault(Fault.IS_NOT_CAPTURED)
        return self._keep_graph(steps)

    def instantiate(self, graph: SupportsIndex) -> int:
        """The handle of an executable copy of a graph."""
        return self._keep_graph(self._graph(graph))

    def launch(self, graph: SupportsIndex, stream: SupportsIndex | None = None) -> None:
        """Execute all steps of a graph."""
        self.check_stream(stream)
        for step in self._graph(graph):
            if not self.captures.note(stream, step) and step() is False:
                raise DeviceFault(Fault.LAUNCH_FAILED)

    def close_graph(self, graph: SupportsIndex) -> None:
        """Destroy a graph, executable or not."""
        self._graph(graph)
        del self._graphs[int(graph)]

    def is_captured(self, stream: SupportsIndex) -> bool:
        """Whether a stream is captured."""
        self.check_stream(stream)
        return self.captures.of(stream) is not None

    def check_graph(self, graph: SupportsIndex, stream: SupportsIndex | None = None) -> None:
        """Raise a fault if a graph does not exist."""
        self.check_stream(stream)
        self._graph(graph)

    def update_graph(self, graph: SupportsIndex, other: SupportsIndex) -> None:
        """Replace the steps of one graph by those of another."""
        self._graph(graph)
        self._graphs[int(graph)] = self._graph(other)

    def _graph(self, graph: SupportsIndex) -> Steps:
        if int(graph) not in self._graphs:
            raise DeviceFault(Fault.INVALID_VALUE)
        return self._graphs[int(graph)]

    def _keep_graph(self, steps: Steps) -> int:
        with self._lock:
            handle = next(self._handles)
            self._graphs[handle] = steps
        return handle

    def attribute(self, number: SupportsIndex, device: SupportsIndex = 0) -> int:
        """A device attribute; 0 for attributes that are not listed."""
        self.check_device(device)
        return ATTRIBUTES.get(int(number), 0)

    def check_device(self, device: SupportsIndex) -> None:
        """Raise a fault for every device except number 0."""
        if int(device) != 0:
            raise DeviceFault(Fault.INVALID_DEVICE)


DEVICE = Device()
"""The device of this process. It is shared state, like a real device."""
tell_rooms(DEVICE.room)
