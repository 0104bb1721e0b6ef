"""The command `bits`: its options, its rows and its files."""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from benchmarks.bits import report
from benchmarks.bits.rows import COMPILED, FLOAT_GROUPS, OPENVINO, ORT, ROWS, Row
from benchmarks.bits.session import Result, measure_rows
from benchmarks.command import FOLDER, QUICK, THREADS, Command, file, progress, publish, whole
from benchmarks.machine import this_machine
from benchmarks.models.programs import versions
from benchmarks.record import append, lines, parse

DOCUMENT = Path("docs/tables/bits.md")


def _run(options: argparse.Namespace, names: list[str]) -> None:
    """Measure the rows, and show the tables."""
    known = {r.row: r for r in (parse(Result, x) for x in lines(options.json))}
    with nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory() as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for rows in _together([r for r in ROWS if r.name in names and r.name not in known]):
            progress(", ".join(r.name for r in rows), options.threads)
            for result in measure_rows(rows[0].model, rows, Path(folder), options.threads, options.quick):
                known[result.row] = result
                append(options.json, json.dumps(asdict(result)))
    results = [known[r.name] for r in ROWS if r.name in known]
    document = DOCUMENT if len(results) == len(ROWS) and not options.only else None
    machine = this_machine(*versions((ORT, OPENVINO, COMPILED)))
    publish(options, report.tables(results), report.PAGE, document, machine)


def _together(rows: list[Row]) -> list[list[Row]]:
    """Rows of one model share its engines. Rows of int8 run apart, to limit the memory."""
    groups: dict[tuple[str, bool], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.model, row.group in FLOAT_GROUPS), []).append(row)
    return [*groups.values()]


COMMAND = Command(
    "bits",
    "measure bfloat16, half, int8, weights of a few bits, and float32 with Winograd",
    _run,
    (
        THREADS,
        QUICK,
        FOLDER,
        file("--json", "append JSON lines; rows that the file has are not run"),
        whole(DOCUMENT),
    ),
    rows=lambda: (r.name for r in ROWS),
    what="rows",
)
