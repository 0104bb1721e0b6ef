"""Places for intermediate tensors: a buffer's bytes are used again once its last reader has run.

Sizes may be symbolic, so two sizes can only be told equal or not; a freed place serves a buffer of the same
size, or (static sizes) of a smaller one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyrt.core.dims import Dim, add, always_le, floordiv, mul
from anyrt.ir.buffer import BITS, Buffer, Space

ALIGN = 64


@dataclass(frozen=True, slots=True)
class Arena:
    """Byte offset of each buffer, and the bytes in all."""

    offsets: Mapping[Buffer, Dim]
    bytes: Dim


def buffer_bytes(buffer: Buffer) -> Dim:
    """Bytes of a buffer, rounded up to whole cache lines."""
    each = max(BITS[buffer.stored], 8) // 8
    return mul(floordiv(add(mul(buffer.entries, each), ALIGN - 1), ALIGN), ALIGN)


def arrange(steps: Sequence[tuple[Sequence[Buffer], Sequence[Buffer]]]) -> Arena:
    """Offsets for the arena buffers of a run of kernels, each given as (written, read)."""
    last = {
        b: n for n, (written, read) in enumerate(steps) for b in (*written, *read) if b.space is Space.ARENA
    }
    offsets: dict[Buffer, Dim] = {}
    free: list[tuple[Dim, Dim]] = []
    held: dict[Buffer, tuple[Dim, Dim]] = {}
    top: Dim = 0
    for n, (written, _) in enumerate(steps):
        for b in sorted(
            {w for w in written if w.space is Space.ARENA and w not in offsets}, key=lambda b: b.name
        ):
            need = buffer_bytes(b)
            place = next((p for p in free if always_le(need, p[1])), None)
            if place is None:
                place = (top, need)
                top = add(top, need)
            else:
                free.remove(place)
            offsets[b], held[b] = place[0], place
        free += [held.pop(b) for b in list(held) if last[b] == n]
    return Arena(offsets, top)
