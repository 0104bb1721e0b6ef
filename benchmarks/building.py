"""One process of `python -m benchmarks build`: it builds a network or loads a plan, and says what that took.

    python -m benchmarks.building JOB RESULT      a Job as JSON; the file that gets an Outcome as JSON

The cache is the folder that ANYRT_CACHE_DIR names. Modules are imported before the clock starts. The result
is written when the clock has stopped, and again whenever more is known.
"""

from __future__ import annotations

import importlib
import json
import mmap
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import anyrt as trt
from anyrt.core.enums import Severity
from benchmarks import networks, random_networks
from benchmarks.clock import measured, status_kb
from benchmarks.jobs import Job, Outcome
from benchmarks.measure import Effort, measure
from benchmarks.peers import Cannot, Way
from benchmarks.steps import Element, Tensor
from benchmarks.values import Array, aligned

PACKAGE = Path(trt.__path__[0])
SKIPPED = ("cli", "compat", "__main__.py")  # what building and loading need none of
MEMORY_BYTES = 8 << 30  # of addresses: a build that takes more fails before the machine is in trouble
OPEN = (1, 4, 8)  # smallest, usual and largest of every open size
TIMING = Effort(runs=60, pause_s=0.005)
LOADS = 5
SWITCH = "verify_weights"  # the attribute of a Runtime that says whether loading checks them

Report = Callable[[Outcome], None]


class Log(trt.ILogger):
    """Keeps errors."""

    def __init__(self) -> None:
        trt.ILogger.__init__(self)
        self.lines: list[str] = []

    def log(self, severity: Severity, msg: str) -> None:
        """Keep what is an error."""
        if severity <= trt.ILogger.ERROR:
            self.lines.append(msg)


LOG = Log()


# ---- the actions --------------------------------------------------------------------------------


def build(job: Job, report: Report) -> None:
    """Build a network of layers; then count, and measure inferences."""
    start = time.perf_counter()
    ask = _described(job.network, job.size, job.threads)
    described = time.perf_counter() - start
    with measured() as found:
        plan = ask()
    outcome = replace(found[0], described_s=described)
    report(outcome)
    if job.plan:
        Path(job.plan).write_bytes(plan)
    outcome = _counted(outcome, plan)
    report(outcome)
    if job.parts:
        report(_inferences(outcome, job, plan))


def graph(job: Job, report: Report) -> None:
    """Build a random graph of primitives."""
    # Not imported above, since these are modules that another source tree may not have.
    graphs, driver = map(importlib.import_module, ("benchmarks.random_graphs", "anyrt.compiler.driver"))
    request = graphs.request(job.size, random_networks.LAYERS, *OPEN)
    with measured() as found:
        driver.build(request)
    report(found[0])


def load(job: Job, report: Report) -> None:
    """Load a plan that another process built."""
    plan = Path(job.plan).read_bytes()
    with measured() as found:
        context = _engine(plan).create_execution_context()
    assert context is not None, "no context"
    report(found[0])


@dataclass(frozen=True, slots=True)
class Form:
    """How a plan is given, and whether its weights are verified."""

    given: Callable[[Path], object]
    verified: bool = True


def _in_memory(path: Path) -> object:
    return path.read_bytes()


def _aligned(path: Path) -> object:
    buffer = aligned(Tensor((path.stat().st_size,), Element.U8))
    with path.open("rb") as file:
        file.readinto(buffer.data)
    return buffer


def _mapped(path: Path) -> object:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


FORMS = {
    "bytes": Form(_in_memory),
    "aligned memory": Form(_aligned),
    "mapped file": Form(_mapped),
    "mapped file, not verified": Form(_mapped, verified=False),
}


def load_weights(job: Job, report: Report) -> None:
    """Load a plan of many weights several times, in the form that `network` names; the code is cached."""
    form, path = FORMS[job.network], Path(job.plan)
    _engine(path.read_bytes())  # so that the cache has the code, and memory the file
    held, size = form.given(path), path.stat().st_size
    times, copies = [], []
    for _ in range(LOADS):
        Path("/proc/self/clear_refs").write_text("5")  # from now on the peak is that of this load
        before = _peak_bytes()
        start = time.perf_counter()
        engine = _engine(held, form.verified)
        times.append(time.perf_counter() - start)
        copies.append((_peak_bytes() - before) / size)
        del engine
    report(Outcome(wall_s=statistics.median(times), copies=max(copies)))


def _peak_bytes() -> int:
    """Memory at its highest, without what belongs to files."""
    return 1024 * (status_kb("VmHWM") - status_kb("RssFile"))


