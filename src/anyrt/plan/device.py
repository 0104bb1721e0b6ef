"""What the runtime asks of a device: memory, and compiled code made callable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from anyrt.plan.program import Compiled


class Memory(Protocol):
    """Memory of a device, `ALIGNMENT` aligned, given back when nobody holds the object any more."""

    @property
    def address(self) -> int:
        """Where it begins; 0 when it has no bytes."""

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
        """Where they begin, with a page of the system."""

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        """All of them, for writing."""

    def release(self, begin: int, end: int) -> None:
        """Give back the memory of these bytes, which are whole pages of the system."""


class Code(Protocol):
    """Compiled code in memory; stays there as long as this object is held; its functions do not hold it."""

    def address(self, entry: str) -> int:
        """Where `entry` begins."""

    def function(self, entry: str, arguments: int) -> Callable[..., int]:
        """`entry` as a callable of so many 64-bit arguments that gives an int32; no GIL is held inside."""


class Device(Protocol):
    """Runs compiled code."""

    def identity(self) -> str:
        """Which processor it is, told without a compiler: part of the name under which its code is kept."""

    def load(self, compiled: Compiled) -> Code:
        """Map code for execution; CompileError when the system refuses."""

    def write(self, memory: Memory, content: npt.NDArray[np.uint8]) -> None:
        """Copy bytes of the host to the start of `memory`."""

    def reserve(self, nbytes: int) -> Reserve:
        """Addresses without memory; ResourceError AR802 when there are none."""

    def allocate(self, nbytes: int) -> Memory:
        """New memory, its content undefined; ResourceError AR802 when there is none."""
