"""Sections: the range of a stored tensor's elements that a kernel accesses, counted from its first one.

The steps of an unrolled recurrence read successive slices of the same tensor; the operands of a concatenation
are written one behind the other. Relative to the start of its section, each computes the same, so they share
a kernel whose calls pass other addresses.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from anyrt.core.dims import Dim, Sym, add, always_le, linear, mul, symbols
from anyrt.ir.buffer import COMPUTED, Buffer
from anyrt.ir.compute import only_moves
from anyrt.ir.graph import Shape, Value
from anyrt.ir.kernel import Expr, const
from anyrt.ir.prim import Read
from anyrt.schedule.layout import row_major
from anyrt.schedule.storage import PACKED


@dataclass(frozen=True, slots=True)
class Section:
    """`size` elements from `first` on."""

    first: Dim
    size: Dim

    @property
    def last(self) -> Dim:
        """The last element."""
        return add(self.first, add(self.size, -1))


@dataclass(frozen=True, slots=True)
class Walk:
    """How a move walks through a stored tensor's elements: `first`, and a stride for each axis."""

    first: Dim
    strides: tuple[Dim, ...]

    def section(self, shape: Shape) -> Section | None:
        """The range between the least and the greatest position; None if strides may have either sign."""
        low = high = self.first
        for stride, size in zip(self.strides, shape, strict=True):
            way = mul(stride, add(size, -1))
            if always_le(0, way):
                high = add(high, way)
            elif always_le(way, 0):
                low = add(low, way)
            else:
                return None
        return Section(low, add(add(high, mul(low, -1)), 1))


def walk_of(value: Value, leaf: Value) -> Walk | None:
    """The walk of `value` through its stored operand; None if it computes anything, or is not affine."""
    if not only_moves(value.compute) or value.args != (leaf,) or leaf.dtype in PACKED:
        return None
    if not all(always_le(1, size) for size in value.shape):
        return None
    index = [Sym(f"at{k}") for k in range(len(value.shape))]
    place = _place(value, leaf, [s.dim for s in index])
    return None if place is None else _even(place, index)


def _even(place: Dim, index: Sequence[Sym]) -> Walk | None:
    """A position that moves evenly with each index."""
    strides: list[Dim] = []
    for sym in index:
        split = linear(place, sym)
        if split is None:
            return None
        stride, place = split
        strides.append(stride)
    uneven = any(not symbols(x).isdisjoint(index) for x in strides)
    return None if uneven else Walk(place, tuple(strides))


def _place(value: Value, leaf: Value, index: Sequence[Dim]) -> Dim | None:
    """The position in memory of the element at an index, if nothing else is read for it."""
    read: list[tuple[Dim, ...]] = []

    def element(at: Sequence[Dim]) -> Expr:
        read.append(tuple(at))
        return zero

    zero = const(0, COMPUTED[leaf.dtype])
    moved = value.op.lower(value.type, (Read(leaf.type, element),), tuple(index))
    return row_major(leaf.shape).place(read[0]) if moved is zero and len(read) == 1 else None


def joined(sections: Iterable[Section]) -> Section | None:
    """The least section that contains all others; None if it is unknown which begins first or ends last."""
    known = list(sections)
    first = next((s.first for s in known if all(always_le(s.first, o.first) for o in known)), None)
    last = next((s.last for s in known if all(always_le(o.last, s.last) for o in known)), None)
    return None if first is None or last is None else Section(first, add(add(last, mul(first, -1)), 1))


def part_section(shape: Shape, start: Sequence[Dim], size: Shape) -> Section:
    """The section of a part of `size` from `start` on."""
    place = row_major(shape).place
    first, last = place(start), place([add(s, add(n, -1)) for s, n in zip(start, size, strict=True)])
    return Section(first, add(add(last, mul(first, -1)), 1))


def read_sections(
    walks: Mapping[Value, Walk], whole: Container[Buffer], stored: Mapping[Value, Buffer]
) -> dict[Buffer, Section]:
    """For each buffer that only walks read, the section that they access."""
    sections: dict[Buffer, list[Section | None]] = {}
    for value, walk in walks.items():
        sections.setdefault(stored[value.args[0]], []).append(walk.section(value.shape))
    out: dict[Buffer, Section] = {}
    for buffer, some in sections.items():
        known = [s for s in some if s is not None]
        section = joined(known) if buffer not in whole and len(known) == len(some) else None
        if section is not None and section != Section(0, buffer.size):
            out[buffer] = section
    return out
