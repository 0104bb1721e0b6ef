"""Leads: how many times as fast as the best other program AnyRT is, of several cases.

>>> leads = Leads.of([2.0, math.nan, 0.98, 0.5], lambda x: x)
>>> leads.share, leads.mean, leads.least, leads.slower_than(1.3)
('2 of 3', '0.993', '0.500', 1)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self, TypeVar

from benchmarks.record import SAME_AS_BEST
from benchmarks.table import digits, geometric_mean

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Leads:
    """The best other program's time divided by AnyRT's, of each case that has both."""

    numbers: tuple[float, ...]

    @classmethod
    def of(cls, rows: Iterable[T], lead: Callable[[T], float]) -> Self:
        """The leads of rows, without those that have none, which is NaN."""
        return cls(tuple(x for r in rows if not math.isnan(x := lead(r))))

    @property
    def ahead(self) -> int:
        """The number of cases that are not slower than the best other program; a tie is not slower."""
        return sum(x >= 1 - SAME_AS_BEST for x in self.numbers)

    @property
    def share(self) -> str:
        """`ahead` of all."""
        return f"{self.ahead} of {len(self.numbers)}"

    @property
    def mean(self) -> str:
        """The geometric mean."""
        return digits(geometric_mean(self.numbers))

    @property
    def least(self) -> str:
        """The smallest lead."""
        return digits(min(self.numbers, default=0.0))

    def slower_than(self, most: float) -> int:
        """The number of cases that take more than `most` times the best other program's time."""
        return sum(x * most < 1 for x in self.numbers)
