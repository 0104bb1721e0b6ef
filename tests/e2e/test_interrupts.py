"""Ctrl-C ends a build or a load at once, and leaves no incomplete files."""

import _thread
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import anyrt as trt
from tests.sampling import sample

LIVES = Path(__file__).parent / "lives.py"


@pytest.fixture(scope="module")
def slow_plan(tmp_path_factory):
    """The file of a plan that takes seconds to compile."""
    path = tmp_path_factory.mktemp("slow") / "plan"
    life = [sys.executable, LIVES, "interrupt", path, "500"]
    subprocess.run(life, check=True, timeout=120, capture_output=True)
    return path


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """interrupted(life, file, seconds): the exit of a process that gets Ctrl-C this long after it
    has begun."""
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path / "cache"))

    def run(life, file, seconds):
        pipe = subprocess.PIPE
        with subprocess.Popen([sys.executable, LIVES, life, file], stdout=pipe, stderr=pipe) as process:
            assert process.stdout.readline() == b"running\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(seconds)
            process.send_signal(signal.SIGINT)
            start = time.monotonic()
            out, error = process.communicate(timeout=30)
        assert time.monotonic() - start < 2
        return process.returncode, out, b"KeyboardInterrupt" in error

    return run


def files(folder):
    return [p for p in folder.rglob("*") if p.is_file()]


def half_written(folder):
    """All files except the code of single kernels, which is stored as each is compiled."""
    return [p for p in files(folder) if p.suffix != ".kernel" or p.name.startswith(".")]


@pytest.mark.parametrize("seconds", sample([0.25, 1], 2))
def test_ctrl_c_ends_a_build_and_leaves_nothing(seconds, interrupted, tmp_path):
    """Once while the first kernels are scheduled, once later."""
    assert interrupted("interrupt", tmp_path / "plan", seconds) == (-signal.SIGINT, b"", True)
    assert half_written(tmp_path) == []


@pytest.mark.parametrize("seconds", sample([0.5, 0.05], 2))
def test_ctrl_c_ends_a_load_and_leaves_nothing(seconds, interrupted, slow_plan, tmp_path):
    """The code of kernels may be stored, complete; the plan's is not."""
    assert interrupted("interrupt load", slow_plan, seconds) == (-signal.SIGINT, b"", True)
    assert half_written(tmp_path) == []


@pytest.mark.rare
@pytest.mark.parametrize("seconds", sample([1, 0.25], 2))
def test_a_program_that_catches_ctrl_c_ends_in_order(seconds, interrupted, tmp_path):
    assert interrupted("caught", tmp_path / "plan", seconds) == (0, b"caught\n", False)
    assert half_written(tmp_path) == []


# ---- while a file is written --------------------------------------------------------------------------


@pytest.fixture
def identity(net):
    net.mark_output(net.add_identity(net.add_input("x", trt.float32, (2,))).get_output(0))
    net.get_output(0).name = "y"
    return net


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def interrupt_soon(descriptor):
    """Replaces the last step of writing: sends Ctrl-C to the main thread, and does some more work in this
    one."""
    _thread.interrupt_main()
    threading.Event().wait(0.3)


def interrupt_here(*paths):
    raise KeyboardInterrupt


def test_a_build_that_is_interrupted_while_it_writes_leaves_whole_files(
    identity, builder, cache, monkeypatch
):
    monkeypatch.setattr(os, "fsync", interrupt_soon)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have set it to ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            builder.build_serialized_network(identity, builder.create_builder_config())
    finally:
        signal.signal(signal.SIGINT, before)
    assert {p.suffix for p in files(cache)} == {".kernel"}


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_load_that_is_interrupted_while_it_writes_leaves_nothing(
    call, identity, builder, log, cache, monkeypatch
):
    plan = builder.build_serialized_network(identity, builder.create_builder_config())
    for file in files(cache):
        file.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(os, call, interrupt_here)
        with pytest.raises(KeyboardInterrupt):
            trt.Runtime(log).deserialize_cuda_engine(plan)
    assert files(cache) == []
    engine = trt.Runtime(log).deserialize_cuda_engine(plan)
    assert engine.run(x=np.float32([3, 4]))["y"].tolist() == [3, 4]
    assert log.lines == []


def test_a_context_that_is_interrupted_runs_again(identity, builder):
    engine = builder.build_engine_with_config(identity, builder.create_builder_config())
    context, x, y = engine.create_execution_context(), np.float32([1, 2]), np.zeros(2, np.float32)

    class Interrupting(trt.IProfiler):
        def report_layer_time(self, layer_name, ms):
            raise KeyboardInterrupt

    context.profiler = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        context.execute_v2([x, y])
    context.profiler, y[:] = None, 0
    assert context.execute_v2([x, y])
    assert y.tolist() == [1, 2]
