"""A border of one value around an operand.

>>> from anyrt.core.enums import DataType
>>> Pad((0, 1), (0, 2), 0.0).infer((Type((4, 5), DataType.FLOAT),))
float[4, 8]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from anyrt.core.dims import Dim, add, always_le, bounds, mul
from anyrt.core.enums import DataType
from anyrt.core.errors import ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.core.sizes import clamp
from anyrt.ir import kernel
from anyrt.ir.buffer import COMPUTED
from anyrt.ir.compute import Border, Compute, Elements
from anyrt.ir.graph import Type
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read, Symbolic
from anyrt.prims._check import check_shape, expect, known_size, not_empty, short_shape

CHOICE: Final = 10  # instructions; measured on chains of sums with what lies a few elements before, whose
# comparisons vector loops are split by only while there are few of them


@dataclass(frozen=True, slots=True)
class Pad(Prim):
    """`lo[k]` elements of `value` before and `hi[k]` after the operand along each axis k."""

    lo: tuple[Dim, ...]
    hi: tuple[Dim, ...]
    value: float

    def compute(self) -> Compute:
        """Elements of the operand or of the border."""
        return Elements(cost=_choice, border=Border(self.lo, self.hi, self.value))

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The operand's shape plus both borders."""
        expect(args, 1, "pad")
        (x,) = args
        if len(self.lo) != x.rank or len(self.hi) != x.rank:
            raise ShapeError("AR108", "pad", got=f"borders {self.lo}, {self.hi}", wanted=f"{x.rank} of each")
        for border in (*self.lo, *self.hi):
            if bounds(border)[1] < 0:
                raise ShapeError("AR120", "pad", got=f"a border of {border}", wanted="borders >= 0")
        shape = tuple(add(add(d, lo), hi) for d, lo, hi in zip(x.shape, self.lo, self.hi, strict=True))
        return Type(check_shape(shape, "pad"), x.dtype)

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """Borders that are not negative."""
        unsure = (border for border in (*self.lo, *self.hi) if not always_le(0, border))
        return tuple(Requirement(0, Relation.LE, b, "AR120", where, "pad by 0 or more") for b in unsure)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """A filled array with the operand copied into it."""
        (x,) = args
        filled = np.full(out, self.value, dtype=x.dtype)
        starts = [known_size(lo) for lo in self.lo]
        filled[tuple(slice(lo, lo + n) for lo, n in zip(starts, x.shape, strict=True))] = x
        return filled

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The operand inside, `value` outside; comparisons that the index's range decides are omitted."""
        (x,) = args
        border = kernel.const(self.value, COMPUTED[out.dtype])
        inside: list[Expr] = []
        at: list[Dim] = []
        some = not_empty(x.type.shape)  # else every position is that of the first element, which is not used
        for i, lo, n in zip(index, self.lo, x.type.shape, strict=True):
            j = add(i, mul(lo, -1))
            if n == 0 or always_le(n, j) or bounds(j)[1] < 0:
                return border
            at.append(mul(some, clamp(j, 0, add(n, -1))))
            if not always_le(0, j):
                inside.append(kernel.index(j) >= 0)
            if not always_le(add(j, 1), n):
                inside.append(kernel.index(j) < kernel.index(n))
        result = x.at(at)
        for condition in reversed(inside):
            result = kernel.select(condition, result, border)
        return result

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The padded sizes, when the borders are known."""
        (x,) = args
        borders = zip(self.lo, self.hi, strict=True)
        widths = [(lo, hi) for lo, hi in borders if isinstance(lo, int) and isinstance(hi, int)]
        if x is None or len(widths) < len(self.lo) or short_shape(out.shape) is None:
            return None
        return np.pad(x, widths, constant_values=int(self.value)) if widths else x


def _choice(dtype: DataType) -> int:
    """Two comparisons and a selection per axis, and a clamped position."""
    return CHOICE