ACTIONS: dict[str, Callable[[Job, Report], None]] = {
    "build": build,
    "graph": graph,
    "load": load,
    "weights": load_weights,
}


# ---- networks and engines -----------------------------------------------------------------------


def _described(name: str, size: int, threads: int) -> Callable[[], bytes]:
    """A network with its configuration, ready to be built."""
    describe: networks.Network = getattr(networks, name, None) or getattr(random_networks, name)
    builder = trt.Builder(LOG)
    network, config = builder.create_network(), builder.create_builder_config()
    config.num_threads, config.verify = threads, "off"
    output = describe(network, size)
    output.name = "y"
    network.mark_output(output)
    shape = tuple(network.get_input(0).shape)
    if -1 in shape:
        profile = builder.create_optimization_profile()
        profile.set_shape("x", *(tuple(n if d < 0 else d for d in shape) for n in OPEN))
        config.add_optimization_profile(profile)

    def ask() -> bytes:
        plan = builder.build_serialized_network(network, config)
        assert plan is not None, "; ".join(LOG.lines)
        return bytes(plan)

    return ask


def _engine(plan: object, verified: bool = True) -> trt.ICudaEngine:
    runtime = trt.Runtime(LOG)
    if not verified:
        if SWITCH not in dir(runtime):
            raise Cannot(f"a runtime has no {SWITCH}")
        setattr(runtime, SWITCH, False)
    engine = runtime.deserialize_cuda_engine(plan)
    assert engine is not None, "; ".join(LOG.lines)
    return engine


class _Hurry:
    """Whether the machine is quiet is not asked: what is compared takes turns."""

    def wait(self) -> None:
        """Come back at once."""


def _inferences(outcome: Outcome, job: Job, plan: bytes) -> Outcome:
    plans = [_described(p.network, p.size, job.threads)() for p in job.parts]
    whole, *parts = measure([_bound(p) for p in (plan, *plans)], TIMING, _Hurry())
    total = sum(t.median * p.count for t, p in zip(parts, job.parts, strict=True))
    return replace(outcome, run_us=whole.median, parts_us=total)


def _bound(plan: bytes) -> Way:
    """An engine of float32 tensors with memory for all of them."""
    engine = _engine(plan)
    context, held = engine.create_execution_context(), list[Array]()
    assert context is not None, "no context"
    for name in engine:
        held.append(aligned(Tensor(tuple(engine.get_tensor_shape(name)), Element.F32)))
        held[-1][...] = np.random.default_rng(7).random(held[-1].shape, np.float32)
        context.set_tensor_address(name, held[-1].ctypes.data)
    return Way("", lambda: context.execute_async_v3(0), lambda: held[-1])


# ---- counting -----------------------------------------------------------------------------------


def _counted(outcome: Outcome, plan: bytes) -> Outcome:
    """With what the compiler made, as far as it can be asked."""
    inspector = _engine(plan).create_engine_inspector()
    shown = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON))
    outcome = replace(outcome, kernels=len(shown["Kernels"]))
    try:
        text = _llvm_text(plan)
    except (ImportError, AttributeError, TypeError):  # another tree, whose compiler is laid out otherwise
        return outcome
    largest = max(map(len, text.split("\ndefine ")))
    return replace(outcome, text_kb=len(text) / 1e3, largest_kb=largest / 1e3)


def _llvm_text(plan: bytes) -> str:
    """All LLVM text of a plan: the one place that knows how to ask the compiler for it."""
    driver, native, llvm, file = (
        importlib.import_module(f"anyrt.{name}")
        for name in ("compiler.driver", "compiler.native", "codegen.llvm", "plan.file")
    )
    text: str = native.text(driver.lower_plan(file.read_plan(plan)), llvm.choose(None)).text
    return text


# ---- the process --------------------------------------------------------------------------------


def _import_everything() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        if parts[0] not in SKIPPED:
            names = [p.removesuffix(".py") for p in parts if p != "__init__.py"]
            importlib.import_module(".".join(["anyrt", *names]))


def main(text: str, result: Path) -> None:
    """Do the job; whatever is raised is its outcome."""
    job, last = Job.parse(text), Outcome()

    def report(outcome: Outcome) -> None:
        nonlocal last
        last = outcome
        new = result.with_suffix(".new")
        new.write_text(json.dumps(asdict(outcome)))
        new.replace(result)  # the parent may read it at any time

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    _import_everything()
    try:
        ACTIONS[job.action](job, report)
    except Exception as error:  # whatever a build raises is a result, too
        first = (str(error) or "no reason").splitlines()[0]
        report(replace(last, error=f"{type(error).__name__}: {first}"[:200]))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
