"""Which of several steps is the fastest: what measuring spends, and how it takes turns.

>>> now = iter([0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 5.0])  # one round of two steps to warm up, one that counts
>>> race([lambda: None, lambda: None], Effort(2, 1, 60.0), now.__next__, lambda: None)
[2.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

LEAST_GAIN: Final = 0.03  # of the first step's time: less is noise


@dataclass(frozen=True, slots=True)
class Effort:
    """What to spend on a kernel: `variants` of it, `runs` of each, `seconds` in all."""

    variants: int
    runs: int
    seconds: float
    more: bool = False  # candidates that seldom win, too


EFFORTS: Final = {4: Effort(6, 50, 0.2), 5: Effort(12, 200, 1.0, more=True)}  # by optimisation level


def race(
    steps: Sequence[Callable[[], None]],
    effort: Effort,
    clock: Callable[[], float],
    check: Callable[[], None],
) -> list[float] | None:
    """The least seconds of each step, run in turn after one round to warm up; None when the effort allows no
    round besides. A round that is cut short counts for none of them."""
    least, spent = [inf] * len(steps), 0.0
    for turn in range(effort.runs + 1):
        times: list[float] = []
        for step in steps:
            check()
            if spent >= effort.seconds:
                return least if turn > 1 else None
            before = clock()
            step()
            times.append(clock() - before)
            spent += times[-1]
        if turn > 0:
            least = list(map(min, least, times))
    return least


def fastest(seconds: Sequence[float]) -> int:
    """The fastest step; the first one where none is faster by more than noise."""
    best = seconds.index(min(seconds))
    return best if seconds[best] < seconds[0] * (1 - LEAST_GAIN) else 0
