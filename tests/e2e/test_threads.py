"""Threads and processes do not affect the outputs, and nothing deadlocks."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import anyrt as trt

LIVES = Path(__file__).parent / "lives.py"


def heavy(net, shape):
    """Three layers that sum: over a volume, over all elements, by a window."""
    x = net.add_input("x", trt.float32, shape)
    ones = [net.add_input(n, trt.float32, (1,) * len(shape)) for n in ("gain", "bias")]
    y = net.add_normalization(x, *ones, 0b1110).get_output(0)
    total = net.add_reduce(y, trt.ReduceOperation.SUM, 0b1111, True).get_output(0)
    resize = net.add_resize(y)
    resize.resize_mode = trt.InterpolationMode.CUBIC
    resize.scales = (1, 1, 1.3, 1.3)
    return resize.get_output(0), total


def feeds_of(x):
    return {"x": x, "gain": np.full((1,) * 4, 1.5, np.float32), "bias": np.zeros((1,) * 4, np.float32)}


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_numbers_do_not_depend_on_the_thread_count(threads, builder, engine_of, random):
    x = random.standard_normal((3, 5, 61, 67), np.float32)
    results = []
    for count in (1, threads):
        net = builder.create_network()
        results.append(engine_of(net, *heavy(net, x.shape), threads=count).run(**feeds_of(x)))
    for name in ("y", "y1"):
        assert np.array_equal(results[0][name], results[1][name])


def test_many_threads_use_contexts_of_one_engine_at_once(net, engine_of, random):
    shapes = [(n, 3, 8, 9) for n in (1, 2, 9)]
    engine = engine_of(net, *heavy(net, (-1, 3, 8, 9)), x=shapes)
    inputs = [random.standard_normal((n, 3, 8, 9), np.float32) for n in range(1, 10)]
    want = [engine.run(**feeds_of(x))["y"] for x in inputs]

    def work(number):
        context = engine.create_execution_context()
        for turn in range(30):
            k = (number + turn) % len(inputs)
            y, y1 = np.empty_like(want[k]), np.empty((1,) * 4, np.float32)
            assert context.set_input_shape("x", inputs[k].shape)
            for name, array in {**feeds_of(inputs[k]), "y": y, "y1": y1}.items():
                assert context.set_tensor_address(name, array)
            assert context.execute_async_v3(0)
            assert np.array_equal(y, want[k])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_calls_of_one_engine_from_many_threads(net, engine_of, random):
    engine = engine_of(net, *heavy(net, (-1, 3, 8, 9)), x=[(n, 3, 8, 9) for n in (1, 2, 9)])
    inputs = [random.standard_normal((1 + n % 9, 3, 8, 9), np.float32) for n in range(64)]
    want = [engine.run(**feeds_of(x))["y"] for x in inputs]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda x: engine.run(**feeds_of(x))["y"], inputs))
    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


def test_other_threads_run_python_during_an_inference(net, engine_of, random):
    """In the middle half of at least one inference, however busy the machine is."""
    engine = engine_of(net, *heavy(net, (4, 16, 256, 256)), threads=1)
    feeds = feeds_of(random.standard_normal((4, 16, 256, 256), np.float32))
    spans, moments, done = [], [], threading.Event()

    def infer():
        for _ in range(5):
            start = time.perf_counter()
            engine.run(**feeds)
            spans.append((start, time.perf_counter()))
        done.set()

    thread = threading.Thread(target=infer)
    thread.start()
    while not done.is_set():
        moments.append(time.perf_counter())
    thread.join()
    middles = [(a + (b - a) / 4, b - (b - a) / 4) for a, b in spans]
    assert any(a < moment < b for a, b in middles for moment in moments)


@pytest.mark.parametrize("life", ["fork", "exit"])
def test_process_goes_on_or_ends(life, cache_dir):
    subprocess.run([sys.executable, LIVES, life], check=True, timeout=60)


def test_idle_threads_sleep(cache_dir):
    done = subprocess.run([sys.executable, LIVES, "idle"], check=True, capture_output=True, timeout=60)
    assert float(done.stdout) < 0.02


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("environment", "config", "workers"), [("4", None, 3), ("4", 2, 1), ("2", 5, 4), ("1", None, 0)]
)
def test_the_thread_count_is_the_configuration_s_or_else_the_environment_s(
    environment, config, workers, monkeypatch
):
    monkeypatch.setenv("ANYRT_NUM_THREADS", environment)
    command = [sys.executable, LIVES, "workers", *([str(config)] if config else [])]
    assert subprocess.run(command, check=True, capture_output=True, timeout=60).stdout == b"%d\n" % workers


def test_without_a_thread_count_there_is_a_thread_for_every_processor(monkeypatch):
    monkeypatch.delenv("ANYRT_NUM_THREADS")
    done = subprocess.run([sys.executable, LIVES, "workers"], check=True, capture_output=True, timeout=60)
    assert done.stdout == b"%d\n" % (len(os.sched_getaffinity(0)) - 1)


@pytest.mark.parametrize("number", ["0", "-1", "many", "4097"])
def test_a_bad_thread_count_in_the_environment_is_a_named_error(number, net, builder, log, monkeypatch):
    net.mark_output(net.add_identity(net.add_input("x", trt.float32, (2,))).get_output(0))
    monkeypatch.setenv("ANYRT_NUM_THREADS", number)
    assert builder.build_serialized_network(net, builder.create_builder_config()) is None
    assert log.lines[-1].startswith("[AR304] environment variable ANYRT_NUM_THREADS")


@pytest.mark.parametrize("number", [0, -1, 4097, 1 << 40])
def test_a_bad_thread_count_in_the_configuration_is_a_named_error(number, net, builder, log):
    net.mark_output(net.add_identity(net.add_input("x", trt.float32, (2,))).get_output(0))
    config = builder.create_builder_config()
    config.num_threads = number
    assert builder.build_engine_with_config(net, config) is None or config.num_threads is None
    assert "[AR304]" in log.lines[-1]


def test_builds_at_once_give_the_plans_of_builds_one_by_one(log):
    def build(size):
        builder = trt.Builder(log)
        net = builder.create_network()
        net.name = "net"
        net.mark_output(heavy(net, (1, size, 6, 7))[0])
        return bytes(builder.build_serialized_network(net, builder.create_builder_config()))

    sizes = [1, 2, 3, 4] * 2
    with ThreadPoolExecutor(8) as pool:
        plans = list(pool.map(build, sizes))
    assert plans == [build(size) for size in sizes]


def test_children_forked_during_a_compilation_can_compile(cache_dir):
    command = [sys.executable, LIVES, "fork while building"]
    done = subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert done.stdout == b"[0, 0, 0, 0, 0, 0, 0, 0]\n"
