"""Conditions on sizes that are open while a network is built."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from anyrt.core.dims import Dim, evaluate


class Relation(enum.Enum):
    """What a `Requirement` asks of its two sides; BROADCAST: equal, or either is 1."""

    EQ = "="
    LE = "<="
    BROADCAST = "broadcasts with"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition judged when sizes are known; broken, it is the error `code` at `where`."""

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
