"""What pycuda raises, and faults of the device as these.

>>> with calling("cuMemFree"):
...     DEVICE.release(8)
Traceback (most recent call last):
anyrt.compat.pycuda.errors.LogicError: cuMemFree failed: invalid argument
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anyrt.compat.host.device import DEVICE as DEVICE
from anyrt.compat.host.device import DeviceFault, Fault

__all__ = ["CompileError", "Error", "LaunchError", "LogicError", "MemoryError"]


class Error(Exception):
    """What pycuda raises."""


class LogicError(Error, RuntimeError):
    """A call with invalid arguments."""


class LaunchError(Error, RuntimeError):
    """Work that failed."""


class CompileError(Error):
    """A kernel that is none."""


class MemoryError(Error, RuntimeError):
    """No memory is left."""


_TEXTS = {
    Fault.INVALID_VALUE: "invalid argument",
    Fault.OUT_OF_MEMORY: "out of memory",
    Fault.INVALID_DEVICE: "invalid device ordinal",
    Fault.INVALID_HANDLE: "invalid resource handle",
}


@contextmanager
def calling(name: str) -> Iterator[None]:
    """Turn a fault into pycuda's exception, which names the driver's function."""
    try:
        yield
    except DeviceFault as fault:
        kind = MemoryError if fault.fault is Fault.OUT_OF_MEMORY else LogicError
        raise kind(f"{name} failed: {_TEXTS[fault.fault]}") from None
