"""Transposes a tile, and interleaves a few vectors.

Both use perfect shuffles: each rotates the bits of every element's position by one, so that after log₂(rows)
shuffles of the whole tile element (r, c) is at (c, r). Sixteen rows fit 32 registers, where a 16 × 16 tile
takes 64 two-register permutes for 256 elements. More rows do not. In that case, blocks of 16 bytes are placed
side by side when they are loaded, in the order of their columns, and are transposed separately, all of a
register at once: that needs few registers, and cheaper instructions, but every row is read several times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer
from anyrt.core.machine import Machine

BLOCK = 16  # bytes


def fit(machine: Machine) -> int:
    """Rows that are transposed in registers: half of these hold rows, the others the results."""
    return machine.registers // 2


def transpose(w: Writer, scope: Scope, rows: list[str], element: str, columns: int) -> list[str]:
    """`columns` vectors of len(rows) lanes from the rows (vectors of `columns` lanes); both powers of two."""
    count = len(rows)
    for _ in range(count.bit_length() - 1):
        pairs = zip(rows[: count // 2], rows[count // 2 :], strict=True)
        rows = [
            _interleave(w, scope, a, b, element, columns, columns, half) for a, b in pairs for half in (0, 1)
        ]
    if count < columns:
        return [r for row in rows for r in cut(w, scope, row, element, columns, count)]
    return joined(w, scope, rows, element, columns, count)


def columns(
    w: Writer,
    scope: Scope,
    address: Callable[[int, int], str],
    element: tuple[str, int],
    rows: int,
    length: int,
) -> Iterator[str]:
    """A vector of `rows` lanes for each of `length` columns, both powers of two; `address(row, column)`
    points to an element of the given LLVM type and bytes."""
    name, size = element
    block = min(max(1, BLOCK // size), rows, length)
    for first in range(0, length, block):
        places = [[address(r, first) for r in range(k, rows, block)] for k in range(block)]
        load = f"load <{block} x {name}>, ptr "
        blocks = [[w.put(scope, f"{load}{p}, align {size}") for p in some] for some in places]
        parts = [joined(w, scope, some, name, block, rows)[0] for some in blocks]
        for _ in range(block.bit_length() - 1):
            pairs = zip(parts[: block // 2], parts[block // 2 :], strict=True)
            parts = [
                _interleave(w, scope, a, b, name, rows, block, half) for a, b in pairs for half in (0, 1)
            ]
        yield from parts


def _interleave(
    w: Writer, scope: Scope, a: str, b: str, name: str, length: int, block: int, half: int
) -> str:
    """One half of each block of two vectors, their elements interleaved."""
    first = half * block // 2
    picks = [
        start + first + k // 2 + (k % 2) * length for start in range(0, length, block) for k in range(block)
    ]
    return shuffle(w, scope, a, b, name, length, picks)


def shuffle(w: Writer, scope: Scope, a: str, b: str, element: str, length: int, picks: list[int]) -> str:
    """Lanes selected from two vectors of `length` lanes, the second numbered behind the first."""
    kind, order = f"<{length} x {element}>", ", ".join(f"i32 {i}" for i in picks)
    return w.put(scope, f"shufflevector {kind} {a}, {kind} {b}, <{len(picks)} x i32> <{order}>")


def joined(w: Writer, scope: Scope, rows: list[str], element: str, length: int, width: int) -> list[str]:
    """Neighbouring vectors joined until they have `width` lanes."""
    while length < width:
        pairs = zip(rows[::2], rows[1::2], strict=True)
        rows = [shuffle(w, scope, a, b, element, length, list(range(2 * length))) for a, b in pairs]
        length *= 2
    return rows


def cut(w: Writer, scope: Scope, row: str, element: str, length: int, width: int) -> list[str]:
    """A vector in parts of `width` lanes."""
    if length == width:
        return [row]
    starts = range(0, length, width)
    return [shuffle(w, scope, row, "poison", element, length, list(range(k, k + width))) for k in starts]


def interleave(w: Writer, scope: Scope, rows: list[str], element: str, length: int) -> str:
    """One vector with the first lanes of all rows, then the second lanes, and so on; up to four rows."""
    count = len(rows)
    pair = list(range(2 * length))
    padded = [*rows, *["poison"] * (-count % 2)]
    parts = [
        shuffle(w, scope, a, b, element, length, pair) for a, b in zip(padded[::2], padded[1::2], strict=True)
    ]
    picks = [(k % count) * length + k // count for k in range(count * length)]
    return shuffle(w, scope, parts[0], parts[-1] if count > 2 else "poison", element, 2 * length, picks)
