"""Engines through the public API of the imported AnyRT: described, built, loaded, bound to memory.

plan = described("residual", 3, threads=2)()
way = bound(plan)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np

import anyrt as trt
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import Severity
from benchmarks import networks, random_networks
from benchmarks.peers import Cannot, Kept, Way
from benchmarks.values import Array, memory

OPEN = (1, 4, 8)  # minimum, optimum and maximum of every dynamic dimension
SWITCH = "check_weights"  # the attribute of a Runtime that says whether loading verifies them

Described: TypeAlias = tuple[trt.Builder, trt.INetworkDefinition, trt.IBuilderConfig]


class Log(trt.ILogger):
    """A logger that keeps errors."""

    def __init__(self) -> None:
        trt.ILogger.__init__(self)
        self.lines: list[str] = []

    def log(self, severity: Severity, msg: str) -> None:
        """Keep the message if it is an error."""
        if severity <= trt.ILogger.ERROR:
            self.lines.append(msg)


LOG = Log()


def empty(threads: int | None = None, flags: int = 0) -> Described:
    """A network without layers, its builder and configuration; threads: None: all of the machine."""
    builder = trt.Builder(LOG)
    network, config = builder.create_network(flags), builder.create_builder_config()
    config.num_threads = threads
    return builder, network, config


def built(description: Described) -> trt.IHostMemory:
    """The plan of a network."""
    builder, network, config = description
    plan = builder.build_serialized_network(network, config)
    assert plan is not None, "; ".join(LOG.lines)
    return plan


def described(name: str, size: int, threads: int) -> Callable[[], bytes]:
    """A network of networks.py or random_networks.py, ready to be built."""
    description = network_of(name, size, threads)
    return lambda: bytes(built(description))


def network_of(name: str, size: int, threads: int) -> Described:
    """A network of networks.py or random_networks.py, with its configuration."""
    describe: networks.Network = getattr(networks, name, None) or getattr(random_networks, name)
    builder, network, config = empty(threads)
    config.verify = "off"
    output = describe(network, size)
    output.name = "y"
    network.mark_output(output)
    shape = tuple(network.get_input(0).shape)
    if -1 in shape:
        profile = builder.create_optimization_profile()
        profile.set_shape("x", *(tuple(n if d < 0 else d for d in shape) for n in OPEN))
        config.add_optimization_profile(profile)
    return builder, network, config


def engine_of(plan: object, verified: bool = True) -> trt.ICudaEngine:
    """The engine of a plan: bytes of any kind, or a file."""
    runtime = trt.Runtime(LOG)
    if not verified:
        if SWITCH not in dir(runtime):
            raise Cannot(f"a runtime has no {SWITCH}")
        setattr(runtime, SWITCH, False)
    engine = runtime.deserialize_cuda_engine(plan)
    assert engine is not None, "; ".join(LOG.lines)
    return engine


def bind(context: Any, arrays: Mapping[str, Array]) -> Callable[[], object]:  # Any: a context
    """The call that runs an inference on these arrays, by names of tensors. The caller keeps the arrays: the
    engine knows their addresses only."""
    for name, array in arrays.items():
        assert context.set_tensor_address(name, array.ctypes.data), f"{name}: the address is rejected"
    return partial(context.execute_async_v3, 0)


def bound(plan: bytes) -> Way:
    """The engine of a plan with memory for all of its tensors, random numbers in them."""
    engine, random = engine_of(plan), np.random.default_rng(7)
    context = engine.create_execution_context()
    assert context is not None, "no context"
    arrays = {n: memory(tuple(engine.get_tensor_shape(n)), dtype_of(engine, n)) for n in engine}
    for array in arrays.values():
        array[...] = random.random(array.shape, np.float32).astype(array.dtype)
    return Way("", bind(context, arrays), lambda: tuple(arrays.values()))


def arrays_in(call: Kept) -> tuple[Array, ...]:
    """The outputs of a call of `engine.run`."""
    assert isinstance(call.value, dict), "an engine returns a dict"
    return tuple(map(np.asarray, call.value.values()))


def dtype_of(engine: trt.ICudaEngine, name: str) -> np.dtype[Any]:  # Any: whichever it is
    """The NumPy type of a tensor; bfloat16 included, which `nptype` refuses as TensorRT does."""
    return np.dtype(numpy_dtype(engine.get_tensor_dtype(name)))
