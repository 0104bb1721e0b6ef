"""Memory for intermediate tensors: the bytes of a buffer are reused after its last reader.

If all sizes are known, each buffer takes the smallest gap that is free for its lifetime, large ones first. Of
dynamic sizes only equality or an order may be known: a free place is reused for a buffer of the same or a
smaller size. A buffer may also overwrite one that its own kernel reads (compiler/inplace.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from anyrt.core.counts import highest
from anyrt.core.dims import Dim, add, always_le, bounds, floordiv, mul
from anyrt.ir.buffer import BITS, Buffer, Space

ALIGN = 64
MOST = 1 << 10  # buffers, of which each is compared with all others
Step: TypeAlias = tuple[Sequence[Buffer], Sequence[Buffer]]  # what a kernel writes and reads


@dataclass(frozen=True, slots=True)
class Arena:
    """Byte offset of each buffer, and the total bytes."""

    offsets: Mapping[Buffer, Dim]
    bytes: Dim


def buffer_bytes(buffer: Buffer) -> Dim:
    """Bytes of a buffer, rounded up to whole cache lines; the upper bound, if its size is data-dependent."""
    each = max(BITS[buffer.stored], 8) // 8
    return mul(floordiv(add(mul(highest(buffer.entries), each), ALIGN - 1), ALIGN), ALIGN)


def arrange(
    steps: Sequence[Step], last: Mapping[Buffer, int], instead: Mapping[Buffer, Buffer] | None = None
) -> Arena:
    """Offsets for the arena buffers of a sequence of kernels, each given as (written, read). `last`: the last
    step that needs each. `instead`: buffers that overwrite another one, which the kernel that writes them
    reads for the last time."""
    lives = _lives(steps, last, instead or {})
    sizes = {life.owner: buffer_bytes(life.owner) for life in lives}
    known = len(lives) <= MOST and all(isinstance(size, int) for size in sizes.values())
    plan = _best_fit if known else _in_order
    return plan(lives, sizes)


@dataclass(slots=True)
class _Life:
    """Buffers that share one place one after the other, from the step that first writes it to the last one
    that reads it."""

    buffers: list[Buffer]
    first: int
    last: int

    @property
    def owner(self) -> Buffer:
        """The first of them; all have the same size."""
        return self.buffers[0]

    def meets(self, other: _Life) -> bool:
        """True if their lifetimes overlap."""
        return self.first <= other.last and other.first <= self.last


def _lives(
    steps: Sequence[Step], last: Mapping[Buffer, int], instead: Mapping[Buffer, Buffer]
) -> list[_Life]:
    """In the order in which they begin."""
    by_buffer: dict[Buffer, _Life] = {}
    lives: list[_Life] = []
    for n, (written, _) in enumerate(steps):
        new = {w for w in written if w.space is Space.ARENA and w not in by_buffer}
        for b in sorted(new, key=lambda b: b.name):
            life = by_buffer.get(instead[b]) if b in instead else None
            if life is None:
                life = _Life([], n, n)
                lives.append(life)
            by_buffer[b] = life
            life.buffers.append(b)
            life.last = max(life.last, last[b])
    return lives


def _best_fit(lives: Sequence[_Life], sizes: Mapping[Buffer, Dim]) -> Arena:
    """Each in the smallest gap between those with overlapping lifetimes, large ones first."""
    placed: list[tuple[int, int, _Life]] = []
    for life in sorted(lives, key=lambda life: -bounds(sizes[life.owner])[0]):
        size = bounds(sizes[life.owner])[0]
        start = _gap(sorted((a, z) for a, z, other in placed if other.meets(life)), size)
        placed.append((start, start + size, life))
    top = max((z for _, z, _ in placed), default=0)
    return Arena({b: a for a, _, life in placed for b in life.buffers}, top)


def _gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The start of the smallest gap that holds `size` bytes, or the end of all."""
    gaps: list[tuple[int, int]] = []
    at = 0
    for begin, end in taken:
        if begin - at >= size:
            gaps.append((begin - at, at))
        at = max(at, end)
    return min(gaps, default=(0, at))[1]


def _in_order(lives: Sequence[_Life], sizes: Mapping[Buffer, Dim]) -> Arena:
    """Of dynamic sizes only equality or an order may be known: each takes the first free place that is large
    enough."""
    offsets: dict[Buffer, Dim] = {}
    places: list[tuple[Dim, Dim, int]] = []  # start, size, end of lifetime
    top: Dim = 0
    for life in lives:
        need = sizes[life.owner]
        free = (p for p in places if p[2] < life.first and always_le(need, p[1]))
        place = next(free, None)
        if place is None:
            at, size = top, need
            top = add(top, need)
        else:
            places.remove(place)
            at, size, _ = place
        places.append((at, size, life.last))
        offsets |= dict.fromkeys(life.buffers, at)
    return Arena(offsets, top)
