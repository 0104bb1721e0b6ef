"""Bytes that AnyRT returns: plans and timing caches.

>>> memory = IHostMemory(b"abc")
>>> bytes(memory), memoryview(memory).shape, len(memory), memory.nbytes, memory.dtype
(b'abc', (3,), 3, 3, <DataType.INT8: 2>)
"""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.fold import fold
from anyrt.api.edge.managed import Managed
from anyrt.core.enums import DataType
from anyrt.core.pages import collapse_pages, prefer_large_pages
from anyrt.plan.abi import ALIGNMENT
from anyrt.plan.file import PlanParts


@fold
class IHostMemory(bytearray, Fixed, Managed):
    """A one-dimensional buffer: `bytes(m)`, `memoryview(m)`, `f.write(m)`, `np.frombuffer(m, np.uint8)`.

    An engine that is deserialized from it uses the weights in place, so the bytes must not change.

    It is a bytearray, since Python classes can export buffers only from Python 3.12 on. Comparison by content
    is disabled: two objects are never equal, none is less, each is true, as in TensorRT.
    """

    __slots__ = ("__weakref__",)

    def __init__(self, content: bytes | PlanParts = b"") -> None:
        size = content.nbytes if isinstance(content, PlanParts) else len(content)
        # Allocated at once and before the copy, so that a large plan is in memory once; and untouched, so
        # that its pages can be large from the start. Cutting off bytes in front aligns it and moves nothing;
        # only short objects are moved when the rest is cut off.
        bytearray.__init__(self)
        _resize(self, size + ALIGNMENT)
        del self[: -_address(self) % ALIGNMENT]
        del self[size:]
        if size:
            prefer_large_pages(_address(self), size)
            _fill(np.frombuffer(self, np.uint8), content)
            collapse_pages(_address(self), size)

    __hash__ = object.__hash__  # type: ignore[assignment]  # compared by identity, see above
    __eq__ = object.__eq__
    __ne__ = object.__ne__

    def __lt__(self, other: object) -> bool:
        return NotImplemented

    __le__ = __gt__ = __ge__ = __lt__

    def __bool__(self) -> bool:
        return True

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return len(self)

    @property
    def dtype(self) -> DataType:
        """The type of an element."""
        return DataType.INT8

    def __repr__(self) -> str:
        return f"<IHostMemory of {self.nbytes} bytes>"

    __str__ = __repr__


def _fill(memory: NDArray[np.uint8], content: bytes | PlanParts) -> None:
    if isinstance(content, PlanParts):
        content.write(memory)
    else:
        memory[:] = np.frombuffer(content, np.uint8)


def _address(content: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(content))


def _resize(content: bytearray, size: int) -> None:
    """Resize to `size` uninitialised bytes: `bytearray(size)` would write zeros."""
    ctypes.pythonapi.PyByteArray_Resize(ctypes.py_object(content), ctypes.c_ssize_t(size))
