"""Elements at positions that are data: along one axis, at the positions in a tensor of indices.

>>> x = np.array([[10, 20, 30], [40, 50, 60]])
>>> Gather(1).ref((x, np.array([[2, 0], [9, -9]])), (2, 2)).tolist()  # never outside: the nearest instead
[[30, 10], [60, 40]]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from anyrt.core.dims import Dim, always_le, maximum, minimum
from anyrt.core.enums import DataType
from anyrt.core.errors import ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir import kernel
from anyrt.ir.buffer import Scalar
from anyrt.ir.compute import Compute, Elements
from anyrt.ir.graph import Type
from anyrt.ir.intervals import interval
from anyrt.ir.kernel import Expr, Op, alu, bound
from anyrt.ir.prim import Array, Prim, Read, Symbolic
from anyrt.prims._check import check_axis, check_type, differ, expect, show

INDICES: Final = frozenset({DataType.INT32, DataType.INT64})
FAR: Final = (1 << 31) - 1
COST: Final = 4  # instructions: a position computed from a value, clamped at both ends


@dataclass(frozen=True, slots=True)
class Gather(Prim):
    """The first operand's elements along `axis` at the positions in the second, which has as many axes.

    Both have equal sizes along the other axes (`expand` repeats elements to broadcast). A position before the
    beginning is clamped to the first one, one behind the end to the last one, so nothing is read outside.
    `guarded`: the context computes none of this if the axis is empty, such as a loop with one iteration per
    element.
    """

    axis: int
    guarded: bool = False

    def compute(self) -> Compute:
        """Operand elements as they are, somewhere."""
        return Elements(cost=_cost, positions=(1,))

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The shape of the indices, the type of the elements."""
        expect(args, 2, "gather")
        x, at = args
        check_type(at.dtype, INDICES, "gather")
        check_axis(self.axis, x.rank, "gather")
        if at.rank != x.rank:
            got = f"indices of rank {at.rank} for {show(x.shape)}"
            raise ShapeError("AR122", "gather", got=got, wanted=f"rank {x.rank}")
        if any(differ(m, n) for _, m, n in self._others(x, at)):
            got = f"indices {show(at.shape)} for {show(x.shape)}"
            raise ShapeError("AR112", "gather", got=got, wanted=f"equal sizes but on axis {self.axis}")
        if not self.guarded and x.shape[self.axis] == 0 and all(always_le(1, d) for d in at.shape):
            got = f"indices {show(at.shape)} on the empty axis {self.axis} of {show(x.shape)}"
            raise ShapeError("AR114", "gather", got=got, wanted="something to read")
        return Type(at.shape, x.dtype)

    def _others(self, x: Type, at: Type) -> list[tuple[int, Dim, Dim]]:
        both = enumerate(zip(x.shape, at.shape, strict=True))
        return [(k, m, n) for k, (m, n) in both if k != self.axis]

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """Equal sizes along the other axes, and a nonempty axis if anything is read."""
        x, at = args
        requirements = [
            Requirement(m, Relation.EQ, n, "AR112", where, f"make the sizes of axis {k} equal")
            for k, m, n in self._others(x, at)
            if m != n
        ]
        needed, length = minimum(at.shape[self.axis], 1), x.shape[self.axis]
        if not self.guarded and not always_le(needed, length):
            do = f"axis {self.axis} is empty: nothing can be read there"
            requirements.append(Requirement(needed, Relation.LE, length, "AR114", where, do))
        return tuple(requirements)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """NumPy's take_along_axis."""
        x, at = args
        if 0 in out:
            return np.empty(out, x.dtype)
        inside = np.clip(at.astype(np.int64), 0, x.shape[self.axis] - 1)
        return np.take_along_axis(x, inside, self.axis)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The element at the position; if there is none, the first, which is not used."""
        x, at = args
        length = x.type.shape[self.axis]
        most = length - 1 if isinstance(length, int) else FAR
        place = at.at(index)
        known = interval(place)
        # A known length is compared as 32-bit indices: twice as many lanes as of 64 bits.
        kind = place.type if isinstance(length, int) else Scalar.I64
        inside = kernel.cast(place, kind)
        if known is None or known[0] < 0 or not isinstance(length, int) or known[1] > most:
            last = kernel.const(max(most, 0), kind) if isinstance(length, int) else kernel.index(length) - 1
            inside = alu(Op.MAX, alu(Op.MIN, inside, last), kernel.const(0, kind))
        position = bound(inside, 0, max(most, 0), "at", maximum(length, 1))
        return x.at((*index[: self.axis], position, *index[self.axis + 1 :]))

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The sizes at positions that are numbers."""
        x, at = args
        if x is None or at is None or 0 in x.shape or not all(isinstance(i, int) for i in at.flat):
            return None
        inside = np.clip(at.astype(np.int64), 0, x.shape[self.axis] - 1)
        return np.take_along_axis(x, inside, self.axis)


def _cost(dtype: DataType) -> int:
    """The same for every type: elements are only moved."""
    return COST
