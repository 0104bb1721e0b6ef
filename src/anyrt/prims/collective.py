"""`Collective`: the result of a collective operation with other ranks, performed by the communicator of a
context.

>>> from anyrt.core.enums import DataType
>>> total = Collective("sum", C.ALL_REDUCE, R.SUM, -1, (), 2, (4,))
>>> total.infer((Type((4,), DataType.HALF),))
half[4]
"""

from __future__ import annotations

from dataclasses import dataclass

from anyrt.core.collectives import CUT, first_size
from anyrt.core.dims import Dim, floordiv, mul
from anyrt.core.enums import CollectiveOperation, ReduceOperation
from anyrt.core.errors import NotSupportedError, ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.compute import Compute, External
from anyrt.ir.graph import Shape, Type
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read
from anyrt.prims._check import show

C, R = CollectiveOperation, ReduceOperation


@dataclass(frozen=True, slots=True)
class Collective(Prim):
    """The first operand, of `shape`, after the operation of the layer `layer` between `ranks` ranks: those of
    `group`, or all if it is (). A further operand is the result of an earlier operation: all ranks perform
    their operations in one order (passes/order_exchanges.py)."""

    layer: str
    operation: CollectiveOperation
    fold: ReduceOperation
    root: int
    group: tuple[int, ...]
    ranks: int
    shape: Shape

    def compute(self) -> Compute:
        """The result of the communicator in memory."""
        return External(name=self.layer, sizes=self.shape)

    def infer(self, args: tuple[Type, ...]) -> Type:
        """The operand's type; its first size is divided or multiplied if parts are distributed or joined."""
        x = args[0]
        if x.shape != self.shape or not 1 <= len(args) <= 2:
            raise ShapeError("AR123", self.layer, show(x.shape), show(self.shape))
        if self.operation in CUT and isinstance(x.shape[0], int) and x.shape[0] % self.ranks:
            raise ShapeError("AR103", self.layer, show(x.shape), f"a first size that {self.ranks} divides")
        first = [first_size(self.operation, d, self.ranks) for d in x.shape[:1]]
        return Type((*first, *x.shape[1:]), x.dtype)

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """A first size that is divided into equal parts."""
        if self.operation not in CUT or isinstance(self.shape[0], int):
            return ()
        do = f"pass a first size that {self.ranks} divides"
        whole = mul(floordiv(self.shape[0], self.ranks), self.ranks)
        rule = Requirement(self.shape[0], Relation.EQ, whole, "AR103", where, do)
        return () if whole == self.shape[0] else (rule,)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array:
        """Raises: one process does not know the operands of the other ranks."""
        do = "run the engine in each rank's process, with context.set_communicator(ranks)"
        got = f"an exchange between {self.ranks} ranks"
        raise NotSupportedError("AR901", self.layer, got, "one rank: the interpreter is one process", do)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """Never called: a step of the host program exchanges whole arrays."""
        raise AssertionError("the result of an exchange is not one expression")
