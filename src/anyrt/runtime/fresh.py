"""New memory for outputs whose sizes an inference has computed."""

from __future__ import annotations

import numpy as np

from anyrt.runtime.arrays import Array, address_of
from anyrt.runtime.shapes import Shape


class Fresh:
    """An `OutputAllocator` of arrays of bytes, by name."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}

    def reallocate(self, name: str, current: int, nbytes: int, alignment: int) -> int:
        """A new array."""
        self.arrays[name] = np.empty(nbytes, np.uint8)
        return address_of(self.arrays[name])

    def notify(self, name: str, shape: Shape) -> None:
        """The shape also follows from the sizes of the inference."""
