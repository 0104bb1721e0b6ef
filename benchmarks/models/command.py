"""The command: which models, which programs, where results go."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from benchmarks.command import FOLDER, QUICK, THREADS, Command, file, only, option, whole
from benchmarks.machine import this_machine
from benchmarks.models import report
from benchmarks.models.programs import OURS, PROGRAMS, versions
from benchmarks.models.session import Measured, measure_model, measured
from benchmarks.record import append, lines
from benchmarks.table import show

DOCUMENT = Path("docs/tables/models.md")
NAMES = ("resnet50", "mobilenet", "efficientnet", "vit", "bert", "unet", "yolo", "lstm", "gru", "whisper",
         "llama", "crnn", "audio", "resnet50_int8", "bert_int8")  # fmt: skip
RUNS, FEW = 40, 10


def _run(options: argparse.Namespace) -> None:
    """Measure, and show tables."""
    known = {m.model: m for m in map(measured, lines(options.json))}
    with nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory() as folder:
        for name in (n for n in NAMES if re.search(options.only, n) and n not in known):
            print(f"{options.threads} threads: {name}", file=sys.stderr, flush=True)
            known[name] = _measured(name, Path(folder), options)
            if options.json:
                append(options.json, json.dumps(asdict(known[name])))
    rows = [known[n] for n in NAMES if n in known]
    show(report.tables(rows))
    target = options.markdown or (DOCUMENT if len(rows) == len(NAMES) and not options.only else None)
    if target:
        report.PAGE.write(target, report.tables(rows), this_machine(*versions(options.programs.split(","))))


def _measured(name: str, folder: Path, options: argparse.Namespace) -> Measured:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / f"{name}.json").exists():
        subprocess.run([sys.executable, "-m", "benchmarks.models.networks", folder, name], check=True)
    programs = options.programs.split(",")
    if programs[0] != OURS or set(programs) - set(PROGRAMS):
        got, wanted = repr(options.programs), f"{OURS} first, then some of {', '.join(PROGRAMS)}"
        raise SystemExit(f"--programs: got {got}, wanted {wanted}")
    return measure_model(name, folder, options.threads, programs, FEW if options.quick else RUNS)


COMMAND = Command(
    "models",
    "whole models from ONNX files",
    _run,
    (
        only("models"),
        option("--programs", default=",".join(PROGRAMS), help="(default: %(default)s)"),
        *(
            THREADS,
            QUICK,
            FOLDER,
            file("--json", "add JSON lines; models there are not run"),
            whole(DOCUMENT),
        ),
    ),
)
