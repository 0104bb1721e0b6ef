"""The command line.

python -m benchmarks ops                          everything, into docs/tables/layers.md; an hour or two
python -m benchmarks ops --only 'norm_ln' --quick --peers anyrt,torch
python -m benchmarks ops --only '^spelled'        normalisation of elementary layers, in tables of its own
python -m benchmarks ops --json new.jsonl --compare old.jsonl
python -m benchmarks contractions                 products, convolutions, attention; an hour or two
python -m benchmarks contractions --only '^product_512' --quick --threads 1
python -m benchmarks contractions --list          names of its cases
python -m benchmarks families                     gathers, scatters, top k, sums, samples, fills, codes
python -m benchmarks bits --quick                 fewer bits: bfloat16, half, int8, weights of a few bits
python -m benchmarks bits --only '^i4_1x' --json new.jsonl
python -m benchmarks mechanisms --json new.jsonl  what each mechanism of the compiler gives
python -m benchmarks rounding                     half types rounded to their type, and with excess precision
python -m benchmarks stages                       contractions at items of a later one, and without
python -m benchmarks build                        what building networks costs
python -m benchmarks build --only '^mixed' --runs 3 --tree ../older
python -m benchmarks trees --old ../older         two source trees in turn
python -m benchmarks trees --old HEAD --changed   those cases whose kernels differ
python -m benchmarks load                         100 MB of weights, from a file and from memory
python -m benchmarks serve                        requests to a server beside a bare loop; needs anyrt[serve]
python -m benchmarks collectives                  exchanges between processes beside mpi4py
python -m benchmarks list
python -m benchmarks compare old.jsonl new.jsonl
python -m benchmarks report results.jsonl         tables of earlier results
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from anyrt.plan.disk import write_text
from benchmarks import (
    build_session,
    builds,
    collectives,
    document,
    load,
    mechanisms,
    record,
    report,
    rounding,
    session,
    stages,
    trees,
)
from benchmarks.attempts import ATTEMPTS
from benchmarks.bits import command as bits_command
from benchmarks.cases import ALL
from benchmarks.compare import comparison
from benchmarks.contractions import cases as contraction_cases
from benchmarks.contractions import opened
from benchmarks.contractions import peers as contraction_peers
from benchmarks.contractions import report as contraction_report
from benchmarks.contractions import session as contraction_session
from benchmarks.families import cases as family_cases
from benchmarks.families import peers as family_peers
from benchmarks.families import report as family_report
from benchmarks.families import session as family_session
from benchmarks.machine import this_machine
from benchmarks.measure import QUICK, Effort, limit_threads, processors
from benchmarks.models import command as model_command
from benchmarks.peers import NAMES, OURS
from benchmarks.table import Table, markdown, show

PER_SESSION = 30  # compilers in peers do not give back all memory
TABLES = Path("docs/tables")
OPEN = TABLES / "open.md"
CASE_NAMES = tuple(c.name for c in ALL)
QUICK_LAYERS, QUICK_RANDOM = 200, 20


@dataclass(frozen=True, slots=True)
class Bench:
    """Cases by AnyRT and by peers: the command, what a child process runs, and where its results go."""

    command: str
    cases: tuple[str, ...]
    peers: tuple[str, ...]
    run: Callable[[session.Order, Path], None]
    tables: Callable[[record.Results], list[Table]]
    write: Callable[[Path, record.Results], None]
    document: Path


OPS = Bench("ops", CASE_NAMES, NAMES, session.run, report.tables, document.write, TABLES / "layers.md")
CONTRACTIONS = Bench(
    "contractions",
    tuple(c.name for c in contraction_cases.ALL),
    contraction_peers.NAMES,
    contraction_session.run,
    contraction_report.tables,
    contraction_report.write,
    TABLES / "contractions.md",
)
FAMILIES = Bench(
    "families",
    tuple(c.name for c in family_cases.ALL),
    family_peers.NAMES,
    family_session.run,
    family_report.tables,
    family_report.write,
    TABLES / "families.md",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = _parser().parse_args(arguments)
    options.action(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="AnyRT beside other programs.")
    commands = parser.add_subparsers(required=True)
    ops = commands.add_parser("ops", help="layers and chains of layers")
    _case_arguments(ops, OPS)
    ops.add_argument("--no-calls", action="store_true", help="leave out the overhead of a call")
    contractions = commands.add_parser("contractions", help="products, convolutions, attention")
    _case_arguments(contractions, CONTRACTIONS)
    contractions.set_defaults(no_calls=True)
    contractions.add_argument("--list", action="store_true", help="names of its cases, and nothing else")
    families = commands.add_parser("families", help="gathers, scatters, top k, sums, samples, fills, codes")
    _case_arguments(families, FAMILIES)
    families.set_defaults(no_calls=True)
    families.add_argument("--list", action="store_true", help="names of its cases, and nothing else")
    model_command.arguments(commands.add_parser("models", help="whole models from ONNX files"))
    bits = "fewer bits: bfloat16, half, int8, weights of a few bits, and fewer products in float32"
    bits_command.arguments(commands.add_parser("bits", help=bits))
    _open_arguments(commands.add_parser("open", help="engines with open sizes beside static ones"))
    mechanisms = commands.add_parser("mechanisms", help="what each mechanism of the compiler gives")
    mechanisms.set_defaults(action=_mechanisms)
    mechanisms.add_argument("--only", default="", metavar="REGEX", help="mechanisms whose name matches")
    mechanisms.add_argument("--threads", type=int, default=2)
    mechanisms.add_argument("--quick", action="store_true", help="few runs: figures are rough")
    mechanisms.add_argument("--json", type=Path, metavar="FILE", help="add JSON lines to those of `ops`")
    halves = commands.add_parser("rounding", help="what rounding each tensor to its half type costs")
    halves.set_defaults(action=_rounding)
    halves.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    halves.add_argument("--threads", type=int, default=2)
    halves.add_argument("--quick", action="store_true", help="few runs: figures are rough")
    halves.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    joined = commands.add_parser("stages", help="what contractions at items of a later one give")
    joined.set_defaults(action=_stages)
    joined.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    joined.add_argument("--threads", type=int, default=2)
    joined.add_argument("--quick", action="store_true", help="few runs: figures are rough")
    joined.add_argument("--markdown", type=Path, metavar="FILE", help="write the document")
    build = commands.add_parser("build", help="what building networks costs")
    build.set_defaults(action=_build)
    build.add_argument("--only", default="", metavar="REGEX", help="rows whose name matches")
    build.add_argument("--runs", type=int, default=1, help="the median of so many (default: %(default)s)")
    build.add_argument("--threads", type=int, default=2, help="of the engines (default: %(default)s)")
    build.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS", help="for each process")
    build.add_argument("--random", type=int, metavar="N", help="so many random networks")
    build.add_argument(
        "--quick", action="store_true", help=f"up to {QUICK_LAYERS} layers, {QUICK_RANDOM} random"
    )
    build.add_argument("--json", type=Path, metavar="FILE", help="write JSON lines")
    build.add_argument("--tree", type=Path, default=build_session.ROOT, help="another checkout, which builds")
    two = commands.add_parser("trees", help="this source tree beside another one, in turn")
    two.set_defaults(action=_trees)
    two.add_argument("--old", required=True, metavar="TREE", help="the other checkout, or a commit")
    two.add_argument(
        "--changed", action="store_true", help="only cases whose kernels differ (tools/replay.py)"
    )
    two.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    two.add_argument("--threads", type=int, default=2)
    two.add_argument("--runs", type=int, help=f"bursts of each tree (default: {Effort().runs})")
    two.add_argument("--quick", action="store_true", help="few runs and short pauses: figures are rough")
    two.add_argument("--json", type=Path, metavar="FILE", help="write JSON lines")
    two.add_argument("--resume", action="store_true", help="go on where FILE of --json ends")
    loading = commands.add_parser("load", help="how long loading weights takes")
    loading.set_defaults(action=lambda options: show([load.table()]))
    exchanged = commands.add_parser("collectives", help="exchanges between processes, beside mpi4py")
    exchanged.set_defaults(action=_collectives)
    exchanged.add_argument("--sizes", type=int, nargs="*", default=collectives.SIZES, help="bytes")
    exchanged.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    served = commands.add_parser("serve", help="requests to a server beside a bare loop")
    served.set_defaults(action=_serve)
    served.add_argument(
        "--resnet", type=Path, metavar="FILE", help="that of python -m benchmarks.models.networks"
    )
    served.add_argument("--only", default="", metavar="REGEX", help="overhead, saturation, batching, growth")
    served.add_argument("--seconds", type=float, default=5.0, help="of each measure (default: %(default)s)")
    served.add_argument("--small", type=int, default=1_000_000, help="requests (default: %(default)s)")
    served.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    listing = commands.add_parser("list", help="names of all cases")
    listing.set_defaults(action=_list)
    listing.add_argument("--only", default="", metavar="REGEX")
    old_new = commands.add_parser("compare", help="two files of results")
    old_new.set_defaults(action=_compare)
    old_new.add_argument("old", type=Path)
    old_new.add_argument("new", type=Path)
    tables = commands.add_parser("report", help="tables of results")
    tables.set_defaults(action=_report)
    tables.add_argument("results", type=Path)
    tables.add_argument("--markdown", type=Path, metavar="FILE")
    return parser


def _open_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action=_open)
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, help=f"runs of each at least (default: {Effort().runs})")
    parser.add_argument("--quick", action="store_true", help="few runs and short pauses: figures are rough")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help=f"default: {OPEN}, if all cases ran")


def _case_arguments(parser: argparse.ArgumentParser, bench: Bench) -> None:
    parser.set_defaults(action=_cases, bench=bench, list=False)
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    parser.add_argument(
        "--peers", default=",".join(bench.peers), help="who takes part (default: %(default)s)"
    )
    parser.add_argument("--threads", default="2,1", help="numbers of threads (default: %(default)s)")
    parser.add_argument("--runs", type=int, help=f"runs of each at least (default: {Effort().runs})")
    parser.add_argument("--quick", action="store_true", help="few runs and short pauses: figures are rough")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write JSON lines")
    parser.add_argument(
        "--compare", type=Path, metavar="OLD", help="compare with JSON lines of an earlier run"
    )
    whole = f"(default: {bench.document}, if all cases ran)"
    parser.add_argument("--markdown", type=Path, metavar="FILE", help=whole)
    parser.add_argument("--session", type=Path, help=argparse.SUPPRESS)


def _names(pattern: str, every: Iterable[str] = CASE_NAMES) -> list[str]:
    try:
        return [name for name in every if re.search(pattern, name)]
    except re.error as error:
        raise SystemExit(f"--only {pattern!r}: got no regular expression ({error})") from None


def _list(options: argparse.Namespace) -> None:
    print("\n".join(_names(options.only)))


def _mechanisms(options: argparse.Namespace) -> None:
    limit_threads(options.threads)
    effort = QUICK if options.quick else Effort()
    found = []
    every = (*mechanisms.MECHANISMS, *ATTEMPTS)
    wanted = [m for m in every if re.search(options.only, m.name)]
    for gain in mechanisms.gains(options.threads, effort, wanted):
        found.append(gain)
        if options.json:
            session.append(options.json, record.line_of("gain", gain))
    show(report.mechanisms(found))


def _rounding(options: argparse.Namespace) -> None:
    limit_threads(options.threads)
    names = _names(options.only, rounding.described())
    found = [*rounding.rows(names, options.threads, QUICK if options.quick else Effort())]
    table = rounding.table(found, options.threads)
    show([table])
    if options.markdown:
        write_text(options.markdown, markdown(table))


def _stages(options: argparse.Namespace) -> None:
    limit_threads(options.threads)
    names = _names(options.only, [c.name for c in stages.CASES])
    found = stages.rows(names, options.threads, QUICK if options.quick else Effort())
    table = stages.table([*found], options.threads)
    show([table])
    if options.markdown:
        stages.write(options.markdown, table)


def _open(options: argparse.Namespace) -> None:
    limit_threads(options.threads)
    effort = QUICK if options.quick else Effort()
    effort = replace(effort, runs=options.runs) if options.runs else effort
    names = _names(options.only, [c.name for c in opened.ALL])
    wanted = [c for c in opened.ALL if c.name in names]
    rows = [row for c in wanted for row in opened.rows_of(c, options.threads, effort)]
    show(opened.tables(rows))
    target = options.markdown or (OPEN if len(wanted) == len(opened.ALL) and not options.quick else None)
    if target:
        opened.write(target, rows)


def _collectives(options: argparse.Namespace) -> None:
    found = collectives.tables(options.sizes)
    show(found)
    if options.markdown is not None:
        write_text(options.markdown, collectives.document(found))


def _serve(options: argparse.Namespace) -> None:
    from benchmarks import serving  # which needs the extra `serve`

    found = serving.tables(options.resnet, options.seconds, options.small, options.only)
    show(found)
    if options.markdown:
        write_text(options.markdown, serving.document(found))


def _build(options: argparse.Namespace) -> None:
    random = options.random or (QUICK_RANDOM if options.quick else None)
    rows = [replace(r, size=random) if random and r.kind in builds.RANDOM else r for r in builds.ROWS]
    if options.quick:
        rows = [r for r in rows if r.size <= QUICK_LAYERS]
    names = _names(options.only, [r.name for r in rows])
    rows = [r for r in rows if r.name in names]
    order = build_session.Order(options.runs, options.threads, options.timeout, options.tree)
    if options.json:
        write_text(options.json, record.line_of("machine", this_machine({}, {})) + "\n")
    found = []
    for built in build_session.run(rows, order):
        found.append(built)
        if options.json:
            session.append(options.json, builds.line_of(built))
    print("\n".join(map(markdown, builds.tables(found))))


def _trees(options: argparse.Namespace) -> None:
    from tools.replays.trees import changed, source_tree

    processors(options.threads)
    effort = QUICK if options.quick else Effort()
    effort = replace(effort, runs=options.runs) if options.runs else effort
    names = _names(options.only, trees.LAYERS)
    found = trees.read(options.json) if options.resume and options.json and options.json.exists() else []
    if options.json:
        lines = [record.line_of("machine", this_machine({}, {})), *map(trees.line_of, found)]
        write_text(options.json, "".join(f"{line}\n" for line in lines))
    with source_tree(options.old) as old:
        names = changed(old, options.only) if options.changed else names
        left = [n for n in names if n not in {p.case for p in found}]
        for pair in trees.pairs(left, trees.Order(old, trees.ROOT, options.threads, effort)):
            found.append(pair)
            if options.json:
                session.append(options.json, trees.line_of(pair))
    show(trees.tables(found))
    if options.changed:
        print("\n".join(map(trees.said, found)))


def _compare(options: argparse.Namespace) -> None:
    show([comparison(record.read(options.old), record.read(options.new))])


def _report(options: argparse.Namespace) -> None:
    results = record.read(options.results)
    mine = ((contraction_report, CONTRACTIONS), (family_report, FAMILIES))
    bench = next((b for r, b in mine if r.is_mine(results)), OPS)
    show(bench.tables(results))
    if options.markdown:
        bench.write(options.markdown, results)


def _cases(options: argparse.Namespace) -> None:
    if options.session:
        _session(options)
        return
    bench: Bench = options.bench
    names = _names(options.only, bench.cases)
    if not names:
        listing = "list" if bench is OPS else f"{bench.command} --list"
        raise SystemExit(
            f"--only {options.only!r}: got no case; `python -m benchmarks {listing}` shows their names"
        )
    if options.list:
        print("\n".join(names))
        return
    with tempfile.TemporaryDirectory() as folder:
        output = (
            options.json or Path(folder) / "lines"
        )  # grows case by case: a run that is stopped is not lost
        output.unlink(missing_ok=True)
        for threads in options.threads.split(","):
            _run_sessions(options, names, threads, output)
        results = record.read(output)
    if options.json:
        record.write(options.json, results)
    show(bench.tables(results))
    if options.compare:
        show([comparison(record.read(options.compare), results)])
    everybody = ",".join(bench.peers)
    is_whole = len(names) == len(bench.cases) and not options.quick and options.peers == everybody
    target = options.markdown or (bench.document if is_whole else None)
    if target:
        bench.write(target, results)


def _run_sessions(options: argparse.Namespace, names: Sequence[str], threads: str, output: Path) -> None:
    """A process for every few cases; one that dies costs the case it died in."""
    left, calls = list(names), not options.no_calls
    while left:
        todo = left[:PER_SESSION]
        before = _done(output, threads)
        command = [sys.executable, "-m", "benchmarks", options.bench.command, "--session", str(output)]
        command += ["--threads", threads]
        command += ["--only", "^(" + "|".join(map(re.escape, todo)) + ")$", "--peers", options.peers]
        command += ["--quick"] if options.quick else []
        command += ["--runs", str(options.runs)] if options.runs else []
        command += ["--no-calls"] if options.bench is OPS and not calls else []
        status = subprocess.run(command, check=False).returncode
        finished = _done(output, threads) - before
        left = [n for n in left if n not in finished]
        if status:
            lost = [n for n in todo if n not in finished][:1]
            print(f"a session ended with status {status} in {lost or 'its start'}", file=sys.stderr)
            if not finished and not lost:
                raise SystemExit(status)
            left = [n for n in left if n not in lost]
        calls = False


def _done(output: Path, threads: str) -> set[str]:
    if not output.exists():
        return set()
    return {r.case for r in record.read(output).rows if r.threads == int(threads)}


def _session(options: argparse.Namespace) -> None:
    """What a child process does."""
    faulthandler.enable()
    threads = int(options.threads)
    limit_threads(threads)
    effort = QUICK if options.quick else Effort()
    effort = replace(effort, runs=options.runs) if options.runs else effort
    peers = tuple(options.peers.split(","))
    bench: Bench = options.bench
    unknown = set(peers) - set(bench.peers)
    if unknown or OURS not in peers:
        raise SystemExit(
            f"--peers: got {options.peers!r}, wanted {OURS} and some of {', '.join(bench.peers)}"
        )
    names = tuple(_names(options.only, bench.cases))
    bench.run(session.Order(names, peers, threads, effort, not options.no_calls), options.session)
    sys.stderr.flush()
    os._exit(0)  # some peers' threads hang when the interpreter ends


if __name__ == "__main__":
    main()
