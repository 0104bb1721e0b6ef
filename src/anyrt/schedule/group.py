"""The values that one kernel computes, and where it stores them."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from anyrt.core.dims import Dim, add, mul
from anyrt.core.dtype import bits
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.compute import Border, Given
from anyrt.ir.graph import Shape, Value
from anyrt.schedule.compute_at import FusedTile
from anyrt.schedule.layout import Layout, row_major
from anyrt.schedule.nontemporal import NOT_PAST, Past
from anyrt.schedule.scores import LINE
from anyrt.schedule.sections import Section, Walk, part_section, read_sections, walk_of


@dataclass(frozen=True, slots=True)
class Part:
    """One of several parts of a value: the shape of the whole, and the start of the part."""

    shape: Shape
    start: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """`root` and the values inlined into it, stored to `buffer`; `also` are fused reductions that other
    kernels read, too. `copy`: the root is in memory, and is stored once more. `border`: only the border of
    the root is stored; its other elements are a separate part. `layout`: the layout of the buffer, None for
    row-major. `tile`: the root is computed in tiles. `mends`: the root is stored, and its rows with NaN are
    recomputed without the hidden terms of its sums. `anew`: copies in memory that the kernel recomputes."""

    root: Value
    buffer: Buffer
    also: tuple[tuple[Value, Buffer], ...] = ()
    part: Part | None = None
    whole: Value | None = None  # the whole of a part
    copy: bool = False
    border: Border | None = None
    layout: Layout | None = None
    tile: FusedTile | None = None
    mends: bool = False
    anew: frozenset[Value] = frozenset()

    @property
    def makes(self) -> tuple[Value, ...]:
        """The values that the kernel writes (a part of)."""
        return (self.whole or self.root, *(v for v, _ in self.also))

    @property
    def own(self) -> frozenset[Value]:
        """The values that the kernel recomputes although they are in memory."""
        is_part = self.part is not None and self.whole is not self.root
        root = () if is_part or self.copy else (self.root,)
        return frozenset((*root, *(v for v, _ in self.also), *self.anew))

    @property
    def fills(self) -> bool:
        """True for a border in every cache line: the whole is stored before the interior, in vectors."""
        if self.border is None:
            return False
        axis = self.order[-1]
        size, ends = self.root.shape[axis], (self.border.lo[axis], self.border.hi[axis])
        return ends != (0, 0) and isinstance(size, int) and size * bits(self.root.dtype) <= 8 * LINE

    def place(self, at: Sequence[Dim]) -> Dim:
        """The position in the buffer of the root's element at `at`."""
        layout = self.layout or row_major(self.root.shape if self.part is None else self.part.shape)
        if self.part is None:
            return layout.place(at)
        return layout.place([add(i, start) for i, start in zip(at, self.part.start, strict=True)])

    @property
    def order(self) -> Sequence[int]:
        """The root's axes in memory order, outermost first."""
        return range(len(self.root.shape)) if self.layout is None else self.layout.order


class Inside(Mapping[Value, Buffer]):
    """The buffers that a kernel finds: those of a network without the values that it computes, as a view,
    with some replaced."""

    __slots__ = ("_buffers", "_instead", "_without")

    def __init__(
        self,
        buffers: Mapping[Value, Buffer],
        without: frozenset[Value],
        instead: Mapping[Value, Buffer] | None = None,
    ) -> None:
        self._buffers, self._without, self._instead = buffers, without, instead or {}

    def __getitem__(self, value: Value) -> Buffer:
        if value in self._without:
            raise KeyError(value)
        return self._instead.get(value) or self._buffers[value]

    def __contains__(self, value: object) -> bool:
        return value not in self._without and value in self._buffers

    def __iter__(self) -> Iterator[Value]:
        return (v for v in self._buffers if v not in self._without)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True, slots=True)
class Signature:
    """The properties that a group's kernel depends on, without names: groups with equal `key`s share a
    kernel. `buffers`: those of the group, and `values` its values, in an order that equal groups share;
    `inlined`: the values that its kernel computes; `sections`: the buffers of which it knows only a part."""

    key: Hashable
    buffers: tuple[Buffer, ...]
    values: tuple[Value, ...]
    inlined: tuple[Value, ...]
    sections: Mapping[Buffer, Section]

    def formal(self, buffer: Buffer) -> Buffer:
        """The buffer as the kernel knows it, from the first element of its section."""
        section = self.sections.get(buffer)
        return buffer if section is None else replace(buffer, size=section.size)

    def first(self, buffer: Buffer) -> Dim:
        """The offset of the kernel's buffer in a buffer."""
        return self.sections[buffer].first if buffer in self.sections else 0


