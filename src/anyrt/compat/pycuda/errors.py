"""The exceptions of pycuda, and the translation of device faults to them.

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
    """The base class of pycuda's exceptions."""


class LogicError(Error, RuntimeError):
    """A call with invalid arguments."""


class LaunchError(Error, RuntimeError):
    """A kernel or graph failed."""


class CompileError(Error):
    """A kernel does not compile."""


class MemoryError(Error, RuntimeError):
    """There is not enough memory."""


_TEXTS = {
    Fault.INVALID_VALUE: "invalid argument",
    Fault.OUT_OF_MEMORY: "out of memory",
    Fault.INVALID_DEVICE: "invalid device ordinal",
    Fault.INVALID_HANDLE: "invalid resource handle",
}


@contextmanager
def calling(name: str) -> Iterator[None]:
    """Translate a fault to pycuda's exception, whose text names the driver function."""
    try:
        yield
    except DeviceFault as fault:
        kind = MemoryError if fault.fault is Fault.OUT_OF_MEMORY else LogicError
        raise kind(f"{name} failed: {_TEXTS[fault.fault]}") from None
