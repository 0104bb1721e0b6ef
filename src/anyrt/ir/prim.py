"""The interface of a primitive: methods on a frozen dataclass that holds its attributes.

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
    """The environment of a primitive's statements: the result that they store, and their counters and
    registers."""

    def var(self, extent: Dim) -> Sym:
        """A counter of a loop."""

    def at(self, index: Sequence[Dim]) -> Expr:
        """An element of the result, as it was last stored."""

    def store(self, index: Sequence[Dim], value: Expr) -> Store:
        """Store an element of the result."""

    def register(self, kind: Scalar) -> Buffer:
        """A register to fold into."""

    def scratch(self, kind: Scalar, count: Dim) -> Buffer:
        """Memory of the item, with undefined content."""


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
        """For an `Extern` primitive: the statements that compute an item of the result, that is, all its
        elements at `item`, except that the axes over which statements loop are 0 there. A loop around all
        others may be iterated in any order, and by several threads."""
        raise NotImplementedError

    def compute(self) -> Compute:
        """How elements of the result are computed; if each is computed by itself, `lower` returns them."""
        return Elements()

    def values(self, args: tuple[Symbolic | None, ...], out: Type) -> Symbolic | None:
        """The result's elements as Dims if the operands' are known (shape arithmetic), else None. Called only
        if there is one result."""
        return None

    def requires(self, args: tuple[Type, ...], where: str) -> tuple[Requirement, ...]:
        """Conditions on dynamic sizes that `infer` could not decide."""
        return ()

    @property
    def narrows(self) -> bool:
        """Whether it may narrow float64 because the network requests it."""
        return False

    @property
    def asserts(self) -> Assertion | None:
        """A condition on data. The last operand is stored: it is the number that an inference tests, before
        anything is computed from the result."""
        return None

    @property
    def tells(self) -> Sym | None:
        """The size that its result, an int64 number, defines (core/counts.py)."""
        return None

    @property
    def regions(self) -> tuple[Graph, ...]:
        """The graphs among its attributes; `ref` executes them with `interpret.run_region`."""
        return ()

    def types(self, args: tuple[Type, ...]) -> tuple[Type, ...]:
        """The types of all results."""
        return _all(self.infer(args))

    def results(self, args: tuple[Array, ...], out: tuple[int, ...]) -> tuple[Array, ...]:
        """All results in NumPy; `out` is the concrete shape of the first."""
        return _all(self.ref(args, out))


def _all(result: T | tuple[T, ...]) -> tuple[T, ...]:
    return result if isinstance(result, tuple) else (result,)
