"""How the elements of a value come about: what a primitive lowers to, and all that scheduling knows of it.

A value is there before (`Given`; left by a step of the host program: `HostStep`), or each of its elements is
an expression of operand elements (`Elements`), a fold of many (`Folded`), a sum of products (`Contracted`), a
weighted sum of a few along an axis (`Resampled`), or it is its operands side by side (`Concatenated`); what
is no element by itself, as sorting, has statements of its own (`Extern`). Scheduling asks for this and for
relations of indices, never for the class of a primitive.
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
    """An input, or a constant, which is known while compiling. `literal`: the bytes of a constant of one
    element, which kernels hold as a number; its `own` ones, which one function reads, they may load.
    `numbers`: those of a small one in memory, which kernels may hold instead of reading them."""

    constant: bool = False
    literal: bytes | None = None
    own: bool = False
    numbers: bytes | None = None


@dataclass(frozen=True, slots=True)
class HostStep(Given):
    """What a step of the host program leaves in memory, from operands that lie there. `name`: what a
    person calls all this."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Nested(HostStep):
    """What the regions of a primitive leave in memory, whose first operand is a bool. `turns`: the first
    operands, one for each result, are states, and the one region makes new ones of them as long as the bool
    among them is true; else the bool chooses one of two regions."""

    turns: bool = False


@dataclass(frozen=True, slots=True)
class External(HostStep):
    """What code leaves in memory that is not ours. `over`: for each result the operand that is there before,
    or −1. `sizes`: what that code is told besides of where operands and results lie."""

    over: tuple[int, ...] = ()
    sizes: tuple[Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class Border:
    """`value` wherever an axis is less than `lo`, or `hi` and less, from its ends."""

    lo: tuple[Dim, ...]
    hi: tuple[Dim, ...]
    value: float


class Seen(enum.Enum):
    """What is known of a value where another one is NaN: nothing, that it is NaN, or, of a bool, which."""

    ANY = "any"
    NAN = "nan"
    YES = "yes"
    NO = "no"


def nothing(operands: Sequence[Seen]) -> Seen:
    """Of a value that may be anything."""
    return Seen.ANY


@dataclass(frozen=True, slots=True)
class Elements:
    """Each element by itself. `same`: from operand elements at its own index, along axes of size 1 at 0.
    `cost`: instructions for an element of a type. `moves`: operand elements as they are. `border`: what lies
    around the operand's elements, which then are as they are, too. `positions`: which operands' elements say
    where others are read. `of_nan`: what the result is, if its type is bool or has NaN, of operands of which
    that is known. `rounds`: the operand, rounded as storing it does, too. `instead`: the first of three
    operands is read, and where it is NaN, of axes that only the last one has at 0, the sum of products of the
    others."""

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
    """`op` over `axes`, which stay with size 1, from what `start` gives for a type on."""

    axes: tuple[int, ...]
    op: Op
    start: Callable[[DataType], float | int]


@dataclass(frozen=True, slots=True)
class Contracted:
    """The sum of products of two operands' elements. Labels name the loops: those of each operand's axes, and
    those of the result's; the others are summed over. `hides`: where the left element is 0, the right one
    adds nothing, whatever it is."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    out: tuple[int, ...]
    hides: bool = False

    @property
    def sides(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """The labels of each operand, with those of the other one."""
        return (self.left, self.right), (self.right, self.left)

    def kept(self, labels: Sequence[int], others: Sequence[int]) -> list[int]:
        """The axes of the result that the one operand has, and the other one has not."""
        return [k for k, label in enumerate(self.out) if label in labels and label not in others]


class Rule(Protocol):
    """Where taps lie and what they weigh, as far as any rule tells."""

    @property
    def count(self) -> int:
        """Taps of each position."""


@dataclass(frozen=True, slots=True)
class Resampled:
    """`size` positions along `axis`, each a sum of the operand's elements at a few positions."""

    axis: int
    size: Dim
    rule: Rule


@dataclass(frozen=True, slots=True)
class Concatenated:
    """All operands, in order, along `axis`: each is written by loops of its own."""

    axis: int


@dataclass(frozen=True, slots=True)
class Extern:
    """By statements of the primitive's own (`Prim.write`), which read operands that lie in memory and go
    along the axes `along` (negative ones count from the end), `behind`: and along all behind these; along the
    others what they make is independent, and loops over these stand around them. again: they read elements
    several times, which had better lie side by side along the last axis."""

    along: tuple[int, ...]
    behind: bool = False
    again: bool = False


Compute: TypeAlias = Given | Elements | Folded | Contracted | Resampled | Concatenated | Extern


def only_moves(how: Compute) -> bool:
    """True for elements of operands as they are."""
    return isinstance(how, Elements) and how.moves


def is_each(how: Compute) -> bool:
    """True for elements that are made of those at their own index."""
    return isinstance(how, Elements) and how.same
