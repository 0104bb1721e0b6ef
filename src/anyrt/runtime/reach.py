"""Whether memory is there: bare addresses are looked at before native code goes where they lead.

>>> array = np.zeros(4, np.float32)
>>> lack(array.ctypes.data, 16, writes=True), lack(12345, 16, writes=False)
('', 'no memory of this process')

An allocator of a program's own memory, as that of the compat layer, tells how large a block is, and when one
is given back. What else is freed after it was looked at, nobody tells; that is the program's own mistake.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from collections.abc import Callable
from typing import Final, Protocol
from weakref import WeakSet

import numpy as np

Room = Callable[[int], int | None]


class Listener(Protocol):
    """Holds bare addresses."""

    def forget(self, begin: int, end: int) -> None:
        """Look again at what lies there before it is used."""


PAGE: Final = mmap.PAGESIZE
_ASYNC, _POPULATE_READ, _POPULATE_WRITE = 1, 22, 23  # of Linux
_PLACE: Final = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_rooms: Final[list[Room]] = []
_listeners: Final[WeakSet[Listener]] = WeakSet()
# Taken again where what the collector ends meanwhile gives memory back.
_lock: Final = threading.RLock()


def tell_rooms(room: Room) -> None:
    """Ask `room`, too: how many bytes a block has from an address on; None where it has none there."""
    _rooms.append(room)


def listen(listener: Listener) -> None:
    """Have it told of memory that is given back."""
    with _lock:
        _listeners.add(listener)


def freed(begin: int, nbytes: int) -> None:
    """Tell everybody that a block is given back."""
    with _lock:
        told = list(_listeners)
    for listener in told:
        listener.forget(begin, begin + nbytes)


def lack(address: int, nbytes: int, *, writes: bool) -> str:
    """What `nbytes` at an address lack for being read, or written; "" where nothing does, as far as the
    system tells."""
    for room in _rooms:
        left = room(address)
        if left is not None:
            return "" if left >= nbytes else f"an allocation that ends after {left}"
    if not nbytes or not _TELLS:
        return ""
    page = address // PAGE * PAGE
    if _synced(page, address + nbytes - page, _ASYNC):
        is_there = not _synced(page, PAGE, _ASYNC)
        return "memory that ends before" if is_there else "no memory of this process"
    # Answers for memory of devices that it does not know them; then the system's table says.
    if _advised(page, PAGE, _POPULATE_WRITE if writes else _POPULATE_READ) and not _may(address, writes):
        return f"memory that may not be {'written' if writes else 'read'}"
    return ""


def _may(address: int, writes: bool) -> bool:
    """What the system's table of mappings says of an address."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            for line in file:
                span, rights, _ = line.split(" ", 2)
                begin, end = (int(x, 16) for x in span.split("-"))
                if begin <= address < end:
                    return ("w" if writes else "r") in rights
    except OSError:
        pass
    return True


def _prototypes() -> tuple[Callable[[int, int, int], int], Callable[[int, int, int], int]]:
    library = ctypes.PyDLL(None)
    synced, advised = library.msync, library.madvise
    synced.argtypes = advised.argtypes = _PLACE
    return synced, advised


_TELLS = sys.platform == "linux"
if _TELLS:
    _synced, _advised = _prototypes()
    _own = np.zeros(1, np.uint8).ctypes.data // PAGE * PAGE
    _TELLS = not _synced(_own, PAGE, _ASYNC) and bool(_synced(PAGE, PAGE, _ASYNC))  # not in every sandbox
