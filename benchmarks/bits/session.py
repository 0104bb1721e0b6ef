"""The measuring processes: one builds an engine, one runs all programs on a model in turn."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

import anyrt as trt
from benchmarks import limit
from benchmarks.bits import products
from benchmarks.bits.files import Files, Form, Given
from benchmarks.bits.programs import load, plan_of
from benchmarks.bits.rows import Ask, Entry, Row
from benchmarks.child import ROOT, Answer, call
from benchmarks.clock import measured, status_kb
from benchmarks.engines import engine_of
from benchmarks.measure import QUICK, Effort, limit_threads, once
from benchmarks.models.kernels import executed
from benchmarks.models.programs import OURS, bound
from benchmarks.models.session import TRIES, flops_per_us
from benchmarks.peers import Way, first_line
from benchmarks.probe import Probe
from benchmarks.race import Distance, Race, distance
from benchmarks.steps import Element
from benchmarks.values import Array

T = TypeVar("T")
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
class Limit:
    """The work of a row, and its least time."""

    flops: int = 0
    bytes: int = 0
    limit_us: float = 0.0
    packed: int = 0


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a process measured: times by label of the entry, reasons, and the limits of rows by name."""

    timed: dict[str, Timed] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    limits: dict[str, Limit] = field(default_factory=dict)


# ---- the parent ---------------------------------------------------------------------------------


def measure_rows(model: str, rows: Sequence[Row], folder: Path, threads: int, quick: bool) -> list[Result]:
    """Rows of one model: engines are built first, each in a process with an empty cache, then all run."""
    entries, files = [*dict.fromkeys(e for r in rows for e in r.entries)], Files(folder, model)
    _export(model, folder, dict.fromkeys(e.form for e in entries))
    with tempfile.TemporaryDirectory() as scratch:
        plans, caches = Path(scratch) / "plans", Path(scratch) / "caches"
        plans.mkdir()
        answers = {e.label: _built(e, files, threads, plans, caches) for e in entries if e.program == OURS}
        os.environ["ANYRT_CACHE_DIR"] = str(caches / "all")
        answer = call(together, (files, rows, threads, quick, plans))
    outcome = answer.value or Outcome(left_out=dict.fromkeys((e.label for e in entries), answer.error))
    built = {label: x.value for label, x in answers.items() if not x.error}
    reasons = outcome.left_out | {label: x.error for label, x in answers.items() if x.error}
    return [_result(row, threads, outcome, built, reasons) for row in rows]


def _export(model: str, folder: Path, forms: Iterable[Form]) -> None:
    module = "products" if model.startswith(products.PREFIX) else "networks"
    command = [sys.executable, "-m", f"benchmarks.bits.{module}", folder, model, *(f.value for f in forms)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def _built(entry: Entry, files: Files, threads: int, plans: Path, caches: Path) -> Answer:
    """The figures of a build. Its compiled code is added to the cache of all engines."""
    own = caches / entry.label.replace("/", "_")
    os.environ["ANYRT_CACHE_DIR"] = str(own)
    own.mkdir(parents=True)
    answer = call(built, (entry, files, threads, _plan(plans, entry)))
    shutil.copytree(own, caches / "all", dirs_exist_ok=True)
    shutil.rmtree(own)
    return answer


def _plan(plans: Path, entry: Entry) -> Path:
    return plans / f"{entry.form.name}_{entry.ask.name}.plan"


def _result(
    row: Row, threads: int, outcome: Outcome, built: dict[str, Built], reasons: dict[str, str]
) -> Result:
    """The results of the entries of a row."""
    labels, limit = {e.label for e in row.entries}, outcome.limits.get(row.name, Limit())

    def mine(every: dict[str, T]) -> dict[str, T]:
        return {label: x for label, x in every.items() if label in labels}

    parts = (mine(outcome.timed), mine(built), mine(reasons))
    return Result(row.name, threads, limit.flops, limit.bytes, limit.limit_us, limit.packed, *parts)


# ---- the children -------------------------------------------------------------------------------


def built(entry: Entry, files: Files, threads: int, plan: Path) -> Built:
    """Build an engine, keep its plan, load and run it."""
    limit_threads(threads)
    files.check(entry.form)
    with measured() as outcomes:
        text = plan_of(entry, files, threads)
    plan.write_bytes(text)
    flops = executed(text)
    del text
    weights, more = _resident(plan, files)
    return Built(outcomes[0].cpu_s or 0.0, plan.stat().st_size, weights, weights + more, flops)


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


def together(files: Files, rows: Sequence[Row], threads: int, quick: bool, plans: Path) -> Outcome:
    """Times of all entries, which run in turn."""
    limit_threads(threads)
    effort = replace(QUICK, runs=10) if quick else Effort()
    inputs, race = files.inputs(), Race[Distance](first_line)
    for entry in dict.fromkeys(e for r in rows for e in r.entries):
        plan = _plan(plans, entry)
        if entry.program != OURS or plan.exists():  # otherwise the build has the reason
            ready = partial(_ready, entry, files, plan, inputs, threads)
            race.add(entry.label, ready, partial(_right, entry, files))
    times, _ = race.measured(effort, Probe(threads, effort.patience_s))
    timed = {
        label: Timed(t.median, t.minimum, t.runs, far.error, far.cosine)
        for (label, _, far), t in zip(race.ways, times, strict=True)
    }
    return Outcome(timed, race.left_out, {r.name: _limit(r, files, threads) for r in rows})


def _ready(entry: Entry, files: Files, plan: Path, inputs: Given, threads: int) -> list[Way]:
    files.check(entry.form)
    return [load(entry, files, plan, inputs, threads)]


def _right(entry: Entry, files: Files, results: Sequence[Array]) -> tuple[Distance, str]:
    """The distance of results, and a reason if it is too large for the entry."""
    far = distance(results, files.expected(entry.form))
    wrong = f"wrong: cosine {far.cosine:.4f}, error {far.error:.3g}"
    return far, wrong if far.cosine < entry.least_cosine else ""


def _limit(row: Row, files: Files, threads: int) -> Limit:
    facts, bits = files.facts(), 16 if row.ours.ask is Ask.FP16 else BITS[row.unit]
    packed = facts.packed.get(row.ours.form.value, 0)
    moved = (packed or facts.weights * bits // 32) + facts.moved
    least = max(facts.flops / flops_per_us(threads, row.unit), reading_us(moved, threads))
    return Limit(facts.flops, moved, least, packed)


def reading_us(size: int, threads: int) -> float:
    """Microseconds to read so many bytes repeatedly, from the cache that they fit into."""
    read = min(size, MOST_READ)
    least = min(once(w.run) for w in limit.reading(read, threads) for _ in range(TRIES))
    return least * 1e6 * size / read
