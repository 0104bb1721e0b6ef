"""What one kernel shall compute, and where it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyrt.core.dims import Dim, add
from anyrt.ir.graph import Shape, Value
from anyrt.ir.kernel import Buffer
from anyrt.schedule.elements import flat


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a concatenation: the whole's shape, and where along `axis` the piece begins."""

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
    whole: Value | None = None  # the concatenation that a part belongs to

    @property
    def makes(self) -> tuple[Value, ...]:
        """The values that the kernel writes (a part of)."""
        return (self.whole or self.root, *(v for v, _ in self.also))

    def place(self, at: Sequence[Dim]) -> Dim:
        """Where in the buffer the root's element at `at` goes."""
        if self.part is None:
            return flat(self.root.shape, at)
        moved = [add(i, self.part.start) if k == self.part.axis else i for k, i in enumerate(at)]
        return flat(self.part.shape, moved)
