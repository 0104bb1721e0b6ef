"""System calls of threads on Linux, as LLVM text: the same calls on every processor, with different numbers.

`@system(number, four arguments)` makes a call; each processor's file defines it. The numbers are those of
the kernel's tables (`arch/x86/entry/syscalls/syscall_64.tbl`, `include/uapi/asm-generic/unistd.h`).
"""

from __future__ import annotations

from typing import Final

MASK_BYTES: Final = 1024  # 8192 processors, as many as the kernel can be built for
_WAIT_PRIVATE, _WAKE_PRIVATE = 128, 129

_TEXT: Final = """
define internal i1 @sleep(ptr %word, i64 %seen) alwaysinline {{
  %at = ptrtoint ptr %word to i64
  %r = call i64 @system(i64 {futex}, i64 %at, i64 {wait}, i64 %seen, i64 0)
  ret i1 true
}}
define internal void @wake(ptr %word, i64 %count) noinline {{
  %at = ptrtoint ptr %word to i64
  %r = call i64 @system(i64 {futex}, i64 %at, i64 {wake}, i64 %count, i64 0)
  ret void
}}
define internal void @yield() noinline {{
  %r = call i64 @system(i64 {yield_}, i64 0, i64 0, i64 0, i64 0)
  ret void
}}
define internal i64 @allowed(ptr %mask) alwaysinline {{
  %at = ptrtoint ptr %mask to i64
  %r = call i64 @system(i64 {getaffinity}, i64 0, i64 {bytes}, i64 %at, i64 0)
  ret i64 %r
}}
define internal i64 @allow(ptr %mask, i64 %bytes) alwaysinline {{
  %at = ptrtoint ptr %mask to i64
  %r = call i64 @system(i64 {setaffinity}, i64 0, i64 %bytes, i64 %at, i64 0)
  ret i64 %r
}}
"""


def calls(futex: int, yield_: int, setaffinity: int, getaffinity: int) -> str:
    """Sleeping, waking, yielding and migration, with these numbers."""
    return _TEXT.format(
        futex=futex,
        wait=_WAIT_PRIVATE,
        wake=_WAKE_PRIVATE,
        yield_=yield_,
        setaffinity=setaffinity,
        getaffinity=getaffinity,
        bytes=MASK_BYTES,
    )
