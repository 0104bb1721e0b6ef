"""One process of the benchmark: peers loaded once, cases one after the other, a JSON line for each."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import limit
from benchmarks.families import reference
from benchmarks.families.case import Case, inputs, traffic, wanted
from benchmarks.families.cases import ALL
from benchmarks.families.peers import OURS, Peer, Results, Task, load
from benchmarks.machine import this_machine
from benchmarks.measure import Times, measure, paired
from benchmarks.peers import Cannot, Way
from benchmarks.probe import Probe
from benchmarks.record import Entry, Row, line_of
from benchmarks.session import Order, append

NOBODY = Times(0.0, 0.0, 0)


def run(order: Order, output: Path) -> None:
    """Measure every case, and add its line to `output` when it is done."""
    peers, missing = load(order.peers)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ANYRT_CACHE_DIR"] = cache
        probe = Probe(order.threads, order.effort.patience_s)
        machine = this_machine({p.name: p.version for p in peers.values()}, missing)
        append(output, line_of("machine", machine))
        known = {c.name: c for c in ALL}
        for name in order.cases:
            print(f"{order.threads} threads: {name}", file=sys.stderr, flush=True)
            append(output, line_of("case", _case(known[name], peers, order, probe)))


@dataclass(slots=True)
class _Field:
    """Who takes part in a case: ways that gave the right result, and why others are left out."""

    task: Task
    ways: list[tuple[str, Way, float]]
    left_out: dict[str, str]

    def add(self, name: str, peer: Peer) -> None:
        """Let a peer prepare the case, and check each of its ways."""
        try:
            for found in peer.prepare(self.task):
                self._check(name, found)
        except Cannot as reason:
            self.left_out[name] = f"cannot: {reason}"
        except Exception as error:  # whatever a peer raises is a result, too
            self.left_out[name] = f"failed: {type(error).__name__}: {str(error).splitlines()[:1]}"[:200]

    def _check(self, name: str, found: Results) -> None:
        found.way.run()
        error, is_right = reference.distance(self.task.case, self.task.results, found.fetch())
        if is_right:
            self.ways.append((name, found.way, error))
        else:
            label = f"{name} ({found.way.label})" if found.way.label else name
            self.left_out[label] = f"wrong: by {error:.3g}"


def _case(case: Case, peers: Mapping[str, Peer], order: Order, probe: Probe) -> Row:
    given = inputs(case)
    field = _Field(Task(case, given, wanted(case, given), order.threads), [], {})
    for name, peer in peers.items():
        field.add(name, peer)
    read, written = traffic(case, given, field.task.results)
    bare = limit.ways(max(read, 64), max(written, 64), order.threads)
    copies = limit.is_copy(read, written)
    return _measured(field, [w for w in bare if copies or w.label != limit.MEMCPY], order, probe)


def _measured(field: _Field, bare: Sequence[Way], order: Order, probe: Probe) -> Row:
    lost, case = probe.lost, field.task.case
    times = measure([*(w for _, w, _ in field.ways), *bare], order.effort, probe)
    theirs, limits = times[: len(field.ways)], times[len(field.ways) :]
    fastest = min(limits, key=lambda t: t.minimum)
    mine = next((t for (name, _, _), t in zip(field.ways, theirs, strict=True) if name == OURS), NOBODY)
    read, written = traffic(case, field.task.given, field.task.results)
    return Row(
        case=case.name,
        layer=case.family.value,
        threads=order.threads,
        limit=fastest.median,
        limit_minimum=fastest.minimum,
        memcpy=0.0,
        known=None,
        entries=tuple(_entry(*w, t, mine) for w, t in zip(field.ways, theirs, strict=True)),
        left_out=field.left_out,
        facts={"read": float(read), "written": float(written)},
        disturbed=probe.lost - lost,
        bursts=sum(-(-t.runs // order.effort.least_burst) for t in times),
    )


def _entry(name: str, way: Way, error: float, t: Times, mine: Times) -> Entry:
    ratio = paired(mine, t) if mine.turns else 0.0
    return Entry(name, way.label, t.median, t.minimum, t.runs, float(np.float32(error)), ratio)
