"""Pages of executable memory, as the operating system provides them.

A page is writable while an image is copied into it, and executable after that, never both. If instructions
are cached apart from data, as on AArch64, the instruction cache is flushed.

Apple silicon: written, never run. Pages there are both from the start (MAP_JIT), and each thread selects one
of the two for itself; Apple, "Porting just-in-time compilers to Apple silicon". Programs that are signed with
a hardened runtime need the entitlement com.apple.security.cs.allow-jit.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
from typing import Final

from anyrt.core.errors import CompileError, ResourceError
from anyrt.plan.abi import align

_PROT_READ, _PROT_EXEC = 1, 4
_MAP_JIT: Final = 0x0800  # of Darwin
_APPLE: Final = "darwin"
_ARM: Final = ("aarch64", "arm64")


def code_pages(image: bytes) -> tuple[mmap.mmap, int]:
    """Executable pages that hold `image`, and their address; CompileError AR806 if the system forbids
    them."""
    size = align(len(image), mmap.PAGESIZE)
    apple = sys.platform == _APPLE and platform.machine() in _ARM
    pages = private_pages(size, "memory for code", *((_MAP_JIT, _PROT_EXEC) if apple else ()))
    base = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    if apple:
        _write_on_apple(pages, image, base)
        return pages, base
    pages.write(image)
    _protect(base, size)
    if platform.machine() in _ARM:
        _forget_instructions(base, size)
    return pages, base


def private_pages(size: int, what: str, flags: int = 0, more: int = 0) -> mmap.mmap:
    """Readable and writable pages, with the further rights `more`; ResourceError AR802 if there are none."""
    # Private, or a forked child would share them with its parent.
    flags |= mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        return mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE | more)
    except (OSError, MemoryError, OverflowError) as error:
        raise ResourceError("AR802", what, got=str(error), wanted=f"{size:,} bytes") from None


def _protect(address: int, size: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), _PROT_READ | _PROT_EXEC)
    if failed:
        reason = os.strerror(ctypes.get_errno())
        do = "allow this program to execute generated code (SELinux: execmem)"
        raise CompileError("AR806", "memory for code", got=f"mprotect: {reason}", do=do)


def _forget_instructions(address: int, size: int) -> None:
    """Write data back to memory for instruction fetches, and invalidate cached instructions."""
    try:
        flush = ctypes.CDLL("libgcc_s.so.1").__clear_cache
    except (OSError, AttributeError):
        return  # Linux does so itself for pages that become executable for the first time
    flush.argtypes, flush.restype = (ctypes.c_void_p, ctypes.c_void_p), None
    flush(address, address + size)


def _write_on_apple(pages: mmap.mmap, image: bytes, address: int) -> None:
    """Called by a thread that has write access to the pages while it writes."""
    system = ctypes.CDLL(None)
    system.pthread_jit_write_protect_np(0)
    try:
        pages.write(image)
    finally:
        system.pthread_jit_write_protect_np(1)
    system.sys_icache_invalidate(ctypes.c_void_p(address), ctypes.c_size_t(len(image)))
