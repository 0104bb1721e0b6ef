"""`Repeated`: a graph that is computed again and again on what it has made, as long as it asks for it.

A loop of a network becomes one: its counter, its recurrences and what it concatenates are states.
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
    """The operands are states, as many as `body` has results, and then what stays the same; `body` has an
    input for each of them. While the first state, a bool, is true, the states become the results of `body`.
    The results are the states at the end. What stands among the body's `updates` is changed in place."""

    body: Graph
    name: str = ""

    def compute(self) -> Compute:
        """What the turns leave in memory."""
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
        """Turn by turn; what a turn leaves is rounded to its type."""
        types = [v.dtype for _, v in results(self.body)]
        states, others = args[: len(types)], args[len(types) :]
        while np.any(states[0]):
            made = run_region(self.body, (*states, *others))
            states = tuple(widen(cast(x, dtype), dtype) for x, dtype in zip(made, types, strict=True))
        return states

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Never called: the body has kernels of its own."""
        raise AssertionError("what is repeated is no expression")


def check_region(where: str, region: Graph, args: tuple[Type, ...]) -> None:
    """Raises unless a region has an input for each operand, of its type."""
    inputs = tuple(v.type for _, v in region.inputs)
    if inputs != args or not region.outputs:
        got = ", ".join(map(repr, args))
        raise _mismatch(where, got, ", ".join(map(repr, inputs)))


def _mismatch(where: str, got: str, wanted: str) -> AnyrtError:
    return ShapeError("AR112", where, f"operands {got}", f"{wanted}, as its region has them")