def signed(
    group: Group,
    stored: Mapping[Value, Buffer],
    past: Mapping[Buffer, Past],
    layouts: Mapping[Value, Layout],
    open: Container[Value] = (),
) -> Signature:
    """The signature of a group whose leaves are `stored`, in these `layouts`; `past`: outputs that may bypass
    the caches; `open`: numbers that kernels load."""
    order, inlined = ([group.root], []) if group.border is not None else _inside(group, stored)
    walks = {v: walk for v in inlined if (walk := _walk(v, stored)) is not None}
    sections = read_sections(walks, _whole(group, order, inlined, walks, stored, layouts), stored)
    is_row_major = group.part is not None and group.layout is None
    if group.part is not None and is_row_major:
        sections[group.buffer] = part_section(group.part.shape, group.part.start, group.root.shape)
    numbers = {value: n for n, value in enumerate(order)}
    buffers: dict[Buffer, int] = {}

    def described(value: Value) -> Hashable:
        """The properties of one value that a kernel may depend on."""
        if value in open:
            return value.type, "open"
        leaf = stored.get(value)
        if leaf is not None:
            number = buffers.setdefault(leaf, len(buffers))
            known = value.dtype if leaf in sections else value.type
            held = value.compute.numbers if isinstance(value.compute, Given) else None
            return known, _described(leaf, sections), number, layouts.get(value), held
        if isinstance(value.compute, Given) or group.border is not None:
            return value.type, value.compute
        section = sections.get(stored[value.args[0]]) if value in walks else None
        if section is None:
            return value.op, value.index, value.type, *(numbers[a] for a in value.args)
        first = add(walks[value].first, mul(section.first, -1))
        return value.type, first, walks[value].strides, numbers[value.args[0]]

    rows = tuple(described(v) for v in order)
    ends = tuple(
        (buffers.setdefault(b, len(buffers)), _described(b, sections), past.get(b, NOT_PAST))
        for b in (group.buffer, *(b for _, b in group.also))
    )
    also = tuple((numbers.get(v, -1), layouts.get(v)) for v, _ in group.also)
    part = group.part.shape if group.part is not None and is_row_major else group.part
    shape = group.tile and group.tile.shape
    key = (rows, ends, also, part, group.border, group.layout, shape, group.mends)
    return Signature(key, tuple(buffers), tuple(order), tuple(inlined), sections)


def _whole(
    group: Group,
    order: Sequence[Value],
    inlined: Sequence[Value],
    walks: Container[Value],
    stored: Mapping[Value, Buffer],
    layouts: Container[Value],
) -> set[Buffer]:
    """The buffers that are read by anything other than walks."""
    read = {a for v in inlined if v not in walks for a in v.args} | {group.root}
    held = (v for v in order if v in stored)
    return {stored[v] for v in held if v in read or v in layouts or group.tile is not None}


def _inside(group: Group, stored: Mapping[Value, Buffer]) -> tuple[list[Value], list[Value]]:
    """The values of a group, each after its operands, and those that are neither stored nor inputs."""
    order: dict[Value, None] = {}
    inlined: list[Value] = []
    todo = [(group.root, False)]
    while todo:
        value, ready = todo.pop()
        if value in order:
            continue
        leaf = value in stored
        if not leaf and not ready and value.args:
            todo.append((value, True))
            todo += [(a, False) for a in reversed(value.args) if a not in order]
            continue
        order[value] = None
        if not leaf and not isinstance(value.compute, Given):
            inlined.append(value)
    return list(order), inlined


def _walk(value: Value, stored: Mapping[Value, Buffer]) -> Walk | None:
    leaves = [a for a in value.args if a in stored]
    return walk_of(value, leaves[0]) if len(leaves) == 1 else None


def _described(buffer: Buffer, sections: Mapping[Buffer, Section]) -> Hashable:
    """The properties that a kernel may depend on: whether a tensor is an input, an output or neither does not
    count."""
    space = Space.ARENA if buffer.space in (Space.INPUT, Space.OUTPUT) else buffer.space
    size = sections[buffer].size if buffer in sections else buffer.size
    return buffer.type, space, size, buffer.offset, buffer.coded
