"""Loading weights: time and copied memory for each kind of source.

python -m benchmarks load
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import anyrt as trt
from benchmarks.clock import status_kb
from benchmarks.command import Command
from benchmarks.engines import empty
from benchmarks.table import Table, show

MEGABYTES = 100
NOTE = (
    "Code is in the kernel cache and the file in the page cache; the fastest of some loads, and the memory "
    "of its own that the process has more while the engine lives."
)


def table(runs: int = 7) -> Table:
    """Rows for plans with one constant, and with many."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for parts in (1, MEGABYTES) for row in _rows(parts, Path(folder) / "net.plan", runs)]
    return Table(
        f"Loading {MEGABYTES} MB of weights", ("source", "check", "ms", "copied MB"), tuple(rows), NOTE
    )


def _rows(parts: int, path: Path, runs: int) -> Iterator[tuple[str, ...]]:
    plan = _plan(parts)
    gc.collect()  # the network, whose weights would be freed while memory is measured
    path.write_bytes(plan)
    sources = {
        "mapped file": path,
        "the builder's plan": plan,
        "bytes": memoryview(bytes(plan.nbytes % 64 + 1) + bytes(plan))[plan.nbytes % 64 + 1 :],
    }
    runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
    for name, source in sources.items():
        for check in (False, True):
            runtime.check_weights = check
            milliseconds, copied = zip(*(_load(runtime, source) for _ in range(runs + 1)), strict=True)
            what = f"{name}, {parts} constant{'s' * (parts > 1)}"
            yield what, "on" if check else "off", f"{min(milliseconds):.2f}", f"{min(copied[1:]):.0f}"


def _plan(parts: int) -> trt.IHostMemory:
    """A network that adds so many constants, MEGABYTES in total."""
    builder, network, config = empty()
    size = (MEGABYTES * 1_000_000 // 4) // parts
    y = network.add_input("x", trt.float32, (size,))
    for values in np.random.default_rng(0).standard_normal((parts, size), np.float32):
        constant = network.add_constant((size,), values).get_output(0)
        y = network.add_elementwise(y, constant, trt.ElementWiseOperation.SUM).get_output(0)
    network.mark_output(y)
    with trt.strict():
        plan: trt.IHostMemory = builder.build_serialized_network(network, config)
    return plan


def _load(runtime: trt.Runtime, source: object) -> tuple[float, float]:
    """(milliseconds, megabytes of anonymous memory)."""
    before, begin = status_kb("RssAnon") / 1000, time.perf_counter()
    engine = runtime.deserialize_cuda_engine(source)
    milliseconds = (time.perf_counter() - begin) * 1e3
    assert engine is not None, "the plan was rejected"
    return milliseconds, status_kb("RssAnon") / 1000 - before


COMMAND = Command("load", "measure how long loading weights takes", lambda options: show([table()]))
