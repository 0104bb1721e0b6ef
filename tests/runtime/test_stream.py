"""Weights that are read from the plan when a kernel needs them."""

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.run import source
from anyrt.core.errors import PlanError

F, Flag = trt.float32, trt.BuilderFlag
X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
LAYERS, BYTES = 6, 64 * 64 * 4


def plan(*flags, looped=False):
    """Products with six matrices of 16 KiB, in sequence, or all of them in each of three iterations."""
    logger = trt.Logger(trt.Logger.ERROR)
    builder, random = trt.Builder(logger), np.random.default_rng(0)
    net = builder.create_network()
    x = y = net.add_input("x", F, (-1, 64))
    loop = net.add_loop() if looped else None
    if loop is not None:
        turns = net.add_constant((), np.int32([3]))
        loop.add_trip_limit(turns.get_output(0), trt.TripLimit.COUNT)
        state = loop.add_recurrence(x)
        y = state.get_output(0)
    for k in range(LAYERS):
        layer = net.add_constant((64, 64), random.standard_normal((64, 64), np.float32) / 8)
        layer.name = f"w{k}"
        none = trt.MatrixOperation.NONE
        y = net.add_matrix_multiply(y, none, layer.get_output(0), none).get_output(0)
        y = net.add_activation(y, trt.ActivationType.TANH).get_output(0)
    if loop is not None:
        state.set_input(1, y)
        y = loop.add_loop_output(y, trt.LoopOutput.LAST_VALUE, 0).get_output(0)
    y.name = "y"
    net.mark_output(y)
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    profile.set_shape("x", (1, 64), (1, 64), (4, 64))
    config.add_optimization_profile(profile)
    for flag in flags:
        config.set_flag(flag)
    return builder.build_serialized_network(net, config)


def loaded(source):
    return trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(source)


@pytest.fixture(params=["file", "bytes", "bytearray"])
def engine(request, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "MAP_BYTES", 0)
    data = bytes(plan(Flag.WEIGHT_STREAMING))
    (tmp_path / "net.plan").write_bytes(data)
    return loaded({"file": tmp_path / "net.plan", "bytes": data, "bytearray": bytearray(data)}[request.param])


@pytest.mark.parametrize("budget", [0, 1, BYTES, 3 * BYTES + 5, LAYERS * BYTES - 1])
def test_streamed_weights_compute_what_weights_in_memory_do(engine, budget):
    expected = engine.run(x=X)["y"]
    engine.weight_streaming_budget_v2 = budget
    assert engine.weight_streaming_budget_v2 == budget
    assert (engine.run(x=X)["y"] == expected).all()
    assert (engine.run(x=np.repeat(X, 3, 0))["y"] == expected).all()


def test_all_weights_stay_until_a_budget_says_less(engine):
    assert engine.streamable_weights_size == LAYERS * BYTES == engine.weight_streaming_budget_v2
    assert (engine.weight_streaming_budget, engine.weight_streaming_scratch_memory_size) == (-1, 0)
    engine.weight_streaming_budget_v2 = 2 * BYTES
    assert (engine.weight_streaming_budget, engine.weight_streaming_scratch_memory_size) == (2 * BYTES, BYTES)
    engine.weight_streaming_budget = -1
    assert engine.weight_streaming_budget_v2 == LAYERS * BYTES
    assert engine.get_weight_streaming_automatic_budget() == LAYERS * BYTES


def test_a_loop_has_its_weights_in_every_iteration(tmp_path):
    engine = loaded(plan(Flag.WEIGHT_STREAMING, looped=True))
    expected = engine.run(x=X)["y"]
    engine.weight_streaming_budget_v2 = 0
    assert engine.weight_streaming_scratch_memory_size == LAYERS * BYTES
    assert (engine.run(x=X)["y"] == expected).all()


def test_a_context_takes_a_budget_that_is_set_later(engine):
    context, y = engine.create_execution_context(), np.empty_like(X)
    assert context.set_input_shape("x", (1, 64))
    assert all(context.set_tensor_address(name, array) for name, array in {"x": X, "y": y}.items())
    results = []
    for budget in (LAYERS * BYTES, 0, LAYERS * BYTES, BYTES):
        engine.weight_streaming_budget_v2 = budget
        assert context.execute_async_v3(0)
        results.append(y.copy())
    assert all((result == results[0]).all() for result in results)


