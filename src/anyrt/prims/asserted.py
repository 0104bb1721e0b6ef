"""`Asserted`: an identity whose readers run only if a condition of a layer on data holds."""

from __future__ import annotations

from dataclasses import dataclass

from anyrt.core.codes import CODES
from anyrt.core.dims import Dim
from anyrt.core.enums import DataType
from anyrt.core.errors import ArgumentError, DTypeError
from anyrt.core.requirement import FINE, Assertion
from anyrt.ir.graph import Type
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read, Symbolic


@dataclass(frozen=True, slots=True)
class Asserted(Prim):
    """Its first operand, if the second one, an int64, is FINE; otherwise the inference ends with an error,
    before anything is computed from the result."""

    assertion: Assertion

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The first operand's type."""
        if self.assertion.code not in CODES:
            raise ArgumentError("AR304", "asserted", f"code {self.assertion.code!r}", "one that there is")
        if len(args) != 2 or args[1] != Type((), DataType.INT64):
            got = ", ".join(map(repr, args[1:]))
            raise DTypeError("AR202", "asserted", got or "one operand", "a value and an int64")
        return args[0]

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """The first operand."""
        number = int(args[1])
        if number != FINE:
            raise self.assertion.broken(number)
        return args[0]

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The first operand's element."""
        return args[0].at(index)

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The first operand's elements."""
        return args[0]

    @property
    def asserts(self) -> Assertion:
        """The condition that its last operand decides."""
        return self.assertion
