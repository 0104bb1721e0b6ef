"""Stand-in for `pycuda.gpuarray`: arrays in device memory with arithmetic by NumPy.

>>> x = to_gpu(np.arange(3))
>>> (2 * x + 1).get(), x[1:].get(), sum(x).get()
(array([1, 3, 5]), array([1, 2]), array(3))
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from anyrt.compat.host.device import DEVICE
from anyrt.compat.pycuda import driver
from anyrt.compat.pycuda.driver import Stream
from anyrt.compat.pycuda.pagelocked import Array, Shape

# Any: elements that NumPy adds and compares, and indices that NumPy accepts.
Held: TypeAlias = npt.NDArray[Any]
Index: TypeAlias = Any
Allocator: TypeAlias = Callable[[int], SupportsIndex] | None
# The other operand of arithmetic; NumPy checks it.
Value: TypeAlias = "GPUArray | npt.ArrayLike"


class GPUArray:
    """An array of `shape` and `dtype` in device memory; slices and reshaped arrays share its memory."""

    def __init__(
        self,
        shape: Shape,
        dtype: npt.DTypeLike,
        allocator: Allocator = None,
        base: object = None,
        gpudata: SupportsIndex | None = None,
        strides: tuple[int, ...] | None = None,
        order: str = "C",
    ) -> None:
        sizes = tuple(int(n) for n in shape) if isinstance(shape, tuple | list) else (int(shape),)
        self.dtype = np.dtype(dtype)
        self.nbytes = math.prod(sizes) * self.dtype.itemsize
        self.gpudata = gpudata
        self.base = base
        if gpudata is None and self.nbytes:
            self.gpudata = (allocator or driver.mem_alloc)(self.nbytes)
        if self.gpudata is None:
            self._held: Held = np.empty(sizes, self.dtype)
        else:
            flat: Held = DEVICE.array(int(self.gpudata), self.nbytes).view(self.dtype)
            self._held = flat.reshape(sizes, order="F" if order == "F" else "C")
        self._tell()

    def _tell(self) -> None:
        self.shape, self.strides, self.flags = self._held.shape, self._held.strides, self._held.flags
        self.ndim, self.size, self.mem_size = self._held.ndim, self._held.size, self._held.size

    def _sharing(self, held: Held) -> GPUArray:
        """An array that shares the memory of this one."""
        shared = GPUArray.__new__(GPUArray)
        shared.dtype, shared.nbytes, shared.base, shared._held = held.dtype, held.nbytes, self, held
        shared.gpudata = held.ctypes.data
        shared._tell()
        return shared

    @property
    def ptr(self) -> int:
        """The address of the first element; 0 if the array is empty."""
        return int(self.gpudata or 0)

    @property
    def T(self) -> GPUArray:
        """The transposed array: its axes in reverse order."""
        return self._sharing(self._held.T)

    def __len__(self) -> int:
        return len(self._held)

    def __getitem__(self, index: Index) -> GPUArray:
        return self._sharing(np.asarray(self._held[index]))

    def __setitem__(self, index: Index, value: Value) -> None:
        self._held[index] = _host(value)

    def __repr__(self) -> str:
        return repr(self._held)

    def set(self, ary: Array, async_: bool = False, stream: Stream | None = None) -> None:
        """Copy `ary` to the device."""
        if (ary.shape, ary.dtype) != (self.shape, self.dtype):
            raise ValueError(f"ary is {ary.shape} {ary.dtype}, not {self.shape} {self.dtype}")
        if self._held.flags.c_contiguous:
            driver.memcpy_htod(self.gpudata, np.ascontiguousarray(ary), stream)
        else:
            self._held[...] = ary

    def set_async(self, ary: Array, stream: Stream | None = None) -> None:
        """Copy `ary` to the device."""
        self.set(ary, stream=stream)

    def get(
        self,
        ary: Array | None = None,
        async_: bool = False,
        stream: Stream | None = None,
        pagelocked: bool = False,
    ) -> Array:
        """Copy the elements to `ary`, by default a new array, and return it."""
        out = np.empty(self.shape, self.dtype) if ary is None else ary
        if self._held.flags.c_contiguous:
            driver.memcpy_dtoh(out, self.gpudata, stream)
        else:
            out[...] = self._held
        return out

    def get_async(self, stream: Stream | None = None, ary: Array | None = None) -> Array:
        """Copy the elements to `ary`, by default a new array, and return it."""
        return self.get(ary, stream=stream)

    def fill(self, value: npt.ArrayLike, stream: Stream | None = None) -> GPUArray:
        """Set every element to `value`."""
        self._held[...] = value
        return self

    def copy(self) -> GPUArray:
        """A copy of the array."""
        return to_gpu(self._held)

    def reshape(self, *shape: int | tuple[int, ...], order: str = "C") -> GPUArray:
        """The elements in another shape."""
        sizes = shape[0] if isinstance(shape[0], tuple | list) else shape
        return self._sharing(self._held.reshape(sizes))  # type: ignore[arg-type]  # numbers, or one tuple

    def ravel(self) -> GPUArray:
        """The elements in one dimension."""
        return self._sharing(self._held.reshape(-1))

    def squeeze(self) -> GPUArray:
        """The array without axes of size 1."""
        return self._sharing(self._held.squeeze())

    def view(self, dtype: npt.DTypeLike | None = None) -> GPUArray:
        """The bytes as elements of another type."""
        return self._sharing(self._held.view(dtype or self.dtype))

    def astype(self, dtype: npt.DTypeLike, stream: Stream | None = None) -> GPUArray:
        """A new array with the elements cast to another type."""
        return to_gpu(self._held.astype(dtype))

    def __abs__(self) -> GPUArray:
        return to_gpu(np.abs(self._held))

    def __neg__(self) -> GPUArray:
        return to_gpu(np.negative(self._held))


def _host(value: Value) -> npt.ArrayLike:
    return value._held if isinstance(value, GPUArray) else value


def _two(
    call: Callable[[npt.ArrayLike, npt.ArrayLike], npt.ArrayLike],
) -> Callable[[GPUArray, Value], GPUArray]:
    def done(self: GPUArray, other: Value) -> GPUArray:
        """The result of NumPy's operator."""
        return to_gpu(np.asarray(call(self._held, _host(other))))

    return done


