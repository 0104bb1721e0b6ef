"""Measurement: programs run in turn, forwards and backwards, after a pause, on a quiet machine.

Thread pools spin for a while after a run (ONNX Runtime's for 30 ms) and would slow down the next program.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from benchmarks.peers import Way

BURST_SECONDS = 0.003
SLOW = 10.0  # a way this many times slower than the fastest has one turn only


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: at least `runs` runs, in bursts with a pause before each."""

    runs: int = 30
    least_burst: int = 5
    most_burst: int = 50
    pause_s: float = 0.03
    patience_s: float = 0.5


QUICK = Effort(runs=10, most_burst=20, patience_s=0.02)  # not in a shorter pause: threads would still spin


@dataclass(frozen=True, slots=True)
class Times:
    """Microseconds. turns: the median of each burst, one for each round of all programs; late: the time that
    99 % of the runs stay below."""

    median: float
    minimum: float
    runs: int
    turns: tuple[float, ...] = ()
    late: float = 0.0


def processors(threads: int) -> list[int]:
    """The processors that so many threads run on."""
    cores = sorted(os.sched_getaffinity(0))
    if threads > len(cores):
        raise SystemExit(f"--threads {threads}: got {len(cores)} processors; ask for at most as many")
    return cores[:threads]


def limit_threads(threads: int) -> None:
    """Pin this process, and all thread pools that it starts, to so many processors."""
    os.sched_setaffinity(0, processors(threads))
    os.environ["OMP_NUM_THREADS"] = str(threads)


class Quiet(Protocol):
    """Waits for a quiet machine before each burst."""

    def wait(self) -> None:
        """Return when the machine is quiet."""


def measure(ways: Sequence[Way], effort: Effort, quiet: Quiet) -> list[Times]:
    """The times of each way."""
    if not ways:
        return []
    estimates = [once(w.run) for w in ways]
    bursts = [length(t, effort) for t in estimates]
    turns = [_turns(t, min(estimates), effort) for t in estimates]
    times: list[list[int]] = [[] for _ in ways]
    order = list(range(len(ways)))
    gc.collect()
    gc.disable()
    try:
        for turn in range(max(turns)):
            for i in (i for i in order if turn < turns[i]):
                time.sleep(effort.pause_s)
                quiet.wait()
                burst(ways[i].run, bursts[i], times[i])
            order.reverse()
    finally:
        gc.enable()
    return [_summary(t, n) for t, n in zip(times, bursts, strict=True)]


def paired(ours: Times, theirs: Times) -> float:
    """The median of their time / our time by rounds, which a slowdown of both does not change."""
    return statistics.median(b / a for a, b in zip(ours.turns, theirs.turns, strict=False))


def _summary(times: Sequence[int], burst_length: int) -> Times:
    starts = range(0, len(times), burst_length)
    turns = tuple(statistics.median(times[i : i + burst_length]) / 1e3 for i in starts)
    median, late = (float(np.percentile(times, p)) / 1e3 for p in (50, 99))
    return Times(median, min(times) / 1e3, len(times), turns, late)


def burst(call: Callable[[], object], count: int, times: list[int]) -> None:
    """Append the nanoseconds of `count` runs."""
    call()
    call()  # twice: the threads are awake, the caches are as in steady use
    clock = time.perf_counter_ns
    for _ in range(count):
        start = clock()
        call()
        times.append(clock() - start)


def once(call: Callable[[], object]) -> float:
    """Seconds of a run after a first one, which compiles and allocates."""
    call()
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        if best > 0.1:
            break
    return best


def length(seconds: float, effort: Effort) -> int:
    """The number of runs in a burst, by the seconds of a run."""
    return max(effort.least_burst, min(effort.most_burst, int(BURST_SECONDS / max(seconds, 1e-7))))


def _turns(seconds: float, fastest: float, effort: Effort) -> int:
    hopeless = seconds > SLOW * fastest and seconds > 0.02
    return 1 if hopeless else -(-effort.runs // effort.least_burst)
