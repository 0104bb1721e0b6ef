"""A file as memory: read on access, shared between processes, and not copied.

A mapping changes with its file. If a file was shortened, accessing the missing part ends the process with
SIGBUS, which only a copy would prevent. Users of a mapping therefore call `is_intact` before each use:

>>> path = getfixture("tmp_path") / "file"
>>> path.write_bytes(b"content")
7
>>> mapped = map_file(path, "plan")
>>> bytes(mapped.content), mapped.is_intact()
(b'content', True)
>>> os.truncate(path, 3)
>>> mapped.is_intact()
False

The time between the call and the end of the use remains unprotected. Writing a new file and renaming it over
the old one is always safe: the mapping keeps the old content.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyrt.core.errors import PlanError
from anyrt.plan.disk import open_regular


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class MappedFile:
    """The bytes of a file; `handle` is open as long as this object is held, `facts` are those at the time of
    mapping."""

    content: memoryview
    handle: int
    facts: tuple[int, int, int]

    def is_intact(self) -> bool:
        """Whether the file was neither shortened nor written since it was mapped."""
        try:
            return _facts(self.handle) == self.facts
        except OSError:  # somebody closed a descriptor that is not theirs: the answer is unknown
            return False

    def read(self, start: int, offset: int, out: NDArray[np.uint8]) -> None:
        """Fill `out` with the bytes `offset` behind `start`, without touching pages of the mapping; PlanError
        AR608 if the file has become shorter."""
        at, room = start + offset, out.data
        while room and (count := os.preadv(self.handle, [room], at)):
            at, room = at + count, room[count:]
        if room:
            do = "load it again"
            raise PlanError("AR608", "inference", "a plan file that was cut", "the file as it was loaded", do)

    def forget(self) -> None:
        """Free the memory of pages that were read; the next access reads the file again."""
        if isinstance(self.content.obj, mmap.mmap):
            self.content.obj.madvise(mmap.MADV_DONTNEED)


def map_file(path: Path, where: str) -> MappedFile:
    """`path` mapped for reading; PlanError if it is not a regular file, OSError if it cannot be opened."""
    with open_regular(path, where) as file:
        handle = os.dup(file.fileno())
        try:
            facts = _facts(handle)
            content = b"" if not facts[1] else mmap.mmap(handle, facts[1], access=mmap.ACCESS_READ)
        except BaseException:
            os.close(handle)
            raise
    mapped = MappedFile(memoryview(content), handle, facts)
    # Not at exit, when threads may still execute mapped code.
    weakref.finalize(mapped, os.close, handle).atexit = False
    return mapped


def watch(mapped: mmap.mmap) -> Callable[[], bool] | None:
    """A function that returns whether the file of another owner's mapping was shortened since now; None if
    there is none."""
    try:
        size = mapped.size()
    except (OSError, ValueError):
        return None
    return lambda: mapped.size() >= size


def _facts(handle: int) -> tuple[int, int, int]:
    status = os.fstat(handle)
    return status.st_ino, status.st_size, status.st_mtime_ns
