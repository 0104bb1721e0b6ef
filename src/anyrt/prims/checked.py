"""`Checked`: an identity with conditions on dynamic sizes, from an operator's expansion."""

from __future__ import annotations

from dataclasses import dataclass

from anyrt.core.dims import Dim
from anyrt.core.requirement import Requirement
from anyrt.ir.compute import Compute, Elements
from anyrt.ir.graph import Type
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read, Symbolic


@dataclass(frozen=True, slots=True)
class Checked(Prim):
    """Its first operand, for sizes that meet `requirements`. Another operand is a number that defines a size
    (ops/_elements.py), so that every user of the result computes it."""

    requirements: tuple[Requirement, ...]

    def compute(self) -> Compute:
        """Operand elements as they are."""
        return Elements(same=True, moves=True)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The operand's type."""
        return args[0]

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """The operand."""
        return args[0]

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The operand's element."""
        return args[0].at(index)

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The operand's elements."""
        return args[0]

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """The conditions; each names its own place."""
        return self.requirements
