"""A file as memory: read when it is touched, shared between processes, and not copied.

What is mapped changes when the file does. Where a file was shortened, touching what is gone ends the process
with SIGBUS, which only a copy would prevent. So who uses a mapping asks `is_intact` first, each time:

>>> path = getfixture("tmp_path") / "file"
>>> path.write_bytes(b"content")
7
>>> mapped = map_file(path, "plan")
>>> bytes(mapped.content), mapped.is_intact()
(b'content', True)
>>> os.truncate(path, 3)
>>> mapped.is_intact()
False

That leaves the time between asking and the end of the use. To write a new file and rename it over the old one
is always safe: what is mapped stays as it is until it is given back.
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
    """The bytes of a file; `handle` is open as long as this object is held, `facts` are those of mapping."""

    content: memoryview
    handle: int
    facts: tuple[int, int, int]

    def is_intact(self) -> bool:
        """Whether nobody shortened the file or wrote to it since it was mapped."""
        try:
            return _facts(self.handle) == self.facts
        except OSError:  # somebody closed what is not theirs: it cannot be known
            return False

    def read(self, start: int, offset: int, out: NDArray[np.uint8]) -> None:
        """Fill `out` with what lies `offset` bytes behind `start`, without touching pages of the mapping;
        PlanError AR608 where the file has become shorter."""
        at, room = start + offset, out.data
        while room and (count := os.preadv(self.handle, [room], at)):
            at, room = at + count, room[count:]
        if room:
            do = "load it again"
            raise PlanError("AR608", "inference", "a plan file that was cut", "the file as it was loaded", do)

    def forget(self) -> None:
        """Give back the memory of pages that were touched; what touches them again reads the file."""
        if isinstance(self.content.obj, mmap.mmap):
            self.content.obj.madvise(mmap.MADV_DONTNEED)


def map_file(path: Path, where: str) -> MappedFile:
    """`path` mapped for reading; PlanError for what is no regular file, OSError when it cannot be opened."""
    with open_regular(path, where) as file:
        handle = os.dup(file.fileno())
        try:
            facts = _facts(handle)
            content = b"" if not facts[1] else mmap.mmap(handle, facts[1], access=mmap.ACCESS_READ)
        except BaseException:
            os.close(handle)
            raise
    mapped = MappedFile(memoryview(content), handle, facts)
    # Not at exit, when threads may still run what is mapped.
    weakref.finalize(mapped, os.close, handle).atexit = False
    return mapped


def watch(mapped: mmap.mmap) -> Callable[[], bool] | None:
    """Says whether the file of somebody else's mapping was shortened since now; None where there is none."""
    try:
        size = mapped.size()
    except (OSError, ValueError):
        return None
    return lambda: mapped.size() >= size


def _facts(handle: int) -> tuple[int, int, int]:
    found = os.fstat(handle)
    return found.st_ino, found.st_size, found.st_mtime_ns
