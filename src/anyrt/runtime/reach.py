"""Checks the memory at bare addresses before native code accesses it.

>>> array = np.zeros(4, np.float32)
>>> lack(array.ctypes.data, 16, writes=True), lack(12345, 16, writes=False)
('', 'no memory of this process')

An allocator of a program's own memory, such as that of the compat layer, reports how large a block is, and
whether it was freed. Memory that is freed by other means after the check is not detected; that is the
program's own error.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import mmap
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol
from weakref import WeakSet

import numpy as np

Room = Callable[[int], int | None]


class Listener(Protocol):
    """Holds bare addresses."""

    def forget(self, begin: int, end: int) -> None:
        """Check its memory again before it is used."""


class Span(NamedTuple):
    """A mapping of this process."""

    begin: int
    end: int
    reads: bool
    writes: bool
    has_file: bool


PAGE: Final = mmap.PAGESIZE
# Up to this size the system checks each page (30 ns) faster than it lists all mappings (180 µs for 150).
FEW: Final = 1 << 20
_POPULATE_READ, _POPULATE_WRITE = 22, 23  # of Linux
# PROCMAP_QUERY of linux/fs.h, _IOWR('f', 17, …), takes the size of its structure, flags and an address; it
# returns the mapping's begin, end, permissions, size of pages, offset and inode.
_QUESTION: Final = struct.Struct("QQQ80x")
_ANSWER: Final = struct.Struct("QQQQQQ")
_ANSWER_AT: Final = 24
_QUERY: Final = 3 << 30 | _QUESTION.size << 16 | ord("f") << 8 | 17
_rooms: Final[list[Room]] = []
_listeners: Final[WeakSet[Listener]] = WeakSet()
# Reentrant, since the garbage collector may free memory meanwhile.
_lock: Final = threading.RLock()


def tell_rooms(room: Room) -> None:
    """Call `room`, too: it returns the bytes of a block from an address on, 0 for one that was freed; None if
    it has none there."""
    _rooms.append(room)


def listen(listener: Listener) -> None:
    """Notify it of freed memory."""
    with _lock:
        _listeners.add(listener)


def freed(begin: int, nbytes: int) -> None:
    """Notify everybody that a block is freed."""
    with _lock:
        listeners = list(_listeners)
    for listener in listeners:
        listener.forget(begin, begin + nbytes)


def lack(address: int, nbytes: int, *, writes: bool) -> str:
    """The problem of reading or writing `nbytes` at an address; "" if there is none that the system
    reports."""
    for room in _rooms:
        left = room(address)
        if left is not None:
            short = f"an allocation that ends after {left}" if left else "an allocation that was given back"
            return "" if left >= nbytes else short
    if not nbytes or not _TELLS:
        return ""
    try:
        return _missing(_queried(address), address, nbytes, writes)
    except OSError:  # before Linux 6.11, and in sandboxes
        return _lack_listed(address, nbytes, writes)


def _lack_listed(address: int, nbytes: int, writes: bool) -> str:
    """The same if the system returns only the whole list of mappings."""
    if nbytes <= FEW and not _populated(address, nbytes, writes):
        return ""
    try:
        return _missing(_listed(), address, nbytes, writes)
    except OSError:  # nothing is at /proc
        is_there = _populated(address, nbytes, writes) not in (errno.ENOMEM, errno.EFAULT)
        return "" if is_there else "no memory of this process"


def _missing(spans: Iterator[Span], address: int, nbytes: int, writes: bool) -> str:
    """The problem of the mappings that contain these bytes, in order; others may come first."""
    at, end = address, address + nbytes
    for span in spans:
        if span.end <= at:
            continue
        if span.begin > at:
            break
        if not (span.writes if writes else span.reads):
            here = "" if at == address else f" beyond {at - address} bytes"
            return f"memory that may not be {'written' if writes else 'read'}{here}"
        # A mapping may be longer than its file. If its last byte can be read, so can those before.
        last = min(span.end, end) - 1
        if span.has_file and _populated(last, 1, writes) == errno.EFAULT:
            return "memory of a file that ends before"
        at = span.end
        if at >= end:
            return ""
    return "no memory of this process" if at == address else "memory that ends before"


def _queried(at: int) -> Iterator[Span]:
    """The mapping that contains an address, and those that follow it without a gap; OSError if the system
    does not support the query."""
    while True:
        try:
            answer = fcntl.ioctl(_own_list(os.getpid()), _QUERY, _QUESTION.pack(_QUESTION.size, 0, at))
        except OSError as error:
            if error.errno == errno.ENOENT:
                return
            if _ASKS:
                _own_list.cache_clear()  # the program has closed the file
            raise
        begin, end, rights, _, _, inode = _ANSWER.unpack_from(answer, _ANSWER_AT)
        yield Span(begin, end, bool(rights & 1), bool(rights & 2), inode != 0)
        at = end


@functools.lru_cache(maxsize=1)
def _own_list(process: int) -> int:
    """The list of mappings of this process, open; a parent's list would describe the parent's memory."""
    return os.open("/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC)


def _listed() -> Iterator[Span]:
    """All mappings of this process, the lowest first."""
    with open("/proc/self/maps", "rb") as file:
        lines = file.read().splitlines()
    for line in lines:
        span, rights, _, _, inode = line.split(None, 5)[:5]
        begin, end = (int(x, 16) for x in span.split(b"-"))
        yield Span(begin, end, rights[:1] == b"r", rights[1:2] == b"w", inode != b"0")


def _populated(address: int, nbytes: int, writes: bool) -> int:
    """The error of populating pages for reading or writing, without changing them; 0 for none, EINVAL if it
    is impossible, as for memory of devices, and before Linux 5.14."""
    page = address // PAGE * PAGE
    ctypes.set_errno(0)
    failed = _advised(page, address + nbytes - page, _POPULATE_WRITE if writes else _POPULATE_READ)
    return ctypes.get_errno() if failed else 0


def _can_ask() -> bool:
    """Whether the system supports queries for single mappings."""
    try:
        return next(_queried(np.zeros(1, np.uint8).ctypes.data), None) is not None
    except OSError:
        return False


_ASKS = False
_TELLS = sys.platform == "linux"
if _TELLS:
    _advised = ctypes.PyDLL(None, use_errno=True).madvise
    _advised.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    _ASKS = _can_ask()
