"""Weights: borrowed memory with an element type.

>>> array = np.array([1.0, 2.0], np.float32)
>>> weights = Weights(array)
>>> array[0] = 5
>>> weights.numpy(), len(weights), weights.dtype
(array([5., 2.], dtype=float32), 2, <DataType.FLOAT: 0>)
"""

from __future__ import annotations

import ctypes
import mmap
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from anyrt.api.edge.fixed import Fixed
from anyrt.api.edge.fold import fold
from anyrt.api.edge.oneline import one_line
from anyrt.api.edge.quiet import WrongType, type_name, wrong_type
from anyrt.core.dtype import from_numpy, is_packed, numpy_dtype, short_name, storage_bytes, unpack4
from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError, DTypeError
from anyrt.core.units import counted

Array = NDArray[np.generic]
PAGE = mmap.PAGESIZE
SHORT = 1 << 12  # bytes
# The element types of NumPy itself; `Weights.numpy` returns `Weights` for the others.
PLAIN = frozenset(
    {
        DataType.FLOAT,
        DataType.HALF,
        DataType.INT8,
        DataType.INT32,
        DataType.INT64,
        DataType.BOOL,
        DataType.UINT8,
        DataType.DOUBLE,
        DataType.INT16,
        DataType.UINT16,
        DataType.UINT32,
        DataType.UINT64,
    }
)


