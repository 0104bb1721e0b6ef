"""The run side of the CPU: executable images and aligned memory; requires only ctypes and mmap."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from anyrt.backends.cpu.codepages import code_pages, private_pages
from anyrt.backends.cpu.identity import processor
from anyrt.backends.cpu.permission import permit_tiles
from anyrt.core.errors import CompileError, ResourceError
from anyrt.plan.abi import ALIGNMENT, align
from anyrt.plan.device import Memory
from anyrt.plan.program import Compiled

_MAP_NORESERVE: Final = 0x4000  # of Linux; Python 3.12 knows it
# NumPy and malloc reject larger sizes with errors of various kinds; no machine has so much memory.
_MOST_BYTES: Final = 1 << 47


@dataclass(frozen=True, slots=True, eq=False)
class HostMemory:
    """Bytes at an address that is a multiple of ALIGNMENT; `bytes` views them."""

    address: int
    bytes: npt.NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        """Their number."""
        return self.bytes.size


@dataclass(frozen=True, slots=True, eq=False)
class Reserved:
    """Addresses of pages that are allocated when they are written."""

    bytes: npt.NDArray[np.uint8]
    pages: mmap.mmap

    @property
    def address(self) -> int:
        """The address of the first one."""
        return int(self.bytes.ctypes.data)

    def release(self, begin: int, end: int) -> None:
        """Free the memory of these bytes."""
        self.pages.madvise(mmap.MADV_DONTNEED, begin, end - begin)


@dataclass(frozen=True, slots=True, eq=False)
class CpuCode:
    """An image in executable memory."""

    base: int
    entries: dict[str, int]
    pages: mmap.mmap

    def address(self, entry: str) -> int:
        """The address of `entry`."""
        if entry not in self.entries:
            known = ", ".join(self.entries) or "none"
            raise CompileError("AR806", "compiled code", got=f"no entry {entry!r}", wanted=f"one of {known}")
        return self.base + self.entries[entry]

    def function(self, entry: str, arguments: int) -> Callable[..., int]:
        """`entry` as a callable with so many 64-bit arguments that returns an int32; it releases the GIL."""
        return _prototype(arguments)(self.address(entry))


class CpuDevice:
    """The processor that this program runs on."""

    def load(self, compiled: Compiled) -> CpuCode:
        """Map an image for execution; it may use all registers of the processor."""
        permit_tiles()
        image, entries = compiled.image, dict(compiled.program.entries)
        outside = [name for name, offset in entries.items() if not 0 <= offset < len(image)]
        if outside:
            raise CompileError("AR806", "compiled code", got=f"entry {outside[0]!r} outside its image")
        pages, base = code_pages(image)
        return CpuCode(base, entries, pages)

    def write(self, memory: Memory, content: npt.NDArray[np.uint8]) -> None:
        """Copy bytes to the start of `memory`."""
        assert content.size <= memory.nbytes, f"{content.size} bytes for {memory.nbytes}"
        ctypes.memmove(memory.address, content.ctypes.data, content.size)

    def reserve(self, nbytes: int) -> Reserved:
        """Addresses without memory, in small pages, which can be freed one by one."""
        pages = private_pages(
            align(nbytes, mmap.PAGESIZE),
            "addresses of weights",
            _MAP_NORESERVE if sys.platform == "linux" else 0,
        )
        if sys.platform == "linux":  # elsewhere pages are what they are
            pages.madvise(mmap.MADV_NOHUGEPAGE)
        return Reserved(np.frombuffer(pages, np.uint8), pages)

    def allocate(self, nbytes: int) -> HostMemory:
        """Memory of this machine, `ALIGNMENT` aligned, with undefined content."""
        if nbytes == 0:
            return HostMemory(0, np.empty(0, np.uint8))
        try:
            if nbytes > _MOST_BYTES:
                raise MemoryError
            raw = np.empty(nbytes + ALIGNMENT, np.uint8)
        except MemoryError:
            raise ResourceError("AR802", "host memory", wanted=f"{nbytes:,} bytes") from None
        start = -raw.ctypes.data % ALIGNMENT
        view = raw[start : start + nbytes]
        return HostMemory(view.ctypes.data, view)

    def identity(self) -> str:
        """Vendor, model and instruction sets of the processor, and whether this process may use its tiles:
        cached code that does ends a process that may not."""
        return f"{processor()}|tiles {permit_tiles()}"


@cache
def _prototype(arguments: int) -> Callable[[int], Callable[..., int]]:
    return ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * arguments)
