"""Selects the fastest of several calls: the budget of a measurement, and alternating rounds.

>>> now = iter([0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 5.0])  # one round of two calls to warm up, one that counts
>>> measure([lambda: None, lambda: None], Budget(2, 1, 60.0), now.__next__, lambda: None)
[2.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

LEAST_GAIN: Final = 0.03  # of the first call's time: less is noise


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget for a kernel: `variants` of it, `runs` of each, `seconds` in all."""

    variants: int
    runs: int
    seconds: float
    more: bool = False  # with candidates that rarely win


BUDGETS: Final = {4: Budget(6, 50, 0.2), 5: Budget(12, 200, 1.0, more=True)}  # by optimisation level


def measure(
    calls: Sequence[Callable[[], None]],
    budget: Budget,
    clock: Callable[[], float],
    check: Callable[[], None],
) -> list[float] | None:
    """The least seconds of each call, measured in turn after a round to warm up; None if the budget allows no
    other round. An interrupted round counts for none of them."""
    least, spent = [inf] * len(calls), 0.0
    for turn in range(budget.runs + 1):
        times: list[float] = []
        for call in calls:
            check()
            if spent >= budget.seconds:
                return least if turn > 1 else None
            before = clock()
            call()
            times.append(clock() - before)
            spent += times[-1]
        if turn > 0:
            least = list(map(min, least, times))
    return least


def fastest(seconds: Sequence[float]) -> int:
    """The fastest call; the first one where none is faster by more than noise."""
    best = seconds.index(min(seconds))
    return best if seconds[best] < seconds[0] * (1 - LEAST_GAIN) else 0
