"""What the compiler knows about a primitive: four methods on a frozen dataclass that holds its attributes.

Only primitives have shape rules and lowerings. The subclasses live in prims/, one file each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import Dim, Sym
from anyrt.core.requirement import Assertion, Requirement
from anyrt.ir.buffer import Buffer, Scalar
from anyrt.ir.compute import Compute, Elements
from anyrt.ir.graph import Graph, Type
from anyrt.ir.kernel import Expr, Stmt, Store

T = TypeVar("T")
Array = NDArray[np.generic]
Symbolic = NDArray[np.object_]  # an array whose elements are Dims


@dataclass(frozen=True, slots=True)
class Read:
    """An operand as the lowering sees it: its type, and its element at an index as a computed value (see
    buffer.COMPUTED)."""

    type: Type
    at: Callable[[Sequence[Dim]], Expr]


class Making(Protocol):
    """What the statements of a primitive are written with: the result they make, and what they count and keep
    meanwhile."""

    def var(self, extent: Dim) -> Sym:
        """A counter of a loop."""

    def at(self, index: Sequence[Dim]) -> Expr:
        """An element of the result, as it was stored last."""

    def store(self, index: Sequence[Dim], value: Expr) -> Store:
        """Makes an element of the result."""

    def register(self, kind: Scalar) -> Buffer:
        """A number to fold into."""

    def scratch(self, kind: Scalar, count: Dim) -> Buffer:
        """Memory of the item's own, with anything in it."""


class Prim(ABC):
    """A primitive with its attributes; instances are frozen, hashable dataclasses."""

    __slots__ = ()

    @abstractmethod
    def infer(self, args: tuple[Type, ...]) -> Type | tuple[Type, ...]:
        """The type of the result, or of each of several; raises ShapeError or DTypeError."""

    @abstractmethod
    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> Array | tuple[Array, ...]:
        """The result in NumPy, or each of several, for concrete arrays; `out` is the concrete shape of the
        first."""

    @abstractmethod
    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        """The element at `index` as an expression of operand elements."""

    def write(
        self, out: Type, args: tuple[Read, ...], item: tuple[Dim, ...], make: Making
    ) -> tuple[Stmt, ...]:
        """The statements that make an item of the result: all of its elements at `item` but for the axes that
        statements go along, where `item` is 0; of a primitive that is `Extern`. A loop that holds all others
        may turn in any order, and threads may share it."""
        raise NotImplementedError

    def compute(self) -> Compute:
        """How elements of the result come about; `lower` gives them where each comes about by itself."""
        return Elements()

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The result's elements as Dims when the operands' are known (shape arithmetic); None when they are
        not. Asked only where there is one result."""
        return None

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """Conditions on dynamic sizes that `infer` could not decide."""
        return ()

    @property
    def narrows(self) -> bool:
        """Whether float64 may become less by it, because the network says so."""
        return False

    @property
    def asserts(self) -> Assertion | None:
        """A condition on data; the last operand, which is stored, is what a run finds of it, and nothing is
        computed from the result before that is judged."""
        return None

    @property
    def tells(self) -> Sym | None:
        """The size that its result, an int64 number, is from then on (core/counts.py)."""
        return None

    @property
    def regions(self) -> tuple[Graph, ...]:
        """The graphs among its attributes; `ref` runs them with `interpret.run_region`."""
        return ()

    def types(self, args: tuple[Type, ...]) -> tuple[Type, ...]:
        """The types of all results."""
        return _all(self.infer(args))

    def results(self, args: tuple[Array, ...], out: tuple[int, ...]) -> tuple[Array, ...]:
        """All results in NumPy; `out` is the concrete shape of the first."""
        return _all(self.ref(args, out))


def _all(found: T | tuple[T, ...]) -> tuple[T, ...]:
    return found if isinstance(found, tuple) else (found,)
