"""The arrays of `pycuda.driver` in host memory: page-locked, managed, aligned, registered.

>>> array = pagelocked_zeros(3, np.float32)
>>> array.tolist(), array.base.get_device_pointer() == array.ctypes.data
([0.0, 0.0, 0.0], True)
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from anyrt.compat.host.device import DEVICE

Array = npt.NDArray[np.generic]
Shape = int | tuple[int, ...]


class PagelockedHostAllocation:
    """The base of an array of `pagelocked_empty`; no page is locked, since no copy needs it."""

    def __init__(self, nbytes: int) -> None:
        self.size = nbytes
        self._address = DEVICE.allocate(max(nbytes, 1), on_device=False)
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (self._address, False),
        }

    def array(self, shape: tuple[int, ...], dtype: np.dtype[np.generic], order: str) -> Array:
        """An array with this object as its base."""
        if dtype.kind in "biufc":
            strides = _steps(shape, dtype.itemsize, order)
            self.__array_interface__ |= {"shape": shape, "typestr": dtype.str, "strides": strides}
            return np.asarray(self)
        # NumPy has no letter for types such as those of ml_dtypes: then the base of the view is an array.
        flat: Array = np.asarray(self).view(dtype)
        return flat.reshape(shape, order="F" if order == "F" else "C")

    def get_device_pointer(self) -> int:
        """The device address: the address of the array."""
        return self._address

    def get_flags(self) -> int:
        """The flags: none."""
        return 0

    def attach(self, mem_flags: int, stream: object = None) -> None:
        """Do nothing: managed memory is in one place."""

    def free(self) -> None:
        """Free the memory now."""
        if self._address:
            DEVICE.release(self._address, on_device=False)
            self._address = 0

    def __del__(self) -> None:
        self.free()


def _steps(shape: tuple[int, ...], itemsize: int, order: str) -> tuple[int, ...]:
    sizes = list(shape) if order == "F" else list(reversed(shape))
    steps = [itemsize * math.prod(sizes[:i]) for i in range(len(sizes))]
    return tuple(steps if order == "F" else reversed(steps))


class host_alloc_flags:
    """Flags of host memory, which have no effect."""

    PORTABLE, DEVICEMAP, WRITECOMBINED = 1, 2, 4


class mem_host_register_flags:
    """Flags of registered memory, which have no effect."""

    PORTABLE, DEVICEMAP = 1, 2


class mem_attach_flags:
    """The first user of managed memory, which has no effect."""

    GLOBAL, HOST, SINGLE = 1, 2, 4


def pagelocked_empty(shape: Shape, dtype: npt.DTypeLike, order: str = "C", mem_flags: int = 0) -> Array:
    """A new uninitialised array; `base.get_device_pointer()` is its device address."""
    sizes, kind = _sizes(shape), np.dtype(dtype)
    return PagelockedHostAllocation(math.prod(sizes) * kind.itemsize).array(sizes, kind, order)


def _sizes(shape: Shape) -> tuple[int, ...]:
    return tuple(int(n) for n in shape) if isinstance(shape, tuple | list) else (int(shape),)


def pagelocked_zeros(shape: Shape, dtype: npt.DTypeLike, order: str = "C", mem_flags: int = 0) -> Array:
    """A new array of zeros."""
    out = pagelocked_empty(shape, dtype, order, mem_flags)
    out[...] = 0
    return out


def pagelocked_empty_like(array: Array, mem_flags: int = 0) -> Array:
    """A new uninitialised array like another."""
    return pagelocked_empty(array.shape, array.dtype, _order(array), mem_flags)


def pagelocked_zeros_like(array: Array, mem_flags: int = 0) -> Array:
    """A new array of zeros like another."""
    return pagelocked_zeros(array.shape, array.dtype, _order(array), mem_flags)


def _order(array: Array) -> str:
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


managed_empty, managed_zeros = pagelocked_empty, pagelocked_zeros
managed_empty_like, managed_zeros_like = pagelocked_empty_like, pagelocked_zeros_like


def aligned_empty(shape: Shape, dtype: npt.DTypeLike, order: str = "C", alignment: int = 4096) -> Array:
    """A new uninitialised array whose address is a multiple of `alignment`."""
    sizes, kind = _sizes(shape), np.dtype(dtype)
    nbytes = math.prod(sizes) * kind.itemsize
    memory = np.empty(nbytes + alignment, np.uint8)
    start = -memory.ctypes.data % alignment
    flat: Array = memory[start : start + nbytes].view(kind)
    return flat.reshape(sizes, order="F" if order == "F" else "C")


def aligned_zeros(shape: Shape, dtype: npt.DTypeLike, order: str = "C", alignment: int = 4096) -> Array:
    """A new array of zeros whose address is a multiple of `alignment`."""
    out = aligned_empty(shape, dtype, order, alignment)
    out[...] = 0
    return out


def register_host_memory(ary: Array, flags: int = 0) -> Array:
    """A view of the array whose `base` is a `RegisteredHostMemory`, as in pycuda."""
    return np.asarray(RegisteredHostMemory(ary))


class RegisteredHostMemory:
    """The base of a registered array; the array keeps its own memory."""

    def __init__(self, ary: Array) -> None:
        self._array = ary
        self.__array_interface__ = ary.__array_interface__

    def get_device_pointer(self) -> int:
        """The device address: the address of the array."""
        return self._array.ctypes.data

    def unregister(self) -> None:
        """Do nothing: no page is locked."""
