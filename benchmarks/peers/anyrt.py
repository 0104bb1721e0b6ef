"""AnyRT through its public API: a static engine on bound memory, and others that the case has."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import anyrt as trt
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import DataType
from benchmarks.engines import Described, arrays_in, bind, built, empty, engine_of
from benchmarks.peers import DYNAMIC, UNTILED, Kept, Peer, Task, Way
from benchmarks.steps import Shape
from benchmarks.values import Array, fetched, memory, packed, room

Facts: TypeAlias = tuple[tuple[str, float], ...]
Sizes: TypeAlias = Mapping[str, Sequence[Shape]]  # the shapes of inputs at the ends of a profile

DTYPES = {numpy_dtype(t): t for t in DataType}
LOADS = 5


def prepare(task: Task) -> tuple[Way, ...]:
    """A static engine, with the seconds of a cold build and a warm load, and the case's other engines."""
    plan, build_s = _plan(task)
    first = bound(task, plan, "", (("build_s", build_s), *_loads(plan)))
    others = task.translated("in_anyrt").engines(task.case)
    return (first, *(bound(task, _plan(task, label)[0], label) for label in others))


def plain(task: Task) -> tuple[Way, ...]:
    """engine.run(x=array)."""
    engine = engine_of(_plan(task)[0])
    call = Kept(partial(engine.run, **task.inputs))

    def result() -> tuple[Array, ...]:
        call()
        return arrays_in(call)

    return (Way("plain", call.function, result),)


def described(task: Task, label: str = "", sizes: Sizes | None = None) -> Described:
    """The case's network with its configuration, for the static engine or another one. sizes: shapes of
    inputs, if they differ from those of the case."""
    language = task.translated("in_anyrt")
    builder, network, config = empty(task.threads, language.FLAGS)
    if label == UNTILED:
        config.winograd = "off"
    sizes = sizes or (language.sizes(task.case) if label == DYNAMIC else {})
    if sizes:
        profile = builder.create_optimization_profile()
        for name, shapes in sizes.items():
            if len(set(shapes)) > 1:
                profile.set_shape(name, *shapes)
        config.add_optimization_profile(profile)
    for name, y in language.add(network, task, sizes).items():
        y.name = name
        network.mark_output(y)
    return builder, network, config


def inputs_of(network: trt.INetworkDefinition, task: Task, sizes: Sizes) -> dict[str, trt.ITensor]:
    """The inputs of the case, which the network gets."""
    return {
        name: network.add_input(name, DTYPES[x.dtype], joined(sizes.get(name, (x.shape,))))
        for name, x in task.inputs.items()
    }


def joined(shapes: Sequence[Shape]) -> Shape:
    """The dimensions that all shapes share, -1 for the others."""
    return tuple(ds[0] if len(set(ds)) == 1 else -1 for ds in zip(*shapes, strict=True))


def _plan(task: Task, label: str = "") -> tuple[trt.IHostMemory, float]:
    """(plan, seconds)."""
    description = described(task, label)
    start = time.perf_counter()
    return built(description), time.perf_counter() - start


def _loads(plan: trt.IHostMemory) -> Facts:
    """Seconds from a plan to a context with a warm cache: from bytes, and from a file, also unverified."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.plan"
        path.write_bytes(plan)
        kinds = (("load_s", plan, True), ("mapped_s", path, True), ("unverified_s", path, False))
        return tuple((name, _load_seconds(source, verified)) for name, source, verified in kinds)


def _load_seconds(plan: object, verified: bool) -> float:
    """The median of some loads."""
    times = []
    for _ in range(LOADS):
        start = time.perf_counter()
        engine_of(plan, verified).create_execution_context()
        times.append(time.perf_counter() - start)
    return sorted(times)[LOADS // 2]


def bound(task: Task, plan: object, label: str, facts: Facts = ()) -> Way:
    """The engine of a plan on the task's memory."""
    engine = engine_of(plan)
    context = engine.create_execution_context()
    assert context is not None, f"{task.case.name}: no context"
    held = {name: packed(x) for name, x in task.inputs.items()}
    for name, x in task.inputs.items():
        if -1 in engine.get_tensor_shape(name):
            assert context.set_input_shape(name, x.shape), f"{task.case.name}: {x.shape} is refused"
    names = [name for name in engine if name not in held]
    counted = any(-1 in context.get_tensor_shape(name) for name in names)
    arrays = [
        _room(context, name) if counted else room(y) for name, y in zip(names, task.outputs, strict=True)
    ]
    outs = dict(zip(names, arrays, strict=True))
    for name, out in outs.items():
        size = context.get_max_output_size(name)
        assert size <= out.nbytes, (
            f"{task.case.name}: {name} has {size} bytes, there is room for {out.nbytes}"
        )
    result = partial(_counted if counted else _fixed, context, outs, task.outputs, held)
    return Way(label, bind(context, held | outs), result, facts)


def _room(context: Any, name: str) -> Array:  # Any: a context
    """Memory for the largest output."""
    return memory((context.get_max_output_size(name),), np.dtype(np.uint8))


def _fixed(
    context: object, outs: dict[str, Array], like: tuple[Array, ...], held: object
) -> tuple[Array, ...]:
    """held: the arrays that must live as long as the way, since the engine knows only their addresses."""
    return fetched(tuple(outs.values()), like)


class _Shapes(trt.IOutputAllocator):
    """An allocator that returns the bound memory and stores the shapes of outputs."""

    def __init__(self, held: dict[str, Array]) -> None:
        super().__init__()
        self.held, self.shapes = held, dict[str, tuple[int, ...]]()

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        return self.held[tensor_name].ctypes.data

    def notify_shape(self, tensor_name: str, shape: trt.Dims) -> None:
        self.shapes[tensor_name] = tuple(shape)


def _counted(
    context: Any, outs: dict[str, Array], like: tuple[Array, ...], held: object
) -> tuple[Array, ...]:  # Any: a context
    """Data-dependent outputs, from one more run: an allocator would cost time in the measured ones."""
    allocator = _Shapes(outs)
    for name in outs:
        context.set_output_allocator(name, allocator)
    context.execute_async_v3(0)
    for name, out in outs.items():
        context.set_output_allocator(name, None)
        context.set_tensor_address(name, out.ctypes.data)
    return tuple(
        x[: prod(shape) * y.itemsize].view(y.dtype).reshape(shape)
        for x, y, shape in zip(outs.values(), like, allocator.shapes.values(), strict=True)
    )


PEER = Peer("AnyRT", trt.__anyrt_version__, prepare, plain)
