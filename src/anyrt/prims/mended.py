"""`Mended`: masked sums, and the exact sums that replace them where they are NaN or infinite.

>>> sums, x, w = (np.array(a) for a in ([[np.inf, 5.0], [3.0, 4.0]], [[1.0], [2.0]], [[3.0, 2.0]]))
>>> Mended((0, 1), (1, 2), (0, 2)).ref((sums, x, w), (2, 2))
array([[3., 2.],
       [3., 4.]])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import Dim
from anyrt.core.enums import DataType
from anyrt.ir.compute import Compute, Contracted, Elements
from anyrt.ir.graph import Type
from anyrt.ir.kernel import Expr, fma
from anyrt.ir.prim import Array, Prim, Read
from anyrt.prims.contract import Contract


@dataclass(frozen=True, slots=True)
class Mended(Prim):
    """The first operand; where it is NaN or infinite, the sum of products of the two others, whose axes have
    labels as those of `Contract`. Along axes that only the last operand has, the first element represents
    all: the first operand is finite everywhere there, or nowhere."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    out: tuple[int, ...]

    def compute(self) -> Compute:
        """The first operand's elements, or NaN; a second kernel sums where these are NaN."""
        instead = Contracted(self.left, self.right, self.out)
        return Elements(same=True, of_nan=lambda operands: operands[0], instead=instead)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The type of the sums, which is the first operand's."""
        assert args[0] == self.sums(args[0].dtype).infer(args[1:]), "mended by sums of another type"
        return args[0]

    def sums(self, dtype: DataType) -> Contract:
        """The contraction that replaces the first operand."""
        return Contract(self.left, self.right, self.out, dtype)

    def broken(self, sums: Array) -> NDArray[np.bool_]:
        """The elements to replace, with size 1 along axes whose first element represents all."""
        first = tuple(slice(None) if x in self.left else slice(1) for x in self.out)
        return np.logical_not(np.isfinite(sums[first]))

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """The first operand; the sums are computed only if an element is not finite."""
        sums, *factors = args
        if not self.broken(sums).any():
            return sums
        with np.errstate(all="ignore"):
            return np.where(self.broken(sums), self.sums(DataType.FLOAT).contracted(*factors), sums)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The first operand's element, or NaN for an infinity: the kernel that replaces elements finds NaN
        only."""
        total = args[0].at(index)
        return fma(total, 0.0, total)
