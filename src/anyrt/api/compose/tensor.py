"""A tensor of a network with arithmetic, so that the code of a node reads like its formula.

y = x * (x + 3).clip(0, 6) / 6
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyrt.api.model.state import state_of
from anyrt.api.model.tensor import ITensor
from anyrt.core.dtype import is_float
from anyrt.core.enums import DataType, UnaryOperation
from anyrt.core.enums import ElementWiseOperation as E

if TYPE_CHECKING:
    from anyrt.api.compose.layers import Layers


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """`it`, to which `layers` adds the layers of expressions."""

    layers: Layers
    it: ITensor

    @property
    def dtype(self) -> DataType:
        """The element type."""
        return self.it.dtype

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes, -1 where a run decides."""
        sizes = state_of(self.it).sizes
        return tuple(self.it.shape) if sizes is None else sizes

    @property
    def rank(self) -> int:
        """How many axes it has."""
        return len(self.sizes)

    @property
    def is_float(self) -> bool:
        """Whether its elements are real numbers."""
        return is_float(self.dtype)

    def _with(self, op: E, other: Tensor | float, swap: bool = False) -> Tensor:
        there = other if isinstance(other, Tensor) else self.layers.like(other, self)
        return self.layers.binary(op, there, self) if swap else self.layers.binary(op, self, there)

    def __add__(self, other: Tensor | float) -> Tensor:
        return self._with(E.SUM, other)

    def __radd__(self, other: float) -> Tensor:
        return self._with(E.SUM, other, swap=True)

    def __sub__(self, other: Tensor | float) -> Tensor:
        return self._with(E.SUB, other)

    def __rsub__(self, other: float) -> Tensor:
        return self._with(E.SUB, other, swap=True)

    def __mul__(self, other: Tensor | float) -> Tensor:
        return self._with(E.PROD, other)

    def __rmul__(self, other: float) -> Tensor:
        return self._with(E.PROD, other, swap=True)

    def __truediv__(self, other: Tensor | float) -> Tensor:
        return self._with(E.DIV, other)

    def __rtruediv__(self, other: float) -> Tensor:
        return self._with(E.DIV, other, swap=True)

    def __floordiv__(self, other: Tensor | float) -> Tensor:
        return self._with(E.FLOOR_DIV, other)

    def __rfloordiv__(self, other: float) -> Tensor:
        return self._with(E.FLOOR_DIV, other, swap=True)

    def __pow__(self, other: Tensor | float) -> Tensor:
        return self._with(E.POW, other)

    def __neg__(self) -> Tensor:
        return self.layers.unary(UnaryOperation.NEG, self)

    def __and__(self, other: Tensor) -> Tensor:
        return self._with(E.AND, other)

    def __or__(self, other: Tensor) -> Tensor:
        return self._with(E.OR, other)

    def __invert__(self) -> Tensor:
        return self.layers.unary(UnaryOperation.NOT, self)

    def __lt__(self, other: Tensor | float) -> Tensor:
        return self._with(E.LESS, other)

    def __gt__(self, other: Tensor | float) -> Tensor:
        return self._with(E.GREATER, other)

    def equal(self, other: Tensor | float) -> Tensor:
        """Where both are equal."""
        return self._with(E.EQUAL, other)

    def maximum(self, other: Tensor | float) -> Tensor:
        """The larger one of each two."""
        return self._with(E.MAX, other)

    def minimum(self, other: Tensor | float) -> Tensor:
        """The smaller one of each two."""
        return self._with(E.MIN, other)

    def clip(self, low: float, high: float) -> Tensor:
        """Brought into low … high."""
        return self.maximum(low).minimum(high)

    def cast(self, dtype: DataType) -> Tensor:
        """In another type."""
        return self.layers.cast(self, dtype)

    def nearest(self, dtype: DataType) -> Tensor:
        """The nearest numbers of an integer type, at its ends at most: a cast to uint8 alone would wrap."""
        whole = self.layers.unary(UnaryOperation.ROUND, self)
        return (whole.minimum(255.0) if dtype is DataType.UINT8 else whole).cast(dtype)

    def reshape(self, sizes: Sequence[int | Tensor] | Tensor) -> Tensor:
        """The elements in another shape: -1 once for what is left over, tensors of one element for sizes."""
        return self.layers.reshape(self, sizes)

    def transpose(self, *order: int) -> Tensor:
        """The axes in another order."""
        return self.layers.transpose(self, order)

    def squeeze(self, *axes: int) -> Tensor:
        """Without these axes of size 1."""
        return self.layers.squeeze(self, axes)

    def unsqueeze(self, *axes: int) -> Tensor:
        """With axes of size 1 at these places of the result."""
        return self.layers.unsqueeze(self, axes)

    def size(self, axis: int) -> Tensor:
        """The size of one axis: int64 of shape (1,)."""
        return self.layers.size(self, axis)

    def shape(self) -> Tensor:
        """The sizes: int64 of shape (rank,)."""
        return self.layers.shape(self)
