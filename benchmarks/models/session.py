"""The measuring processes: one for each program alone, which loads a model, one for all programs in turn."""

from __future__ import annotations

import gc
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path

import anyrt
from benchmarks import limit
from benchmarks.child import call
from benchmarks.clock import status_kb
from benchmarks.contractions import peaks
from benchmarks.measure import Effort, limit_threads, once
from benchmarks.models.kernels import KernelTime, kernels
from benchmarks.models.programs import OURS, PROGRAMS, bound, engine_of
from benchmarks.peers import Kept
from benchmarks.probe import Probe
from benchmarks.race import Judge, Race, distance
from benchmarks.steps import Element
from benchmarks.values import Array, read_arrays

MEASURED_FLOPS, MEASURED_BYTES = 10**9, 1 << 26
TRIES = 5  # a loop takes a few milliseconds, of which other work on the machine costs some


@dataclass(frozen=True, slots=True)
class Timed:
    """A program on a model: microseconds, the error relative to the outputs of the first program, seconds to
    load the model (None: not measured), and the growth of memory in megabytes."""

    program: str
    median: float
    late: float
    minimum: float
    runs: int
    error: float
    load_s: float | None = None
    resident_mb: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """A model: its flops and bytes, the machine's flops and bytes per microsecond, each program, why others
    are missing, and each of our kernels."""

    model: str
    threads: int
    flops: int
    bytes: int
    flops_per_us: float
    bytes_per_us: float
    timed: tuple[Timed, ...]
    left_out: dict[str, str]
    kernels: tuple[KernelTime, ...] = ()
    first_load_s: float = 0.0

    def of(self, program: str) -> Timed | None:
        """The times of a program, if it has any."""
        return next((t for t in self.timed if t.program == program), None)

    def least_us(self, flops: float, moved: float) -> float:
        """The least microseconds for so many flops and bytes."""
        return max(flops / self.flops_per_us, moved / self.bytes_per_us)


def measure_model(model: str, folder: Path, threads: int, programs: list[str], runs: int) -> Measured:
    """A model by each program alone, then by all in turn."""
    with tempfile.TemporaryDirectory() as cache_folder:
        os.environ["ANYRT_CACHE_DIR"] = cache_folder
        first = call(alone, (OURS, model, folder, threads)).value or {}
        loads = {p: call(alone, (p, model, folder, threads)).value or {} for p in programs}
        answer = call(together, (model, folder, threads, runs, programs))
    if answer.error:
        raise SystemExit(f"{model}: {answer.error}")
    timed = tuple(replace(t, **loads[t.program]) for t in answer.value.timed)
    return replace(answer.value, timed=timed, first_load_s=first.get("load_s", 0.0))


def alone(program: str, model: str, folder: Path, threads: int) -> dict[str, float]:
    """Seconds to load a model, and the memory that it occupies after a run, in a process of its own."""
    limit_threads(threads)
    module = import_module(PROGRAMS[program].module)
    arrays = inputs(model, folder)
    gc.collect()
    before, begin = status_kb("VmRSS"), time.perf_counter()
    ready = PROGRAMS[program].load(module, folder / f"{model}.onnx", arrays, threads)
    if program == "torch.compile":  # it compiles when it is called
        ready.run()
    seconds = time.perf_counter() - begin
    ready.run()
    gc.collect()
    return {"load_s": seconds, "resident_mb": (status_kb("VmRSS") - before) / 1e3}


def together(model: str, folder: Path, threads: int, runs: int, programs: Sequence[str]) -> Measured:
    """Times of all programs, which run in turn, in a process."""
    limit_threads(threads)
    effort, path = Effort(runs=runs), folder / f"{model}.onnx"
    facts = json.loads((folder / f"{model}.json").read_text())
    arrays, race, judge = inputs(model, folder), Race[float](), _judge(facts["near"])
    for name in programs:
        race.add(name, partial(PROGRAMS[name].ready, path, arrays, threads), judge)
    times, _ = race.measured(effort, Probe(threads, effort.patience_s))
    timed = tuple(
        Timed(name, t.median, t.late, t.minimum, t.runs, error)
        for (name, _, error), t in zip(race.ways, times, strict=True)
    )
    work = (facts["flops"], facts["bytes"], *pace(threads))
    own = tuple(_kernels(path, arrays, threads))
    return Measured(model, threads, *work, timed, race.left_out, own)


def inputs(model: str, folder: Path) -> dict[str, Array]:
    """The inputs of a model."""
    return read_arrays(folder / f"{model}.npz")


def _judge(near: float) -> Judge[float]:
    """Outputs are right if they are within `near` of those of the first program."""
    first = list[list[Array]]()

    def judge(results: tuple[Array, ...]) -> tuple[float, str]:
        if not first:
            first.append([x.copy() for x in results])
        error = distance(results, first[0]).error
        return error, "" if error <= near else f"wrong: by {error:.3g}"

    return judge


@cache
def pace(threads: int) -> tuple[float, float]:
    """(flops, bytes read) of the machine in a microsecond."""
    moving = min(once(w.run) for w in limit.ways(MEASURED_BYTES, 64, threads)[:-1])
    return flops_per_us(threads, Element.F32), MEASURED_BYTES / moving / 1e6


@cache
def flops_per_us(threads: int, dtype: Element) -> float:
    """Flops of the machine in a microsecond, without tile units, which are no limit."""
    loops = [w for w in peaks.ways(MEASURED_FLOPS, dtype, threads) if w.label != peaks.TILE_PEAK]
    return MEASURED_FLOPS / min(once(w.run) for w in loops * TRIES) / 1e6


def _kernels(path: Path, arrays: dict[str, Array], threads: int) -> Iterator[KernelTime]:
    engine, context = engine_of(anyrt, path, threads)
    way = bound(engine, context, arrays)
    if not isinstance(way.run, Kept):  # outputs of data-dependent shapes have no memory that could be bound
        yield from kernels(engine, context)
