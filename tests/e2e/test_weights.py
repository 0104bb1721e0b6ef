"""Builds, saves and loads do not copy weights without need, and check them by default."""

import mmap
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.model.state import state_of

SHARED = Path(__file__).parent / "shared.py"
MEGABYTES = 8
TABLE = np.arange(MEGABYTES << 18, dtype=np.float32)
X = np.ones_like(TABLE)


@pytest.fixture
def plan(net, plan_of):
    table = net.add_constant(TABLE.shape, TABLE).get_output(0)
    x = net.add_input("x", trt.float32, TABLE.shape)
    return plan_of(net, net.add_elementwise(x, table, trt.ElementWiseOperation.SUM).get_output(0))


@pytest.fixture
def path(plan, tmp_path):
    (tmp_path / "net.plan").write_bytes(plan)
    os.utime(tmp_path / "net.plan", (1, 1))  # so that the file system shows a change soon after
    return tmp_path / "net.plan"


@pytest.fixture
def load(log):
    return trt.Runtime(log).deserialize_cuda_engine


def right(engine):
    return np.array_equal(state_of(engine).engine.infer({"x": X})["y"], TABLE + 1)


def placed(plan, offset):
    """A copy of the plan at this many bytes past a multiple of 64."""
    block = np.empty(plan.nbytes + 128, np.uint8)
    start = -block.ctypes.data % 64 + offset
    block[start : start + plan.nbytes] = np.frombuffer(plan, np.uint8)
    return block[start : start + plan.nbytes]


def megabytes_of(work):
    """(peak memory of Python and NumPy during the call, memory left after it), in megabytes rounded to
    halves."""
    tracemalloc.start()
    kept = work()
    left, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept is not None
    return [round(2 * n / (1 << 20)) / 2 for n in (most, left)]


def lies_in(engine, buffer):
    address = np.frombuffer(buffer, np.uint8).ctypes.data
    return address <= state_of(engine).loaded.held.now.address < address + memoryview(buffer).nbytes


# ---- copies -------------------------------------------------------------------------------------------


def test_a_build_holds_the_weights_once(net, plan_of, plan, builder):
    config = builder.create_builder_config()
    assert megabytes_of(lambda: builder.build_serialized_network(net, config)) == [MEGABYTES, MEGABYTES]


class Count(trt.IStreamWriter):
    """Counts the bytes and discards them."""

    def __init__(self):
        trt.IStreamWriter.__init__(self)
        self.nbytes = 0

    def write(self, data):
        self.nbytes += len(data)
        return len(data)


def test_a_build_to_a_stream_holds_one_chunk(net, plan, builder, monkeypatch):
    monkeypatch.setattr("anyrt.api.building.builder.CHUNK", 1 << 20)
    writer, config = Count(), builder.create_builder_config()
    most, _ = megabytes_of(lambda: builder.build_serialized_network_to_stream(net, config, writer))
    assert (most <= 2, writer.nbytes) == (True, plan.nbytes)


def test_the_librarys_own_plan_is_used_in_place(plan, load):
    engine = load(plan)
    assert lies_in(engine, plan)
    assert right(engine)


def test_a_plan_elsewhere_is_copied_once(plan, load):
    data = placed(plan, 16)
    assert megabytes_of(lambda: load(data)) == [MEGABYTES, MEGABYTES]


@pytest.mark.parametrize(
    ("offset", "writable", "in_place"), [(0, False, True), (16, False, False), (0, True, False)]
)
def test_only_an_aligned_read_only_buffer_is_used_in_place(offset, writable, in_place, plan, load):
    buffer = placed(plan, offset)
    buffer.flags.writeable = writable
    engine = load(buffer)
    assert lies_in(engine, buffer) is in_place
    if writable:
        buffer[:] = 0
    assert right(engine)


class Pieces(trt.IStreamReader):
    """Returns `data` in pieces of a given size."""

    def __init__(self, data, size):
        trt.IStreamReader.__init__(self)
        self.pieces = [data[at : at + size] for at in range(0, len(data), size)]

    def read(self, size):
        return self.pieces.pop(0) if self.pieces else b""


def test_a_stream_is_copied_once(plan, load):
    reader = Pieces(memoryview(bytes(plan)), 1 << 16)
    most, left = megabytes_of(lambda: load(reader))
    assert (most <= MEGABYTES + 1, left) == (True, MEGABYTES)


@pytest.mark.parametrize("size", [1, 100, 1 << 16])
def test_a_stream_may_come_in_any_pieces(size, builder, net, plan_of, load):
    small = bytes(plan_of(net, net.add_identity(net.add_input("x", trt.float32, (2,))).get_output(0)))
    assert load(Pieces(small, size)).name == net.name


@pytest.mark.parametrize(
    ("code", "spoil"),
    [
        ("AR601", lambda p: p[:-1]),
        ("AR601", lambda p: p[:100]),
        ("AR601", lambda p: b""),
        ("AR604", lambda p: p + b"!"),
        ("AR606", lambda p: b"\x7fELF" + p[4:]),
    ],
)
def test_a_bad_stream_is_rejected(code, spoil, plan, load):
    with trt.strict(), pytest.raises(trt.errors.PlanError, match=code):
        load(Pieces(spoil(bytes(plan)), 1 << 20))


