"""The functions that the executor and the pool require of AArch64 (`system.py`), and the compile options for
Apple silicon.

There is no inline assembly: LLVM assembles it only for the machine that it runs on, and code for this
processor is generated, and tested, on others.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Final

from anyrt.backends.cpu import linux

# FPCR (Arm Architecture Reference Manual, C5.2.8): 0 rounds to the nearest, keeps subnormal numbers of all
# types and NaN as they are, and raises nothing.
CONTROL: Final = """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal i64 @asked() alwaysinline {
  %asked = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %asked
}
define internal i1 @usual(i64 %asked) alwaysinline {
  %usual = icmp eq i64 %asked, 0
  ret i1 %usual
}
define internal void @ask(i64 %asked) alwaysinline {
  call void @llvm.aarch64.set.fpcr(i64 %asked)
  ret void
}
"""
USUAL: Final = 0

# The counter ticks 24 million to 1000 million times a second, as CNTFRQ_EL0 states: converted to ticks of 0.5
# ns.
WAITING: Final = """
declare void @llvm.aarch64.hint(i32)
declare i64 @llvm.read_volatile_register.i64(metadata)
declare i64 @llvm.read_register.i64(metadata)
declare i64 @llvm.umax.i64(i64, i64)

define internal void @pause() alwaysinline {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}
define internal i64 @clock(i64 %before) noinline {
  %ticks = call i64 @llvm.read_volatile_register.i64(metadata !0)
  %told = call i64 @llvm.read_register.i64(metadata !1)
  %rate = call i64 @llvm.umax.i64(i64 %told, i64 1)
  %each = udiv i64 2000000000, %rate
  %now = mul i64 %ticks, %each
  ret i64 %now
}
!0 = !{!"cntvct_el0"}
!1 = !{!"cntfrq_el0"}
"""

# A system call takes its number in x8 and its arguments from x0 on; functions take all from x0 on. The words
# are called in place, among the constants, which an image has in pages of code.
_SYSTEM: Final = """
@system = internal constant [7 x i32] [
  i32 u0xAA0003E8,  ; mov x8, x0
  i32 u0xAA0103E0,  ; mov x0, x1
  i32 u0xAA0203E1,  ; mov x1, x2
  i32 u0xAA0303E2,  ; mov x2, x3
  i32 u0xAA0403E3,  ; mov x3, x4
  i32 u0xD4000001,  ; svc #0
  i32 u0xD65F03C0   ; ret
], align 4
define internal i64 @here() noinline {
  %place = alloca i32, align 4
  %at = ptrtoint ptr %place to i64
  %r = call i64 @system(i64 168, i64 %at, i64 0, i64 0, i64 0)
  %number = load i32, ptr %place
  %cpu = zext i32 %number to i64
  ret i64 %cpu
}
"""
LINUX: Final = WAITING + _SYSTEM + linux.calls(futex=98, yield_=124, setaffinity=122, getaffinity=123)

# Images consist of ELF objects, whatever the format of the system: AArch64 has one calling convention, except
# for variadic functions. Darwin reserves x18. Written, never run: see `codepages.py`.
APPLE: Final = "aarch64-unknown-none-elf"
APPLE_NEEDS: Final = {"reserve-x18": True, "dotprod": True}  # in LLVM's words; all have SDOT

# Words of the auxiliary vector, AT_HWCAP and AT_HWCAP2, and their bits (Linux kernel documentation, "ARM64
# ELF hwcaps"): LLVM 22 reads other features off /proc/cpuinfo, but not these.
_HWCAPS: Final = {"dotprod": (16, 20), "i8mm": (26, 13), "bf16": (26, 14)}


@cache
def dots() -> Mapping[str, bool]:
    """The instructions for dots and small matrices that Linux lets this process use, by LLVM's names."""
    try:
        auxiliary = ctypes.CDLL(None).getauxval
    except (OSError, AttributeError):  # no C library of Linux
        return {}
    auxiliary.restype, auxiliary.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return {name: bool(auxiliary(word) >> bit & 1) for name, (word, bit) in _HWCAPS.items()}
