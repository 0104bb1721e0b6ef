"""`Count`: a number that determines sizes.

>>> from anyrt.core.counts import count
>>> Count(count("found", 8)).ref((np.array(3),), ())
array(3)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.dims import Dim, Sym
from anyrt.core.enums import DataType
from anyrt.core.errors import DTypeError
from anyrt.ir.graph import Type
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read, Symbolic


@dataclass(frozen=True, slots=True)
class Count(Prim):
    """Its operand, an int64 number in the range of `size`, whose value it defines: values computed from the
    result may have shapes with that size. A graph has the number as an output (ir/counted.py)."""

    size: Sym

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The operand's type."""
        if args != (Type((), DataType.INT64),):
            got = ", ".join(map(repr, args))
            raise DTypeError("AR202", "count", got or "no operand", "an int64")
        return args[0]

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """The operand."""
        return args[0]

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The operand's element."""
        return args[0].at(index)

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The size."""
        return np.array(self.size.dim, dtype=object)

    @property
    def tells(self) -> Sym:
        """The size."""
        return self.size
