"""The data of a report of a built network, as plain values.

Times are measured on random inputs at the optimum of the first profile or at guessed sizes, limits on
this machine in this process: a kernel whose share of the limit is above 1 was served by a nearer cache than
assumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from anyrt.backends import loader
from anyrt.cli.draw.picture import Picture, picture_of
from anyrt.cli.draw.times import kernel_milliseconds
from anyrt.cli.guess import Guess
from anyrt.cli.script import plan_file
from anyrt.cli.stages import assembly_of
from anyrt.codegen import llvm
from anyrt.compiler import native
from anyrt.compiler.driver import lower_plan
from anyrt.compiler.report import build_report
from anyrt.compiler.verify import random_inputs
from anyrt.core.dimvalues import evaluate
from anyrt.core.dtype import numpy_dtype, short_name
from anyrt.core.flags import read_flags
from anyrt.core.machine import this_machine
from anyrt.ir.buffer import Space
from anyrt.ir.compute import Contracted
from anyrt.ir.graph import Value
from anyrt.ir.kernel import Kernel
from anyrt.ir.kerneltext import print_kernels
from anyrt.plan.file import PlanFile
from anyrt.plan.json import Json
from anyrt.plan.report import by_layer, parse_report
from anyrt.schedule.arena import buffer_bytes
from anyrt.schedule.cost import Sizes
from anyrt.schedule.launch import Launch, Schedule, in_line
from anyrt.schedule.versions import serving, versions

RUNS: Final = 50  # inferences in the histogram
SECONDS: Final = 5.0  # their total time
TEXT: Final = 6000  # characters of a kernel's text, and of its assembly
BUDGET: Final = 4 << 20  # characters of all of these together
OMITTED: Final = (
    f"omitted: the texts of other kernels exceed {BUDGET >> 20} MiB; `anyrt explain` prints them with --stage"
)
NO_CODE: Final = "omitted: this processor's assembly has no function for the kernel"
FAR, NEAR = 64 << 20, 128 << 10  # bytes that are copied to measure memory, and caches near a core
MATRIX: Final = 384
REPEATS: Final = 30  # short, so that one of them is undisturbed


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of this machine per millisecond: bytes of memory, bytes within the `cached` bytes of caches,
    and float32 operations."""

    bytes: float
    near: float
    operations: float
    cached: int

    def milliseconds(self, nbytes: float, operations: float) -> float:
        """The least time for this work."""
        return max(
            nbytes / (self.near if nbytes <= self.cached else self.bytes), operations / self.operations
        )


@dataclass(frozen=True, slots=True)
class Built:
    """A plan with its lowered kernels for this machine."""

    source: bytes | Path
    file: PlanFile
    lowered: native.Lowered
    sizes: Mapping[str, int]
    schedule: Schedule
    picture: Picture
    guess: Guess

    @staticmethod
    def of(source: bytes | Path) -> Built:
        """The version of a plan that serves the optimum of its first profile, or guesses."""
        file, guess = plan_file(source), Guess()
        lowered, sizes = lower_plan(file, loader.target()), guess.of_plan(file.plan)
        variants = versions(lowered.graph)
        number = serving((v.guard for v in variants), sizes)
        schedule = lowered.schedules[number]
        picture = picture_of(file.plan, variants[number].graph, schedule, sizes)
        return Built(source, file, lowered, sizes, schedule, picture, guess)

    def milliseconds(self) -> dict[str, float]:
        """The time of each step, by name."""
        return kernel_milliseconds(self.source, self.lowered.graph, self.sizes)


def limits() -> Limits:
    """Measure the limits with NumPy: a copy larger than the caches, a copy inside them on each core, and a
    product of matrices."""
    machine, a = this_machine(read_flags()), np.ones((MATRIX, MATRIX), np.float32)
    multiplied = _least(lambda: a @ a)
    operations = 2 * MATRIX**3 / multiplied / 1e3
    return Limits(_copied(FAR), machine.cores * _copied(NEAR), operations, machine.cores * machine.l2_bytes)


