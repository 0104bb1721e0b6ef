"""The same elements in the same order under another shape.

Axes are grouped by equal volume: `(n, 6, 4) → (n, 24)` has the groups n → n and (6, 4) → 24, so that the
first index needs no arithmetic and the others stay affine if ranges allow.

>>> from anyrt.core.enums import DataType
>>> Reshape((6, 4)).infer((Type((2, 3, 4), DataType.HALF),))
half[6, 4]
"""

from __future__ import annotations

from dataclasses import dataclass

from anyrt.core.dims import Dim, add, divmod_dim, mul, product
from anyrt.core.errors import ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.compute import Compute, Elements
from anyrt.ir.graph import Shape, Type, Value
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read, Symbolic
from anyrt.prims._check import check_shape, differ, expect, short_shape, show

AxisGroup = tuple[tuple[int, ...], tuple[int, ...]]  # axes before, and after


@dataclass(frozen=True, slots=True)
class Reshape(Prim):
    """The operand's elements, in row-major order, as `shape`."""

    shape: Shape

    def compute(self) -> Compute:
        """Operand elements, moved."""
        return Elements(moves=True)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """`shape`; the volumes must not be known to differ."""
        expect(args, 1, "reshape")
        check_shape(self.shape, "reshape")
        before, after = product(args[0].shape), product(self.shape)
        if differ(before, after):
            got = f"{before} elements of {show(args[0].shape)} for {show(self.shape)}"
            raise ShapeError("AR103", "reshape", got=got, wanted=f"{after}")
        return Type(self.shape, args[0].dtype)

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """Equal volumes, if symbols do not decide that."""
        before, after = product(args[0].shape), product(self.shape)
        if before == after:
            return ()
        do = f"reshape {show(args[0].shape)} to a shape of the same volume, not {show(self.shape)}"
        return (Requirement(before, Relation.EQ, after, "AR103", where, do),)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """NumPy's reshape."""
        return args[0].reshape(out)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The operand at the same row-major position."""
        (x,) = args
        at: list[Dim] = [0] * x.type.rank
        for sources, targets in axis_groups(x.type.shape, out.shape):
            flat: Dim = 0
            for k in targets:
                flat = add(mul(flat, out.shape[k]), index[k])
            for k in sources[:0:-1]:
                flat, at[k] = divmod_dim(flat, x.type.shape[k])
            if sources:
                at[sources[0]] = flat
        return x.at(at)

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The same sizes, when the new shape is static."""
        (x,) = args
        shape = short_shape(self.shape)
        return None if x is None or shape is None else x.reshape(shape)


def elements_of(value: Value) -> Value:
    """The value whose elements `value` has: a final reshape of a layer needs no memory."""
    while isinstance(value.op, Reshape):
        (value,) = value.args
    return value


def axis_groups(before: Shape, after: Shape) -> tuple[AxisGroup, ...]:
    """The shortest runs of axes (of `before`, of `after`) with equal volumes; axes of size 1 belong to none.

    The rest without provably equal partners is the last group.

    >>> axis_groups((2, 3, 4), (6, 1, 4))
    (((0, 1), (0,)), ((2,), (2,)))
    """
    sources = [k for k, d in enumerate(before) if d != 1]
    targets = [k for k, d in enumerate(after) if d != 1]
    groups: list[AxisGroup] = []
    while sources or targets:
        i, j = _shortest([before[k] for k in sources], [after[k] for k in targets])
        groups.append((tuple(sources[:i]), tuple(targets[:j])))
        sources, targets = sources[i:], targets[j:]
    return tuple(groups)


def _shortest(a: list[Dim], b: list[Dim]) -> tuple[int, int]:
    ends = ((i, j) for i in range(1, len(a) + 1) for j in range(1, len(b) + 1))
    for i, j in sorted(ends, key=sum):
        if product(a[:i]) == product(b[:j]):
            return i, j
    return len(a), len(b)
