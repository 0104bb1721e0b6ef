"""Stand-in for `pycuda.tools`: pools that give memory back at once, and contexts, which always exist.

>>> DeviceMemoryPool().allocate(8).free()
"""

from __future__ import annotations

import numpy.typing as npt

from anyrt.compat.pycuda.driver import Array, Context, Device, DeviceAllocation, Shape, pagelocked_empty


class DeviceMemoryPool:
    """Device memory; none is kept for later."""

    held_blocks = active_blocks = 0

    def allocate(self, size: int) -> DeviceAllocation:
        """New device memory."""
        return DeviceAllocation(int(size))

    def free_held(self) -> None:
        """Nothing is held."""

    stop_holding = free_held


class PageLockedMemoryPool:
    """Host memory; none is kept for later."""

    held_blocks = active_blocks = 0

    def allocate(self, shape: Shape, dtype: npt.DTypeLike, order: str = "C") -> Array:
        """A new array."""
        return pagelocked_empty(shape, dtype, order)

    def free_held(self) -> None:
        """Nothing is held."""

    stop_holding = free_held


def make_default_context(ctx_maker: object = None) -> Context:
    """The context."""
    return Device(0).make_context()


def get_default_device(default: int = 0) -> Device:
    """The device."""
    return Device(default)


def clear_context_caches() -> None:
    """Nothing is kept for a context."""
