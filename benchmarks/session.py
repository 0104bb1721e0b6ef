"""A measuring process: peers are loaded once, cases run one after the other, with a JSON line for each.

Peers fix their number of threads when they start, and sometimes one of them crashes the process. Therefore
the parent starts a session for each number of threads and for every few cases.
"""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import limit
from benchmarks.contractions import peaks
from benchmarks.machine import this_machine
from benchmarks.measure import Effort, Times, limit_threads, paired
from benchmarks.peers import OURS, Peer, Task, Way, load_peers
from benchmarks.probe import Probe
from benchmarks.race import Judge, Race
from benchmarks.record import Crowd, Entry, Row, append, line_of
from benchmarks.registry import SUITES, Suite, Work
from benchmarks.values import Array

START_SECONDS = 0.3
LEAST_BYTES = 64  # of a limit
SMALL_BYTES = 1 << 20  # of inputs: those are looked at again
TRAFFIC = "traffic"
NO_TIMES = Times(0.0, 0.0, 0)


@dataclass(frozen=True, slots=True)
class Order:
    """The work of a session; `calls`: also measure the overhead of a call."""

    cases: tuple[str, ...]
    peers: tuple[str, ...]
    threads: int
    effort: Effort
    calls: bool


def run(command: str, order: Order, output: Path) -> None:
    """Measure each case of a suite, and append its line to `output`."""
    faulthandler.enable()
    limit_threads(order.threads)
    (suite,) = (s for s in SUITES if s.command == command)
    peers, missing = load_peers(order.peers)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ANYRT_CACHE_DIR"] = cache
        measuring = _Session(suite, peers, order, Probe(order.threads, order.effort.patience_s))
        machine = this_machine({p.name: p.version for p in peers.values()}, missing)
        append(output, line_of("machine", machine))
        if order.calls and suite.call is not None:
            append(output, line_of("call", measuring.calls(suite.call)))
            for crowd in measuring.crowds():
                append(output, line_of("crowd", crowd))
        for name in order.cases:
            os.environ["ANYRT_CACHE_DIR"] = str(Path(cache) / name)  # so that every build is a cold one
            print(f"{order.threads} threads: {name}", file=sys.stderr, flush=True)
            append(output, line_of("case", measuring.case(suite.language.cases[name])))


@dataclass(frozen=True, slots=True)
class _Session:
    """All peers, case by case."""

    suite: Suite
    peers: Mapping[str, Peer]
    order: Order
    probe: Probe

    def case(self, case: Any) -> Row:  # Any: of a language
        """A case by all peers that support it, beside its limit."""
        task, judge = self._task(case)
        race = Race[float]()
        for name, peer in self.peers.items():
            race.add(name, partial(peer.prepare, task), judge)
        return self._measured(case, race, self.suite.work(task))

    def calls(self, case: Any) -> Row:  # Any: see above
        """The smallest network: bound calls, and calls from arrays to arrays."""
        task, judge = self._task(case)
        race = Race[float]()
        for name, peer in self.peers.items():
            race.add(name, partial(peer.prepare, task), judge)
            race.add(name, partial(peer.plain, task), judge)
        return self._measured(case, race, None)

    def crowds(self) -> Iterator[Crowd]:
        """AnyRT alone, and beside a process that keeps one of several processors busy."""
        threads, effort = self.order.threads, self.order.effort
        for name in self.suite.crowded if threads > 1 else ():
            task, judge = self._task(self.suite.language.cases[name])
            race = Race[float]()
            race.add(OURS, partial(self.peers[OURS].prepare, task), judge)
            (alone, *_), _ = race.measured(effort, Probe(threads, effort.patience_s))
            spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            try:
                time.sleep(START_SECONDS)
                (beside, *_), _ = race.measured(effort, Probe(threads, 0.0))
            finally:
                spinning.kill()
                spinning.wait()
            yield Crowd(name, threads, alone.median, beside.median)

    def _task(self, case: Any) -> tuple[Task, Judge[float]]:  # Any: see above
        language = self.suite.language
        task, exact = language.task(case, self.order.threads)
        small = {n: x.tobytes() for n, x in task.inputs.items() if x.nbytes < SMALL_BYTES}

        def judge(got: tuple[Array, ...]) -> tuple[float, str]:
            error, is_right = language.distance(case, exact, got)
            assert all(task.inputs[n].tobytes() == text for n, text in small.items()), "it changed its input"
            return error, "" if is_right else f"wrong: {self.suite.unit.format(error)}"

        return task, judge

    def _measured(self, case: Any, race: Race[float], work: Work | None) -> Row:  # Any: see above
        """The row of a case; without work it has no limit."""
        lost, bare = self.probe.lost, self._limits(work) if work else ()
        theirs, limits = race.measured(self.order.effort, self.probe, bare)
        kinds = self._fastest(bare, limits, work) if work else {}
        copied = next((t for w, t in zip(bare, limits, strict=True) if w.label == limit.MEMCPY), NO_TIMES)
        alone = [kinds[k] for k in (peaks.PEAK, TRAFFIC) if k in kinds]
        slowest = max(alone, key=self._key, default=NO_TIMES)
        timed = [*zip(race.ways, theirs, strict=True)]
        mine = next((t for (name, w, _), t in timed if name == OURS and not w.label), NO_TIMES)
        facts = {f"{kind}_us": t.median for kind, t in kinds.items()} | (work.facts if work else {})
        for name, way, _ in race.ways:
            facts |= {key if name == OURS else f"{name}_{key}": x for key, x in way.facts}
        return Row(
            case=case.name,
            layer=self.suite.group(case).value,
            threads=self.order.threads,
            limit=slowest.median,
            limit_minimum=slowest.minimum,
            memcpy=copied.median if self.suite.copies else 0.0,
            known=work.known if work else None,
            entries=tuple(_entry(*way, t, mine) for way, t in timed),
            left_out=race.left_out,
            facts=facts,
            disturbed=self.probe.lost - lost,
            bursts=sum(-(-t.runs // self.order.effort.least_burst) for t in (*theirs, *limits)),
        )

    def _limits(self, work: Work) -> tuple[Way, ...]:
        """Arithmetic alone, and traffic alone."""
        moved = (max(work.read, LEAST_BYTES), max(work.written, LEAST_BYTES))
        kept = self.suite.copies or limit.is_copy(work.read, work.written)
        bare = [w for w in limit.ways(*moved, self.order.threads) if kept or w.label != limit.MEMCPY]
        return (*peaks.ways(work.flops, work.dtype, self.order.threads), *bare)

    def _fastest(self, bare: tuple[Way, ...], times: list[Times], work: Work) -> dict[str, Times]:
        """The fastest way of each kind; memcpy counts only if both sizes are equal."""
        kinds = dict[str, Times]()
        for way, t in sorted(zip(bare, times, strict=True), key=lambda pair: -self._key(pair[1])):
            if way.label != limit.MEMCPY or limit.is_copy(work.read, work.written):
                first = way.label.split(" ")[0]
                kinds[first if first in (peaks.PEAK, peaks.TILE_PEAK) else TRAFFIC] = t
        return kinds

    def _key(self, t: Times) -> float:
        return t.minimum if self.suite.least else t.median


def _entry(name: str, way: Way, error: float, t: Times, mine: Times) -> Entry:
    ratio = paired(mine, t) if mine.turns else 0.0
    return Entry(name, way.label, t.median, t.minimum, t.runs, float(np.float32(error)), ratio)
