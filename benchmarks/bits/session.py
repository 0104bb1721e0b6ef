"""The measuring processes: one builds an engine, one runs all programs on a model in turn.

python -m benchmarks.bits.session built FOLDER MODEL THREADS PLAN ENTRY
python -m benchmarks.bits.session together FOLDER MODEL THREADS RUNS PLANS ROW ...

Each prints one line of JSON, the last of its output.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import anyrt as trt
from benchmarks import limit
from benchmarks.bits import products
from benchmarks.bits.files import Files, Form, Given
from benchmarks.bits.judge import Distance, distance, least_cosine
from benchmarks.bits.programs import load, plan_of
from benchmarks.bits.rows import ROWS, Ask, Entry, Row
from benchmarks.clock import measured, status_kb
from benchmarks.engines import engine_of
from benchmarks.measure import QUICK, Effort, limit_threads, once
from benchmarks.models.kernels import executed
from benchmarks.models.programs import OURS, bound
from benchmarks.models.session import ROOT, TRIES, child, flops_per_us, main
from benchmarks.peers import Cannot, Way
from benchmarks.probe import Probe
from benchmarks.race import REASON, Race
from benchmarks.record import parse
from benchmarks.steps import Element
from benchmarks.values import Array

LOADS = 3  # of which the least memory counts, after a load that fills the caches of the process
MOST_READ = 256 << 20  # bytes; times of more bytes are extrapolated
BITS = {Element.F32: 32, Element.BF16: 16, Element.I8: 8}


@dataclass(frozen=True, slots=True)
class Built:
    """An engine of ours: CPU seconds of its build; bytes of the plan and of the weights in it; bytes of
    memory that a process has more after a run (with the weights of a mapped plan, without inputs and
    outputs); multiplications and additions of its kernels."""

    cpu_s: float
    plan: int
    weights: int
    resident: int
    flops: int


@dataclass(frozen=True, slots=True)
class Timed:
    """Microseconds of an entry, and its distance from float64."""

    median: float
    minimum: float
    runs: int
    error: float
    cosine: float


@dataclass(frozen=True, slots=True)
class Result:
    """A row: times by label of the entry, figures of our engines, and why entries are missing. limit_us: the
    larger of computing time and reading time; packed: bytes of codes and scales."""

    row: str
    threads: int
    flops: int
    bytes: int
    limit_us: float
    packed: int = 0
    timed: dict[str, Timed] = field(default_factory=dict)
    built: dict[str, Built] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


# ---- the parent ---------------------------------------------------------------------------------


def measure_rows(model: str, rows: Sequence[Row], folder: Path, threads: int, quick: bool) -> list[Result]:
    """Rows of one model: engines are built first, each in a process with an empty cache, then all run."""
    entries = [*dict.fromkeys(e for r in rows for e in r.entries)]
    _export(model, folder, dict.fromkeys(e.form for e in entries))
    with tempfile.TemporaryDirectory() as scratch:
        plans, caches = Path(scratch) / "plans", Path(scratch) / "caches"
        plans.mkdir()
        engines = (e for e in entries if e.program == OURS)
        built = {e.label: _built(e, model, folder, threads, plans, caches) for e in engines}
        os.environ["ANYRT_CACHE_DIR"] = str(caches / "all")
        names = [r.name for r in rows]
        outcome = child(__name__, "together", folder, model, threads, int(quick), plans, *names)
    failed = {k: v["failed"] for k, v in built.items() if "failed" in v}
    return [_result(row, threads, outcome, built, failed) for row in rows]


def _export(model: str, folder: Path, forms: Iterable[Form]) -> None:
    module = "products" if model.startswith(products.PREFIX) else "networks"
    command = [sys.executable, "-m", f"benchmarks.bits.{module}", folder, model, *(f.value for f in forms)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def _built(
    entry: Entry, model: str, folder: Path, threads: int, plans: Path, caches: Path
) -> dict[str, Any]:  # Any: as JSON has them
    """The figures of a build. Its compiled code is added to the cache of all engines."""
    own = caches / entry.label.replace("/", "_")
    os.environ["ANYRT_CACHE_DIR"] = str(own)
    own.mkdir(parents=True)
    outcome = child(__name__, "built", folder, model, threads, _plan(plans, entry), entry.label)
    shutil.copytree(own, caches / "all", dirs_exist_ok=True)
    shutil.rmtree(own)
    return outcome


def _plan(plans: Path, entry: Entry) -> Path:
    return plans / f"{entry.form.name}_{entry.ask.name}.plan"


def _result(
    row: Row, threads: int, outcome: dict[str, Any], built: dict[str, Any], failed: dict[str, str]
) -> Result:  # Any: as JSON has them
    """The results of the entries of a row."""
    labels = [e.label for e in row.entries]
    limits = outcome.get("limits", {}).get(row.name, {"flops": 0, "bytes": 0, "limit_us": 0.0, "packed": 0})
    reasons = outcome.get("left_out", {}) | failed
    if "failed" in outcome:
        reasons = dict.fromkeys(labels, outcome["failed"]) | reasons
    return parse(
        Result,
        {
            "row": row.name,
            "threads": threads,
            **limits,
            "timed": {k: v for k, v in outcome.get("timed", {}).items() if k in labels},
            "built": {k: v for k, v in built.items() if k in labels and k not in failed},
            "left_out": {k: v for k, v in reasons.items() if k in labels},
        },
    )


# ---- the children -------------------------------------------------------------------------------


def built(folder: str, model: str, threads: str, plan: str, label: str) -> dict[str, Any]:  # Any: JSON
    """Build an engine, keep its plan, load and run it."""
    limit_threads(int(threads))
    entry, files = ENTRIES[label], Files(Path(folder), model)
    try:
        files.check(entry.form)
        with measured() as outcomes:
            text = plan_of(entry, files, int(threads))
    except Exception as error:  # whatever a build raises is a result, too
        return {"failed": first_line(error)}
    Path(plan).write_bytes(text)
    flops = executed(text)
    del text
    weights, more = _resident(Path(plan), files)
    return asdict(Built(outcomes[0].cpu_s or 0.0, Path(plan).stat().st_size, weights, weights + more, flops))


def _resident(plan: Path, files: Files) -> tuple[int, int]:
    """(bytes of weights in a mapped plan, bytes that loading and running need besides)."""
    inputs, growth = files.inputs(), []
    for _ in range(1 + LOADS):
        gc.collect()
        before = status_kb("RssAnon")
        engine = engine_of(plan)
        context = engine.create_execution_context()
        ready = bound(engine, context, inputs)
        ready.run()
        gc.collect()
        ends = sum(
            np.prod(engine.get_tensor_shape(n)) * engine.get_tensor_bytes_per_component(n) for n in engine
        )
        growth.append((status_kb("RssAnon") - before) * 1024 - int(ends))
        weights = int(engine.get_engine_stat(trt.EngineStat.TOTAL_WEIGHTS_SIZE))
        del engine, context, ready
    return weights, max(0, min(growth[1:]))


def together(
    folder: str, model: str, threads: str, quick: str, plans: str, *names: str
) -> dict[str, Any]:  # Any: JSON
    """Times of all entries, which run in turn."""
    limit_threads(int(threads))
    files, rows = Files(Path(folder), model), [r for r in ROWS if r.name in names]
    effort = replace(QUICK, runs=10) if int(quick) else Effort()
    inputs, race = files.inputs(), Race[Distance](first_line)
    for entry in dict.fromkeys(e for r in rows for e in r.entries):
        plan = _plan(Path(plans), entry)
        if entry.program != OURS or plan.exists():  # otherwise the build has the reason
            race.add(
                entry.label,
                partial(_ready, entry, files, plan, inputs, int(threads)),
                partial(_right, entry, files),
            )
    times, _ = race.measured(effort, Probe(int(threads), effort.patience_s))
    timed = {
        label: asdict(Timed(t.median, t.minimum, t.runs, far.error, far.cosine))
        for (label, _, far), t in zip(race.ways, times, strict=True)
    }
    limits = {r.name: _limit(r, files, int(threads)) for r in rows}
    return {"timed": timed, "left_out": race.left_out, "limits": limits}


def _ready(entry: Entry, files: Files, plan: Path, inputs: Given, threads: int) -> list[Way]:
    files.check(entry.form)
    return [load(entry, files, plan, inputs, threads)]


def _right(entry: Entry, files: Files, results: Sequence[Array]) -> tuple[Distance, str]:
    """The distance of results, and a reason if it is too large for the entry."""
    far = distance(results, files.expected(entry.form))
    wrong = f"wrong: cosine {far.cosine:.4f}, error {far.error:.3g}"
    return far, wrong if far.cosine < least_cosine(entry) else ""


def first_line(error: Exception) -> str:
    """The kind of an error and the first line of its text that does not end with a colon."""
    kind = "cannot" if isinstance(error, Cannot) else type(error).__name__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{kind}: {next((x for x in lines if not x.endswith(':')), '')}"[:REASON]


def _limit(row: Row, files: Files, threads: int) -> dict[str, float]:
    facts, bits = files.facts(), 16 if row.ours.ask is Ask.FP16 else BITS[row.unit]
    packed = facts.packed.get(row.ours.form.value, 0)
    moved = (packed or facts.weights * bits // 32) + facts.moved
    least = max(facts.flops / flops_per_us(threads, row.unit), reading_us(moved, threads))
    return {"flops": facts.flops, "bytes": moved, "limit_us": least, "packed": packed}


def reading_us(size: int, threads: int) -> float:
    """Microseconds to read so many bytes repeatedly, from the cache that they fit into."""
    read = min(size, MOST_READ)
    least = min(once(w.run) for w in limit.reading(read, threads) for _ in range(TRIES))
    return least * 1e6 * size / read


ENTRIES = {e.label: e for r in ROWS for e in r.entries}

if __name__ == "__main__":
    main({"built": built, "together": together})
