"""What buffers hold while a kernel is run with NumPy (ir/run.py): arrays that were given, and memory that
begins without content, a row of it for each item (scratch).

Every access is checked; what is wrong with one is a `Fault`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from anyrt.core.dims import Dim, evaluate
from anyrt.ir.evaluate import DTYPES, Array, Ints, poison
from anyrt.ir.kernel import Buffer, Space
from anyrt.ir.points import Fault, Points


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Bytes by row, and −1 wherever something was stored."""

    content: Array
    stored: Array

    def part(self, buffer: Buffer, begin: int, end: int) -> tuple[Array, Array]:
        """A buffer's elements in all rows, and where they were stored."""
        if not 0 <= begin <= end <= self.content.shape[1]:
            where, whole = f"{buffer.name} at bytes {begin} to {end}", self.content.shape[1]
            raise Fault(where, f"{whole} bytes of {buffer.space.value}")
        kind = DTYPES[buffer.stored]
        stored = self.stored[:, begin:end].view(f"i{kind.itemsize}")
        return self.content[:, begin:end].view(kind), stored


@dataclass(slots=True, eq=False)
class Memory:
    """All buffers of one kernel but registers. `given`: those outside scratch."""

    given: Mapping[Buffer, Array]
    sizes: Mapping[str, int]
    _rows: dict[Space, _Rows] = field(default_factory=dict)
    _arrays: dict[Buffer, Array] = field(default_factory=dict)

    def begin(self, space: Space, rows: int, nbytes: int) -> None:
        """Fresh memory."""
        content = np.zeros((rows, nbytes), np.uint8)
        self._rows[space] = _Rows(content, np.zeros_like(content))

    def number(self, x: Dim) -> int:
        """What depends on sizes only."""
        return evaluate(x, self.sizes)

    def read(self, buffer: Buffer, at: Ints, points: Points) -> Array:
        """Elements of a buffer, one for each point, or one for all."""
        if buffer.space not in self._rows:
            array = self._array(buffer)
            check_inside(buffer, at, max(1, array.size))  # an empty one may be read beside a condition
            return np.asarray(array[at]) if array.size else np.full(at.shape, poison(buffer.stored))
        content, stored = self._part(buffer)
        check_inside(buffer, at, content.shape[1])
        rows = points.rows(buffer.space)
        fresh = stored[rows, at] != -1
        if fresh.any():
            raise Fault(f"{buffer.name}[{nth(at, fresh)}], which nothing was stored in", "", fresh)
        return np.asarray(content[rows, at])

    def write(self, buffer: Buffer, at: Ints, value: Array, points: Points) -> None:
        """Store an element at each point."""
        if buffer.space not in self._rows:
            array = self._array(buffer)
            check_inside(buffer, at, array.size)
            array[at] = value
            return
        content, stored = self._part(buffer)
        check_inside(buffer, at, content.shape[1])
        rows = points.rows(buffer.space)
        content[rows, at] = value
        stored[rows, at] = -1

    def overlap(self, a: Buffer, b: Buffer) -> bool:
        """True when two buffers share memory."""
        if a == b or Space.REGISTER in (a.space, b.space):
            return a == b
        return np.may_share_memory(self._first(a), self._first(b))

    def _first(self, buffer: Buffer) -> Array:
        return self._part(buffer)[0][:1] if buffer.space in self._rows else self._array(buffer)

    def _part(self, buffer: Buffer) -> tuple[Array, Array]:
        begin = self.number(buffer.offset)
        nbytes = self.number(buffer.entries) * DTYPES[buffer.stored].itemsize
        return self._rows[buffer.space].part(buffer, begin, begin + nbytes)

    def _array(self, buffer: Buffer) -> Array:
        if buffer not in self._arrays:
            given, kind, size = self.given.get(buffer), DTYPES[buffer.stored], self.number(buffer.entries)
            if given is None or given.shape != (size,) or given.itemsize != kind.itemsize:
                got = "no array" if given is None else f"an array {given.dtype}{list(given.shape)}"
                raise Fault(f"{got} for {buffer.name}", f"{kind}[{size}]")
            self._arrays[buffer] = given.view(kind)
        return self._arrays[buffer]


def check_inside(buffer: Buffer, at: Ints, size: int) -> None:
    """Indices are those of elements."""
    outside = (at < 0) | (at >= size)
    if outside.any():
        raise Fault(f"{buffer.name}[{nth(at, outside)}]", f"0 … {size - 1}", outside)


def nth(values: Ints, wrong: Array) -> int:
    """The value at the first point that is wrong."""
    return int(np.broadcast_to(values, np.broadcast_shapes(values.shape, wrong.shape)).flat[wrong.argmax()])
