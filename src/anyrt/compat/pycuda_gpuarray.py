"""Stand-in for `pycuda.gpuarray`: arrays in device memory, to fill and to read back; no arithmetic.

>>> to_gpu(np.arange(3)).get()
array([0, 1, 2])
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from anyrt.compat import pycuda_driver as driver
from anyrt.compat.pycuda_driver import Array, Shape, Stream


class GPUArray:
    """An array of `shape` and `dtype` in device memory, C-contiguous."""

    def __init__(self, shape: Shape, dtype: npt.DTypeLike) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = np.dtype(dtype)
        self.size = math.prod(self.shape)
        self.nbytes = self.size * self.dtype.itemsize
        self.gpudata = driver.mem_alloc(self.nbytes) if self.nbytes else None

    @property
    def ptr(self) -> int:
        """The address of the first element, 0 when there is none."""
        return int(self.gpudata or 0)

    def __len__(self) -> int:
        return self.shape[0]

    def set(self, ary: Array, stream: Stream | None = None) -> None:
        """Copy `ary` to the device."""
        if (ary.shape, ary.dtype) != (self.shape, self.dtype):
            raise ValueError(f"ary is {ary.shape} {ary.dtype}, not {self.shape} {self.dtype}")
        driver.memcpy_htod(self.gpudata, ary, stream)

    def get(self, ary: Array | None = None, stream: Stream | None = None) -> Array:
        """The elements, in `ary` or in a new array."""
        out = np.empty(self.shape, self.dtype) if ary is None else ary
        driver.memcpy_dtoh(out, self.gpudata, stream)
        return out

    def fill(self, value: object) -> GPUArray:
        """Set every element to `value`."""
        self.set(np.full(self.shape, value, self.dtype))
        return self


def to_gpu(ary: Array, stream: Stream | None = None) -> GPUArray:
    """A new array with the elements of `ary`."""
    there = GPUArray(ary.shape, ary.dtype)
    there.set(np.ascontiguousarray(ary), stream)
    return there


to_gpu_async, empty = to_gpu, GPUArray


def zeros(shape: Shape, dtype: npt.DTypeLike = np.float64) -> GPUArray:
    """A new array of zeros."""
    return GPUArray(shape, dtype).fill(0)


def empty_like(other: GPUArray) -> GPUArray:
    """A new array like `other`."""
    return GPUArray(other.shape, other.dtype)


def zeros_like(other: GPUArray) -> GPUArray:
    """A new array of zeros like `other`."""
    return zeros(other.shape, other.dtype)
