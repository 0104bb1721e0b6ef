"""Runs the rows of `python -m benchmarks build`: each build has its own process and cache folder."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks import builds
from benchmarks.builds import ROWS, USUAL, Built, Kind, Row, tables
from benchmarks.command import LINES, THREADS, Command, file, option, progress
from benchmarks.jobs import ROOT, Job, Outcome, environment
from benchmarks.record import append, begin
from benchmarks.table import markdown

MOST_SEEDS = 10  # in a report
QUICK_LAYERS, QUICK_RANDOM = 200, 20


@dataclass(frozen=True, slots=True)
class Order:
    """How to run: the median of `runs`; `tree`: the source tree whose src/anyrt builds; `timeout_s`: for each
    process."""

    runs: int
    threads: int
    timeout_s: float
    tree: Path = ROOT


def run(rows: Sequence[Row], order: Order) -> Iterator[Built]:
    """The result of each row, as soon as it is measured."""
    for row in rows:
        progress(row.name)
        yield _random(row, order) if row.kind in SEEDED else _fixed(row, order)


def _fixed(row: Row, order: Order) -> Built:
    outcomes = [WAYS[row.kind](row, order) for _ in range(order.runs)]
    failed = [x for x in outcomes if x.error]
    outcomes.sort(key=lambda x: x.cpu_s or x.wall_s or 0.0)
    return Built(row, failed[0] if failed else outcomes[len(outcomes) // 2])


def _cold(row: Row, order: Order) -> Outcome:
    with _folder() as cache:
        return child(
            Job("build", row.network, row.size, parts=row.parts, threads=order.threads), order, cache
        )


def _again(row: Row, order: Order) -> Outcome:
    """A build whose code is in the cache already."""
    job = Job("build", row.network, row.size, threads=order.threads)
    with _folder() as cache:
        first = child(job, order, cache)
        return _first_failed(first) or child(job, order, cache)


def _elsewhere(row: Row, order: Order) -> Outcome:
    with _folder() as there, _folder() as here:
        job = Job("build", row.network, row.size, plan=str(there / "plan"), threads=order.threads)
        return _first_failed(child(job, order, there)) or child(replace(job, action="load"), order, here)


def _weights(row: Row, order: Order) -> Outcome:
    with _folder() as cache:
        job = Job("build", row.network, row.size, plan=str(cache / "plan"), threads=order.threads)
        loading = replace(job, action="weights", network=row.form)
        return _first_failed(child(job, order, cache)) or child(loading, order, cache)


def _first_failed(first: Outcome) -> Outcome | None:
    return Outcome(error=f"the first build: {first.error}") if first.error else None


WAYS: dict[Kind, Callable[[Row, Order], Outcome]] = {
    Kind.COLD: _cold,
    Kind.AGAIN: _again,
    Kind.ELSEWHERE: _elsewhere,
    Kind.WEIGHTS: _weights,
}
SEEDED = {Kind.RANDOM_LAYERS: Job("build", "random_network"), Kind.RANDOM_PRIMITIVES: Job("graph")}


def _random(row: Row, order: Order) -> Built:
    """Each seed once. A build that fails or is stopped counts with the time limit."""
    outcomes = []
    for seed in range(row.size):
        with _folder() as cache:
            outcome = child(replace(SEEDED[row.kind], size=seed, threads=order.threads), order, cache)
        outcomes.append(replace(outcome, cpu_s=order.timeout_s if outcome.error else outcome.cpu_s))
    return worst(row, outcomes)


def worst(row: Row, outcomes: Sequence[Outcome]) -> Built:
    """The slowest of all seeds, the time that 99 % stay below, and the seeds that take too long."""
    order = sorted(range(len(outcomes)), key=lambda seed: -_cpu(outcomes[seed]))
    usual = _cpu(outcomes[order[len(outcomes) - math.ceil(USUAL * len(outcomes))]])
    slow = [seed for seed in order if outcomes[seed].error or _cpu(outcomes[seed]) > row.usual_s]
    return Built(row, outcomes[order[0]], usual, tuple(slow[:MOST_SEEDS]))


def _cpu(outcome: Outcome) -> float:
    return math.inf if outcome.cpu_s is None else outcome.cpu_s


# ---- processes ----------------------------------------------------------------------------------


def child(job: Job, order: Order, cache: Path) -> Outcome:
    """The outcome of a job in a new process. The time limit holds for the build, and again after it."""
    with _folder() as folder:
        result, errors = folder / "result", folder / "errors"
        command = [sys.executable, "-m", "benchmarks.building", json.dumps(asdict(job)), str(result)]
        with errors.open("wb") as file:
            process = subprocess.Popen(
                command, env=environment(order.tree, cache), stdout=file, stderr=file, start_new_session=True
            )
        try:
            status = _ended(process, result, order.timeout_s)
        finally:
            _kill(process)
        outcome = Outcome(**json.loads(result.read_text())) if result.exists() else Outcome()
        return _with_error(outcome, status, errors.read_text(errors="replace"), order.timeout_s)


def _ended(process: subprocess.Popen[bytes], result: Path, seconds: float) -> int | None:
    """The exit status; None if the process had to be stopped."""
    for _ in range(2):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(seconds)
        if not result.exists():
            break
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and its children, which are a session of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _with_error(outcome: Outcome, status: int | None, errors: str, seconds: float) -> Outcome:
    if status == 0 or outcome.error or (status is None and outcome.cpu_s is not None):
        return outcome
    if status is None:
        return replace(outcome, error=f"not done after {seconds:g} s")
    last = errors.strip().rpartition("\n")[2]
    return replace(outcome, error=f"ended with status {status}: {last}"[:200])


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


# ---- the command --------------------------------------------------------------------------------


def _run(options: argparse.Namespace, names: list[str]) -> None:
    random = options.random or (QUICK_RANDOM if options.quick else None)
    rows = [
        replace(r, size=random) if random and r.kind in SEEDED else r
        for r in ROWS
        if r.name in names and (r.size <= QUICK_LAYERS or not options.quick)
    ]
    order, results = Order(options.runs, options.threads, options.timeout, options.tree), list[Built]()
    begin(options.json)
    for built in run(rows, order):
        results.append(built)
        append(options.json, builds.line_of(built))
    print("\n".join(map(markdown, tables(results))))


COMMAND = Command(
    "build",
    "measure what building networks costs",
    _run,
    (
        option(
            "--runs",
            type=int,
            default=1,
            help="number of builds, of which the median counts (default: %(default)s)",
        ),
        THREADS,
        option(
            "--timeout",
            type=float,
            default=120.0,
            metavar="SECONDS",
            help="time limit of each process (default: %(default)s)",
        ),
        option(
            "--random", type=int, metavar="N", help="number of random networks of each kind (default: 200)"
        ),
        option(
            "--quick",
            action="store_true",
            help=f"at most {QUICK_LAYERS} layers, {QUICK_RANDOM} random networks",
        ),
        LINES,
        file("--tree", "build with another source tree (default: this one)", default=ROOT),
    ),
    rows=lambda: (r.name for r in ROWS),
    what="rows",
)
