"""AnyRT through its public API, bound to memory."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

import anyrt as trt
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import DataType
from benchmarks.families.case import fetched, memory, packed, room
from benchmarks.families.peers import Peer, Results, Task, made
from benchmarks.values import Array

LOGGER = trt.Logger(trt.Logger.ERROR)
DTYPES = {numpy_dtype(t): t for t in DataType}


def prepare(task: Task) -> tuple[Results, ...]:
    """A static engine."""
    builder, network, config = described(task)
    plan = builder.build_serialized_network(network, config)
    assert plan is not None, f"{task.case.name}: the network is refused"
    engine = trt.Runtime(LOGGER).deserialize_cuda_engine(plan)
    context, count = engine.create_execution_context(), len(task.results)
    outs = (
        tuple(_room(context, f"y{i}") for i in range(count))
        if task.case.counted
        else tuple(map(room, task.results))
    )
    held = {name: packed(x) for name, x in task.given.items()}
    for i, out in enumerate(outs):
        bytes = context.get_max_output_size(f"y{i}")
        assert bytes <= out.nbytes, (
            f"{task.case.name}: y{i} has {bytes} bytes, there is room for {out.nbytes}"
        )
    for name, array in (*held.items(), *((f"y{i}", out) for i, out in enumerate(outs))):
        assert context.set_tensor_address(name, array.ctypes.data), f"{task.case.name}: {name} is refused"
    run = partial(_run, context, tuple(held.values()))
    fetch = partial(_found, context) if task.case.counted else fetched
    return (made("", run, partial(fetch, outs, task.results)),)


def described(task: Task) -> tuple[trt.Builder, trt.INetworkDefinition, trt.IBuilderConfig]:
    """The case's network with its configuration."""
    builder = trt.Builder(LOGGER)
    typed = 1 << int(
        trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED
    )  # else outputs of FP8 and FP4 are float32
    network, config = builder.create_network(typed), builder.create_builder_config()
    config.num_threads = task.threads
    given = [network.add_input(name, DTYPES[x.dtype], x.shape) for name, x in task.given.items()]
    layer: Any = task.case.ours(network, *given)  # Any: a layer, whose class is derived
    for i in range(len(task.results)):
        y = layer.get_output(i)
        y.name = f"y{i}"
        network.mark_output(y)
    return builder, network, config


def _run(context: Any, held: tuple[Array, ...]) -> None:  # Any: a context
    context.execute_async_v3(0)


def _room(context: Any, name: str) -> Array:  # Any: see above
    """Memory for as much as an output may be."""
    return memory(np.empty(context.get_max_output_size(name), np.uint8))


class _Shapes(trt.IOutputAllocator):
    """The memory that outputs are bound to, for a run that tells their shapes."""

    def __init__(self, held: dict[str, Array]) -> None:
        super().__init__()
        self.held, self.shapes = held, dict[str, tuple[int, ...]]()

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        return self.held[tensor_name].ctypes.data

    def notify_shape(self, tensor_name: str, shape: trt.Dims) -> None:
        self.shapes[tensor_name] = tuple(shape)


def _found(context: Any, held: tuple[Array, ...], like: tuple[Array, ...]) -> tuple[Array, ...]:
    """What a run finds, of sizes that it decides: one more run, as an allocator would be asked in every one
    that is measured."""
    told = _Shapes({f"y{i}": out for i, out in enumerate(held)})
    for name in told.held:
        context.set_output_allocator(name, told)
    _run(context, held)
    for name, out in told.held.items():
        context.set_output_allocator(name, None)
        context.set_tensor_address(name, out.ctypes.data)
    return tuple(
        x[: prod(shape) * y.itemsize].view(y.dtype).reshape(shape)
        for x, y, shape in zip(held, like, told.shapes.values(), strict=True)
    )


PEER = Peer("AnyRT", trt.__anyrt_version__, prepare)
