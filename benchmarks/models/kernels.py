"""The work of each kernel of an engine, and its time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import anyrt as trt
from anyrt.backends import loader
from anyrt.compiler.driver import lower_plan, plan_sizes
from anyrt.compiler.request import Point
from anyrt.compiler.traffic import traffic
from anyrt.core.enums import DataType
from anyrt.plan.file import read_plan
from anyrt.prims.const import Const
from anyrt.prims.contract import Contract
from anyrt.prims.map import Map
from anyrt.schedule.cost import Sizes
from anyrt.schedule.launch import ExternalStep, Launch, RegionStep

RUNS = 15


@dataclass(frozen=True, slots=True)
class KernelTime:
    """A kernel: the least microseconds of all its calls in an inference; multiplications and additions, and
    bytes read and written, of one call."""

    name: str
    microseconds: float
    flops: int
    bytes: int


class Times(trt.IProfiler):
    """A profiler that stores the time of each kernel; for kernels in loops, of all iterations together."""

    def __init__(self) -> None:
        trt.IProfiler.__init__(self)
        self.times: dict[str, float] = defaultdict(float)

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        """Add a time."""
        self.times[layer_name] += ms * 1e3


def kernels(engine: Any, context: Any) -> list[KernelTime]:  # Any: of the public API
    """Every kernel of a bound context, in order."""
    context.profiler = Times()
    least: dict[str, float] = {}
    for _ in range(RUNS):
        context.profiler.times.clear()
        context.execute_async_v3(0)
        for name, taken in context.profiler.times.items():
            least[name] = min(taken, least.get(name, taken))
    work = work_of(bytes(engine.serialize()))
    return [KernelTime(name, taken, *work.get(name, (0, 0))) for name, taken in least.items()]


def work_of(plan: bytes) -> dict[str, tuple[int, int]]:
    """(multiplications and additions, bytes) of each kernel, both of one call."""
    return {x.name: (_flops(x, sizes), traffic(x, sizes).total) for x, sizes, _ in _launches(plan)}


def executed(plan: bytes) -> int:
    """Multiplications and additions of an inference. Kernels of a loop count once for each iteration, or once
    if the number is data-dependent."""
    return sum(_flops(x, sizes) * count for x, sizes, count in _launches(plan))


def _launches(plan: bytes) -> Iterator[tuple[Launch, Sizes, int]]:
    """Each kernel, and how often an inference calls it."""
    file = read_plan(plan)
    sizes = Sizes(plan_sizes(file.plan, Point.OPT))
    for schedule in lower_plan(file, loader.target()).schedules:
        todo = [(step, 1) for step in schedule.steps]
        for step, count in todo:  # which grows by the steps inside of regions
            if isinstance(step, Launch):
                yield step, sizes, count
            else:
                inner = count * _iterations(step)
                todo += ((x, inner) for part in step.parts for x in part.steps)


def _iterations(step: RegionStep | ExternalStep) -> int:
    """The number of iterations of a loop, if a counter from 0 is compared with a constant."""
    if isinstance(step, RegionStep) and step.turns:
        (_, condition), *_ = step.node.op.regions[0].outputs
        if condition.op == Map("lt", DataType.BOOL) and isinstance(last := condition.args[1].op, Const):
            return int(last.blob.stored.reshape(-1)[0])
    return 1


def _flops(launch: Launch, sizes: Sizes) -> int:
    """Multiplications and additions of the kernel's sums of products; copies and borders have none."""
    group = launch.group
    stored = () if group.copy or group.border is not None else (launch.root,)
    total = 0
    for value in dict.fromkeys((*stored, *launch.inlined)):
        if isinstance(value.op, Contract):
            labels = value.op.sizes(tuple(a.type for a in value.args))
            total += 2 * prod(sizes.of(d) for d in labels.values())
    return total
