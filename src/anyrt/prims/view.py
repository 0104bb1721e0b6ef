"""Reading an operand at affine indices: permute, expand, slice, flip, drop and insert unit axes in one form.

>>> from anyrt.core.enums import DataType
>>> x = Type((4, 6), DataType.FLOAT)
>>> View((6, 2), (Axis(1, 1, 2), Axis(5, 0, -1))).infer((x,))  # every other row, columns reversed, transposed
float[6, 2]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from anyrt.core.dims import Dim, Sym, add, always_le, bounds, mul
from anyrt.core.errors import ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.compute import Compute, Elements
from anyrt.ir.graph import Shape, Type, Value
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read, Symbolic
from anyrt.ir.windows import together
from anyrt.prims._check import check_axis, check_shape, expect, known_size, not_empty, short_shape, show

FILLED: Final = 16  # elements of a row that are worth a vector


@dataclass(frozen=True, slots=True)
class Axis:
    """The position in one input axis: `start + step × (index of output axis out)`, or `start` if out is None.
    In a window further output axes move it, too: `more` has each with its step."""

    start: Dim
    out: int | None
    step: Dim = 1
    more: tuple[tuple[int, Dim], ...] = ()

    @property
    def terms(self) -> tuple[tuple[int, Dim], ...]:
        """All output axes that move it, each with its step."""
        return self.more if self.out is None else ((self.out, self.step), *self.more)

    def at(self, index: tuple[Dim, ...], some: Dim = 1) -> Dim:
        """The position read for an output index; if `some` is 0, that of the first element."""
        at = mul(self.start, some)
        for out, step in self.terms:
            at = add(at, mul(step, index[out]))
        return at


def moving(start: Dim, terms: Iterable[tuple[int, Dim]]) -> Axis:
    """The axis that is read from `start` on, and moved by output axes with these steps."""
    first, *rest = tuple(terms) or (None,)
    return Axis(start, None) if first is None else Axis(start, *first, tuple(filter(None, rest)))


@dataclass(frozen=True, slots=True)
class View(Prim):
    """`shape` elements of the operand, one `Axis` for each of its axes."""

    shape: Shape
    axes: tuple[Axis, ...]

    @property
    def windows(self) -> list[tuple[int, ...]]:
        """For each axis of the operand, the axes that move it together, if they form windows."""
        loops = tuple(Sym(f"i{k}", extent=d) for k, d in enumerate(self.shape))
        return [together(axis.at(tuple(v.dim for v in loops)), loops) for axis in self.axes]

    def compute(self) -> Compute:
        """Operand elements, moved."""
        return Elements(moves=True)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """`shape`; no position may be known to lie outside the operand."""
        expect(args, 1, "view")
        check_shape(self.shape, "view")
        (x,) = args
        if len(self.axes) != x.rank:
            raise ShapeError("AR108", "view", got=f"{len(self.axes)} axes", wanted=f"{x.rank}")
        for k, axis in enumerate(self.axes):
            for out, _ in axis.terms:
                check_axis(out, len(self.shape), "view")
            for low, high in self._conditions(axis, x.shape[k]):
                if bounds(add(high, mul(low, -1)))[1] < 0:
                    raise self._outside(axis, k, x.shape)
        return Type(self.shape, x.dtype)

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """Positions inside the operand, if symbols do not decide that."""
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
        """(low, high) pairs that must be in order; none if the axis itself reads nothing.

        Whether another axis is empty does not matter, so that errors are reported at all sizes."""
        some = not_empty(tuple(self.shape[out] for out, _ in axis.terms))
        ends = [axis.start]
        for out, step in axis.terms:
            if self.shape[out] != 1:
                ends += [add(end, mul(step, add(self.shape[out], -1))) for end in ends]
        for end in ends:
            yield 0, mul(end, some)
            yield mul(add(end, 1), some), mul(size, some)

    def _outside(self, axis: Axis, k: int, shape: Shape) -> ShapeError:
        got = f"start {axis.start}"
        for out, step in axis.terms or ((None, axis.step),):
            got += f", size {1 if out is None else self.shape[out]}, stride {step}"
        got += f" on axis {k}"
        wanted = f"positions 0 to {add(shape[k], -1)} of {show(shape)}"
        return ShapeError("AR114", "view", got=got, wanted=wanted)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """The same memory with other strides, each the sum of those that an output axis moves along."""
        (x,) = args
        steps = [0] * len(out)
        for axis, stride in zip(self.axes, x.strides, strict=True):
            for k, step in axis.terms:
                steps[k] += known_size(step) * stride
        if 0 in out:  # positions may lie outside where nothing is read
            return np.empty(out, x.dtype)
        first = x[tuple(slice(known_size(axis.start), None) for axis in self.axes)]
        return as_strided(first, out, steps, writeable=False)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The operand at the mapped index; for an empty view its first element, which is not used."""
        open_axes = ((i, d) for i, d in zip(index, out.shape, strict=True) if not always_le(1, d))
        sure = all(always_le(add(i, 1), d) for i, d in open_axes)
        some = 1 if sure else not_empty(out.shape)
        return args[0].at(tuple(axis.at(index, some) for axis in self.axes))

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The same elements of the symbolic operand, if every position is known."""
        (x,) = args
        shape = short_shape(self.shape)
        static = all(isinstance(a.start, int) and isinstance(a.step, int) for a in self.axes)
        if x is None or not static or shape is None:
            return None
        picked = np.empty(shape, dtype=object)
        for at in np.ndindex(shape):
            picked[at] = x[tuple(known_size(axis.at(at)) for axis in self.axes)]
        return picked


def is_turned(value: Value) -> bool:
    """A view with rows of at least `FILLED` elements, which are strided in its operand."""
    op, last = value.op, value.type.rank - 1
    turned = isinstance(op, View) and op.axes[-1:] != () and op.axes[-1].out not in (None, last)
    return turned and always_le(FILLED, value.shape[last])
