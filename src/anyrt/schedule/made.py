"""What became of the first group of its sort, which others like it share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anyrt.ir.buffer import Buffer
from anyrt.ir.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Made:
    """The kernel of the first group of its sort, its buffers in the order of the signature, its strategy."""

    kernel: Kernel
    buffers: tuple[Buffer, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class Refused:
    """What the first group of a kind refused: the number of a value in its signature."""

    number: int
    reason: str


def different(pairs: Iterable[tuple[Buffer, Buffer]]) -> dict[Buffer, Buffer]:
    """Those pairs whose sides are not the same."""
    return {a: b for a, b in pairs if a != b}
