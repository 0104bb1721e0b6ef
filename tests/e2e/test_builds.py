"""Builds that are cancelled or verified, that lack memory or disk, and that have awkward names."""

import errno
import os
import re

import numpy as np
import pytest

import anyrt as trt
from anyrt.codegen import llvm
from anyrt.compiler import cached, progress

F = trt.float32


class Monitor(trt.IProgressMonitor):
    """Records its calls, and cancels the build after `last` steps."""

    def __init__(self, last=99):
        trt.IProgressMonitor.__init__(self)
        self.last, self.open, self.steps, self.heard = last, [], [], []

    def phase_start(self, phase_name, parent_phase, num_steps):
        assert parent_phase == (self.open[-1] if self.open else None)
        self.open.append(phase_name)
        self.heard.append((phase_name, num_steps))

    def step_complete(self, phase_name, step):
        assert phase_name in self.open
        self.steps.append(step)
        return len(self.steps) <= self.last

    def phase_finish(self, phase_name):
        assert self.open.pop() == phase_name


def doubled(net, *shape):
    x = net.add_input("x", F, shape)
    y = net.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
    y.name = "y"
    net.mark_output(y)


def stored_between(net, size):
    """Sums that a cubic resize reads four times each are stored in memory: size x size floats."""
    x = net.add_input("x", F, (size, size, 64))
    total = net.add_reduce(x, trt.ReduceOperation.SUM, 0b100, False).get_output(0)
    resize = net.add_resize(total)
    resize.resize_mode = trt.InterpolationMode.CUBIC
    resize.scales = (1.5, 1.5)
    net.mark_output(resize.get_output(0))


def test_a_monitor_gets_every_step_of_a_build(net, builder, tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    doubled(net, 3, 5)
    config = builder.create_builder_config()
    config.progress_monitor = monitor = Monitor()
    assert builder.build_serialized_network(net, config) is not None
    assert monitor.heard == [("Building engine", 5), ("Schedule kernels", 1), ("Compile kernels", 1)]
    assert (monitor.steps, monitor.open) == ([0, 0, 1, 2, 0, 3, 4], [])


def test_a_load_that_must_compile_says_where_it_is(net, builder, tmp_path, monkeypatch):
    class Information(trt.ILogger):
        def log(self, severity, msg):
            lines.append(re.sub(r", [0-9.]+ s$", "", msg))

    doubled(net, 3, 5)
    net.name, lines = "net", []
    monkeypatch.setattr(progress, "INTERVAL", 1e9)
    plan = builder.build_serialized_network(net, builder.create_builder_config())
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        assert trt.Runtime(Information()).deserialize_cuda_engine(plan) is not None
    assert lines == [
        "compiling 'net', whose code is not in the cache",
        "Schedule kernels: 1 of 1",
        "Compile kernels: 1 of 1",
        "loaded engine 'net'",
        "loaded engine 'net'",
    ]


@pytest.mark.parametrize("last", [0, 1, 2, 3])
def test_a_monitor_stops_a_build(last, net, builder, log, recorder):
    doubled(net, 3, 5)
    config = builder.create_builder_config()
    config.progress_monitor = monitor = Monitor(last)
    assert builder.build_serialized_network(net, config) is None
    assert (len(monitor.steps), monitor.open) == (last + 1, [])
    assert "AR804" in log.lines[-1]
    assert recorder.errors[-1][0] is trt.ErrorCodeTRT.INVALID_STATE
    config.progress_monitor = None
    assert builder.build_serialized_network(net, config) is not None


@pytest.mark.parametrize("level", ["sample", "full"])
def test_verification_finds_nothing_wrong(level, builder, log, plan_of):
    net = builder.create_network()
    x, gain = net.add_input("x", F, (-1, 6, -1)), net.add_input("gain", F, (1, 6, 1))
    y = net.add_normalization(x, gain, gain, 0b110).get_output(0)
    resize = net.add_resize(net.add_activation(y, trt.ActivationType.GELU_ERF).get_output(0))
    resize.resize_mode = trt.InterpolationMode.LINEAR
    resize.scales = (1, 1, 1.7)
    sizes = {"x": [(1, 6, 1), (2, 6, 17), (3, 6, 33)], "gain": [(1, 6, 1)] * 3}
    assert plan_of(net, resize.get_output(0), verify=level, **sizes) is not None
    assert log.lines == []


def test_a_build_over_the_memory_limit_is_rejected(net, builder, log):
    stored_between(net, 128)
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 12)
    assert builder.build_serialized_network(net, config) is None
    assert "AR801" in log.lines[-1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", [1 << n for n in range(8, 20)])
def test_a_limit_that_allows_a_build_allows_its_contexts(limit, net, builder, log):
    stored_between(net, 64)
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, limit)
    plan = builder.build_serialized_network(net, config)
    assert (plan is None) == any("AR801" in line for line in log.lines)
    if plan is not None:
        assert trt.Runtime(log).deserialize_cuda_engine(plan).create_execution_context() is not None


