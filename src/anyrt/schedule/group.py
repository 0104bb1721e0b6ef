"""What one kernel shall compute, and where it goes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from anyrt.core.dims import Dim, add
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.compute import Given
from anyrt.ir.graph import Shape, Value
from anyrt.schedule.layout import row_major
from anyrt.schedule.nontemporal import NOT_PAST, Past


@dataclass(frozen=True, slots=True)
class Part:
    """One of several pieces side by side: the whole's shape, and where along `axis` the piece begins."""

    shape: Shape
    axis: int
    start: Dim


@dataclass(frozen=True, slots=True)
class Group:
    """`root` and what is inlined into it, stored to `buffer`; `also` are fused reductions that other kernels
    read too."""

    root: Value
    buffer: Buffer
    also: tuple[tuple[Value, Buffer], ...] = ()
    part: Part | None = None
    whole: Value | None = None  # what a part belongs to

    @property
    def makes(self) -> tuple[Value, ...]:
        """The values that the kernel writes (a part of)."""
        return (self.whole or self.root, *(v for v, _ in self.also))

    def place(self, at: Sequence[Dim]) -> Dim:
        """Where in the buffer the root's element at `at` goes."""
        if self.part is None:
            return row_major(self.root.shape).place(at)
        moved = [add(i, self.part.start) if k == self.part.axis else i for k, i in enumerate(at)]
        return row_major(self.part.shape).place(moved)


class Except(Mapping[Value, Buffer]):
    """The buffers of a network without those of some values, seen, not copied."""

    __slots__ = ("_buffers", "_without")

    def __init__(self, buffers: Mapping[Value, Buffer], without: frozenset[Value]) -> None:
        self._buffers, self._without = buffers, without

    def __getitem__(self, value: Value) -> Buffer:
        if value in self._without:
            raise KeyError(value)
        return self._buffers[value]

    def __contains__(self, value: object) -> bool:
        return value not in self._without and value in self._buffers

    def __iter__(self) -> Iterator[Value]:
        return (v for v in self._buffers if v not in self._without)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a group's kernel depends on, told without names: groups with one `key` have one kernel. `buffers`:
    those of the group, and `values` its values, in an order that equal groups share; `inlined`: the values
    that its kernel computes."""

    key: Hashable
    buffers: tuple[Buffer, ...]
    values: tuple[Value, ...]
    inlined: tuple[Value, ...]


def signed(group: Group, stored: Mapping[Value, Buffer], past: Mapping[Buffer, Past]) -> Signature:
    """The signature of a group whose leaves are `stored`; `past`: outputs that may be written past the
    caches."""
    numbers: dict[Value, int] = {}
    buffers: dict[Buffer, int] = {}
    rows: list[Hashable] = []
    inlined: list[Value] = []
    todo = [(group.root, False)]
    while todo:
        value, ready = todo.pop()
        if value in numbers:
            continue
        leaf = stored.get(value)
        if leaf is None and not ready and value.args:
            todo.append((value, True))
            todo += [(a, False) for a in reversed(value.args) if a not in numbers]
            continue
        numbers[value] = len(numbers)
        if leaf is not None:
            rows.append((value.type, _described(leaf), buffers.setdefault(leaf, len(buffers))))
        elif isinstance(value.compute, Given):
            rows.append((value.type, value.compute))
        else:
            rows.append((value.op, value.index, value.type, *(numbers[a] for a in value.args)))
            inlined.append(value)
    ends = [
        (buffers.setdefault(b, len(buffers)), _described(b), past.get(b, NOT_PAST))
        for b in (group.buffer, *(b for _, b in group.also))
    ]
    also = tuple(numbers.get(v, -1) for v, _ in group.also)
    key = (tuple(rows), tuple(ends), also, group.part)
    return Signature(key, tuple(buffers), tuple(numbers), tuple(inlined))


def _described(buffer: Buffer) -> Hashable:
    """What a kernel may depend on: whether a tensor is an input, an output or neither does not count."""
    space = Space.ARENA if buffer.space in (Space.INPUT, Space.OUTPUT) else buffer.space
    return buffer.type, space, buffer.size, buffer.offset
