"""The interface of a device for the runtime: memory, and compiled code as callables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from anyrt.plan.program import Compiled


class Memory(Protocol):
    """Memory of a device, `ALIGNMENT` aligned, freed when nobody holds the object any more."""

    @property
    def address(self) -> int:
        """Its address; 0 if it has no bytes."""

    @property
    def nbytes(self) -> int:
        """Its size."""

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        """All of it, for reading and writing."""


class Reserve(Protocol):
    """Addresses for many bytes, which take memory only where something was written: 0 elsewhere."""

    @property
    def address(self) -> int:
        """The address, aligned to a page of the system."""

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        """All of them, for writing."""

    def release(self, begin: int, end: int) -> None:
        """Free the memory of these bytes, which are whole pages of the system."""


class Code(Protocol):
    """Compiled code in memory; it stays mapped as long as this object is held; its functions do not hold
    it."""

    def address(self, entry: str) -> int:
        """The address of `entry`."""

    def function(self, entry: str, arguments: int) -> Callable[..., int]:
        """`entry` as a callable with so many 64-bit arguments that returns an int32; it releases the GIL."""


class Device(Protocol):
    """Runs compiled code."""

    def identity(self) -> str:
        """The identity of the processor, determined without a compiler: part of the key of its code."""

    def load(self, compiled: Compiled) -> Code:
        """Map code for execution; CompileError if the system refuses."""

    def write(self, memory: Memory, content: npt.NDArray[np.uint8]) -> None:
        """Copy bytes of the host to the start of `memory`."""

    def reserve(self, nbytes: int) -> Reserve:
        """Addresses without memory; ResourceError AR802 if there are none."""

    def allocate(self, nbytes: int) -> Memory:
        """New memory, its content undefined; ResourceError AR802 if there is none."""
