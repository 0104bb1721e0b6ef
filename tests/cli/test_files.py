"""Commands write files completely or keep the old ones, and handle damaged input files."""

import errno
import json
import os
import re
from pathlib import Path

import onnx
import pytest
from onnx import helper

import anyrt
from anyrt.cli.exec.main import execute
from anyrt.cli.main import main
from tests.messages import diagnostic

QUICK = ("--iterations=3", "--warmUp=0", "--duration=0")
EXTERN = ("saveEngine", "timingCacheFile", "exportLayerInfo", "exportTimes", "exportOutput", "exportProfile")
WRITES = re.compile(
    r"\.write_(text|bytes)\(|np\.save(z\w*)?\((?!held)|\.tofile\(|open\([^)\n]*[\"'][wax]b?\+?[\"']"
)


@pytest.fixture
def model(tmp_path):
    """y = max(x, 0)."""
    x, y = (helper.make_tensor_value_info(n, 1, [2, 3]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    return f"--onnx={tmp_path / 'm.onnx'}"


@pytest.fixture
def full(monkeypatch):
    """Simulates a disk that is full at the end of each file."""

    def say(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("ANYRT_CACHE_DIR", "/nowhere/at/all")
    monkeypatch.setattr(os, "fsync", say)


@pytest.mark.parametrize("option", EXTERN)
def test_a_full_disk_leaves_what_was_there_and_the_file_is_named(model, option, tmp_path, full, capsys):
    target = tmp_path / "kept"
    target.write_bytes(b"anyrt timing cache 1\n{}" if option == "timingCacheFile" else b"old")
    held = target.read_bytes()
    assert execute((model, f"--{option}={target}", *QUICK), "trtexec") == 1
    assert re.search(rf"\[E\] \[AR803\] {target}: got No space left on device", capsys.readouterr().err)
    assert target.read_bytes() == held
    assert not [p.name for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize(
    "words", [("draw", "net.plan", "-o", "y.svg"), ("run", "net.plan", "--input=x=x.npy", "--output=y=y.npy")]
)
def test_a_full_disk_fails_a_command(plan, words, tmp_path, full, capsys):
    kept = tmp_path / words[-1].rpartition("=")[2]
    kept.write_bytes(b"old")
    assert main(words) == 2
    expected = diagnostic("AR803", kept.name, "No space left on device")
    assert re.search(expected, capsys.readouterr().err)
    assert kept.read_bytes() == b"old"


@pytest.mark.parametrize("content", [b'anyrt timing cache 1\n{"k": [1', b"anyrt ti", b"\0" * 99])
def test_a_truncated_timing_cache_is_reported_once_and_rewritten(model, content, tmp_path, capsys):
    cache = tmp_path / "timing.cache"
    cache.write_bytes(content)
    words = (model, f"--timingCacheFile={cache}", "--skipInference")
    assert execute(words, "trtexec") == 0
    assert capsys.readouterr().out.count(f"[W] [TRT] {cache}: ") == 1
    assert json.loads(cache.read_bytes().partition(b"\n")[2]) == {}
    assert execute(words, "trtexec") == 0
    assert "[W]" not in capsys.readouterr().out


def test_a_timing_cache_that_is_a_fifo_is_rejected(model, tmp_path, capsys):
    os.mkfifo(tmp_path / "fifo")
    assert execute((model, f"--timingCacheFile={tmp_path / 'fifo'}", "--skipInference"), "trtexec") == 1
    assert re.search(diagnostic("AR604", "fifo", "prw-r--r--"), capsys.readouterr().err)


def test_a_calibration_cache_that_is_a_fifo_is_rejected(model, tmp_path, capsys):
    os.mkfifo(tmp_path / "fifo")
    words = ("--int8", f"--calib={tmp_path / 'fifo'}", "--skipInference")
    assert execute((model, *words), "trtexec") == 1
    assert re.search(diagnostic("AR604", "fifo", "prw-r--r--"), capsys.readouterr().err)


def test_every_file_is_written_by_the_one_function():
    root = Path(anyrt.__file__).parent
    results = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in sorted(root.rglob("*.py"))
        for line in path.read_text().splitlines()
        if WRITES.search(line) and not line.lstrip().startswith(("#", ">>>"))
    ]
    assert results == WRITERS


# Examples, and files outside the user's directories.
WRITERS = [
    'api/building/builder.py: Path("net.plan").write_bytes(plan)',
    'api/building/calibrators.py: Path("net.calib").write_bytes(cache)',
    "codegen/foreign.py: file.write_bytes(image)",
    'plan/disk.py: with open(handle, "wb") as file:',
]
