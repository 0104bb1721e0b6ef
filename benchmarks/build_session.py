"""Runs the rows of `python -m benchmarks build`: each build has its own process and cache folder."""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from benchmarks import building, builds
from benchmarks.building import Job
from benchmarks.builds import ROWS, USUAL, Built, Kind, Row, tables
from benchmarks.child import ROOT, call, environment
from benchmarks.clock import Outcome
from benchmarks.command import LINES, THREADS, Command, file, option, progress
from benchmarks.record import append, begin
from benchmarks.table import markdown

MOST_SEEDS = 10  # in a report
QUICK_LAYERS, QUICK_RANDOM = 200, 20
Action: TypeAlias = Callable[[Job], Iterator[Outcome]]


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
    outcomes = [_once(row, order) for _ in range(order.runs)]
    failed = [x for x in outcomes if x.error]
    outcomes.sort(key=lambda x: x.cpu_s or x.wall_s or 0.0)
    return Built(row, failed[0] if failed else outcomes[len(outcomes) // 2])


# The actions of a row, and the kernel cache of each; the last one is measured.
ACTIONS: dict[Kind, tuple[tuple[Action, str], ...]] = {
    Kind.COLD: ((building.build, "here"),),
    Kind.AGAIN: ((building.build, "here"), (building.build, "here")),
    Kind.ELSEWHERE: ((building.build, "there"), (building.load, "here")),
    Kind.WEIGHTS: ((building.build, "here"), (building.load_weights, "here")),
}
SEEDED = {
    Kind.RANDOM_LAYERS: (building.build, "random_network"),
    Kind.RANDOM_PRIMITIVES: (building.graph, ""),
}


def _once(row: Row, order: Order) -> Outcome:
    """The outcome of the last action, or of a build before it that fails."""
    *first, (action, cache) = ACTIONS[row.kind]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = Job(row.network, row.size, str(folder / "plan"), row.form, row.parts, order.threads)
        for before, elsewhere in first:
            outcome = child(before, job, order, folder / elsewhere)
            if outcome.error:
                return Outcome(error=f"the first build: {outcome.error}")
        return child(action, job, order, folder / cache)


def _random(row: Row, order: Order) -> Built:
    """Each seed once. A build that fails or is stopped counts with the time limit."""
    outcomes, (action, network) = list[Outcome](), SEEDED[row.kind]
    for seed in range(row.size):
        with tempfile.TemporaryDirectory() as cache:
            outcome = child(action, Job(network, seed, threads=order.threads), order, Path(cache))
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


def child(action: Action, job: Job, order: Order, cache: Path) -> Outcome:
    """The outcome of an action in a new process with this kernel cache."""
    answer = call(building.run, (action, job), environment(order.tree, cache), order.timeout_s)
    return replace(answer.value or Outcome(), error=answer.error)


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
