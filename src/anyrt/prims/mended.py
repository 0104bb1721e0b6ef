"""`Mended`: what was computed in a way that NaN and infinities break, with the sums that it stands for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import Dim
from anyrt.core.enums import DataType
from anyrt.ir.compute import Compute, Contracted, Elements
from anyrt.ir.graph import Type
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read
from anyrt.prims.contract import Contract


@dataclass(frozen=True, slots=True)
class Mended(Prim):
    """Its first operand; where that is NaN, the sum of products of the two others, whose axes have labels as
    those of `Contract`. Along axes that only the last one has, the first element tells of all."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    out: tuple[int, ...]

    def compute(self) -> Compute:
        """The first operand's elements as they are; a second kernel sums where these are NaN."""
        instead = Contracted(self.left, self.right, self.out)
        return Elements(same=True, of_nan=lambda operands: operands[0], instead=instead)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The type of the sums, which is the first operand's."""
        assert args[0] == self.sums(args[0].dtype).infer(args[1:]), "mended by sums of another type"
        return args[0]

    def sums(self, dtype: DataType) -> Contract:
        """What takes the first operand's place."""
        return Contract(self.left, self.right, self.out, dtype)

    def broken(self, made: Array) -> NDArray[np.bool_]:
        """Where the sums do, with size 1 along axes of which the first element tells of all."""
        first = tuple(slice(None) if x in self.left else slice(1) for x in self.out)
        return np.asarray(np.isnan(made[first]))

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """The sums are made only where something is NaN."""
        made, *factors = args
        if not self.broken(made).any():
            return made
        with np.errstate(all="ignore"):
            return np.where(self.broken(made), self.sums(DataType.FLOAT).contracted(*factors), made)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The first operand's element."""
        return args[0].at(index)