def test_a_context_ends_with_its_last_user(engine):
    """A context that waited for the cycle collector kept the weights that a budget had replaced."""
    y = np.empty_like(X)
    gc.disable()
    try:
        for budget in (0, LAYERS * BYTES, BYTES):
            engine.weight_streaming_budget_v2 = budget
            context = engine.create_execution_context()
            context.set_input_shape("x", (1, 64))
            assert all(context.set_tensor_address(name, array) for name, array in {"x": X, "y": y}.items())
            assert context.execute_async_v3(0)
            ends = weakref.ref(context._context)
            assert ends() is not None
            del context
            assert ends() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("flags", [(), (Flag.REFIT,), (Flag.WEIGHT_STREAMING, Flag.REFIT)])
def test_weights_that_were_replaced_are_let_go(flags):
    engine = loaded(plan(*flags))
    gc.disable()
    try:
        context = engine.create_execution_context()
        old = weakref.ref(context._context)
        if flags:
            refitter = trt.Refitter(engine, trt.Logger(trt.Logger.ERROR))
            assert refitter.set_weights("w0", trt.WeightsRole.CONSTANT, np.ones((64, 64), np.float32))
            assert refitter.refit_cuda_engine()
        del context
        assert old() is None
    finally:
        gc.enable()


def test_contexts_of_several_threads_run_alternately(engine):
    expected, wrong = engine.run(x=X)["y"], []
    engine.weight_streaming_budget_v2 = 0

    def runs():
        wrong.extend(1 for _ in range(20) if (engine.run(x=X)["y"] != expected).any())

    threads = [threading.Thread(target=runs) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_refitted_weights_are_streamed():
    engine = loaded(plan(Flag.WEIGHT_STREAMING, Flag.REFIT))
    engine.weight_streaming_budget_v2 = BYTES
    refitter = trt.Refitter(engine, trt.Logger(trt.Logger.ERROR))
    assert refitter.set_named_weights("w5 CONSTANT", np.zeros((64, 64), np.float32))
    assert refitter.refit_cuda_engine()
    assert (engine.run(x=X)["y"].any(), engine.weight_streaming_budget_v2) == (False, BYTES)


def test_a_streaming_engine_is_serialized_whole(engine):
    expected = engine.run(x=X)["y"]
    engine.weight_streaming_budget_v2 = 0
    again = loaded(engine.serialize())
    assert again.streamable_weights_size == LAYERS * BYTES
    assert (again.run(x=X)["y"] == expected).all()


def test_profiles_of_a_streaming_engine_have_the_same_kernels(engine):
    class Names(trt.IProfiler):
        def report_layer_time(self, name, ms):
            seen.append(name)

    context, y, lists = engine.create_execution_context(), np.empty_like(X), []
    context.profiler = profiler = Names.__new__(Names)
    trt.IProfiler.__init__(profiler)
    assert context.set_input_shape("x", (1, 64))
    assert all(context.set_tensor_address(name, array) for name, array in {"x": X, "y": y}.items())
    for budget in (LAYERS * BYTES, 0):
        engine.weight_streaming_budget_v2 = budget
        seen = []
        assert context.execute_async_v3(0)
        lists.append((seen, y.tolist()))
    assert lists[0] == lists[1]


@pytest.mark.parametrize("engine", ["file"], indirect=True)
def test_a_file_that_is_cut_ends_the_run_with_an_error(engine, tmp_path):
    engine.weight_streaming_budget_v2 = 0
    os.truncate(tmp_path / "net.plan", 5000)
    with pytest.raises(PlanError, match="AR608"):
        engine.run(x=X)


def test_a_budget_is_rejected_where_it_means_nothing(engine, capfd):
    engine.weight_streaming_budget_v2 = -1
    assert "AR304" in capfd.readouterr().out
    assert engine.weight_streaming_budget_v2 == LAYERS * BYTES
    fixed = loaded(plan())
    fixed.weight_streaming_budget_v2 = 9
    assert "build it with BuilderFlag.WEIGHT_STREAMING" in capfd.readouterr().out
    assert (fixed.weight_streaming_budget_v2, fixed.streamable_weights_size) == (0, 0)


def test_no_more_than_the_budget_and_the_largest_kernel_is_in_memory(tmp_path):
    program = Path(__file__).with_name("streamed.py")
    process = subprocess.run([sys.executable, program, tmp_path / "net.plan"], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    for line in process.stdout.splitlines():
        budget, more = map(int, line.split())
        assert budget - 1 <= more <= budget + 4 + 2, process.stdout