def _other_way(
    call: Callable[[npt.ArrayLike, npt.ArrayLike], npt.ArrayLike],
) -> Callable[[GPUArray, Value], GPUArray]:
    return _two(lambda a, b: call(b, a))


def _in_place(
    call: Callable[[npt.ArrayLike, npt.ArrayLike], npt.ArrayLike],
) -> Callable[[GPUArray, Value], GPUArray]:
    def done(self: GPUArray, other: Value) -> GPUArray:
        """Apply NumPy's operator in place."""
        self._held[...] = call(self._held, _host(other))
        return self

    return done


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _call = getattr(operator, f"__{_name}__")
    setattr(GPUArray, f"__{_name}__", _two(_call))
    setattr(GPUArray, f"__r{_name}__", _other_way(_call))
    setattr(GPUArray, f"__i{_name}__", _in_place(_call))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(GPUArray, f"__{_name}__", _two(getattr(operator, _name)))
# Arrays that compare element by element have no hash, as in NumPy.
setattr(GPUArray, "__hash__", None)  # noqa: B010  # mypy rejects an assignment


def to_gpu(ary: Array, allocator: Allocator = None, stream: Stream | None = None) -> GPUArray:
    """A new array with a copy of the elements of `ary`."""
    there = GPUArray(ary.shape, ary.dtype, allocator)
    there.set(ary, stream=stream)
    return there


to_gpu_async, empty = to_gpu, GPUArray


def zeros(
    shape: Shape, dtype: npt.DTypeLike = np.float64, allocator: Allocator = None, order: str = "C"
) -> GPUArray:
    """A new array of zeros."""
    return GPUArray(shape, dtype, allocator, order=order).fill(0)


def ones(
    shape: Shape, dtype: npt.DTypeLike = np.float64, allocator: Allocator = None, order: str = "C"
) -> GPUArray:
    """A new array of ones."""
    return GPUArray(shape, dtype, allocator, order=order).fill(1)


def empty_like(other: GPUArray) -> GPUArray:
    """A new uninitialised array like `other`."""
    return GPUArray(other.shape, other.dtype)


def zeros_like(other: GPUArray) -> GPUArray:
    """A new array of zeros like `other`."""
    return zeros(other.shape, other.dtype)


def ones_like(other: GPUArray) -> GPUArray:
    """A new array of ones like `other`."""
    return ones(other.shape, other.dtype)


def arange(*args: float, dtype: npt.DTypeLike | None = None) -> GPUArray:
    """Evenly spaced numbers."""
    return to_gpu(np.arange(*args, dtype=dtype))


def sum(a: GPUArray, dtype: npt.DTypeLike | None = None, stream: Stream | None = None) -> GPUArray:
    """The sum of all elements."""
    return to_gpu(np.asarray(np.sum(a._held, dtype=dtype or a.dtype)))


def dot(
    a: GPUArray, b: GPUArray, dtype: npt.DTypeLike | None = None, stream: Stream | None = None
) -> GPUArray:
    """The sum of the products of all elements."""
    return to_gpu(np.asarray(np.vdot(a._held, b._held), dtype))


def max(a: GPUArray, stream: Stream | None = None) -> GPUArray:
    """The largest element."""
    return to_gpu(np.asarray(np.max(a._held)))


def min(a: GPUArray, stream: Stream | None = None) -> GPUArray:
    """The smallest element."""
    return to_gpu(np.asarray(np.min(a._held)))


def maximum(a: GPUArray, b: GPUArray | float, stream: Stream | None = None) -> GPUArray:
    """The element-wise maximum."""
    return to_gpu(np.asarray(np.maximum(a._held, _host(b))))


def minimum(a: GPUArray, b: GPUArray | float, stream: Stream | None = None) -> GPUArray:
    """The element-wise minimum."""
    return to_gpu(np.asarray(np.minimum(a._held, _host(b))))
