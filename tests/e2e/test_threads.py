"""Threads and processes: numbers do not depend on them, and nothing waits for ever."""

import os
import signal
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
    """Three layers that sum: over a volume, over everything, by a window."""
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
        results.append(engine_of(net, *heavy(net, x.shape), threads=count)(**feeds_of(x)))
    for name in ("y", "y1"):
        assert np.array_equal(results[0][name], results[1][name])


def test_many_threads_use_contexts_of_one_engine_at_once(net, engine_of, random):
    shapes = [(n, 3, 8, 9) for n in (1, 2, 9)]
    engine = engine_of(net, *heavy(net, (-1, 3, 8, 9)), x=shapes)
    inputs = [random.standard_normal((n, 3, 8, 9), np.float32) for n in range(1, 10)]
    want = [engine(**feeds_of(x))["y"] for x in inputs]

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
    want = [engine(**feeds_of(x))["y"] for x in inputs]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda x: engine(**feeds_of(x))["y"], inputs))
    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


def test_other_threads_run_python_during_an_inference(net, engine_of, random):
    """In the middle half of one inference of some, however busy the machine is."""
    engine = engine_of(net, *heavy(net, (4, 16, 256, 256)), threads=1)
    feeds = feeds_of(random.standard_normal((4, 16, 256, 256), np.float32))
    spans, moments, done = [], [], threading.Event()

    def infer():
        for _ in range(5):
            start = time.perf_counter()
            engine(**feeds)
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


@pytest.mark.parametrize("turns", [1, 4])
def test_ctrl_c_ends_a_build_and_leaves_nothing(turns, tmp_path):
    """Once while the first kernels are scheduled, once later."""
    environment = {**os.environ, "ANYRT_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, LIVES, "interrupt", tmp_path / "plan"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as build:
        assert build.stdout.readline() == b"building\n"
        with pytest.raises(subprocess.TimeoutExpired):
            build.wait(0.25 * turns)
        build.send_signal(signal.SIGINT)
        start = time.monotonic()
        error = build.communicate(timeout=30)[1]
    assert (b"KeyboardInterrupt" in error, build.returncode) == (True, -signal.SIGINT)
    assert time.monotonic() - start < 2
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
