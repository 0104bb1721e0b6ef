"""`Repeated`: a graph that is computed repeatedly on its own results, while a condition holds.

A loop of a network becomes one: its counter, its recurrences and its concatenated outputs are states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.dims import Dim
from anyrt.core.dtype import cast
from anyrt.core.enums import DataType
from anyrt.core.errors import AnyrtError, DTypeError, ShapeError
from anyrt.ir.compute import Compute, Nested
from anyrt.ir.counted import results
from anyrt.ir.graph import Graph, Type
from anyrt.ir.interpret import run_region
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read
from anyrt.ir.reference import widen

FLAG = Type((), DataType.BOOL)


@dataclass(frozen=True, slots=True)
class Repeated(Prim):
    """The operands are states, one for each result of `body`, followed by loop invariants; `body` has an
    input for each of them. While the first state, a bool, is true, the results of `body` become the states.
    The results are the states at the end. States among the body's `updates` are changed in place."""

    body: Graph
    name: str = ""

    def compute(self) -> Compute:
        """The results of the iterations in memory."""
        return Nested(turns=True, name=self.name)

    def infer(self, args: tuple[Type, ...]) -> tuple[Type, ...]:
        """The types of the states, which the body keeps."""
        check_region("repeated", self.body, args)
        ends = results(self.body)
        states = args[: len(ends)]
        if states[:1] != (FLAG,):
            raise DTypeError("AR202", "repeated", f"{states[:1]} as the first state", "a bool")
        for (name, value), state in zip(ends, states, strict=False):
            if value.type != state:
                raise ShapeError("AR112", "repeated", f"{name} becomes {value.type}", f"{state}, as before")
        return states

    @property
    def regions(self) -> tuple[Graph, ...]:
        """The body."""
        return (self.body,)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> tuple[Array, ...]:
        """One iteration after the other; the results of an iteration are rounded to their types."""
        types = [v.dtype for _, v in results(self.body)]
        states, others = args[: len(types)], args[len(types) :]
        while np.any(states[0]):
            new = run_region(self.body, (*states, *others))
            states = tuple(widen(cast(x, dtype), dtype) for x, dtype in zip(new, types, strict=True))
        return states

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Never called: the body has kernels of its own."""
        raise AssertionError("the result of a loop is not one expression")


def check_region(where: str, region: Graph, args: tuple[Type, ...]) -> None:
    """Raises unless a region has an input for each operand, of its type."""
    inputs = tuple(v.type for _, v in region.inputs)
    if inputs != args or not region.outputs:
        got = ", ".join(map(repr, args))
        raise _mismatch(where, got, ", ".join(map(repr, inputs)))


def _mismatch(where: str, got: str, wanted: str) -> AnyrtError:
    return ShapeError("AR112", where, f"operands {got}", f"{wanted}, as its region has them")
