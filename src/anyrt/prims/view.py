"""Reading an operand at affine indices: permute, expand, slice, flip, drop and insert unit axes in one form.

>>> from anyrt.core.enums import DataType
>>> x = Type((4, 6), DataType.FLOAT)
>>> View((6, 2), (Axis(1, 1, 2), Axis(5, 0, -1))).infer((x,))  # every other row, columns reversed, transposed
float[6, 2]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import Dim, add, always_le, bounds, minimum, mul
from anyrt.core.errors import ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.compute import Compute, Elements
from anyrt.ir.graph import Shape, Type, Value
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read, Symbolic
from anyrt.prims._check import check_axis, check_shape, expect, known_size, not_empty, short_shape, show

FILLED: Final = 16  # elements of a row that are worth a vector


@dataclass(frozen=True, slots=True)
class Axis:
    """Where one input axis is read: `start + step × (index of output axis out)`, or `start` when out
    is None."""

    start: Dim
    out: int | None
    step: Dim = 1

    def at(self, index: tuple[Dim, ...], some: Dim = 1) -> Dim:
        """The position read for an output index; where `some` is 0, that of the first element."""
        start = mul(self.start, some)
        return start if self.out is None else add(start, mul(self.step, index[self.out]))


@dataclass(frozen=True, slots=True)
class View(Prim):
    """`shape` elements of the operand, one `Axis` for each of its axes."""

    shape: Shape
    axes: tuple[Axis, ...]

    def compute(self) -> Compute:
        """Operand elements as they are, elsewhere."""
        return Elements(moves=True)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """`shape`; no position may be known to lie outside the operand."""
        expect(args, 1, "view")
        check_shape(self.shape, "view")
        (x,) = args
        if len(self.axes) != x.rank:
            raise ShapeError("AR108", "view", got=f"{len(self.axes)} axes", wanted=f"{x.rank}")
        for k, axis in enumerate(self.axes):
            if axis.out is not None:
                check_axis(axis.out, len(self.shape), "view")
            for low, high in self._conditions(axis, x.shape[k]):
                if bounds(add(high, mul(low, -1)))[1] < 0:
                    raise self._outside(axis, k, x.shape)
        return Type(self.shape, x.dtype)

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """Positions inside the operand, where symbols leave that open."""
        open_ends = (
            (k, low, high)
            for k, axis in enumerate(self.axes)
            for low, high in self._conditions(axis, args[0].shape[k])
            if not always_le(low, high)
        )
        return tuple(
            Requirement(low, Relation.LE, high, "AR114", where, f"keep axis {k} inside {show(args[0].shape)}")
            for k, low, high in open_ends
        )

    def _conditions(self, axis: Axis, size: Dim) -> Iterator[tuple[Dim, Dim]]:
        """(low, high) pairs that must be in order; nothing is asked where the axis itself reads nothing.

        Whether another axis is empty does not matter, so that what is wrong is told at all sizes."""
        count = 1 if axis.out is None else self.shape[axis.out]
        some = minimum(count, 1)
        first, last = axis.start, add(axis.start, mul(axis.step, add(count, -1)))
        for end in (first,) if count == 1 else (first, last):
            yield 0, mul(end, some)
            yield mul(add(end, 1), some), mul(size, some)

    def _outside(self, axis: Axis, k: int, shape: Shape) -> ShapeError:
        count = 1 if axis.out is None else self.shape[axis.out]
        got = f"start {axis.start}, size {count}, stride {axis.step} on axis {k}"
        wanted = f"positions 0 to {add(shape[k], -1)} of {show(shape)}"
        return ShapeError("AR114", "view", got=got, wanted=wanted)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """NumPy's indexing with one array of positions for each axis."""
        (x,) = args
        grid = np.ogrid[tuple(slice(n) for n in out)]
        positions = tuple(_position(axis, grid) for axis in self.axes)
        return np.broadcast_to(x[positions], out)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The operand at the mapped index; for an empty view its first element, which is not used."""
        open_axes = ((i, d) for i, d in zip(index, out.shape, strict=True) if not always_le(1, d))
        sure = all(always_le(add(i, 1), d) for i, d in open_axes)
        some = 1 if sure else not_empty(out.shape)
        return args[0].at(tuple(axis.at(index, some) for axis in self.axes))

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The same elements of the symbolic operand, when every position is known."""
        (x,) = args
        shape = short_shape(self.shape)
        static = all(isinstance(a.start, int) and isinstance(a.step, int) for a in self.axes)
        if x is None or not static or shape is None:
            return None
        picked = np.empty(shape, dtype=object)
        for at in np.ndindex(shape):
            picked[at] = x[tuple(known_size(axis.at(at)) for axis in self.axes)]
        return picked


def _position(axis: Axis, grid: tuple[NDArray[np.int64], ...]) -> NDArray[np.int64]:
    along = np.zeros((1,) * len(grid), np.int64) if axis.out is None else grid[axis.out]
    return np.asarray(known_size(axis.start) + known_size(axis.step) * along)


def is_turned(value: Value) -> bool:
    """A view with rows of `FILLED` elements and more, which lie across the rows of its operand."""
    op, last = value.op, value.type.rank - 1
    turned = isinstance(op, View) and op.axes[-1:] != () and op.axes[-1].out not in (None, last)
    return turned and always_le(FILLED, value.shape[last])
