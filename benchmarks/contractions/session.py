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
from benchmarks.contractions import peaks, reference
from benchmarks.contractions.cases import ALL
from benchmarks.contractions.describe import values_of
from benchmarks.contractions.forms import Case, traffic
from benchmarks.contractions.peers import OURS, Peer, load
from benchmarks.machine import this_machine
from benchmarks.measure import Times, measure, paired
from benchmarks.peers import Cannot, Way
from benchmarks.probe import Probe
from benchmarks.record import Entry, Row, line_of
from benchmarks.session import Order, append
from benchmarks.values import Array

NOBODY = Times(0.0, 0.0, 0)
UNTIMED = 1e-3  # microseconds: a limit of nothing, which nothing is divided by


def run(order: Order, output: Path) -> None:
    """Measure every case, and add its line to `output` when it is done."""
    peers, missing = load(order.peers)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ANYRT_CACHE_DIR"] = cache
        probe = Probe(order.threads, order.effort.patience_s)
        machine = this_machine({p.name: p.version for p in peers.values()}, missing)
        append(output, line_of("machine", machine))
        wanted = {c.name: c for c in ALL}
        for name in order.cases:
            os.environ["ANYRT_CACHE_DIR"] = str(Path(cache) / name)  # so that every build is a cold one
            print(f"{order.threads} threads: {name}", file=sys.stderr, flush=True)
            append(output, line_of("case", _case(wanted[name], peers, order, probe)))


@dataclass(slots=True)
class _Field:
    """Who takes part in a case: ways that gave the right result, and why others are left out."""

    case: Case
    given: dict[str, Array]
    wanted: reference.Doubles
    ways: list[tuple[str, Way, float]]
    left_out: dict[str, str]

    def add(self, name: str, peer: Peer, threads: int) -> None:
        """Let a peer prepare the case, and check each of its ways."""
        try:
            for way in peer.prepare(self.case, self.given, threads):
                self._check(name, way)
        except Cannot as reason:
            self.left_out[name] = f"cannot: {reason}"
        except Exception as error:  # whatever a peer raises is a result, too
            self.left_out[name] = f"failed: {type(error).__name__}: {str(error).splitlines()[:1]}"[:200]

    def _check(self, name: str, way: Way) -> None:
        way.run()
        error, is_right = reference.error(self.case, self.wanted, way.result())
        if is_right:
            self.ways.append((name, way, error))
        else:
            label = f"{name} ({way.label})" if way.label else name
            self.left_out[label] = f"wrong: {error:.3g} ulp"


def _case(case: Case, peers: Mapping[str, Peer], order: Order, probe: Probe) -> Row:
    given = values_of(case)
    field = _Field(case, given, reference.run(case, given), [], {})
    for name, peer in peers.items():
        field.add(name, peer, order.threads)
    return _measured(field, _limits(case, order.threads), order, probe)


def _limits(case: Case, threads: int) -> tuple[Way, ...]:
    """Arithmetic alone and traffic alone; memcpy is a way to move as many bytes only where both sides are
    equal."""
    moved = traffic(case)
    bare = [w for w in limit.ways(*moved, threads) if w.label != limit.MEMCPY or limit.is_copy(*moved)]
    return (*peaks.ways(case.form.flops, case.dtype, threads), *bare)


def _measured(field: _Field, bare: Sequence[Way], order: Order, probe: Probe) -> Row:
    lost, case = probe.lost, field.case
    times = measure([*(w for _, w, _ in field.ways), *bare], order.effort, probe)
    theirs, limits = times[: len(field.ways)], times[len(field.ways) :]
    kinds = dict[str, Times]()
    for way, t in sorted(zip(bare, limits, strict=True), key=lambda pair: -pair[1].median):
        kinds[_kind(way.label)] = t  # the fastest of each kind stays
    slowest = max((t for k, t in kinds.items() if k != peaks.TILE_PEAK), key=lambda t: t.median)
    mine = next(
        (t for (name, w, _), t in zip(field.ways, theirs, strict=True) if name == OURS and not w.label),
        NOBODY,
    )
    read, written = traffic(case)
    facts = {f"{kind}_us": t.median for kind, t in kinds.items()}
    facts |= {"flops": float(case.form.flops), "read": float(read), "written": float(written)}
    for name, way, _ in field.ways:
        facts |= {key if name == OURS else f"{name}_{key}": x for key, x in way.facts}
    return Row(
        case=case.name,
        layer=case.group.value,
        threads=order.threads,
        limit=max(slowest.median, UNTIMED),
        limit_minimum=slowest.minimum,
        memcpy=0.0,
        known=None,
        entries=tuple(_entry(*w, t, mine) for w, t in zip(field.ways, theirs, strict=True)),
        left_out=field.left_out,
        facts=facts,
        disturbed=probe.lost - lost,
        bursts=sum(-(-t.runs // order.effort.least_burst) for t in times),
    )


def _kind(label: str) -> str:
    first = label.split(" ")[0]
    return first if first in (peaks.PEAK, peaks.TILE_PEAK) else "traffic"


def _entry(name: str, way: Way, error: float, t: Times, mine: Times) -> Entry:
    ratio = paired(mine, t) if mine.turns else 0.0
    return Entry(name, way.label, t.median, t.minimum, t.runs, float(np.float32(error)), ratio)
