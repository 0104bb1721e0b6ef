"""Fixtures of the API's tests: a logger that records, one thread, one engine."""

import numpy as np
import pytest

import anyrt as trt


class Collect(trt.ILogger):
    """A logger that records warnings and errors."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.lines = []

    def log(self, severity, msg):
        if severity <= trt.Logger.WARNING:
            self.lines.append(msg)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYRT_NUM_THREADS", "1")
        yield


@pytest.fixture
def log():
    return Collect()


@pytest.fixture
def net(log):
    return trt.Builder(log).create_network()


def describe(network):
    """y = 2x + 1; r = x reshaped by n; s = the shape of x, computed as a shape tensor; d = a debug tensor."""
    x = network.add_input("x", trt.float32, (1, -1, 2, 2))
    n = network.add_input("n", trt.int32, (2,))
    layer = network.add_scale(x, trt.ScaleMode.UNIFORM, shift=np.float32([1]), scale=np.float32([2]))
    layer.name = "twice"
    shuffle = network.add_shuffle(layer.get_output(0))
    shuffle.set_input(1, n)
    debug = network.add_activation(x, trt.ActivationType.RELU)
    sizes = network.add_shape(x)
    for one, name in ((layer, "y"), (shuffle, "r"), (sizes, "s"), (debug, "d")):
        one.get_output(0).name = name
    network.mark_output(layer.get_output(0))
    network.mark_output(shuffle.get_output(0))
    network.mark_output_for_shapes(sizes.get_output(0))
    network.mark_debug(debug.get_output(0))


def configure(builder):
    """Two profiles, detailed profiling verbosity."""
    config = builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    for most in (4, 8):
        profile = builder.create_optimization_profile()
        profile.set_shape("x", (1, 1, 2, 2), (1, 2, 2, 2), (1, most, 2, 2))
        profile.set_shape_input("n", (1, 1), (4, 2), (32, 32))
        config.add_optimization_profile(profile)
    return config


@pytest.fixture(scope="session")
def plan():
    builder = trt.Builder(Collect())
    network = builder.create_network()
    network.name = "little"
    describe(network)
    with trt.strict():
        return builder.build_serialized_network(network, configure(builder))


@pytest.fixture
def engine(plan, log):
    return trt.Runtime(log).deserialize_cuda_engine(plan)


@pytest.fixture
def context(engine):
    return engine.create_execution_context()
