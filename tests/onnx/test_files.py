"""Models and weights in unreadable files cause an error with a code, immediately."""

import errno
import mmap
import os
import re
import socket

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import anyrt as trt
from anyrt.cli.main import main
from anyrt.core.errors import AnyrtError, ArgumentError, PlanError, PluginError
from anyrt.onnx.session import load
from anyrt.onnx.wire import OWN
from tests.messages import diagnostic

W = np.arange(12, dtype=np.float32).reshape(3, 4)


def model(location):
    """y = x + w, with the bytes of w at `location`; None: without external data."""
    w = TensorProto(name="w", dims=W.shape, data_type=1, data_location=TensorProto.EXTERNAL)
    if location is not None:
        w.external_data.add(key="location", value=location)
    x, y = (helper.make_tensor_value_info(n, 1, W.shape) for n in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def problems(path):
    log = trt.Logger(trt.Logger.INTERNAL_ERROR)
    parser = trt.OnnxParser(trt.Builder(log).create_network(), log)
    assert parser.parse_from_file(str(path)) is False
    return [parser.get_error(i).desc() for i in range(parser.num_errors)]


def loop(path):
    path.symlink_to(path.name)
    return path


def fifo(path):
    os.mkfifo(path)
    return path


def bound(path):
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(str(path))
    return path


def directory(path):
    path.mkdir()
    return path


FILES = {
    "loop": (loop, "Too many levels of symbolic links|Symlink loop"),
    "fifo": (fifo, "mode prw-"),
    "socket": (bound, "No such device or address"),
    "directory": (directory, "mode drwx|no file"),
    "long": (lambda path: path.with_name("n" * 5000), "File name too long"),
    "deep": (lambda path: path.parent / ("d/" * 4000 + "m"), "File name too long|no file"),
    "absent": (lambda path: path.with_name("none"), "No such file or directory|no file"),
    "device": (
        lambda path: path.parent / "dev",
        "mode crw|a link to a file outside the folder",
    ),
}


@pytest.fixture(params=FILES)
def odd(request, tmp_path):
    """A path that is no file, and its error."""
    if request.param == "device":
        (tmp_path / "dev").symlink_to("/dev/zero")
    make, message = FILES[request.param]
    return make(tmp_path / "odd"), message


def test_a_model_that_is_no_file_is_rejected(odd):
    path, message = odd
    (problem,) = problems(path)
    assert problem.startswith("[AR416]")
    assert re.search(message, problem)
    assert len(problem) < 1000


@pytest.mark.parametrize("size", [20, 60, -1])
def test_a_truncated_model_is_described_as_one(tmp_path, size, golden_text):
    path = tmp_path / "m.onnx"
    path.write_bytes(model("w").SerializeToString()[:size])
    (problem,) = problems(path)
    golden_text(problem, "w")


@pytest.mark.parametrize("text", ["hello\n", "größer: 1\r\n" * 1000])
def test_text_is_described_as_text(tmp_path, text, golden_text):
    path = tmp_path / "m.onnx"
    path.write_bytes(text.encode())
    golden_text(problems(path)[0], "text")


def test_a_plan_that_is_no_file_is_rejected_with_a_code(odd):
    path, message = odd
    with pytest.raises(AnyrtError, match=message) as error:
        load(path)
    assert error.value.code == ("AR604" if "mode" in str(error.value) else "AR304")
    assert len(str(error.value)) < 1000


def test_a_plan_at_a_path_with_a_nul_is_rejected_with_a_code():
    with pytest.raises(ArgumentError, match=diagnostic("AR304", "anyrt.load", "a\0b", "NUL")):
        load("a\0b")


def test_weights_that_are_no_file_are_rejected(odd, tmp_path):
    path, message = odd
    onnx.save(model(str(path.relative_to(tmp_path))), tmp_path / "m.onnx")
    (problem,) = problems(tmp_path / "m.onnx")
    assert problem.startswith("[AR418] initializer w")
    assert re.search(message, problem)
    assert len(problem) < 1000


def test_weights_behind_links_in_a_circle_are_rejected(tmp_path):
    """`realpath` does not resolve the rest of a path through a circle (until Python 3.12); here the rest is a
    link."""
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(W.tobytes())
    (folder / "out").symlink_to("../secret")
    (folder / "circle").symlink_to("circle/../out")
    onnx.save(model("circle"), folder / "m.onnx")
    (problem,) = problems(folder / "m.onnx")
    assert problem.startswith("[AR418] initializer w")


@pytest.mark.parametrize("location", [None, ""])
def test_weights_elsewhere_without_a_location_are_rejected(location, tmp_path, golden_text):
    onnx.save(model(location), tmp_path / "m.onnx")
    (problem,) = problems(tmp_path / "m.onnx")
    golden_text(problem, "w")


@pytest.mark.parametrize("length", ["-1", "0", "-64"])
def test_weights_elsewhere_of_another_length_are_rejected(length, tmp_path):
    wrong = model("w.bin")
    wrong.graph.initializer[0].external_data.add(key="length", value=length)
    onnx.save(wrong, tmp_path / "m.onnx")
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    (problem,) = problems(tmp_path / "m.onnx")
    assert re.match(diagnostic("AR417", "initializer w", length, W.nbytes), problem)


def test_the_location_of_a_models_own_bytes_cannot_be_guessed(tmp_path):
    assert len(OWN) >= 16
    for location in ("\0", OWN[:-1], OWN + "0"):
        onnx.save(model(location), tmp_path / "m.onnx")
        assert problems(tmp_path / "m.onnx")[0].startswith("[AR418]")


@pytest.mark.parametrize("which", ["m.onnx", "w.bin"])
def test_a_file_that_cannot_be_mapped_is_reported(which, tmp_path, monkeypatch):
    onnx.save(model("w.bin"), tmp_path / "m.onnx")
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    assert load(tmp_path / "m.onnx").outputs[0].name == "y"
    lacking, real = (tmp_path / which).stat().st_ino, mmap.mmap

    def lack(handle, *args, **more):
        if os.fstat(handle).st_ino == lacking:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return real(handle, *args, **more)

    monkeypatch.setattr(mmap, "mmap", lack)
    (problem,) = problems(tmp_path / "m.onnx")
    assert problem.startswith("[AR802]")
    assert which in problem


def test_a_missing_folder_is_reported(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    (problem,) = problems("m.onnx")
    assert re.match(diagnostic("AR416", "m.onnx", "No such file or directory"), problem)


def test_fifos_are_rejected_wherever_a_file_is_read(tmp_path, capsys):
    path = fifo(tmp_path / "net.plan")
    with pytest.raises(PlanError, match="AR604"):
        load(path)
    with trt.strict(), pytest.raises(PlanError, match="AR604"):
        trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(path)
    assert main(["inspect", str(path)]) == 2
    assert "AR604" in capsys.readouterr().err
    assert main(["inspect", str(fifo(tmp_path / "m.onnx"))]) == 2
    assert "AR416" in capsys.readouterr().err


def test_a_library_with_a_long_name_is_rejected():
    with trt.strict(), pytest.raises(PluginError, match=diagnostic("AR826", re.compile("n{100,}"))):
        trt.get_plugin_registry().load_library("n" * 5000 + ".so")
