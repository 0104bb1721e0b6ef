"""Engines of whole networks, through the public API of whichever AnyRT is imported.

plan = described("residual", 3, threads=2)()
way = bound(plan)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

import anyrt as trt
from anyrt.core.enums import Severity
from benchmarks import networks, random_networks
from benchmarks.peers import Cannot, Way
from benchmarks.values import Array, memory

OPEN = (1, 4, 8)  # smallest, usual and largest of every open size
SWITCH = "check_weights"  # the attribute of a Runtime that says whether loading verifies them


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


def described(name: str, size: int, threads: int) -> Callable[[], bytes]:
    """A network with its configuration, ready to be built."""
    builder, network, config = network_of(name, size, threads)

    def ask() -> bytes:
        plan = builder.build_serialized_network(network, config)
        assert plan is not None, "; ".join(LOG.lines)
        return bytes(plan)

    return ask


def network_of(
    name: str, size: int, threads: int
) -> tuple[trt.Builder, trt.INetworkDefinition, trt.IBuilderConfig]:
    """A network with its configuration."""
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
    return builder, network, config


def engine_of(plan: object, verified: bool = True) -> trt.ICudaEngine:
    """A plan, loaded."""
    runtime = trt.Runtime(LOG)
    if not verified:
        if SWITCH not in dir(runtime):
            raise Cannot(f"a runtime has no {SWITCH}")
        setattr(runtime, SWITCH, False)
    engine = runtime.deserialize_cuda_engine(plan)
    assert engine is not None, "; ".join(LOG.lines)
    return engine


def bound(plan: bytes) -> Way:
    """An engine with memory for all of its tensors, random numbers in them."""
    engine, random = engine_of(plan), np.random.default_rng(7)
    context, held = engine.create_execution_context(), dict[str, Array]()
    assert context is not None, "no context"
    for name in engine:
        shape, dtype = (
            tuple(engine.get_tensor_shape(name)),
            np.dtype(trt.nptype(engine.get_tensor_dtype(name))),
        )
        held[name] = memory(shape, dtype)
        held[name][...] = random.random(shape, np.float32).astype(dtype)
        context.set_tensor_address(name, held[name].ctypes.data)
    return Way("", partial(context.execute_async_v3, 0), lambda: tuple(held.values()))
