"""Conditions on dynamic sizes and on data, which a network cannot decide while it is built."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from anyrt.core.codes import CODES
from anyrt.core.dims import Dim
from anyrt.core.dimvalues import evaluate
from anyrt.core.errors import AnyrtError, error

FINE: Final = -(1 << 63)  # the value of a condition on data that holds


class Relation(enum.Enum):
    """The relation that a `Requirement` demands of its two sides; BROADCAST: equal, or either is 1."""

    EQ = "="
    LE = "<="
    BROADCAST = "broadcasts with"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition that is tested when sizes are known; if it does not hold, the error has `code` at
    `where`."""

    left: Dim
    relation: Relation
    right: Dim
    code: str
    where: str
    do: str

    def holds(self, values: Mapping[str, int]) -> bool:
        """True when the condition is met for sizes given by name."""
        a, b = evaluate(self.left, values), evaluate(self.right, values)
        match self.relation:
            case Relation.EQ:
                return a == b
            case Relation.LE:
                return a <= b
            case Relation.BROADCAST:
                return a == b or 1 in (a, b)


def broken(rule: Requirement, left: str, right: str, sizes: str = "") -> AnyrtError:
    """The error for a condition that does not hold: its sides as text, and the sizes that they depend on.

    >>> from anyrt.core.dims import Sym
    >>> rule = Requirement(Sym("x.0", 1, 8).dim, Relation.LE, 4, "AR114", "cut (a.py:7)", "start earlier")
    >>> str(broken(rule, "5", "4", " where x.shape[0] = 5"))
    '[AR114] cut (a.py:7): got 5 (slice out of bounds) where x.shape[0] = 5, wanted at most 4; start earlier'
    """
    match rule.relation:
        case Relation.EQ:
            got, wanted = left, right
        case Relation.LE if isinstance(rule.left, int):
            got, wanted = right, f"{left} or more"
        case Relation.LE:
            got, wanted = left, f"at most {right}"
        case Relation.BROADCAST:
            got, wanted = f"{left} and {right}", "equal sizes, or 1"
    return error(rule.code, rule.where, f"{got} ({CODES[rule.code].title}){sizes}", wanted, rule.do)


@dataclass(frozen=True, slots=True)
class Assertion:
    """A condition on data, tested by each inference: a kernel computes a number, which is FINE if the
    condition holds. Otherwise it is the error `code` at `where`, with that number for {} in `got`."""

    code: str
    where: str
    got: str
    wanted: str
    do: str

    def broken(self, number: int) -> AnyrtError:
        """The error for this number.

        >>> str(Assertion("AR131", "cache", "2 tokens from {} on", "an end at 6", "write less").broken(5))
        '[AR131] cache: got 2 tokens from 5 on, wanted an end at 6; write less'
        """
        return error(self.code, self.where, self.got.replace("{}", str(number)), self.wanted, self.do)


@dataclass(frozen=True, slots=True)
class Fence:
    """The description of a kernel whose accesses are checked: `where`, the layers that it computes, and the
    names of the tensors that it reads and writes."""

    where: str
    tensors: tuple[str, ...]

    def broken(self, access: int, index: int, extent: int) -> AnyrtError:
        """The error for an access outside a tensor; its number is 2 × that of the tensor, plus 1 for a load,
        2 for a store.

        >>> print(Fence("gather1", ("table", "y")).broken(1, 900, 20))  # doctest: +ELLIPSIS
        [AR810] gather1: got reading element 900 of table, wanted one of its 20; ...
        """
        number, writes = divmod(access - 1, 2)
        inside = 0 <= number < len(self.tensors)
        tensor = self.tensors[number] if inside else "an array of accumulators"
        got = f"{'writing' if writes else 'reading'} element {index} of {tensor}"
        return error("AR810", self.where, got, f"one of its {extent}", CODES["AR810"].do)
