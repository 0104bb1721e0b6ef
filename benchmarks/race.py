"""The participants of a measurement: ways with right results, and why others are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

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
