"""A device whose memory comes from the user's allocator."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from anyrt.api.edge.interfaces import IGpuAllocator, IGpuAsyncAllocator, call_user
from anyrt.core.errors import BindingError, ResourceError
from anyrt.plan.abi import ALIGNMENT
from anyrt.plan.device import Code, Device, Memory, Reserve
from anyrt.plan.program import Compiled
from anyrt.runtime import reach


class Block:
    """Memory of a user's allocator, freed when this object is collected."""

    def __init__(self, address: int, nbytes: int, release: Callable[[int], object]) -> None:
        self.address = address
        self.nbytes = nbytes
        if address:
            weakref.finalize(self, call_user, None, release, address)

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """The memory as an array, which keeps the block alive."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.nbytes).from_address(self.address))


class AllocatedDevice:
    """Executes code on `device`, in memory of `allocator`."""

    def __init__(self, device: Device, allocator: IGpuAllocator) -> None:
        self._device = device
        self._allocator = allocator

    def identity(self) -> str:
        """The identity of `device`."""
        return self._device.identity()

    def load(self, compiled: Compiled) -> Code:
        """Load code with `device`."""
        return self._device.load(compiled)

    def reserve(self, nbytes: int) -> Reserve:
        """Reserve addresses with `device`, since an allocator only provides memory."""
        return self._device.reserve(nbytes)

    def allocate(self, nbytes: int) -> Block:
        """Allocate a block; ResourceError if the allocator returns none."""
        if not nbytes:
            return Block(0, 0, lambda address: None)
        allocator = self._allocator
        if isinstance(allocator, IGpuAsyncAllocator):
            # TensorRT passes the stream before the flags.
            address = call_user(None, allocator.allocate_async, nbytes, ALIGNMENT, 0, 0)
        else:
            address = call_user(None, allocator.allocate, nbytes, ALIGNMENT, 0)
        if not address:
            raise ResourceError(
                "AR802",
                "gpu_allocator",
                "no memory",
                f"{nbytes:,} bytes",
                "return the address of a block of this size, or use smaller shapes",
            )
        lacks = reach.lack(int(address), nbytes, writes=True)
        if lacks:
            got, wanted = f"address {int(address):#x}, {lacks}", f"an address of {nbytes:,} bytes"
            raise BindingError("AR712", "gpu_allocator", got, wanted)
        return Block(int(address), nbytes, self._release)

    def _release(self, address: int) -> object:
        if isinstance(self._allocator, IGpuAsyncAllocator):
            return self._allocator.deallocate_async(address, 0)
        return self._allocator.deallocate(address)

    def write(self, memory: Memory, content: NDArray[np.uint8]) -> None:
        """Copy bytes to the beginning of a block."""
        ctypes.memmove(memory.address, content.ctypes.data, content.nbytes)
