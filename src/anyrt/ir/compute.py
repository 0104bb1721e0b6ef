"""How the elements of a value are computed: what a primitive lowers to, and the only thing that scheduling
uses.

A value exists before the kernels (`Given`; `HostStep` if a step of the host program produces it). Otherwise
each of its elements is an expression of operand elements (`Elements`), a fold (`Folded`), a sum of products
(`Contracted`) or a weighted sum of a few elements along an axis (`Resampled`), or the value is a
concatenation of its operands (`Concatenated`). A value that has no formula for one element, such as a sorted
tensor, has statements of its own (`Extern`). Scheduling uses this class and relations of indices, never the
class of a primitive.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from anyrt.core.dims import Dim
from anyrt.core.enums import DataType
from anyrt.ir.kernel import Op


@dataclass(frozen=True, slots=True)
class Given:
    """An input or a constant. `literal`: the bytes of a constant of one element, which kernels contain as a
    number; they may load it instead if it is their `own`, which only one function reads. `numbers`: the
    elements of a small constant in memory, which kernels may contain instead of reading them."""

    constant: bool = False
    literal: bytes | None = None
    own: bool = False
    numbers: bytes | None = None


@dataclass(frozen=True, slots=True)
class HostStep(Given):
    """A value that a step of the host program stores in memory, from operands in memory. `name`: the name of
    such steps in reports."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Nested(HostStep):
    """The results of the regions of a primitive, in memory; its first operand is a bool. `turns`: the first
    operands, one for each result, are states, and the one region computes new ones while the bool among them
    is true. Otherwise the bool selects one of two regions."""

    turns: bool = False


@dataclass(frozen=True, slots=True)
class External(HostStep):
    """The results of foreign code, in memory. `over`: for each result the operand whose memory it overwrites,
    or −1. `sizes`: passed to the code in addition to the addresses of operands and results."""

    over: tuple[int, ...] = ()
    sizes: tuple[Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class Border:
    """`value` at positions less than `lo`, or `hi` and less, from the ends of an axis."""

    lo: tuple[Dim, ...]
    hi: tuple[Dim, ...]
    value: float


class Seen(enum.Enum):
    """The knowledge of a value if another one is NaN: none, that it is NaN, or the value of a bool."""

    ANY = "any"
    NAN = "nan"
    YES = "yes"
    NO = "no"


def nothing(operands: Sequence[Seen]) -> Seen:
    """For a value of which nothing is known."""
    return Seen.ANY


@dataclass(frozen=True, slots=True)
class Elements:
    """Each element by itself. `same`: operands read at the element's own index, at 0 along axes of size 1.
    `cost`: instructions per element of a type. `moves`: operand elements unchanged. `border`: the border
    around the operand's elements, which are unchanged, too. `positions`: the operands that are positions in
    other operands. `of_nan`: what is known of a bool or float result if that is known of the operands.
    `rounds`: the operand, rounded as a store rounds it. `instead`: the first of three operands is read; where
    it is NaN, along axes at which only the last one has 0, the sum of products of the others."""

    same: bool = False
    cost: Callable[[DataType], int] = lambda dtype: 0
    moves: bool = False
    border: Border | None = None
    positions: tuple[int, ...] = ()
    of_nan: Callable[[Sequence[Seen]], Seen] = nothing
    rounds: bool = False
    instead: Contracted | None = None


@dataclass(frozen=True, slots=True)
class Folded:
    """A fold by `op` over `axes`, which stay with size 1, from the value that `start` returns for a type."""

    axes: tuple[int, ...]
    op: Op
    start: Callable[[DataType], float | int]


@dataclass(frozen=True, slots=True)
class Contracted:
    """The sum of products of two operands' elements. Labels name the loops: those of each operand's axes, and
    those of the result's; the others are summed over. `hides`: if the left element is 0, the right one
    contributes nothing, even if it is NaN or infinite."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    out: tuple[int, ...]
    hides: bool = False

    @property
    def sides(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """The labels of each operand, paired with those of the other one."""
        return (self.left, self.right), (self.right, self.left)

    def kept(self, labels: Sequence[int], others: Sequence[int]) -> list[int]:
        """The axes of the result that one operand has and the other one lacks."""
        return [k for k, label in enumerate(self.out) if label in labels and label not in others]


class Rule(Protocol):
    """Positions and weights of taps; a protocol that any rule can implement."""

    @property
    def count(self) -> int:
        """The number of taps per position."""


@dataclass(frozen=True, slots=True)
class Resampled:
    """`size` positions along `axis`, each a sum of the operand's elements at a few positions."""

    axis: int
    size: Dim
    rule: Rule


@dataclass(frozen=True, slots=True)
class Concatenated:
    """All operands, concatenated along `axis`: each has loops of its own."""

    axis: int


@dataclass(frozen=True, slots=True)
class Extern:
    """Statements written by the primitive (`Prim.write`). They read operands from memory and loop over the
    axes `along` (negative ones count from the end); with `behind`, over all axes after these, too. The result
    is independent along the other axes, whose loops surround the statements. `again`: they read elements
    several times, which are best contiguous along the last axis."""

    along: tuple[int, ...]
    behind: bool = False
    again: bool = False


Compute: TypeAlias = Given | Elements | Folded | Contracted | Resampled | Concatenated | Extern


def only_moves(how: Compute) -> bool:
    """True for elements of operands as they are."""
    return isinstance(how, Elements) and how.moves


def is_each(how: Compute) -> bool:
    """True for elements that are computed from those at their own index."""
    return isinstance(how, Elements) and how.same