# ---- files --------------------------------------------------------------------------------------------


def test_an_engine_of_a_file_maps_it(path, load):
    engine = load(path)
    (line,) = [x for x in Path("/proc/self/maps").read_text().splitlines() if x.endswith(str(path))]
    begin, end = (int(x, 16) for x in line.split()[0].split("-"))
    assert begin < state_of(engine).loaded.held.now.address < end
    assert right(engine)


def test_loading_puts_nothing_into_large_pages(plan, path, load, monkeypatch):
    monkeypatch.setattr("anyrt.api.run.host_memory.collapse_pages", pytest.fail)
    assert right(load(path))
    assert right(load(plan))


def test_a_small_file_is_read(net, plan_of, tmp_path, load):
    plan = plan_of(net, net.add_identity(net.add_input("x", trt.float32, (2,))).get_output(0))
    (tmp_path / "small").write_bytes(plan)
    assert load(tmp_path / "small").name == net.name
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


def test_two_processes_share_the_weights(path, load):
    """A page that both processes have touched counts half for each."""
    engine = load(path)
    assert right(engine)
    with subprocess.Popen(
        [sys.executable, SHARED, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "loaded\n"
        text = Path("/proc/self/smaps").read_text().split(str(path))[1]
        other.stdin.close()
    facts = dict(line.split(":") for line in text.splitlines()[1:16])
    resident, ours, copied = (int(facts[x].split()[0]) for x in ("Rss", "Pss", "Anonymous"))
    assert (resident >= MEGABYTES << 10, ours < 0.6 * resident, copied) == (True, True, 0)


def shorten(path):
    os.truncate(path, 1 << 16)


def overwrite(path):
    with open(path, "r+b") as file:
        file.seek(1 << 20)
        file.write(bytes(1 << 20))


def replace(path):
    (path.parent / "new").write_bytes(b"another plan")
    (path.parent / "new").rename(path)


@pytest.mark.parametrize("change", [shorten, overwrite])
def test_a_mapped_file_that_was_changed_is_an_error_instead_of_a_crash(change, path, load, log):
    engine = load(path)
    context = engine.create_execution_context()
    y = np.empty_like(X)
    context.set_tensor_address("x", X.ctypes.data)
    context.set_tensor_address("y", y.ctypes.data)
    assert context.execute_async_v3(0)
    assert right(engine)
    change(path)
    assert not context.execute_async_v3(0)
    assert engine.serialize() is None
    assert [line[:8] for line in log.lines] == ["[AR608] "] * 2
    with pytest.raises(trt.errors.PlanError, match="AR608"):
        right(engine)


def test_a_mapping_of_the_users_that_is_shortened_is_an_error(path, load):
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    engine = load(mapped)
    assert lies_in(engine, mapped)
    assert right(engine)
    shorten(path)
    with pytest.raises(trt.errors.PlanError, match="AR608"):
        right(engine)


def test_a_file_that_is_replaced_by_another_leaves_the_engine_as_it_is(path, load):
    engine = load(path)
    replace(path)
    assert right(engine)


def test_a_path_without_a_plan_says_so(tmp_path, load, log):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "text").write_text("text")
    for name in ("none", "fifo", "text", "."):
        assert load(tmp_path / name) is None
    assert [line[1:6] for line in log.lines] == ["AR304", "AR604", "AR606", "AR604"]


# ---- checks -------------------------------------------------------------------------------------------


def damaged(plan, at):
    data = bytearray(plan)
    data[at] ^= 1
    return data


def test_weights_are_checked_unless_the_runtime_says_otherwise(plan, log):
    bad, runtime = damaged(plan, plan.nbytes - 1), trt.Runtime(log)
    assert runtime.deserialize_cuda_engine(bad) is None
    runtime.check_weights = False
    assert runtime.deserialize_cuda_engine(bad) is not None
    assert runtime.deserialize_cuda_engine(damaged(plan, 200)) is None
    assert [line[:15] for line in log.lines] == ["[AR602] constan", "[AR602] plan he"]


def test_weights_are_checked_unless_the_environment_says_otherwise(plan, log, monkeypatch):
    bad, runtime = damaged(plan, plan.nbytes - 1), trt.Runtime(log)
    monkeypatch.setenv("ANYRT_CHECK_WEIGHTS", "0")
    assert runtime.deserialize_cuda_engine(bad) is not None
    runtime.check_weights = True
    assert runtime.deserialize_cuda_engine(bad) is None
    runtime.check_weights = None
    monkeypatch.setenv("ANYRT_CHECK_WEIGHTS", "perhaps")
    assert runtime.deserialize_cuda_engine(bad) is None
    assert "ANYRT_CHECK_WEIGHTS" in log.lines[-1]
