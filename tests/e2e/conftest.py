"""Fixtures of end-to-end tests: two threads, a logger and an error recorder that record, a short build."""

import numpy as np
import pytest

import anyrt as trt

# Executed by a test, not imported by pytest.
collect_ignore = [
    "programs",
    "photo_chain.py",
    "lives.py",
    "scarce.py",
    "hostile.py",
    "guarded.py",
    "shared.py",
]


class Log(trt.ILogger):
    """Records warnings and errors."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.lines = []

    def log(self, severity, msg):
        if severity <= trt.Logger.WARNING:
            self.lines.append(msg)


class Recorder(trt.IErrorRecorder):
    """Records pairs of code and text."""

    def __init__(self):
        trt.IErrorRecorder.__init__(self)
        self.errors = []

    def report_error(self, code, text):
        self.errors.append((code, text))
        return False


@pytest.fixture(scope="module", autouse=True)
def _two_threads():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYRT_NUM_THREADS", "2")
        yield


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def builder(log, recorder):
    builder = trt.Builder(log)
    builder.error_recorder = recorder
    return builder


@pytest.fixture
def net(builder):
    return builder.create_network()


@pytest.fixture
def strong(builder):
    return builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))


@pytest.fixture
def plan_of(builder):
    """plan_of(network, outputs, **profiles): outputs become `y`, `y1`, …; a profile is (min, opt, max)."""

    def build(network, *outputs, verify="", threads=None, flags=(), **profiles):
        for number, tensor in enumerate(outputs):
            tensor.name = f"y{number}" if number else "y"
            network.mark_output(tensor)
        config = builder.create_builder_config()
        config.verify, config.num_threads = verify, threads
        for flag in flags:
            config.set_flag(flag)
        if profiles:
            profile = builder.create_optimization_profile()
            for name, shapes in profiles.items():
                profile.set_shape(name, *shapes)
            config.add_optimization_profile(profile)
        with trt.strict():
            return builder.build_serialized_network(network, config)

    return build


@pytest.fixture
def engine_of(plan_of, log):
    """The loaded engine of such a plan."""

    def build(network, *outputs, **settings):
        plan = plan_of(network, *outputs, **settings)
        with trt.strict():
            return trt.Runtime(log).deserialize_cuda_engine(plan)

    return build


@pytest.fixture
def random():
    return np.random.default_rng(7)
