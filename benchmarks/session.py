"""One process of the benchmark: peers loaded once, cases one after the other, a JSON line for each.

Peers fix their number of threads when they start, and now and then one of them ends the process, so that the
parent starts a session for each number of threads and for every few cases.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks import limit, reference
from benchmarks.cases import ALL, CASES, TINY, Case, traffic
from benchmarks.machine import this_machine
from benchmarks.measure import Effort, Times, measure
from benchmarks.peers import OURS, Cannot, Peer, Prepare, Way, load_peers
from benchmarks.probe import Probe
from benchmarks.record import Crowd, Entry, Row, line_of
from benchmarks.values import Array, input_values

# Measured beside a busy process, too: one of each layer.
CROWDED = (
    "scale_c_8x64x112x112",
    "resize_bilinear_hp_8x64x56to112",
    "shuffle_nchw2nhwc_8x64x112x112",
    "norm_ln_8x512x768",
    "chain_preproc_1080p_rst",
)
START_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Order:
    """What a session is to do; `calls`: measure what a call costs, too."""

    cases: tuple[str, ...]
    peers: tuple[str, ...]
    threads: int
    effort: Effort
    calls: bool


def run(order: Order, output: Path) -> None:
    """Measure every case, and add its line to `output` when it is done."""
    peers, missing = load_peers(order.peers)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ANYRT_CACHE_DIR"] = cache  # so that every build is a cold one
        probe = Probe(order.threads, order.effort.patience_s)
        machine = this_machine({p.name: p.version for p in peers.values()}, missing)
        append(output, line_of("machine", machine))
        if order.calls:
            append(output, line_of("call", _calls(peers, order, probe)))
            for crowd in _crowds(peers, order):
                append(output, line_of("crowd", crowd))
        wanted = {c.name: c for c in ALL}
        for name in order.cases:
            print(f"{order.threads} threads: {name}", file=sys.stderr, flush=True)
            append(output, line_of("case", _case(wanted[name], peers, order, probe)))


def append(path: Path, line: str) -> None:
    """Add a line to a file of results."""
    with path.open("a") as file:
        file.write(line + "\n")


@dataclass(slots=True)
class _Field:
    """Who takes part in a case: ways that gave the right result, and why others are left out."""

    case: Case
    x: Array
    wanted: reference.Doubles
    ways: list[tuple[str, Way, float]]
    left_out: dict[str, str]

    def add(self, name: str, prepare: Prepare, threads: int) -> None:
        """Let a peer prepare the case, and check each of its ways."""
        try:
            for way in prepare(self.case, self.x, threads):
                self._check(name, way)
        except Cannot as reason:
            self.left_out[name] = f"cannot: {reason}"
        except Exception as error:  # whatever a peer raises is a result, too
            self.left_out[name] = f"failed: {type(error).__name__}: {str(error).splitlines()[:1]}"[:200]

    def _check(self, name: str, way: Way) -> None:
        before = self.x.tobytes() if self.x.nbytes < 1 << 20 else None
        way.run()
        error, is_right = reference.error(self.case, self.wanted, way.result())
        assert before in (None, self.x.tobytes()), f"{name} changed its input"
        if is_right:
            self.ways.append((name, way, error))
        else:
            label = f"{name} ({way.label})" if way.label else name
            self.left_out[label] = f"wrong: {error:.3g} ulp"


def _field(case: Case) -> _Field:
    x = input_values(case.input, case.low, case.high)
    return _Field(case, x, reference.run(case, x), [], {})


def _case(case: Case, peers: Mapping[str, Peer], order: Order, probe: Probe) -> Row:
    field = _field(case)
    for name, peer in peers.items():
        field.add(name, peer.prepare, order.threads)
    read, written = traffic(case)
    bare = limit.ways(read, written, order.threads)
    row = _measured(field, bare, order, probe)
    return replace(row, facts={**row.facts, "read": read, "written": written})


def _calls(peers: Mapping[str, Peer], order: Order, probe: Probe) -> Row:
    """The smallest network: bound calls, and those with arrays in and arrays out."""
    field = _field(TINY)
    for name, peer in peers.items():
        field.add(name, peer.prepare, order.threads)
        field.add(name, peer.plain, order.threads)
    return _measured(field, (), order, probe)


def _crowds(peers: Mapping[str, Peer], order: Order) -> Iterator[Crowd]:
    """AnyRT alone, and beside a process that keeps one of several processors busy."""
    for case in (c for c in CASES if c.name in CROWDED and order.threads > 1):
        field = _field(case)
        field.add(OURS, peers[OURS].prepare, order.threads)
        ways = [way for _, way, _ in field.ways]
        (alone, *_) = measure(ways, order.effort, Probe(order.threads, order.effort.patience_s))
        spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            time.sleep(START_SECONDS)
            (beside, *_) = measure(ways, order.effort, Probe(order.threads, 0.0))
        finally:
            spinning.kill()
            spinning.wait()
        yield Crowd(case.name, order.threads, alone.median, beside.median)


def _measured(field: _Field, bare: Sequence[Way], order: Order, probe: Probe) -> Row:
    lost = probe.lost
    times = measure([*(w for _, w, _ in field.ways), *bare], order.effort, probe)
    ours, others = times[: len(field.ways)], times[len(field.ways) :]
    copied = [t for w, t in zip(bare, others, strict=True) if w.label == limit.MEMCPY]
    plain = others if limit.is_copy(*traffic(field.case)) else others[: -len(copied) or None]
    fastest = min(plain, key=lambda t: t.median, default=Times(0.0, 0.0, 0))
    return Row(
        case=field.case.name,
        layer=field.case.layer.value,
        threads=order.threads,
        limit=fastest.median,
        limit_minimum=fastest.minimum,
        memcpy=copied[0].median if copied else 0.0,
        known=field.case.known,
        entries=tuple(
            Entry(name, way.label, t.median, t.minimum, t.runs, float(np.float32(error)))
            for (name, way, error), t in zip(field.ways, ours, strict=True)
        ),
        left_out=field.left_out,
        facts=dict(f for name, w, _ in field.ways if name == OURS and not w.label for f in w.facts),
        disturbed=probe.lost - lost,
        bursts=sum(-(-t.runs // order.effort.least_burst) for t in times),
    )