@pytest.fixture
def no_space(monkeypatch, tmp_path):
    """An empty cache directory on a full disk."""

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "fsync", full)
    return tmp_path / "cache"


def test_a_full_disk_costs_the_cache_not_the_build(net, builder, log, no_space):
    doubled(net, 2, 3)
    plan = builder.build_serialized_network(net, builder.create_builder_config())
    engine = trt.Runtime(log).deserialize_cuda_engine(plan)
    assert engine.run(x=np.ones((2, 3), np.float32))["y"].sum() == 12
    assert all("AR803" in line and os.strerror(errno.ENOSPC) in line for line in log.lines)
    assert (len(log.lines) > 0, [*no_space.iterdir()]) == (True, [])


def test_a_cache_directory_that_is_a_file_disables_the_cache_with_one_warning(
    net, builder, log, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path / "file"))
    stored_between(net, 8)  # two kernels
    plan = builder.build_serialized_network(net, builder.create_builder_config())
    assert [line.split(":")[0].split("] ")[-1] for line in log.lines] == [
        "kernel cache not used",
        "kernel cache not written",
    ]
    engine = trt.Runtime(log).deserialize_cuda_engine(plan)
    assert next(iter(engine.run(x=np.ones((8, 8, 64), np.float32)).values())).max() > 63
    assert len(log.lines) == 4


def test_a_cache_directory_that_others_may_write_is_reported_once(net, builder, log, tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o777)
    stored_between(net, 8)
    assert builder.build_serialized_network(net, builder.create_builder_config()) is not None
    assert len(log.lines) == 2


def test_a_network_of_another_name_is_not_scheduled_again(builder, log, tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    for name in ("first", "second"):
        net = builder.create_network()
        net.name = name
        doubled(net, 2, 3)
        plan = builder.build_serialized_network(net, builder.create_builder_config())
        monkeypatch.delattr("anyrt.compiler.native.lower", raising=False)
    engine = trt.Runtime(log).deserialize_cuda_engine(plan)
    assert (engine.name, engine.run(x=np.ones((2, 3), np.float32))["y"].sum()) == ("second", 12)


def test_code_of_another_compiler_version_is_not_used(builder, tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    compiled, compile_text = [], llvm.compile_text
    monkeypatch.setattr(llvm, "compile_text", lambda *a: compiled.append(a) or compile_text(*a))
    counts = []
    for version in ("first", "first", "second"):
        monkeypatch.setattr(cached, "codegen_version", lambda version=version: version)
        for size in (2, 3):
            net = builder.create_network()
            doubled(net, size, 3000 // size)  # the same kernel, for another plan
            assert builder.build_serialized_network(net, builder.create_builder_config()) is not None
        counts.append(len(compiled))
    once = counts[0]
    assert counts == [once, once, 2 * once]


NAMES = ["a b", "a_b", "a.b", "ä", "v0", "%x", '"', "in_x", "x\\", "{}", "select", "x\ny", "😀" * 100, "args"]


def test_names_of_tensors_may_be_anything(builder, engine_of):
    net = builder.create_network()
    tensors = [net.add_input(name, F, (2,)) for name in NAMES]
    total = tensors[0]
    for number, tensor in enumerate(tensors[1:], 2):
        weight = net.add_constant((1,), np.float32([number])).get_output(0)
        part = net.add_elementwise(tensor, weight, trt.ElementWiseOperation.PROD)
        part.name = NAMES[number - 1] + "_"
        total = net.add_elementwise(total, part.get_output(0), trt.ElementWiseOperation.SUM).get_output(0)
    arrays = {name: np.float32([k, -k]) for k, name in enumerate(NAMES)}
    want = sum((k + 1) * k for k in range(len(NAMES)))
    assert engine_of(net, total).run(**arrays)["y"].tolist() == [want, -want]


def test_names_of_outputs_may_be_alike(builder, log):
    net = builder.create_network()
    x = net.add_input("y z", F, (3,))
    for operation, name in (("NEG", "y_z"), ("ABS", "y-z"), ("EXP", "y z.")):
        y = net.add_unary(x, trt.UnaryOperation[operation]).get_output(0)
        y.name = name
        net.mark_output(y)
    engine = builder.build_engine_with_config(net, builder.create_builder_config())
    got = engine.run(**{"y z": np.float32([-1, 0, 1])})
    assert got["y_z"].tolist() == [1, 0, -1]
    assert got["y-z"].tolist() == [1, 0, 1]
    np.testing.assert_allclose(got["y z."], np.exp([-1, 0, 1]), rtol=1e-6)


def test_plans_of_equal_networks_are_equal_bytes(builder, plan_of):
    plans = []
    for _ in range(2):
        net = builder.create_network()
        net.name = "net"
        x = net.add_input("x", F, (-1, 7))
        y = net.add_unary(x, trt.UnaryOperation.EXP).get_output(0)
        plans.append(bytes(plan_of(net, y, x=[(1, 7), (2, 7), (3, 7)])))
    assert plans[0] == plans[1]
