"""Checks for free memory before foreign code allocates it: LLVM ends the process if it gets none."""

from __future__ import annotations

import mmap
from typing import Final

from anyrt.core.errors import ResourceError

# A stack, and Python's memory for a thread: one that finds no memory while it starts leaves its starter
# waiting for ever.
THREAD_ROOM: Final = 32 << 20
LIBRARY_ROOM: Final = 256 << 20  # LLVM's code, with its initial memory


def free_bytes() -> int:
    """The memory that is available to programs now, as the system reports it."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        facts = dict(line.split(":", 1) for line in lines)
    return int(facts["MemAvailable"].split()[0]) << 10


def has_room(nbytes: int) -> bool:
    """Whether the system would allocate so many bytes now; they are freed again."""
    try:
        mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, MemoryError, OverflowError):
        return False
    return True


def require_room(nbytes: int, where: str) -> None:
    """ResourceError AR802 unless there is memory."""
    if not has_room(nbytes):
        do = "raise the limit of this process, or end other programs"
        raise ResourceError("AR802", where, got="no room", wanted=f"{nbytes:,} bytes", do=do)
