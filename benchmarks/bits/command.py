"""The command: which rows, where results go."""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from benchmarks.bits import report
from benchmarks.bits.rows import COMPILED, FLOAT_GROUPS, OPENVINO, ORT, ROWS, Row
from benchmarks.bits.session import measure_rows, result_of
from benchmarks.command import FOLDER, LIST, QUICK, THREADS, Command, file, only, whole
from benchmarks.machine import this_machine
from benchmarks.models.programs import versions
from benchmarks.record import append, lines
from benchmarks.table import show

DOCUMENT = Path("docs/tables/bits.md")


def _run(options: argparse.Namespace) -> None:
    """Measure, and show tables."""
    wanted = [r for r in ROWS if re.search(options.only, r.name)]
    if options.list:
        print("\n".join(r.name for r in wanted))
        return
    known = {r.row: r for r in map(result_of, lines(options.json))}
    with nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory() as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for rows in _together([r for r in wanted if r.name not in known]):
            print(
                f"{options.threads} threads: {', '.join(r.name for r in rows)}", file=sys.stderr, flush=True
            )
            for result in measure_rows(rows[0].model, rows, Path(folder), options.threads, options.quick):
                known[result.row] = result
                if options.json:
                    append(options.json, json.dumps(asdict(result)))
    found = [known[r.name] for r in ROWS if r.name in known]
    show(report.tables(found))
    target = options.markdown or (DOCUMENT if len(found) == len(ROWS) and not options.only else None)
    if target:
        report.PAGE.write(target, report.tables(found), this_machine(*versions((ORT, OPENVINO, COMPILED))))


def _together(rows: list[Row]) -> list[list[Row]]:
    """Rows of the same model share its engines; those of codes are apart, or memory would not do."""
    found: dict[tuple[str, bool], list[Row]] = {}
    for row in rows:
        found.setdefault((row.model, row.group in FLOAT_GROUPS), []).append(row)
    return [*found.values()]


COMMAND = Command(
    "bits",
    "fewer bits: bfloat16, half, int8, weights of a few bits, and fewer products in float32",
    _run,
    (
        *(only("rows"), LIST, THREADS, QUICK, FOLDER),
        *(file("--json", "add JSON lines; rows there are not run"), whole(DOCUMENT)),
    ),
)
