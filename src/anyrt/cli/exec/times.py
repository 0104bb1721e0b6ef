"""Times of inferences, and their printed statistics.

>>> percentile([1.0, 2.0, 3.0, 4.0], 50)
2.0
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Final

from anyrt.plan.disk import write_atomically

FIRST: Final = 20  # averages that are printed at the beginning
LAST: Final = 5  # and at the end

Results = dict[str, object]  # what --json prints


@dataclass(frozen=True, slots=True)
class Run:
    """The start and the end of an inference, and the return of its call, in milliseconds from the first one
    on."""

    begin: float
    called: float
    end: float

    @property
    def latency(self) -> float:
        """From the call to the result."""
        return self.end - self.begin


def percentile(values: Sequence[float], p: float) -> float:
    """The value that p percent of all do not exceed: the nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, -(-len(ordered) * p // 100).__int__() - 1))]


def statistics(values: Sequence[float], percents: Sequence[float]) -> dict[str, float]:
    """`min`, `max`, `mean`, `median` and `percentile(90%)` of values, by these names."""
    basic = {"min": min(values), "max": max(values), "mean": fmean(values), "median": median(values)}
    return basic | {f"percentile({p:g}%)": percentile(values, p) for p in percents}


def spread(values: Sequence[float], percents: Sequence[float]) -> str:
    """`min = … ms, max = … ms, mean = …, median = …, percentile(90%) = …`."""
    return ", ".join(f"{name} = {value:g} ms" for name, value in statistics(values, percents).items())


def averages(runs: Sequence[Run], each: int) -> list[str]:
    """A line with the average of each `each` inferences; of many lines, the first and the last ones, with the
    number of omitted lines between them."""
    starts = range(0, len(runs) - each + 1, each)
    shown = [*starts] if len(starts) <= FIRST + LAST else [*starts[:FIRST], -1, *starts[-LAST:]]
    out = []
    for at in shown:
        if at < 0:
            more = len(starts) - FIRST - LAST
            out.append(
                f"... {more} averages more; --avgRuns=N averages more runs, --exportTimes=FILE has all"
            )
            continue
        part = runs[at : at + each]
        mean, enqueue = fmean(r.latency for r in part), fmean(r.called - r.begin for r in part)
        out.append(
            f"Average on {each} runs - GPU latency: {mean:g} ms - Host latency: {mean:g} ms "
            f"(enqueue {enqueue:g} ms)"
        )
    return out


def throughput(runs: Sequence[Run]) -> tuple[float, float]:
    """Inferences per second, and the seconds from the first start to the last end."""
    wall = (max(r.end for r in runs) - min(r.begin for r in runs)) / 1000
    return (len(runs) / wall if wall else 0.0), wall


def measurements(runs: Sequence[Run], percents: Sequence[float]) -> Results:
    """The figures of the summary, for --json: times in milliseconds, but the wall time in seconds."""
    rate, wall = throughput(runs)
    return {
        "inferences": len(runs),
        "throughput_qps": rate,
        "walltime_s": wall,
        "latency_ms": statistics([r.latency for r in runs], percents),
        "enqueue_ms": statistics([r.called - r.begin for r in runs], percents),
    }


def summary(runs: Sequence[Run], percents: Sequence[float]) -> list[str]:
    """trtexec's summary; transfers to a device take no time, since there are none."""
    latency, enqueue = [r.latency for r in runs], [r.called - r.begin for r in runs]
    none, (rate, wall) = [0.0] * len(runs), throughput(runs)
    return [
        "",
        "=== Performance summary ===",
        f"Throughput: {rate:g} qps",
        f"Latency: {spread(latency, percents)}",
        f"Enqueue Time: {spread(enqueue, percents)}",
        f"H2D Latency: {spread(none, percents)}",
        f"GPU Compute Time: {spread(latency, percents)}",
        f"D2H Latency: {spread(none, percents)}",
        f"Total Host Walltime: {wall:g} s",
        f"Total GPU Compute Time: {sum(latency) / 1000:g} s",
        "Explanations of the performance metrics are printed in the verbose logs.",
    ]


EXPLANATIONS = (
    "",
    "=== Explanations of the performance metrics ===",
    "Total Host Walltime: from the first measured run's start to the last one's end.",
    "GPU Compute Time: how long the kernels of a run take, which run on processors here.",
    "Throughput: runs divided by Total Host Walltime.",
    "Enqueue Time: how long the call of a run takes.",
    "H2D Latency, D2H Latency: copies to and from a device; 0, as there are none.",
    "Latency: H2D Latency, GPU Compute Time and D2H Latency together.",
)


def write_times(runs: Sequence[Run], path: Path) -> None:
    """The times of each run as trtexec's JSON."""
    rows = [
        {
            "startH2dMs": r.begin,
            "endH2dMs": r.begin,
            "startComputeMs": r.begin,
            "endComputeMs": r.end,
            "startD2hMs": r.end,
            "endD2hMs": r.end,
            "startEnqMs": r.begin,
            "endEnqMs": r.called,
            "h2dMs": 0.0,
            "computeMs": r.latency,
            "d2hMs": 0.0,
            "latencyMs": r.latency,
            "enqMs": r.called - r.begin,
        }
        for r in runs
    ]
    write_atomically(path, [json.dumps(rows, indent=1).encode()])
