"""Requests Linux's permission for the registers of matrix tiles (AMX), which a process needs to use them.

arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), Linux kernel documentation, "Using XSTATE features in
user space applications".
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from typing import Final

ARCH_PRCTL: Final = 158  # the number of the system call on x86-64
REQUEST: Final = 0x1023
TILE_DATA: Final = 18


@cache
def permit_tiles() -> bool:
    """True if this process may use them; requested once."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        return bool(ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST, TILE_DATA) == 0)
    except (OSError, AttributeError):  # no C library with system calls
        return False
