"""What buffers hold while a kernel is run with NumPy (ir/run.py): arrays that were given, and memory that
begins without content, a row of it for each item (scratch) or block (shared).

Every access is checked; what is wrong with one is a `Fault`. What was never stored may be read, as tiles of
a matrix are whole where rows are not, but nothing may come of it: what follows from it counts as not stored.
Of shared memory it is known who used it since the last barrier: threads run in step here, but must not count
on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import Dim
from anyrt.core.dimvalues import evaluate
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.evaluate import DTYPES, Array, Ints, poison
from anyrt.ir.points import Fault, Flags, Points

IN_ROWS: Final = frozenset({Space.SCRATCH, Space.SHARED})
NOBODY: Final = -1  # instead of the number of a thread
SEVERAL: Final = -2
USED: Final = 10  # bytes that say of one shared byte what it holds and who used it


@dataclass(frozen=True, slots=True, eq=False)
class _Users:
    """By row and byte: the thread that wrote there since the last barrier, and the one that read."""

    writer: NDArray[np.int32]
    reader: NDArray[np.int32]

    def read(self, rows: Ints, at: Ints, threads: Ints) -> Array:
        """Threads read; True for those that find what another one wrote."""
        others = (self.writer[rows, at] != NOBODY) & (self.writer[rows, at] != threads)
        before = self.reader[rows, at]
        self.reader[rows, at] = np.where((before == NOBODY) | (before == threads), threads, SEVERAL)
        more = self.reader[rows, at] != threads
        self.reader[rows[more], at[more]] = SEVERAL
        return np.asarray(others)

    def write(self, rows: Ints, at: Ints, threads: Ints) -> Array:
        """Threads write; True for those that meet another one."""
        found = (users[rows, at] for users in (self.writer, self.reader))
        others = np.logical_or.reduce([(x != NOBODY) & (x != threads) for x in found])
        self.writer[rows, at] = threads
        return np.asarray(others | (self.writer[rows, at] != threads))

    def forget(self, rows: Ints) -> None:
        """A barrier."""
        self.writer[rows] = self.reader[rows] = NOBODY


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Bytes by row, and −1 wherever something was stored; `users` of shared ones."""

    content: Array
    stored: Array
    users: _Users | None

    def part(self, buffer: Buffer, begin: int, end: int) -> tuple[Array, Array]:
        """A buffer's elements in all rows, and where they were stored."""
        if not 0 <= begin <= end <= self.content.shape[1]:
            where, whole = f"{buffer.name} at bytes {begin} to {end}", self.content.shape[1]
            raise Fault(where, f"{whole} bytes of {buffer.space.value}")
        kind = DTYPES[buffer.stored]
        stored = self.stored[:, begin:end].view(f"i{kind.itemsize}")
        return self.content[:, begin:end].view(kind), stored


Use: TypeAlias = Callable[[_Users, Ints, Ints, Ints], Array]


@dataclass(slots=True, eq=False)
class Memory:
    """All buffers of one kernel but registers. `given`: those that are neither scratch nor shared."""

    given: Mapping[Buffer, Array]
    sizes: Mapping[str, int]
    _rows: dict[Space, _Rows] = field(default_factory=dict)
    _arrays: dict[Buffer, Array] = field(default_factory=dict)

    def begin(self, space: Space, rows: int, nbytes: int) -> None:
        """Fresh memory."""
        content = np.zeros((rows, nbytes), np.uint8)
        users = _Users(*np.full((2, rows, nbytes), NOBODY, np.int32)) if space is Space.SHARED else None
        self._rows[space] = _Rows(content, np.zeros_like(content), users)

    def barrier(self, points: Points) -> None:
        """All threads of the points' blocks have come so far."""
        points.meet()
        users = self._rows[Space.SHARED].users
        assert users is not None, "shared memory has users"
        users.forget(np.unique(points.blocks))

    def number(self, x: Dim) -> int:
        """What depends on sizes only."""
        return evaluate(x, self.sizes)

    def read(self, buffer: Buffer, at: Ints, points: Points) -> tuple[Array, Flags]:
        """Elements of a buffer, one for each point, or one for all, and whether nothing was stored there."""
        if buffer.space not in IN_ROWS:
            array = self._array(buffer)
            check_inside(buffer, at, max(1, array.size))  # an empty one may be read beside a condition
            there = np.asarray(array[at]) if array.size else np.full(at.shape, poison(buffer.stored))
            return there, np.zeros(at.shape, np.bool_)
        content, stored = self._part(buffer)
        check_inside(buffer, at, content.shape[1])
        rows = points.rows(buffer.space)
        self._note(buffer, at, points, _Users.read, "wrote")
        return np.asarray(content[rows, at]), stored[rows, at] != -1

    def write(self, buffer: Buffer, at: Ints, value: Array, lacks: Flags, points: Points) -> None:
        """Store an element at each point, but for those that `lack` content."""
        if buffer.space not in IN_ROWS:
            array = self._array(buffer)
            check_inside(buffer, at, array.size)
            array[at] = value
            return
        content, stored = self._part(buffer)
        check_inside(buffer, at, content.shape[1])
        rows = points.rows(buffer.space)
        self._note(buffer, at, points, _Users.write, "uses")
        content[rows, at] = value
        stored[rows, at] = np.where(lacks, 0, -1)

    def _note(self, buffer: Buffer, at: Ints, points: Points, how: Use, does: str) -> None:
        users = self._rows[buffer.space].users
        if users is None:
            return
        where = self.number(buffer.offset) + np.broadcast_to(at, len(points)) * DTYPES[buffer.stored].itemsize
        wrong = how(users, points.blocks, where, points.threads)
        if wrong.any():
            element = f"{buffer.name}[{nth(at, wrong)}]"
            raise Fault(f"{element}, which another thread {does} since the last barrier", "", wrong)

    def overlap(self, a: Buffer, b: Buffer) -> bool:
        """True when two buffers share memory."""
        if a == b or Space.REGISTER in (a.space, b.space):
            return a == b
        return np.may_share_memory(self._first(a), self._first(b))

    def _first(self, buffer: Buffer) -> Array:
        return self._part(buffer)[0][:1] if buffer.space in IN_ROWS else self._array(buffer)

    def _part(self, buffer: Buffer) -> tuple[Array, Array]:
        if buffer.space not in self._rows:
            raise Fault(f"{buffer.name} outside block loops")
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
