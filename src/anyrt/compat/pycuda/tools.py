"""Stand-in for `pycuda.tools`: pools that free memory at once, and the context, which always exists.

>>> DeviceMemoryPool().allocate(8).free()
"""

from __future__ import annotations

import numpy.typing as npt

from anyrt.compat.pycuda.driver import Array, Context, Device, DeviceAllocation, Shape, pagelocked_empty


class DeviceMemoryPool:
    """A pool of device memory, which keeps no freed memory."""

    held_blocks = active_blocks = 0

    def allocate(self, size: int) -> DeviceAllocation:
        """Allocate device memory."""
        return DeviceAllocation(int(size))

    def free_held(self) -> None:
        """Do nothing: the pool keeps no memory."""

    stop_holding = free_held


class PageLockedMemoryPool:
    """A pool of host memory, which keeps no freed memory."""

    held_blocks = active_blocks = 0

    def allocate(self, shape: Shape, dtype: npt.DTypeLike, order: str = "C") -> Array:
        """A new array."""
        return pagelocked_empty(shape, dtype, order)

    def free_held(self) -> None:
        """Do nothing: the pool keeps no memory."""

    stop_holding = free_held


def make_default_context(ctx_maker: object = None) -> Context:
    """The context."""
    return Device(0).make_context()


def get_default_device(default: int = 0) -> Device:
    """The device."""
    return Device(default)


def clear_context_caches() -> None:
    """Do nothing: contexts have no caches."""
