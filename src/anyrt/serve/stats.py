"""Statistics with Triton's definitions: inferences are rows, executions are calls of the engine."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

# Nanoseconds up to which the latency histogram counts: 0.1 ms to 6.6 s, each twice the one before.
BOUNDS: Final = tuple(100_000 << k for k in range(17))


@dataclass(slots=True)
class Duration:
    """A count, and the sum of its nanoseconds."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int, count: int = 1) -> None:
        """Add one, or `count` events that took `ns` together."""
        self.count += count
        self.ns += ns

    def as_json(self) -> dict[str, int]:
        """The form of the protocol."""
        return {"count": self.count, "ns": self.ns}


STAGES = ("compute_input", "compute_infer", "compute_output")


@dataclass(slots=True)
class Statistics:
    """The statistics of one version of a model; any thread may add to them."""

    inference_count: int = 0
    execution_count: int = 0
    last_inference: int = 0  # milliseconds since 1970
    pending: int = 0
    durations: dict[str, Duration] = field(
        default_factory=lambda: {k: Duration() for k in ("success", "fail", "queue", *STAGES)}
    )
    batches: dict[int, dict[str, Duration]] = field(
        default_factory=lambda: defaultdict(lambda: {k: Duration() for k in STAGES})
    )
    latencies: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))  # answered requests
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def waits(self, more: int) -> None:
        """Change the number of pending requests."""
        with self._lock:
            self.pending += more

    def ran(self, rows: int, requests: int, queued: int, stages: tuple[int, int, int]) -> None:
        """The engine ran once, for `requests` that had waited for `queued` ns together."""
        with self._lock:
            self.execution_count += 1
            self.inference_count += rows
            self.last_inference = time.time_ns() // 1_000_000
            self.durations["queue"].add(queued, requests)
            for name, ns in zip(STAGES, stages, strict=True):
                self.durations[name].add(ns * requests, requests)
                self.batches[rows][name].add(ns)

    def ended(self, good: bool, ns: int) -> None:
        """A request was answered."""
        with self._lock:
            self.durations["success" if good else "fail"].add(ns)
            self.latencies[bisect_left(BOUNDS, ns)] += good

    def as_json(self) -> dict[str, object]:
        """All statistics, by the protocol's names."""
        with self._lock:
            return {
                "last_inference": self.last_inference,
                "inference_count": self.inference_count,
                "execution_count": self.execution_count,
                "inference_stats": {k: d.as_json() for k, d in self.durations.items()},
                "batch_stats": [
                    {"batch_size": n, **{k: d.as_json() for k, d in durations.items()}}
                    for n, durations in sorted(self.batches.items())
                ],
            }
