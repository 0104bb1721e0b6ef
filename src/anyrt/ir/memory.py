"""The contents of buffers while NumPy executes a kernel (ir/run.py): the caller's arrays, and memory without
initial content, one row per item (scratch) or block (shared).

Every access is checked; a violation is a `Fault`. Memory that was never stored may be read, since matrix
tiles are whole even if rows are not, but its value must have no effect: values computed from it count as not
stored. Users of shared memory since the last barrier are recorded: threads are executed in lock step here,
but must not depend on that.
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
USED: Final = 10  # bytes that record the content and the users of one shared byte


@dataclass(frozen=True, slots=True, eq=False)
class _Users:
    """By row and byte: the thread that wrote there since the last barrier, and the one that read."""

    writer: NDArray[np.int32]
    reader: NDArray[np.int32]

    def read(self, rows: Ints, at: Ints, threads: Ints) -> Array:
        """Record reads; True for threads that read a value another thread wrote."""
        others = (self.writer[rows, at] != NOBODY) & (self.writer[rows, at] != threads)
        before = self.reader[rows, at]
        self.reader[rows, at] = np.where((before == NOBODY) | (before == threads), threads, SEVERAL)
        more = self.reader[rows, at] != threads
        self.reader[rows[more], at[more]] = SEVERAL
        return np.asarray(others)

    def write(self, rows: Ints, at: Ints, threads: Ints) -> Array:
        """Record writes; True for threads that overwrite another thread's value."""
        users = (entry[rows, at] for entry in (self.writer, self.reader))
        others = np.logical_or.reduce([(x != NOBODY) & (x != threads) for x in users])
        self.writer[rows, at] = threads
        return np.asarray(others | (self.writer[rows, at] != threads))

    def forget(self, rows: Ints) -> None:
        """A barrier."""
        self.writer[rows] = self.reader[rows] = NOBODY


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Bytes by row, and −1 wherever something was stored; `users`: the threads that used shared memory."""

    content: Array
    stored: Array
    users: _Users | None

    def part(self, buffer: Buffer, begin: int, end: int) -> tuple[Array, Array]:
        """A buffer's elements in all rows, and a mask of those that were stored."""
        if not 0 <= begin <= end <= self.content.shape[1]:
            where, whole = f"{buffer.name} at bytes {begin} to {end}", self.content.shape[1]
            raise Fault(where, f"{whole} bytes of {buffer.space.value}")
        kind = DTYPES[buffer.stored]
        stored = self.stored[:, begin:end].view(f"i{kind.itemsize}")
        return self.content[:, begin:end].view(kind), stored


Use: TypeAlias = Callable[[_Users, Ints, Ints, Ints], Array]


@dataclass(slots=True, eq=False)
class Memory:
    """All buffers of one kernel except registers. `bound`: those that are neither scratch nor shared."""

    bound: Mapping[Buffer, Array]
    sizes: Mapping[str, int]
    _rows: dict[Space, _Rows] = field(default_factory=dict)
    _arrays: dict[Buffer, Array] = field(default_factory=dict)

    def begin(self, space: Space, rows: int, nbytes: int) -> None:
        """Fresh memory."""
        content = np.zeros((rows, nbytes), np.uint8)
        users = _Users(*np.full((2, rows, nbytes), NOBODY, np.int32)) if space is Space.SHARED else None
        self._rows[space] = _Rows(content, np.zeros_like(content), users)

    def barrier(self, points: Points) -> None:
        """All threads of the points' blocks reach this place."""
        points.meet()
        users = self._rows[Space.SHARED].users
        assert users is not None, "shared memory has users"
        users.forget(np.unique(points.blocks))

    def number(self, x: Dim) -> int:
        """Values that depend only on sizes."""
        return evaluate(x, self.sizes)

    def read(self, buffer: Buffer, at: Ints, points: Points) -> tuple[Array, Flags]:
        """Elements of a buffer, one per point or one for all, and whether nothing was stored there."""
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
        """Store an element at each point, except at those that `lack` content."""
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
            array, kind, size = self.bound.get(buffer), DTYPES[buffer.stored], self.number(buffer.entries)
            if array is None or array.shape != (size,) or array.itemsize != kind.itemsize:
                got = "no array" if array is None else f"an array {array.dtype}{list(array.shape)}"
                raise Fault(f"{got} for {buffer.name}", f"{kind}[{size}]")
            self._arrays[buffer] = array.view(kind)
        return self._arrays[buffer]


def check_inside(buffer: Buffer, at: Ints, size: int) -> None:
    """Indices are those of elements."""
    outside = (at < 0) | (at >= size)
    if outside.any():
        raise Fault(f"{buffer.name}[{nth(at, outside)}]", f"0 … {size - 1}", outside)


def nth(values: Ints, wrong: Array) -> int:
    """The value at the first point that is wrong."""
    return int(np.broadcast_to(values, np.broadcast_shapes(values.shape, wrong.shape)).flat[wrong.argmax()])
