"""A process of `python -m benchmarks trees`: it builds engines with the AnyRT of PYTHONPATH, and runs bursts
of inferences on request.

A line of JSON on its input is a method of `Ready` with its arguments, a line on its output the answer:

    ["prepare", "norm_ln_8x512x768"]     [["", 61.2], …]: its ways with microseconds; a text, if it fails
    ["run", 0, 20]                       59.8: the median of a way's burst in microseconds

A network of networks.py with its size, such as "residual 1", is also a case, as are those of contractions and
families, such as "families/topk_32x1000_1". The process uses only the public API of AnyRT, which any tree
has.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

import anyrt
from benchmarks.engines import bound, described
from benchmarks.language import language
from benchmarks.measure import burst, limit_threads, once
from benchmarks.peers import Task, Way
from benchmarks.peers import anyrt as ours


def main(threads: int) -> None:
    """Answer requests until the input ends."""
    limit_threads(threads)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no answer
    ready = Ready(threads)
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        print(json.dumps(getattr(ready, method)(*arguments)), file=answers, flush=True)


@dataclass(frozen=True, slots=True)
class Ready:
    """The prepared ways; `held`: the tasks whose memory the engines use."""

    threads: int
    ways: list[Way] = field(default_factory=list)
    held: list[Task] = field(default_factory=list)

    def prepare(self, name: str) -> list[tuple[str, float]] | str:
        """Add the ways of a case."""
        try:
            ways = self._made(name)
            estimates = [(way.label, 1e6 * once(way.run)) for way in ways]
        except Exception as error:  # whatever a tree raises is an answer
            return f"{type(error).__name__}: {error}"[:200]
        self.ways.extend(ways)
        return estimates

    def _made(self, name: str) -> tuple[Way, ...]:
        package, _, case = name.rpartition("/")
        spoken = language(f"benchmarks.{package or 'layers'}")  # not of every tree
        if case not in spoken.cases:
            return self._network(*name.split())
        task, _ = spoken.task(spoken.cases[case], self.threads)
        self.held.append(task)
        return ours.prepare(task)

    def _network(self, name: str, size: str) -> tuple[Way, ...]:
        return (bound(described(name, int(size), self.threads)()),)

    def run(self, way: int, runs: int) -> float:
        """The median of a burst in microseconds."""
        times: list[int] = []
        burst(self.ways[way].run, runs, times)
        return statistics.median(times) / 1e3


if __name__ == "__main__":
    source = Path(sys.argv[1]).resolve()
    assert Path(anyrt.__file__).resolve().is_relative_to(source), f"{anyrt.__file__} is not below {source}"
    main(int(sys.argv[2]))
