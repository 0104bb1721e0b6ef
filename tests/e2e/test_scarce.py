"""Too little memory, a full disk, a read-only directory: errors with codes, or no cache."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import anyrt as trt
from tests.messages import diagnostic

SCARCE = Path(__file__).parent / "scarce.py"


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory, cache_dir):
    """The plan of scarce.py, whose code and pool are in the cache."""
    path = tmp_path_factory.mktemp("plan") / "plan"
    program = (
        "import sys, scarce; p = scarce.build(); scarce.works(scarce.load(p)); sys.stdout.buffer.write(p)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=SCARCE.parent, capture_output=True, check=True)
    path.write_bytes(done.stdout)
    return path


@pytest.fixture
def run(plan_file):
    """run("build", 16): the output lines of scarce.py; the process must exit normally."""

    def lines(*words):
        command = [sys.executable, SCARCE, *map(str, words)]
        environment = {**os.environ, "SCARCE_PLAN": str(plan_file), "PYTHONFAULTHANDLER": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return lines


@pytest.fixture
def each(run):
    """each("build", 16, 24): the lines for each of the numbers."""

    def lines(*words):
        return [part.splitlines() for part in "\n".join(run(*words)).removesuffix("--").split("\n--\n")]

    return lines


# ---- memory -------------------------------------------------------------------------------------------


def test_a_build_without_memory_says_so_and_needs_little(each):
    *none, enough = each("build", 0, 24, 64)
    assert [(reported[:7], answer) for reported, answer in none] == [("[AR802]", "None")] * 2
    assert enough == ["built"]


def test_a_build_with_hardly_enough_memory_is_made_or_says_so(each):
    for *reported, answer in each("build", 32, 40):
        assert ([line[:7] for line in reported], answer) in (([], "built"), (["[AR802]"], "None"))


def test_a_build_that_has_no_room_for_llvm_says_so(each):
    for *reported, answer in each("first", 32, 64):
        assert ([line[:7] for line in reported], answer) == (["[AR802]"], "None")


def test_a_load_that_must_compile_without_memory_says_so(each):
    result = each("load", 1, 0, 64, 240)
    assert [(reported[:7], answer) for reported, answer in result] == [("[AR802]", "None")] * 3


def test_a_load_from_the_cache_needs_hardly_any_memory(each):
    (reported, answer), enough = each("load", 0, 0, 8)
    assert (reported[:7], answer, enough) == ("[AR802]", "None", ["works"])


def test_a_context_whose_workspace_has_no_room_says_so(run):
    reported, static, shapes, refused, answer = run("context")
    assert ("[AR802]" in reported, static) == (True, "2049 MB None")
    assert (shapes, "[AR801]" in refused, answer) == ("True (24576, 49152)", True, "False")


def test_a_call_whose_output_has_no_room_raises(run):
    (reported,) = run("infer")
    assert re.match(
        "ResourceError " + diagnostic("AR802", "inference", "Unable to allocate 288. MiB"), reported
    )


def test_a_refit_without_memory_says_so_and_the_engine_stays(each):
    *none, enough = each("refit", 0, 8, 64)
    assert [(reported[:7], answer) for reported, answer in none] == [("[AR802]", "False 1.0")] * 2
    assert enough == ["True 2.0"]


def test_a_calibration_without_memory_says_so_and_writes_no_cache(each):
    for *reported, answer in each("calibrate", 0, 16, 64, 512):
        assert ([line[:7] for line in reported], answer.split()[0]) in (([], "True"), (["[AR802]"], "False"))
    assert answer == "True True"  # an engine, and a cache


LACKS = [MemoryError("no room for 5 TB"), OSError(errno.ENOMEM, "no room for 5 TB")]


@pytest.mark.parametrize("lack", LACKS, ids=["of NumPy", "of a module"])
def test_memory_that_others_cannot_get_is_a_resource_error(lack, net, builder, log, recorder, monkeypatch):
    def none_left(*args):
        raise lack

    x = net.add_input("x", trt.float32, (2,))
    net.mark_output(net.add_identity(x).get_output(0))
    monkeypatch.setattr("anyrt.api.building.builder.compile_request", none_left)
    config = builder.create_builder_config()
    assert builder.build_serialized_network(net, config) is None
    assert re.search(diagnostic("AR802", "no room for 5 TB"), log.lines[0])
    assert recorder.errors == [(trt.ErrorCodeTRT.FAILED_ALLOCATION, log.lines[0])]
    with trt.strict(), pytest.raises(trt.errors.ResourceError, match="AR802"):
        builder.build_serialized_network(net, config)


# ---- disk ---------------------------------------------------------------------------------------------


def test_a_disk_that_fills_up_costs_the_cache_not_the_build(each):
    for *reported, answer, left in each("full", 100, 4096):
        assert all("[AR803]" in line and os.strerror(errno.EFBIG) in line for line in reported)
        assert (len(reported) > 0, answer, left) == (True, "works", "[]")


@pytest.mark.rare
def test_a_cache_directory_that_is_read_only_costs_the_cache_not_the_build(run):
    *reported, answer, left = run("readonly")
    assert all("[AR803]" in line and os.strerror(errno.EACCES) in line for line in reported)
    assert (len(reported) > 0, answer, left) == (True, "works", "[]")


@pytest.mark.rare
def test_a_user_without_a_home_has_a_cache(run):
    answer, left = run("homeless")
    assert (answer, left) == ("works", "['anyrt', 'own']")


FAULTS = [("mkdir", errno.EROFS), ("open", errno.EROFS), ("fsync", errno.EIO), ("replace", errno.EACCES)]


@pytest.mark.parametrize(("call", "number"), FAULTS, ids=[call for call, _ in FAULTS])
def test_whatever_fails_while_writing_is_a_warning_with_a_code(
    call, number, net, builder, log, tmp_path, monkeypatch
):
    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path / "cache"))
    net.mark_output(net.add_identity(net.add_input("x", trt.float32, (2,))).get_output(0))
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        plan = builder.build_serialized_network(net, builder.create_builder_config())
        assert trt.Runtime(log).deserialize_cuda_engine(plan) is not None
    assert all("[AR803]" in line and os.strerror(number) in line for line in log.lines)
    assert (len(log.lines) > 0, [p for p in tmp_path.rglob("*") if p.is_file()]) == (True, [])


class Full(trt.IStreamWriter):
    """Accepts half of the bytes."""

    def write(self, data):
        return len(data) // 2


def test_a_stream_that_does_not_take_the_plan_is_an_error(net, builder, log, recorder):
    net.mark_output(net.add_identity(net.add_input("x", trt.float32, (2,))).get_output(0))
    config = builder.create_builder_config()
    assert builder.build_serialized_network_to_stream(net, config, Full()) is False
    assert "[AR803]" in log.lines[-1]
    assert recorder.errors == [(trt.ErrorCodeTRT.FAILED_ALLOCATION, log.lines[-1])]
    with trt.strict(), pytest.raises(trt.errors.ResourceError, match="AR803"):
        builder.build_serialized_network_to_stream(net, config, Full())
