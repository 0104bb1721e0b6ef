"""Copies of memory at addresses that a user passed, which may be invalid.

>>> x = np.arange(3, dtype=np.int32)
>>> read_memory(x.ctypes.data, 12).view(np.int32).tolist()
[0, 1, 2]
>>> read_memory(8, 12) is None
True
"""

from __future__ import annotations

import ctypes
import errno
import os

import numpy as np
import numpy.typing as npt


class _Segment(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("address", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


def read_memory(address: int, nbytes: int) -> npt.NDArray[np.uint8] | None:
    """A copy of the memory there; None if the process has no memory there. If the system does not copy
    between processes, the address cannot be checked, and is read directly."""
    copy = np.empty(nbytes, np.uint8)
    if nbytes == 0:
        return copy
    to, source = _Segment(copy.ctypes.data, nbytes), _Segment(address, nbytes)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        one = ctypes.c_ulong(1)
        done = libc.process_vm_readv(
            os.getpid(), ctypes.byref(to), one, ctypes.byref(source), one, ctypes.c_ulong(0)
        )
    except AttributeError:
        done = -1
        ctypes.set_errno(errno.ENOSYS)
    if done == -1 and ctypes.get_errno() != errno.EFAULT:
        ctypes.memmove(copy.ctypes.data, address, nbytes)
        return copy
    return copy if done == nbytes else None
