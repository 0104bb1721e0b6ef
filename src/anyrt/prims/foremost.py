"""The largest or smallest element along an axis together with its position, as one int64: the element's bits
above, the position below. One pass over the operand therefore finds both.

>>> code = Foremost(0, largest=True).ref((np.array([[1, 5], [3, 5]], np.int32),), (1, 2))
>>> (code >> 32).tolist(), (code & 0xFFFFFFFF).tolist()  # the first of equals
([[3, 5]], [[1, 0]])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from anyrt.core.dims import Dim, add, ceildiv, maximum, minimum, mul
from anyrt.core.enums import DataType
from anyrt.ir.buffer import COMPUTED, Scalar
from anyrt.ir.compute import Compute, Extern
from anyrt.ir.graph import Type
from anyrt.ir.kernel import (
    Expr,
    For,
    Loop,
    Op,
    Stmt,
    Store,
    alu,
    bitcast,
    cast,
    const,
    index,
    load,
    select,
)
from anyrt.ir.prim import Array, Making, Prim, Read
from anyrt.prims._check import check_axis, check_type, expect
from anyrt.prims.ranked import Ranked

# Types that are computed in 32 bits.
SHORT: Final = frozenset({DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.INT32})
HALF: Final = 32  # bits of each half of a result
PART: Final = 1024  # elements of the last axis whose best ones are found side by side
NAN: Final = 0x7FC00000  # the bits of every NaN that is found


@dataclass(frozen=True, slots=True)
class Foremost(Prim):
    """The best element along `axis`, which is not the last one, and its position: of equal ones, such as 0
    and -0, the first; NaN if there are no numbers. Narrow floats have the bits of the equal float32."""

    axis: int
    largest: bool

    def compute(self) -> Compute:
        """Statements for all elements along the axis and the last one."""
        return Extern((self.axis, -1))

    def infer(self, args: tuple[Type, ...]) -> Type:
        """One int64 along the axis."""
        expect(args, 1, "foremost")
        (x,) = args
        check_type(x.dtype, SHORT, "foremost")
        check_axis(self.axis, x.rank - 1, "foremost")
        Ranked(self.axis, 1, self.largest).infer(args)
        return Type((*x.shape[: self.axis], 1, *x.shape[self.axis + 1 :]), DataType.INT64)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """The element that a sort puts first."""
        place = Ranked(self.axis, 1, self.largest).ref(args, out).astype(np.int64)
        elements = np.take_along_axis(args[0], place, self.axis)
        if elements.dtype.kind not in "iu":
            elements = np.where(
                np.isnan(elements.astype(np.float32)), NAN, elements.astype(np.float32).view(np.int32)
            )
        return elements.astype(np.int64) << HALF | place

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Never called: no element is computed by itself."""
        raise AssertionError("the foremost element is not one expression; it is written as statements")

    def write(
        self, out: Type, args: tuple[Read, ...], item: tuple[Dim, ...], make: Making
    ) -> tuple[Stmt, ...]:
        """For each element of the last axis, in parts that fit near the core."""
        (x,) = args
        kind, last, along = COMPUTED[x.type.dtype], x.type.shape[-1], x.type.shape[self.axis]
        part = make.var(ceildiv(last, PART))
        first = mul(part.dim, PART)
        wide = maximum(0, minimum(PART, add(last, mul(first, -1))))
        elements, places = (make.scratch(k, PART) for k in (kind, Scalar.I32))
        start, step, lane, end = make.var(wide), make.var(add(along, -1)), make.var(wide), make.var(wide)

        def at(place: Dim, lane: Dim) -> tuple[Dim, ...]:
            return (*item[: self.axis], place, *item[self.axis + 1 : -1], add(first, lane))

        one, sofar = x.at(at(add(step.dim, 1), lane.dim)), load(elements, lane.dim)
        is_better = self._is_better(one, sofar)
        here = cast(index(add(step.dim, 1)), Scalar.I32)
        begun = (
            Store(places, start.dim, const(0, Scalar.I32)),
            Store(elements, start.dim, x.at(at(0, start.dim))),
        )
        better = (
            Store(places, lane.dim, select(is_better, here, load(places, lane.dim))),
            Store(elements, lane.dim, select(is_better, one, sofar)),
        )
        code = _joined(load(elements, end.dim), load(places, end.dim))
        body = (
            For(start, Loop.SERIAL, begun),
            For(step, Loop.SERIAL, (For(lane, Loop.SERIAL, better),)),
            For(end, Loop.SERIAL, (make.store(at(0, end.dim), code),)),
        )
        return (For(part, Loop.SERIAL, body),)

    def _is_better(self, one: Expr, sofar: Expr) -> Expr:
        better = sofar < one if self.largest else one < sofar
        if not one.type.is_float:
            return better
        is_first = alu(Op.AND, alu(Op.NE, sofar, sofar), alu(Op.EQ, one, one))
        return alu(Op.OR, better, is_first)


def _joined(element: Expr, place: Expr) -> Expr:
    """The bits of an element above its position."""
    bits = element
    if element.type.is_float:
        bits = select(alu(Op.EQ, element, element), bitcast(element, Scalar.I32), const(NAN, Scalar.I32))
    above = alu(Op.SHL, cast(bits, Scalar.I64), const(HALF, Scalar.I64))
    return alu(Op.OR, above, cast(place, Scalar.I64))
