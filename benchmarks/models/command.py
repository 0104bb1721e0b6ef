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
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.machine import this_machine
from benchmarks.models import report
from benchmarks.models.programs import OURS, PROGRAMS
from benchmarks.models.session import Measured, measure_model, measured
from benchmarks.table import show

DOCUMENT = Path("docs/tables/models.md")
NAMES = ("resnet50", "mobilenet", "efficientnet", "vit", "bert", "unet", "yolo", "lstm", "gru", "whisper",
         "llama", "crnn", "audio", "resnet50_int8", "bert_int8")  # fmt: skip
RUNS, FEW = 40, 10


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.set_defaults(action=run)
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose name matches")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="few runs: figures are rough")
    parser.add_argument("--folder", type=Path, help="keep exported models there (default: none is kept)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add JSON lines; models there are not run")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help=f"default: {DOCUMENT}, if all models ran"
    )


def run(options: argparse.Namespace) -> None:
    """Measure, and show tables."""
    known = _read(options.json)
    with nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory() as folder:
        for name in (n for n in NAMES if re.search(options.only, n) and n not in known):
            print(f"{options.threads} threads: {name}", file=sys.stderr, flush=True)
            known[name] = _measured(name, Path(folder), options)
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps(asdict(known[name])) + "\n")
    rows = [known[n] for n in NAMES if n in known]
    show(report.tables(rows))
    target = options.markdown or (DOCUMENT if len(rows) == len(NAMES) and not options.only else None)
    if target:
        report.write(target, this_machine(*_programs(options.programs)), rows)


def _read(path: Path | None) -> dict[str, Measured]:
    if path is None or not path.exists():
        return {}
    found = (measured(json.loads(line)) for line in path.read_text().splitlines())
    return {m.model: m for m in found}


def _measured(name: str, folder: Path, options: argparse.Namespace) -> Measured:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / f"{name}.json").exists():
        subprocess.run([sys.executable, "-m", "benchmarks.models.networks", folder, name], check=True)
    programs = options.programs.split(",")
    if programs[0] != OURS or set(programs) - set(PROGRAMS):
        got, wanted = repr(options.programs), f"{OURS} first, then some of {', '.join(PROGRAMS)}"
        raise SystemExit(f"--programs: got {got}, wanted {wanted}")
    return measure_model(name, folder, options.threads, programs, FEW if options.quick else RUNS)


def _programs(names: str) -> tuple[dict[str, str], dict[str, str]]:
    """(versions, why others are missing)."""
    here, missing = {}, {}
    for name in names.split(","):
        if name != OURS:
            try:
                here[name] = version(PROGRAMS[name].module)
            except PackageNotFoundError as error:
                missing[name] = str(error)
    return here, missing