def _copied(nbytes: int) -> float:
    """Bytes read and written per millisecond by a copy of `nbytes`."""
    source, target = np.ones(nbytes // 4, np.float32), np.empty(nbytes // 4, np.float32)
    return 2 * nbytes / _least(lambda: np.copyto(target, source)) / 1e3


def _least(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def kernels(built: Built, measured: Mapping[str, float], most: Limits) -> list[Json]:
    """Each kernel with its layers, bytes, operations, time, and its share of the limit."""
    sizes = Sizes(built.sizes)
    report = build_report(built.lowered, sizes, parse_report(built.file.plan.report).at)
    traffic = {k.name: k for k in report.kernels}
    total, rows = sum(measured.values()) or 1.0, list[Json]()
    texts = _texts(built)
    for launch in built.schedule.everywhere:
        moved = traffic[launch.name]
        ms, operations = measured.get(launch.name, 0.0), _operations(launch, sizes)
        least = most.milliseconds(moved.moved, operations)
        rows.append({
            "name": launch.name, "layers": list(moved.layers), "kind": launch.kind,
            "reads": moved.reads, "writes": moved.writes, "operations": operations, "ms": ms,
            "share": ms / total, "limit": least / ms if ms else None, **texts.get(launch.name, {}),
        })  # fmt: skip
    return rows


def _operations(launch: Launch, sizes: Sizes) -> int:
    """Multiplications and additions of sums of products, and one operation for each other element."""
    return sum(_work(value, sizes) for value in (*launch.makes, *launch.inlined))


def _work(value: Value, sizes: Sizes) -> int:
    match value.compute:
        case Contracted(left=left, right=right, out=out):
            axes = zip((*left, *right), (d for arg in value.args[:2] for d in arg.shape), strict=True)
            terms = [sizes.of(size) for label, size in dict(axes).items() if label not in out]
            return 2 * sizes.volume(value) * prod(terms)
    return sizes.volume(value)


def _texts(built: Built) -> dict[str, dict[str, Json]]:
    """The steps, loops and assembly of each kernel; of kernels beyond the budget, the reason for none."""
    target, texts, spent = loader.target(), dict[str, dict[str, Json]](), 0
    codes = assembly_of(target.assembly(native.text(built.lowered, target)))
    parts = ((part, launch) for part in built.schedule.nested for launch in part.launches)
    for part, launch in parts:
        if spent > BUDGET:
            texts[launch.name] = dict.fromkeys(("steps", "loops", "assembly"), OMITTED)
            continue
        done = (t.step for t in part.trace(launch) if isinstance(t.result, Kernel))
        text, asm = print_kernels([launch.kernel]), codes.get(llvm.quoted(launch.call.kernel.name), NO_CODE)
        texts[launch.name] = {"steps": "\n".join(done), "loops": _cut(text), "assembly": _cut(asm)}
        spent += min(len(text), TEXT) + min(len(asm), TEXT)
    return texts


def _cut(text: str) -> str:
    more = f"\n… {len(text) - TEXT} characters more; `anyrt explain` prints all with --stage"
    return text if len(text) <= TEXT else text[:TEXT] + more


def layers(built: Built, rows: Sequence[Json]) -> list[Json]:
    """Each layer with the sum of the times of its kernels; a kernel's time is divided evenly among its
    layers."""
    traffic, of, measured = parse_report(built.file.plan.report).kernels, dict[str, list[str]](), []
    for row in rows:
        assert isinstance(row, dict), "a kernel"
        measured.append((str(row["name"]), float(str(row["ms"]))))
        for name in row["layers"] if isinstance(row["layers"], list) else ():
            of.setdefault(str(name), []).append(str(row["name"]))
    times = by_layer(measured, traffic)
    return [
        {
            "name": x.name, "kind": x.kind, "ms": times.get(x.name, 0.0), "kernels": list(of.get(x.name, [])),
            "inputs": list(x.inputs), "outputs": list(x.outputs), "details": dict(x.details),
        }
        for x in built.file.plan.layers
    ]  # fmt: skip


def memory(built: Built) -> list[Json]:
    """The bytes of live intermediate tensors after each step."""
    line = in_line(built.schedule)
    first, last = dict[object, int](), line.last_uses()
    nbytes = {b: evaluate(buffer_bytes(b), built.sizes) for b in last if b.space is Space.ARENA}
    for n, step in enumerate(line.steps):
        for b in getattr(step, "written", ()):
            first.setdefault(b, n)
    alive = [
        sum(size for b, size in nbytes.items() if first.get(b, 0) <= n <= last[b])
        for n in range(len(line.steps))
    ]
    names = [getattr(step, "name", "") for step in line.steps]
    return [{"step": name, "bytes": size} for name, size in zip(names, alive, strict=True)]


def constants(file: PlanFile) -> list[Json]:
    """The statistics of each constant: least, mean, greatest, and the share of zeros."""
    return [dict(_constant(file, n)) for n in range(len(file.plan.held))]


def _constant(file: PlanFile, number: int) -> Iterator[tuple[str, Json]]:
    blob = file.plan.held[number]
    yield from (("name", blob.name), ("type", short_name(blob.dtype)))
    yield from (("count", blob.count), ("bytes", blob.nbytes))
    dtype = numpy_dtype(blob.dtype)
    if blob.nbytes != blob.count * dtype.itemsize or not blob.count:
        return
    x = np.frombuffer(file.weights, dtype, blob.count, blob.offset).astype(np.float64)
    with np.errstate(all="ignore"):
        values = {"minimum": x.min(), "mean": x.mean(), "maximum": x.max(), "deviation": x.std()}
    yield from ((name, float(v) if np.isfinite(v) else str(v)) for name, v in values.items())
    yield "zeros", float(np.mean(x == 0))


def latencies(built: Built) -> list[float]:
    """Milliseconds of some inferences, after a warm-up."""
    from anyrt.api.edge.interfaces import Logger
    from anyrt.api.run.runtime import Runtime
    from anyrt.core.enums import Severity
    from anyrt.core.flags import strict

    with strict():
        engine = Runtime(Logger(Severity.INTERNAL_ERROR)).deserialize_cuda_engine(built.source)
    feeds = random_inputs(built.lowered.graph, built.sizes)
    engine.run(**feeds)
    times, began = list[float](), time.perf_counter()
    while len(times) < RUNS and time.perf_counter() - began < SECONDS:
        before = time.perf_counter()
        engine.run(**feeds)
        times.append(1e3 * (time.perf_counter() - before))
    return times


def not_fused(built: Built) -> list[Json]:
    """The values stored in memory, and why."""
    report = build_report(built.lowered, Sizes(built.sizes), ())
    return [asdict(s) for s in report.stored]