@fold
class Weights(Fixed):
    """An array, or a type with an address and a count. Nothing is copied; an array is kept alive.

    `Weights(array)`; `Weights(type, ptr, count)`, whose memory must stay alive; `Weights(type)`: empty.
    """

    __slots__ = ("__weakref__", "_array", "_count", "_dtype", "_ptr", "_seen")

    def __init__(
        self,
        type: DataType | Array = DataType.FLOAT,
        ptr: int | None = None,
        count: int | None = None,
        *,
        a: Array | None = None,
    ) -> None:
        array = type if isinstance(type, np.ndarray) else a
        self._array: Array | None = None
        self._ptr = 0
        self._seen: bytes | bool | None = None
        if array is not None:
            self._hold(_plain(array))
            return
        if not isinstance(type, DataType) or (ptr is None) != (count is None):
            raise wrong_type("Weights", type, "an array, a DataType, or a DataType with ptr and count")
        self._dtype = type
        self._count = 0
        if ptr is not None and count is not None:
            self._borrow(ptr, count)

    def _hold(self, array: Array) -> None:
        if not array.flags.c_contiguous:
            got, do = f"an array of strides {array.strides}", "pass np.ascontiguousarray(array)"
            raise ArgumentError("AR307", "Weights", got=got, wanted="a C-contiguous array", do=do)
        try:
            self._dtype = from_numpy(array.dtype)
        except DTypeError as error:
            raise ArgumentError("AR304", "Weights", got=error.got, wanted=error.wanted, do=error.do) from None
        self._array = array
        self._count = array.size
        self._ptr = int(array.ctypes.data)

    def _borrow(self, ptr: SupportsIndex, count: int) -> None:
        if not isinstance(ptr, SupportsIndex) or not isinstance(count, int):
            raise wrong_type("Weights", ptr, "an address and a count as ints")
        if count < 0 or (count > 0 and int(ptr) <= 0):
            got = f"{count} elements at address {int(ptr)}"
            raise ArgumentError(
                "AR307", "Weights", got, "allocated memory", "pass the address and the count of an array"
            )
        self._count = count
        self._ptr = int(ptr)

    @property
    def dtype(self) -> DataType:
        """The element type."""
        return self._dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of memory; types of 4 bits take half a byte each."""
        return storage_bytes(self._dtype, self._count)

    @property
    def address(self) -> int:
        """The address of the memory; 0 if empty."""
        return self._ptr

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return True

    @one_line
    def __repr__(self) -> str:
        return (
            f": {short_name(self._dtype)}, {counted(self._count, 'element')}, {counted(self.nbytes, 'byte')}"
        )

    def numpy(self) -> Array | Weights:
        """A one-dimensional view of the memory; these weights themselves if NumPy lacks the type."""
        return self.elements() if self._dtype in PLAIN else self

    def elements(self) -> Array:
        """All elements in one dimension, as `numpy_dtype(dtype)`: a view, or a copy of packed memory."""
        array = self._view() if self._array is None else self._array
        return array if array.ndim == 1 else array.reshape(-1)

    def _check_memory(self) -> None:
        """AR307 for memory that was returned to the system: reading it would end the process."""
        first, last = self._ptr // PAGE, (self._ptr + self.nbytes - 1) // PAGE
        try:
            with open("/proc/self/mem", "rb", 0) as memory:
                for page in range(first, last + 1):
                    memory.seek(max(page * PAGE, self._ptr))
                    memory.read(1)
        except FileNotFoundError:  # this system has no such file
            return
        except (OSError, OverflowError, ValueError):
            got, do = (
                f"{self.nbytes} bytes at address {self._ptr:#x}",
                "keep the array alive until the build",
            )
            raise ArgumentError("AR307", "Weights", got, "readable memory", do) from None

    def _view(self) -> Array:
        data = np.empty(0, np.uint8)
        if self._count and not self._ptr:
            do = "pass Weights(type, ptr, count) or an array"
            raise ArgumentError(
                "AR307", "Weights", "a prototype without elements", "weights with elements", do
            )
        if self._count:
            self._check_memory()
            data = np.ctypeslib.as_array((ctypes.c_ubyte * self.nbytes).from_address(self._ptr))
        if is_packed(self._dtype):
            return unpack4(data, self._count, self._dtype)
        return data.view(numpy_dtype(self._dtype))


def described_weights(dtype: DataType, count: int) -> Weights:
    """A type and a count without memory."""
    weights = Weights(dtype)
    weights._count = count
    return weights


def is_steady(weights: Weights) -> bool:
    """Whether the elements are known to be unchanged since the first call. The memory of a file or a message
    is read-only; other weights are compared if they are short, and count as changed otherwise."""
    array = weights._array
    now = array is not None and (_is_fixed(array) or _short(array))
    weights._seen = now if weights._seen in (None, now) else False
    return weights._seen is not False


def fixed(array: Array) -> Array:
    """The same elements; many of them in read-only memory, so that `is_steady` need not compare them."""
    if array.nbytes <= SHORT or _is_fixed(array):
        return array
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)


def _is_fixed(array: Array) -> bool:
    """Whether nothing in Python can write to the memory of an array."""
    base: object = array
    while isinstance(base, np.ndarray) and not base.flags.writeable:
        base = base.base
    return isinstance(base, bytes) or (isinstance(base, memoryview) and base.readonly)


def _short(array: Array) -> bytes | bool:
    """The bytes of the elements; False if they are more than `SHORT`."""
    return array.nbytes <= SHORT and array.tobytes()


def _plain(array: object) -> Array:
    """`array` as NumPy's own class. AR311 for a matrix, which is never flat, and for a masked array, which
    hides elements of its memory."""
    if type(array) is np.ndarray:
        return array
    if not isinstance(array, np.ndarray):
        raise wrong_type("Weights", array, "an array")
    if isinstance(array, np.matrix | np.ma.MaskedArray):
        do = "pass numpy.asarray(matrix)" if isinstance(array, np.matrix) else "pass array.filled(value)"
        raise ArgumentError("AR311", "Weights", got=type_name(array), wanted="a plain NumPy array", do=do)
    return np.asarray(array)


def to_weights(x: object, where: str, empty: DataType = DataType.FLOAT) -> Weights:
    """`x` as weights: an array is converted, None is empty; TypeError for any other type."""
    if isinstance(x, Weights):
        return x
    if x is None:
        return Weights(empty)
    if not isinstance(x, np.ndarray):
        raise wrong_type(where, x, "Weights or a NumPy array", "write numpy.asarray(values, numpy.float32)")
    try:
        return Weights(x)
    except ArgumentError as error:
        wrong = ArgumentError("AR311", where, error.got, error.wanted or "Weights", error.do)
        raise WrongType(wrong) from None
