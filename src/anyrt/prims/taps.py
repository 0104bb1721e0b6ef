"""Weighted sums of a few positions along one axis: every resize mode, and slices that read outside.

A rule gives k input positions (always inside the operand) with their weights for output position o.
Coordinates are exact rationals, so that rounding down lands on integers; only the fraction becomes a float32.

>>> from anyrt.core.enums import SampleMode
>>> Taps(0, 6, Border(SampleMode.REFLECT, -2, 1)).ref((np.array([10, 20, 30]),), (6,)).tolist()
[30, 20, 10, 20, 30, 20]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from anyrt.core.dims import Dim, always_le, minimum, mul
from anyrt.core.enums import DataType
from anyrt.core.errors import ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir import kernel
from anyrt.ir.compute import Compute, Resampled
from anyrt.ir.graph import Type, Value
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read
from anyrt.prims._check import check_axis, check_shape, check_type, expect, known_size, show
from anyrt.prims.taprules import Border, Cubic, Linear, Nearest, TapRule, is_zero

__all__ = ["Border", "Cubic", "Linear", "Nearest", "TapRule", "Taps", "grows"]

WEIGHED = frozenset({DataType.FLOAT, DataType.HALF, DataType.BF16})


@dataclass(frozen=True, slots=True)
class Taps(Prim):
    """`size` positions along `axis`, each a sum of the operand's elements by `rule`."""

    axis: int
    size: Dim
    rule: TapRule

    def compute(self) -> Compute:
        """A sum of a few positions along the axis."""
        return Resampled(self.axis, self.size, self.rule)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The operand's shape with `size` on the axis; rules with weights take floats only."""
        expect(args, 1, "taps")
        (x,) = args
        check_axis(self.axis, x.rank, "taps")
        if self.rule.weighs:
            check_type(x.dtype, WEIGHED, "taps")
        if x.shape[self.axis] == 0 and always_le(1, self.size):
            got = f"size {self.size} on the empty axis {self.axis} of {show(x.shape)}"
            raise ShapeError("AR110", "taps", got=got, wanted="size 0")
        shape = (*x.shape[: self.axis], self.size, *x.shape[self.axis + 1 :])
        return Type(check_shape(shape, "taps"), x.dtype)

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """A nonempty axis if anything is read, and a size that is not negative."""
        length, requirements = args[0].shape[self.axis], []
        if not always_le(minimum(self.size, 1), length):
            do = f"axis {self.axis} is empty, so its new size must be 0"
            requirements.append(Requirement(minimum(self.size, 1), Relation.LE, length, "AR110", where, do))
        if not always_le(0, self.size):
            do = f"give axis {self.axis} a size of 0 or more"
            requirements.append(Requirement(0, Relation.LE, self.size, "AR110", where, do))
        return tuple(requirements)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """Rows selected by the rule's table; summed in float64 if they are weighted."""
        (x,) = args
        positions, weights = self.rule.table(x.shape[self.axis], known_size(out[self.axis]))
        if not self.rule.weighs:
            return np.take(x, positions[:, 0], axis=self.axis)
        wide, total = x.astype(np.float64), np.full(out, -0.0)
        along = [-1 if k == self.axis else 1 for k in range(x.ndim)]
        with np.errstate(all="ignore"):
            for k in range(self.rule.count):
                weight = weights[:, k].reshape(along)
                weighed = np.take(wide, positions[:, k], axis=self.axis) * weight
                total += np.where(weight == 0, -0.0, weighed)
        return total

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The taps' elements, multiplied and added in order."""
        (x,) = args
        n_in = x.type.shape[self.axis]
        taps = [
            (weight, x.at((*index[: self.axis], position, *index[self.axis + 1 :])))
            for position, weight in self.rule.taps(index[self.axis], n_in, self.size)
        ]
        return weighed(taps, self.rule.order, self.rule.silence(n_in, self.size))


def weighed(
    taps: Sequence[tuple[Expr | None, Expr]], order: Iterable[int], silence: Sequence[int | None]
) -> Expr:
    """Elements times their weights (None: the one element), added in order, without silent ones: one
    selection for neighbours that share a weight test."""
    total: Expr | None = None
    for silencer, run in groupby(order, lambda t: silence[t]):
        before = total
        for t in run:
            weight, element = taps[t]
            if weight is None:
                return element
            total = weight * element if total is None else kernel.fma(weight, element, total)
        silencing = None if silencer is None else taps[silencer][0]
        if silencing is not None and total is not None:  # −0 changes no zero's sign
            total = kernel.select(is_zero(silencing), -0.0 if before is None else before, total)
    assert total is not None, "a rule has at least one tap"
    return total


def grows(value: Value) -> bool:
    """True if taps certainly produce at least half as many elements again as they read."""
    op = value.op
    return isinstance(op, Taps) and always_le(mul(value.args[0].shape[op.axis], 3), mul(op.size, 2))
