"""The commands of suites: all cases by all peers, a few cases in each process; and commands on results."""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks import record, session
from benchmarks.child import call
from benchmarks.command import LINES, QUICK, RUNS, Command, effort, file, markdown, option, publish, whole
from benchmarks.compare import comparison
from benchmarks.peers import OURS
from benchmarks.registry import LAYERS, SUITES, Suite
from benchmarks.table import show

PER_SESSION = 30  # compilers of peers do not free all memory


def command_of(suite: Suite) -> Command:
    """The command of a suite."""
    everybody = ",".join(suite.peers)
    options = (
        option("--peers", default=everybody, help="programs to measure (default: %(default)s)"),
        option("--threads", default="2,1", help="numbers of threads (default: %(default)s)"),
        *(RUNS, QUICK, LINES, file("--compare", "compare with the JSON lines of an earlier run", "OLD")),
        whole(suite.document),
        option("--no-calls", action="store_true", help="do not measure the overhead of a call"),
    )
    return Command(suite.command, suite.help, partial(_run, suite), options, lambda: suite.language.cases)


def _run(suite: Suite, options: argparse.Namespace, cases: list[str]) -> None:
    peers = tuple(options.peers.split(","))
    if set(peers) - set(suite.peers) or OURS not in peers:
        some = f"{OURS} and some of {', '.join(suite.peers)}"
        raise SystemExit(f"--peers: got {options.peers!r}, wanted {some}")
    with tempfile.TemporaryDirectory() as folder:
        # It grows case by case: a run that is stopped is not lost.
        output = options.json or Path(folder) / "lines"
        output.unlink(missing_ok=True)
        for threads in map(int, options.threads.split(",")):
            order = session.Order(tuple(cases), peers, threads, effort(options), not options.no_calls)
            _run_sessions(suite, order, output)
        results = record.read(output)
    if options.json:
        record.write(options.json, results)
    is_whole = len(cases) == len(suite.language.cases) and peers == suite.peers
    document = suite.document if is_whole and not options.quick else None
    publish(options, suite.tables(results), suite.page, document, results.machine)
    if options.compare:
        show([comparison(record.read(options.compare), results)])


def _run_sessions(suite: Suite, order: session.Order, output: Path) -> None:
    """A process for every few cases. If it crashes, only the case that was running is lost."""
    left = list(order.cases)
    while left:
        todo, before = left[:PER_SESSION], _done(output, order.threads)
        part = replace(order, cases=tuple(todo))
        answer = call(session.run, (suite.command, part, output), timeout_s=None, is_shown=True)
        finished = _done(output, order.threads) - before
        left = [n for n in left if n not in finished]
        if answer.error:
            lost = [n for n in todo if n not in finished][:1]
            print(f"a session in {lost or 'its end'}: {answer.error}", file=sys.stderr)
            left = [n for n in left if n not in lost]
        order = replace(order, calls=False)


def _done(output: Path, threads: int) -> set[str]:
    return {r.case for r in record.read(output).rows if r.threads == threads} if output.exists() else set()


def _compare(options: argparse.Namespace) -> None:
    show([comparison(record.read(options.old), record.read(options.new))])


def _report(options: argparse.Namespace) -> None:
    results = record.read(options.results)
    suite = next((s for s in SUITES if s.has(results)), LAYERS)
    publish(options, suite.tables(results), suite.page, machine=results.machine)


COMMANDS = (
    *map(command_of, SUITES),
    Command(
        "list",
        "print the names of all cases of ops",
        lambda options, names: print("\n".join(names)),
        rows=lambda: LAYERS.language.cases,
    ),
    Command(
        "compare",
        "compare two files of results",
        _compare,
        (option("old", type=Path), option("new", type=Path)),
    ),
    Command(
        "report", "print the tables of a file of results", _report, (option("results", type=Path), markdown())
    ),
)
