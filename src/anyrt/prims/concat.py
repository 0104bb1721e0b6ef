"""Operands one after the other along an axis.

>>> from anyrt.core.enums import DataType
>>> Concat(1).infer((Type((2, 3), DataType.FLOAT), Type((2, 5), DataType.FLOAT)))
float[2, 8]
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from anyrt.core.dims import Dim, add, always_le, mul
from anyrt.core.errors import GraphError, ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.core.sizes import clamp
from anyrt.ir import kernel
from anyrt.ir.compute import Compute, Concatenated
from anyrt.ir.graph import Type
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read, Symbolic
from anyrt.prims._check import check_axis, check_shape, differ, not_empty, same_types, short_shape, show


@dataclass(frozen=True, slots=True)
class Concat(Prim):
    """All operands, in order, along `axis`."""

    axis: int

    def compute(self) -> Compute:
        """Its operands, concatenated."""
        return Concatenated(self.axis)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The first operand's shape with the sum of all sizes along the axis."""
        if not args:
            raise GraphError("AR406", "concat", got="no operands", wanted="at least 1")
        first = args[0]
        check_axis(self.axis, first.rank, "concat")
        same_types(tuple(a.dtype for a in args), "concat")
        shape = list(first.shape)
        for k, other in enumerate(args[1:], 1):
            if other.rank != first.rank:
                raise ShapeError(
                    "AR122", "concat", got=f"operand {k} of rank {other.rank}", wanted=f"{first.rank}"
                )
            if any(differ(a, b) for axis, a, b in self._pairs(first, other)):
                got = f"operand {k} of shape {show(other.shape)}"
                wanted = f"the sizes of {show(first.shape)} on every axis but {self.axis}"
                raise ShapeError("AR113", "concat", got=got, wanted=wanted)
            shape[self.axis] = add(shape[self.axis], other.shape[self.axis])
        return Type(check_shape(tuple(shape), "concat"), first.dtype)

    def _pairs(self, a: Type, b: Type) -> list[tuple[int, Dim, Dim]]:
        both = enumerate(zip(a.shape, b.shape, strict=True))
        return [(k, m, n) for k, (m, n) in both if k != self.axis]

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """Equal sizes along the other axes."""
        pairs = (pair for other in args[1:] for pair in self._pairs(args[0], other))
        return tuple(
            Requirement(a, Relation.EQ, b, "AR113", where, f"make all operands equal on axis {k}")
            for k, a, b in pairs
            if a != b
        )

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """NumPy's concatenate."""
        return np.concatenate(args, axis=self.axis)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The operand that contains the index; operands that its range excludes are not read."""
        i = index[self.axis]
        sizes = [x.type.shape[self.axis] for x in args]
        ends = list(accumulate(sizes, add))
        result: Expr | None = None
        for k in reversed(range(len(args))):
            if sizes[k] == 0 or always_le(ends[k], i):
                continue
            inside = clamp(add(i, mul(add(ends[k], mul(sizes[k], -1)), -1)), 0, add(sizes[k], -1))
            some = not_empty((sizes[k],))  # otherwise every position is that of the first element
            here = args[k].at([mul(some, d) for d in (*index[: self.axis], inside, *index[self.axis + 1 :])])
            sure = result is None or always_le(add(i, 1), ends[k])
            result = here if sure or result is None else kernel.select(_below(i, ends[k]), here, result)
        return args[0].at(index) if result is None else result  # None: all are empty, nothing is read

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The concatenated sizes."""
        known = [a for a in args if a is not None]
        if len(known) < len(args) or short_shape(out.shape) is None:
            return None
        return np.concatenate(known, axis=self.axis)


def _below(i: Dim, end: Dim) -> Expr:
    return kernel.index(i) < kernel.index(end)
