"""The command `models`: its models, its programs and its files."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from benchmarks.command import FOLDER, QUICK, THREADS, Command, file, option, progress, publish, whole
from benchmarks.machine import this_machine
from benchmarks.models import report
from benchmarks.models.programs import OURS, PROGRAMS, versions
from benchmarks.models.session import Measured, measure_model
from benchmarks.record import append, lines, parse

DOCUMENT = Path("docs/tables/models.md")
NAMES = ("resnet50", "mobilenet", "efficientnet", "vit", "bert", "unet", "yolo", "lstm", "gru", "whisper",
         "llama", "crnn", "audio", "resnet50_int8", "bert_int8")  # fmt: skip
RUNS, FEW = 40, 10


def _run(options: argparse.Namespace, names: list[str]) -> None:
    """Measure the models, and show the tables."""
    known = {m.model: m for m in (parse(Measured, x) for x in lines(options.json))}
    with nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory() as folder:
        for name in (n for n in names if n not in known):
            progress(name, options.threads)
            known[name] = _measured(name, Path(folder), options)
            append(options.json, json.dumps(asdict(known[name])))
    rows = [known[n] for n in NAMES if n in known]
    document = DOCUMENT if len(rows) == len(NAMES) and not options.only else None
    machine = this_machine(*versions(options.programs.split(",")))
    publish(options, report.tables(rows), report.PAGE, document, machine)


def _measured(name: str, folder: Path, options: argparse.Namespace) -> Measured:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / f"{name}.json").exists():
        subprocess.run([sys.executable, "-m", "benchmarks.models.networks", folder, name], check=True)
    programs = options.programs.split(",")
    if programs[0] != OURS or set(programs) - set(PROGRAMS):
        want = f"{OURS} first, then some of {', '.join(PROGRAMS)}"
        raise SystemExit(f"--programs: got {options.programs!r}, wanted {want}")
    return measure_model(name, folder, options.threads, programs, FEW if options.quick else RUNS)


COMMAND = Command(
    "models",
    "measure whole models from ONNX files",
    _run,
    (
        option("--programs", default=",".join(PROGRAMS), help="programs to measure (default: %(default)s)"),
        *(THREADS, QUICK, FOLDER),
        file("--json", "append JSON lines; models that the file has are not run"),
        whole(DOCUMENT),
    ),
    rows=lambda: NAMES,
    what="models",
)
