"""Transposing a tile in registers, by perfect shuffles: each turns the bits of every element's place by one.

After log₂(rows) shuffles of the whole tile, element (r, c) stands where (c, r) belongs; one shuffle is two
two-register permutes for every pair of vectors, so a 16 × 16 tile takes 64 instructions for 256 elements.
"""

from __future__ import annotations

from anyrt.codegen.scope import Scope
from anyrt.codegen.writer import Writer


def transpose(w: Writer, scope: Scope, rows: list[str], element: str, columns: int) -> list[str]:
    """`columns` vectors of len(rows) lanes from the rows (vectors of `columns` lanes); both powers of two."""
    count = len(rows)
    for _ in range(count.bit_length() - 1):
        pairs = zip(rows[: count // 2], rows[count // 2 :], strict=True)
        rows = [_interleave(w, scope, a, b, element, columns, half) for a, b in pairs for half in (0, 1)]
    if count > columns:
        return _joined(w, scope, rows, element, columns, count)
    return (
        rows
        if count == columns
        else [r for row in rows for r in _cut(w, scope, row, element, columns, count)]
    )


def _interleave(w: Writer, scope: Scope, a: str, b: str, element: str, length: int, half: int) -> str:
    first = half * length // 2
    picks = [first + k // 2 + (k % 2) * length for k in range(length)]
    return shuffle(w, scope, a, b, element, length, picks)


def shuffle(w: Writer, scope: Scope, a: str, b: str, element: str, length: int, picks: list[int]) -> str:
    """Lanes picked from two vectors of `length` lanes, the second counted on behind the first."""
    kind, order = f"<{length} x {element}>", ", ".join(f"i32 {i}" for i in picks)
    return w.put(scope, f"shufflevector {kind} {a}, {kind} {b}, <{len(picks)} x i32> <{order}>")


def _joined(w: Writer, scope: Scope, rows: list[str], element: str, length: int, width: int) -> list[str]:
    """Neighbouring vectors put together until they have `width` lanes."""
    while length < width:
        pairs = zip(rows[::2], rows[1::2], strict=True)
        rows = [shuffle(w, scope, a, b, element, length, list(range(2 * length))) for a, b in pairs]
        length *= 2
    return rows


def _cut(w: Writer, scope: Scope, row: str, element: str, length: int, width: int) -> list[str]:
    """A vector in pieces of `width` lanes."""
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
