"""The participants of a measurement: ways with right results, and why others are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from benchmarks.measure import Effort, Times, measure
from benchmarks.peers import REASON, Cannot, Way
from benchmarks.probe import Probe
from benchmarks.values import Array

T = TypeVar("T")
Judge: TypeAlias = Callable[[tuple[Array, ...]], tuple[T, str]]


def reason_of(error: Exception) -> str:
    """The reason why a program is left out."""
    if isinstance(error, Cannot):
        return f"cannot: {error}"
    return f"failed: {type(error).__name__}: {str(error).splitlines()[:1]}"[:REASON]


@dataclass(frozen=True, slots=True)
class Distance:
    """The error and the cosine of the worst output."""

    error: float
    cosine: float


def distance(results: Sequence[Array], expected: Sequence[Array]) -> Distance:
    """The distance of results from the expected ones. Other shapes, NaN and infinity have a cosine of -1.

    >>> distance([np.array([2.0, 0.0])], [np.array([1.0, 0.0])])
    Distance(error=1.0, cosine=1.0)
    """
    if [x.shape for x in results] != [y.shape for y in expected]:
        return Distance(float("inf"), -1.0)
    pairs = [
        _pair(*(a.astype(np.float64).ravel() for a in both)) for both in zip(results, expected, strict=True)
    ]
    return Distance(max(p.error for p in pairs), min(p.cosine for p in pairs))


def _pair(x: Array, y: Array) -> Distance:
    if not np.isfinite(x).all():
        return Distance(float("inf"), -1.0)
    error = np.abs(x - y).max(initial=0.0) / max(np.abs(y).max(initial=0.0), 1e-300)
    cosine = (x @ y) / max(np.sqrt((x @ x) * (y @ y)), 1e-300)
    return Distance(float(error), float(cosine))


@dataclass(slots=True)
class Race(Generic[T]):
    """ways: (name, way, error of its results); left_out: reasons by name."""

    reason: Callable[[Exception], str] = reason_of
    ways: list[tuple[str, Way, T]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, make: Callable[[], Iterable[Way]], judge: Judge[T]) -> None:
        """Prepare a program, and check each of its ways.

        judge(results): (the error of the results, the reason why they are wrong or "")."""
        try:
            for way in make():
                way.run()
                far, wrong = judge(way.result())
                if wrong:
                    self.left_out[f"{name} ({way.label})" if way.label else name] = wrong
                else:
                    self.ways.append((name, way, far))
        except Exception as error:  # whatever a program raises is a result, too
            self.left_out[name] = self.reason(error)

    def measured(
        self, effort: Effort, probe: Probe, others: Iterable[Way] = ()
    ) -> tuple[list[Times], list[Times]]:
        """(times of the ways, times of others); all run in turn."""
        times = measure([*(way for _, way, _ in self.ways), *others], effort, probe)
        return times[: len(self.ways)], times[len(self.ways) :]
