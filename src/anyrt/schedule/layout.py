"""The layout of a stored tensor: the order of its axes, a halo around them, blocks of one axis.

Kernels identify an element by an index for each axis; only the layout maps it to a position in memory.

>>> row_major((2, 16, 5, 5)).place((0, 9, 0, 1))
226
>>> from dataclasses import replace
>>> replace(row_major((2, 16, 5, 5)), block=Block(1, 8)).place((0, 9, 0, 1))  # known as NCHW8c
209
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from anyrt.core.dims import Dim, add, floordiv, mod, mul, product
from anyrt.ir.compute import only_moves
from anyrt.ir.graph import Shape, Value
from anyrt.ir.reference import Array
from anyrt.schedule.positions import own, read


@dataclass(frozen=True, slots=True)
class Block:
    """`size` neighbours along `axis` are contiguous, within all other axes; every block is stored whole."""

    axis: int
    size: int


@dataclass(frozen=True, slots=True)
class Layout:
    """A tensor of `shape` in memory. `order`: its axes, outermost first. `halo`: for each axis, the elements
    stored before the first and after the last one, at indices below 0 and from the size on."""

    shape: Shape
    order: tuple[int, ...]
    halo: tuple[tuple[int, int], ...]
    block: Block | None = None

    def __post_init__(self) -> None:
        rank = len(self.shape)
        assert sorted(self.order) == list(range(rank)), f"order {self.order} of {rank} axes"
        assert len(self.halo) == rank, f"halos {self.halo} of {rank} axes"
        assert self.block is None or self.block.axis in self.order, f"{self.block} of {rank} axes"

    @property
    def entries(self) -> Dim:
        """The elements of memory that it takes, with halo and whole blocks."""
        return product(length for length, _ in self._digits((0,) * len(self.shape)))

    def stored(self, array: Array) -> Array:
        """The elements in memory order, for a layout that only reorders axes."""
        assert self.entries == product(self.shape), "halos and whole blocks are no elements of an array"
        return array.transpose(self.order)

    def read(self, array: Array) -> Array:
        """The elements by index, from those in memory order."""
        return array.transpose([self.order.index(k) for k in range(len(self.order))])

    def place(self, index: Sequence[Dim]) -> Dim:
        """The position of an element. The index along an axis of size 1 does not count, since a repeated
        value is stored once; with a halo it does."""
        at: Dim = 0
        for length, digit in self._digits(index):
            at = add(mul(at, length), digit)
        return at

    def _digits(self, index: Sequence[Dim]) -> Iterator[tuple[Dim, Dim]]:
        """Length and index of each axis of memory, outermost first."""
        kept = [self._kept(axis, i) for axis, i in zip(range(len(self.shape)), index, strict=True)]
        block = self.block
        for axis in self.order:
            length = add(self.shape[axis], sum(self.halo[axis]))
            if block is not None and block.axis == axis:
                yield floordiv(add(length, block.size - 1), block.size), floordiv(kept[axis], block.size)
            else:
                yield length, kept[axis]
        if block is not None:
            yield block.size, mod(kept[block.axis], block.size)

    def _kept(self, axis: int, i: Dim) -> Dim:
        """An index counted from the first element that is kept."""
        before, behind = self.halo[axis]
        return 0 if self.shape[axis] == 1 and before == behind == 0 else add(i, before)


@lru_cache(maxsize=1 << 12)
def row_major(shape: Shape) -> Layout:
    """Row-major, without gaps."""
    return Layout(shape, tuple(range(len(shape))), ((0, 0),) * len(shape))


def keeps_order(value: Value) -> bool:
    """True for a value with the elements of another one, at the same positions of as much memory."""
    if not only_moves(value.compute) or product(value.args[0].shape) != product(value.shape):
        return False
    ((arg, at, _),) = read(value, own(value.shape))
    return row_major(arg.shape).place(at) == row_major(value.shape).place(own(value.shape))
