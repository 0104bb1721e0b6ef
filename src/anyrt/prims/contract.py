"""Sums of products of two operands over their common axes: any einsum of two operands.

>>> from anyrt.core.enums import DataType
>>> a, b = Type((4, 6), DataType.FLOAT), Type((5, 6), DataType.FLOAT)
>>> Contract((0, 2), (1, 2), (0, 1), DataType.FLOAT).infer((a, b))  # mk,nk->mn
float[4, 5]
"""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_letters
from typing import Any, Final

import numpy as np

from anyrt.core.dims import Dim
from anyrt.core.dtype import is_float, short_name
from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError, DTypeError, ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.compute import Compute, Contracted
from anyrt.ir.graph import Type
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read, Symbolic
from anyrt.prims._check import check_type, differ, expect, same_types, show
from anyrt.prims._convert import wrap_array
from anyrt.prims.reduce import FOLDED

SUMMED: Final = (2**31 - 1) // 128**2  # so many products of two int8 numbers have a sum that int32 represents


@dataclass(frozen=True, slots=True)
class Contract(Prim):
    """result[out] = sum of left × right over all labels that are not in `out`.

    Each axis of the operands and of the result has a label, a number. Equal labels move together, and each
    occurs in an operand. A label that only one operand has is summed over that operand alone. Halves are
    summed as float32; 8-bit integers have sums of `dtype` INT32, all others of their own type. `hides`: if an
    element of the left operand is 0, that of the right one contributes nothing, even if it is infinite or
    NaN: the weight of a masked value is 0.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    out: tuple[int, ...]
    dtype: DataType
    hides: bool = False

    def compute(self) -> Compute:
        """A sum of products."""
        return Contracted(self.left, self.right, self.out, self.hides)

    def sizes(self, args: tuple[Type, ...]) -> dict[int, Dim]:
        """The extent of each label: a number if one operand knows it."""
        extents: dict[int, Dim] = {}
        for labels, arg in zip((self.left, self.right), args, strict=True):
            for label, size in zip(labels, arg.shape, strict=True):
                before = extents.setdefault(label, size)
                if differ(before, size):
                    got = f"{show(args[0].shape)} and {show(args[1].shape)}"
                    raise ShapeError("AR112", "contract", got=got, wanted="equal sizes of equal labels")
                extents[label] = before if isinstance(before, int) else size
        return extents

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The sizes of the labels that the result has."""
        expect(args, 2, "contract")
        same_types(tuple(a.dtype for a in args), "contract")
        check_type(args[0].dtype, FOLDED, "contract")
        self._check_labels(args)
        of = args[0].dtype
        narrow = DataType.INT32 if of in (DataType.INT8, DataType.UINT8) else of
        wider = DataType.FLOAT if is_float(of) and of is not DataType.DOUBLE else narrow
        if self.dtype not in (narrow, wider):
            got, names = f"{short_name(self.dtype)} as sum of {short_name(of)}", short_name(narrow)
            raise DTypeError("AR203", "contract", got=got, wanted=names)
        sizes = self.sizes(args)
        return Type(tuple(sizes[k] for k in self.out), self.dtype)

    def _check_labels(self, args: tuple[Type, ...]) -> None:
        for labels, arg in zip((self.left, self.right), args, strict=True):
            if len(labels) != arg.rank:
                raise ShapeError("AR108", "contract", got=f"{len(labels)} labels", wanted=f"{arg.rank}")
        for labels in (self.left, self.right, self.out):
            if len(set(labels)) < len(labels):
                raise ArgumentError("AR305", "contract", got=f"labels {labels}", wanted="each label once")
        if unknown := set(self.out) - {*self.left, *self.right}:
            raise ArgumentError("AR303", "contract", got=f"label {min(unknown)}", wanted="one of an operand")

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """Equal sizes at equal labels, if symbols do not decide that."""
        first = dict(zip(self.left, args[0].shape, strict=True))
        do = f"make sizes equal: {show(args[0].shape)} and {show(args[1].shape)}"
        return tuple(
            Requirement(first[label], Relation.EQ, size, "AR112", where, do)
            for label, size in zip(self.right, args[1].shape, strict=True)
            if label in first and first[label] != size
        )

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """NumPy's einsum; integers are summed as int64, and wrap."""
        a, b = (x if x.dtype.kind == "f" else x.astype(np.int64) for x in args)
        with np.errstate(all="ignore"):
            whole = self._hidden(a, b) if self.hides and b.dtype.kind == "f" else self.contracted(a, b)
            return wrap_array(whole, self.dtype)

    def _hidden(self, a: Array, b: Array) -> Array:
        """The sums where 0 times NaN or infinity is 0: those of finite numbers, with the contribution of the
        others."""
        numbers = np.isfinite(b)
        if numbers.all():
            return self.contracted(a, b)
        sums = self.contracted(a, np.where(numbers, b, 1.0))
        over, under, plus, minus = np.greater(a, 0), np.less(a, 0), np.equal(b, np.inf), np.equal(b, -np.inf)
        for signs, end in (((over, plus), (under, minus)), np.inf), (((over, minus), (under, plus)), -np.inf):
            sums = sums + np.where(sum(self._times(*x) for x in signs), end, 0.0)
        return np.where(self._times(over | under | np.isnan(a), np.isnan(b)), np.nan, sums)

    def _times(self, a: Array, b: Array) -> Array:
        """The number of pairs in a sum."""
        return self.contracted(a.astype(np.float64), b.astype(np.float64))

    def contracted(self, a: Array, b: Array) -> Array:
        """The sums of products of arrays, in their own type."""
        labels = dict(zip(dict.fromkeys((*self.left, *self.right)), ascii_letters, strict=False))
        left, right, out = ("".join(labels[k] for k in x) for x in (self.left, self.right, self.out))
        both: Any = (a, b)  # einsum's type stub has no arrays of any type
        return np.asarray(np.einsum(f"{left},{right}->{out}", *both, optimize=True))

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Never called: a contraction is loops, which the scheduler creates."""
        raise AssertionError("a contraction is not one expression; the scheduler converts it to loops")

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """Matrix products are not shape arithmetic."""
        return None
