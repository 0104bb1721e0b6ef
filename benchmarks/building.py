"""What a process of `python -m benchmarks build` does: it builds a network or loads a plan.

ANYRT_CACHE_DIR is the cache folder. Modules are imported before the clock starts. Actions yield the outcome
when the clock has stopped, and again after each further measurement.
"""

from __future__ import annotations

import importlib
import json
import re
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import anyrt as trt
from benchmarks import random_networks
from benchmarks.clock import Outcome, measured, status_kb
from benchmarks.engines import OPEN, bound, described, engine_of
from benchmarks.measure import Effort, measure
from benchmarks.networks import Part
from benchmarks.steps import Element, Tensor
from benchmarks.values import aligned

PACKAGE = Path(trt.__path__[0])
SKIPPED = ("cli", "compat", "integrations", "serve", "__main__.py")  # not needed to build and load
MEMORY_BYTES = 8 << 30  # of addresses: a build that takes more fails before the machine is in trouble
# In the build report: which kernel is the largest; below it a line for each that is long, with the reason.
LARGEST = re.compile("^.* KB of LLVM text in .* in the largest, (?P<kernel>.*)$", re.MULTILINE)
TIMING = Effort(runs=60, pause_s=0.005)
LOADS = 5


@dataclass(frozen=True, slots=True)
class Job:
    """A network to build, or a plan to load. plan: the file of the plan. form: of FORMS. parts: networks
    whose inferences are measured beside this one."""

    network: str = ""
    size: int = 0
    plan: str = ""
    form: str = ""
    parts: tuple[Part, ...] = ()
    threads: int = 2


def run(action: Callable[[Job], Iterator[Outcome]], job: Job) -> Iterator[Outcome]:
    """The outcomes of an action, in a process that has imported all of AnyRT."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        if parts[0] not in SKIPPED:
            names = [p.removesuffix(".py") for p in parts if p != "__init__.py"]
            importlib.import_module(".".join(["anyrt", *names]))
    yield from action(job)


# ---- the actions --------------------------------------------------------------------------------


def build(job: Job) -> Iterator[Outcome]:
    """Build a network of layers; then count, and measure inferences."""
    start = time.perf_counter()
    ask = described(job.network, job.size, job.threads)
    seconds = time.perf_counter() - start
    with measured() as outcomes:
        plan = ask()
    outcome = replace(outcomes[0], described_s=seconds)
    yield outcome
    if job.plan:
        Path(job.plan).write_bytes(plan)
    outcome = _counted(outcome, plan)
    yield outcome
    if job.parts:
        yield _inferences(outcome, job, plan)


def graph(job: Job) -> Iterator[Outcome]:
    """Build a random graph of primitives."""
    # Not imported above, since these are modules that another source tree may not have.
    names = ("benchmarks.random_graphs", "anyrt.compiler.driver", "anyrt.backends.loader")
    graphs, driver, loader = map(importlib.import_module, names)
    request = graphs.request(job.size, random_networks.LAYERS, *OPEN)
    with measured() as outcomes:
        driver.build_parts(request, loader.target(), loader.device())
    yield outcomes[0]


def load(job: Job) -> Iterator[Outcome]:
    """Load a plan that another process built."""
    plan = Path(job.plan).read_bytes()
    with measured() as outcomes:
        context = engine_of(plan).create_execution_context()
    assert context is not None, "no context"
    yield outcomes[0]


@dataclass(frozen=True, slots=True)
class Form:
    """The source of a plan, and whether its weights are verified."""

    source: Callable[[Path], object]
    verified: bool = True


def _aligned(path: Path) -> object:
    """Page-aligned memory that does not change."""
    buffer = aligned(Tensor((path.stat().st_size,), Element.U8))
    with path.open("rb") as file:
        file.readinto(buffer.data)
    return buffer.data.toreadonly()


FORMS = {
    "bytes": Form(Path.read_bytes),
    "aligned memory": Form(_aligned),
    "mapped file": Form(Path),
    "mapped file, not verified": Form(Path, verified=False),
}


def load_weights(job: Job) -> Iterator[Outcome]:
    """Load a plan of many weights several times, in one of the forms; the code is cached."""
    form, path = FORMS[job.form], Path(job.plan)
    engine_of(path.read_bytes())  # so that the cache has the code, and memory the file
    held, size = form.source(path), path.stat().st_size
    times, copies = [], []
    for _ in range(LOADS):
        Path("/proc/self/clear_refs").write_text("5")  # from now on the peak is that of this load
        before = _peak_bytes()
        start = time.perf_counter()
        engine = engine_of(held, form.verified)
        times.append(time.perf_counter() - start)
        copies.append((_peak_bytes() - before) / size)
        del engine
    yield Outcome(wall_s=statistics.median(times), copies=max(copies))


def _peak_bytes() -> int:
    """The peak of resident memory without mapped files."""
    return 1024 * (status_kb("VmHWM") - status_kb("RssFile"))


# ---- inferences ---------------------------------------------------------------------------------


class _Hurry:
    """A probe that does not wait for a quiet machine: the compared engines run in turn."""

    def wait(self) -> None:
        """Return at once."""


def _inferences(outcome: Outcome, job: Job, plan: bytes) -> Outcome:
    plans = [described(p.network, p.size, job.threads)() for p in job.parts]
    whole, *parts = measure([bound(p) for p in (plan, *plans)], TIMING, _Hurry())
    total = sum(t.median * p.count for t, p in zip(parts, job.parts, strict=True))
    return replace(outcome, run_us=whole.median, parts_us=total)


# ---- counting -----------------------------------------------------------------------------------


def _counted(outcome: Outcome, plan: bytes) -> Outcome:
    """The outcome with the counts of the compiler, as far as this source tree reports them."""
    inspector = engine_of(plan).create_engine_inspector()
    shown = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON))
    kernels = shown.get("Kernels", shown["Layers"])  # another tree may list the network's layers besides
    outcome = replace(outcome, kernels=len(kernels), reason=reason_of_largest(shown.get("Report", "")))
    try:
        text = _llvm_text(plan)
    except (ImportError, AttributeError, TypeError):  # another tree, whose compiler is laid out otherwise
        return outcome
    largest = max(map(len, text.split("\ndefine ")))
    return replace(outcome, text_kb=len(text) / 1e3, largest_kb=largest / 1e3)


def reason_of_largest(report: str) -> str:
    """The reason in the build report why the largest kernel's text is long; empty if there is none.

    >>> reason_of_largest("9 KB of LLVM text in 2 different kernels, 8 KB in the largest, k1\\n  k1: 3 tiles")
    '3 tiles'
    """
    total = LARGEST.search(report)
    if total is None:
        return ""
    reason = re.search(f"^  {re.escape(total['kernel'])}: (.*)$", report[total.end() :], re.MULTILINE)
    return reason[1] if reason else ""


def _llvm_text(plan: bytes) -> str:
    """All LLVM text of a plan. Only this function knows how the compiler is called."""
    driver, native, loader, file = (
        importlib.import_module(f"anyrt.{name}")
        for name in ("compiler.driver", "compiler.native", "backends.loader", "plan.file")
    )
    text: str = native.text(driver.lower_plan(file.read_plan(plan), loader.target()), loader.target())
    return re.sub(r"^@.*\n?", "", text, flags=re.MULTILINE)  # without names of calls that share a kernel
