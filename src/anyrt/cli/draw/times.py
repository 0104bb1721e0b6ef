"""The time of each kernel of a plan, by name, on random inputs at the optimum of its first profile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from anyrt.api.edge.interfaces import Logger
from anyrt.api.model.state import state_of
from anyrt.api.run.runtime import Runtime
from anyrt.compiler.verify import random_inputs
from anyrt.core.dtype import is_packed, pack4
from anyrt.core.enums import Severity
from anyrt.core.flags import strict
from anyrt.ir.graph import Graph
from anyrt.runtime.arrays import Array
from anyrt.runtime.context import Context
from anyrt.runtime.fresh import Fresh
from anyrt.runtime.memory import Policy

WARM: Final = 3  # warm-up runs
RUNS: Final = 20


def kernel_milliseconds(plan: Path | bytes, graph: Graph, sizes: Mapping[str, int]) -> dict[str, float]:
    """For each step of the plan's program, by its name, the median of some runs; iterations are summed."""
    with strict():
        engine = Runtime(Logger(Severity.INTERNAL_ERROR)).deserialize_cuda_engine(plan)
    assert engine is not None, "strict() makes it an error"
    context = state_of(engine).engine.create_context(Policy.ON_DEMAND)
    held = _bind(context, random_inputs(graph, sizes))
    runs = [_run(context) for _ in range(WARM + RUNS)]
    assert len(held) == len(context.loaded.plan.bindings), "memory of all tensors is kept until here"
    names = dict.fromkeys(name for run in runs[WARM:] for name in run)
    return {name: median(run.get(name, 0.0) for run in runs[WARM:]) for name in names}


def _run(context: Context) -> dict[str, float]:
    times: dict[str, float] = {}

    def add(name: str, milliseconds: float) -> None:
        times[name] = times.get(name, 0.0) + milliseconds

    context.run_steps(add)
    return times


def _bind(context: Context, feeds: Mapping[str, Array]) -> list[Array]:
    """Allocate memory for every tensor, and return it."""
    bindings, held = context.loaded.plan.bindings, list[Array]()
    for binding in bindings:
        if binding.is_input:
            context.set_shape(binding.name, feeds[binding.name].shape)
            array = feeds[binding.name]
            held.append(pack4(array) if is_packed(binding.dtype) else np.ascontiguousarray(array))
            context.set_address(binding.name, held[-1].ctypes.data)
    nbytes = context.sizing.resolve().nbytes
    for number, binding in enumerate(bindings):
        if not binding.is_input:
            source = context.loaded.sources.get(number)
            held.append(np.empty(nbytes[number], np.uint8) if source is None else held[source])
            if number in context.loaded.late:
                context.set_allocator(binding.name, Fresh())
            else:
                context.set_address(binding.name, held[-1].ctypes.data)
    return held
