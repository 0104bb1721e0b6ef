"""`Chosen`: one of two graphs is computed; the other one costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.dims import Dim
from anyrt.core.dtype import cast
from anyrt.core.errors import DTypeError, ShapeError
from anyrt.ir.compute import Compute, Nested
from anyrt.ir.counted import results
from anyrt.ir.graph import Graph, Type
from anyrt.ir.interpret import run_region
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read
from anyrt.ir.reference import widen
from anyrt.prims.repeated import FLAG, check_region


@dataclass(frozen=True, slots=True)
class Chosen(Prim):
    """The results of `then` if the first operand, a bool, is true, else those of `otherwise`. Both have an
    input for each of the other operands."""

    then: Graph
    otherwise: Graph
    name: str = ""

    def compute(self) -> Compute:
        """The results of one of both in memory."""
        return Nested(name=self.name)

    def infer(self, args: tuple[Type, ...]) -> tuple[Type, ...]:
        """The types of the results, equal in both."""
        if args[:1] != (FLAG,):
            raise DTypeError("AR202", "chosen", f"{args[:1]} as the condition", "a bool")
        for region in self.regions:
            check_region("chosen", region, args[1:])
        types, others = (tuple(v.type for _, v in results(region)) for region in self.regions)
        if types != others:
            got = ", ".join(map(repr, others))
            raise ShapeError("AR112", "chosen", f"{got} otherwise", ", ".join(map(repr, types)))
        return types

    @property
    def regions(self) -> tuple[Graph, ...]:
        """Both."""
        return (self.then, self.otherwise)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> tuple[Array, ...]:
        """Those of the selected region, rounded to their types."""
        region = self.then if np.any(args[0]) else self.otherwise
        arrays, types = run_region(region, args[1:]), [v.dtype for _, v in results(region)]
        return tuple(widen(cast(x, dtype), dtype) for x, dtype in zip(arrays, types, strict=True))

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Never called: each region has kernels of its own."""
        raise AssertionError("a selection of regions is not one expression")
