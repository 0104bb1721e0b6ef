"""Conventions of all commands: models, scripts and plans, JSON, exit codes, nearest names, 80 columns."""

import io
import json
import os
import pty
import struct
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import anyrt
from anyrt.cli.command import all_commands
from anyrt.cli.main import main
from anyrt.core.foreign import seems


@pytest.fixture
def model(folder) -> str:
    """y = x · 2 for rows of 3."""
    x, y = (helper.make_tensor_value_info(n, 1, ["n", 3]) for n in "xy")
    two = numpy_helper.from_array(np.eye(3, dtype=np.float32) * 2, "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "doubles", [x], [y], [two])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "m.onnx")
    return "m.onnx"


def out(capsys, *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", [["run", "--random"], ["explain"], ["inspect"], ["cache", "warm"]])
@pytest.mark.parametrize("network", ["m.onnx", "net.py:define", "net.plan"])
def test_commands_take_models_scripts_and_plans(words, network, model, plan, capsys):
    assert main([*words, network]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--random", "m.onnx"],
        ["explain", "m.onnx"],
        ["explain", "m.onnx", "--stage", "kernels"],
        ["inspect", "m.onnx"],
        ["inspect", "net.py"],
        ["check", "m.onnx", "--dla"],
        ["compare", "m.onnx", "--against", "reference"],
        ["draw", "m.onnx", "-o", "m.svg"],
        ["codes"],
        ["codes", "AR101"],
        ["info"],
        ["cache"],
        ["cache", "path"],
        ["cache", "warm", "m.onnx"],
        ["cache", "prune"],
    ],
)
def test_results_are_json_on_request(words, model, capsys):
    assert json.loads(out(capsys, *words, "--json"))


def test_problems_are_json_too(model, capsys):
    proto = onnx.load(model)
    proto.graph.node[0].op_type = "Nonsense"
    onnx.save(proto, model)
    with pytest.raises(SystemExit, match="1"):
        main(["check", model, "--json"])
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem["operator"] == "Nonsense"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explian", "net.py"], "no command 'explian'; did you mean explain?, one of batch, cache, check"),
        (["explain", "net.py", "--noed", "x"], "'--noed' is not an option of explain; did you mean --node?"),
        (["explain", "net.py", "--stage", "grahp"], "no value of --stage 'grahp'; did you mean graph?"),
    ],
)
def test_misspelt_words_name_the_nearest(words, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert message in capsys.readouterr().err


def test_help_documents_exit_codes(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    output = capsys.readouterr().out
    assert "1  the command found problems" in output
    assert "2  the command, its options or a file is not valid" in output


def on_a_terminal(*words: str, term: str = "dumb") -> list[str]:
    """The output lines of a command on a terminal of 80 columns."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": term}
    with subprocess.Popen(
        [sys.executable, "-m", "anyrt", *words],
        stdout=follower,
        stderr=follower,
        stdin=follower,
        env=environment,
    ):
        os.close(follower)
        held = b""
        while True:
            try:
                held += os.read(leader, 65536)
            except OSError:
                break
    os.close(leader)
    return held.decode().replace("\r\n", "\n").split("\n")


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "net.py:long"],
        ["explain", "net.py:long", "--node", "row1"],
        ["inspect", "net.py:long"],
        ["info"],
        ["cache"],
        ["codes"],
        ["codes", "AR712"],
        ["run", "net.py", "--random"],
        ["run", "net.py"],
        ["--help"],
    ],
)
def test_nothing_wraps_at_80_columns(words, folder):
    assert [line for line in on_a_terminal(*words) if len(line) > 80] == []


def test_no_help_wraps_at_80_columns(capsys):
    for name in all_commands():
        with pytest.raises(SystemExit, match="0") if name != "exec" else nullcontext():
            main([name, "--help"])
        wide = [line for line in capsys.readouterr().out.splitlines() if len(line) > 80]
        assert (name, [line for line in wide if not line.startswith("&&&&")]) == (name, [])


def test_the_work_on_a_model_is_shown_from_its_beginning(model):
    shown = "\n".join(on_a_terminal("explain", model, term="xterm"))
    assert "Build m.onnx" in shown
    assert "'m': 2 layers in 1 kernel" in shown


def test_displays_have_the_name_of_the_model(model):
    network = anyrt.Builder(anyrt.Logger()).create_network(0)
    assert anyrt.OnnxParser(network, anyrt.Logger()).parse_from_file(model)
    assert network.name.startswith("Unnamed Network ")
    assert "('m')" in repr(network)
    assert anyrt.load(model).engine.name == "m"
    assert anyrt.load(onnx.load(model)).engine.name == "doubles"


@pytest.fixture
def unnamed(model) -> str:
    """A plan from a program that gives its network no name."""
    builder = anyrt.Builder(anyrt.Logger())
    network = builder.create_network(0)
    assert anyrt.OnnxParser(network, anyrt.Logger()).parse_from_file(model)
    Path("net.plan").write_bytes(builder.build_serialized_network(network, builder.create_builder_config()))
    return "net.plan"


@pytest.mark.parametrize("command", ["inspect", "explain"])
def test_plans_without_a_name_have_that_of_their_file(command, unnamed, capsys):
    assert "'net'" in out(capsys, command, unnamed).splitlines()[0]
    assert json.loads(out(capsys, command, unnamed, "--json"))["name"] == "net"


def test_exec_logs_the_name_of_the_file_of_a_plan(unnamed, capsys):
    assert "loaded engine 'net'" in out(capsys, "exec", f"--loadEngine={unnamed}", "--skipInference")


def test_predictors_have_the_name_of_their_file(model, unnamed):
    assert anyrt.Predictor(model).metadata().name == "m"
    assert anyrt.Predictor(onnx.load(model)).metadata().name == "doubles"
    assert anyrt.Predictor(unnamed).metadata().name == "net"


@pytest.mark.parametrize(
    "words", [["--input", "x=x.npy"], ["--input", "x.npz"], ["--input", "x=x.npz"], ["--input", "x.npy"]]
)
def test_run_takes_arrays_in_each_form(words, model, capsys):
    np.save("x.npy", np.ones((2, 3), np.float32))
    np.savez("x.npz", x=np.ones((2, 3), np.float32))
    (row,) = json.loads(out(capsys, "run", model, *words, "--json"))
    assert (row["shape"], row["mean"]) == ([2, 3], 2.0)


def test_run_stacks_the_arrays_of_a_folder(model, capsys):
    Path("many").mkdir()
    for n in range(4):
        np.save(f"many/{n}.npy", np.full((1, 3), n, np.float32))
    (row,) = json.loads(out(capsys, "run", model, "--input", "many", "--json"))
    assert (row["shape"], row["maximum"]) == ([4, 3], 6.0)


def test_run_reads_an_image_as_the_input_wants_it(folder, capsys):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (8, 6), (255, 0, 51)).save("photo.png")
    Path("image.py").write_text(
        "import anyrt as trt\n\n\ndef define(network):\n"
        "    x = network.add_input('x', trt.float32, (1, 3, 4, 4))\n"
        "    y = network.add_reduce(x, trt.ReduceOperation.AVG, 0b1100, False)\n"
        "    y.get_output(0).name = 'y'\n"
        "    network.mark_output(y.get_output(0))\n"
    )
    main(["run", "image.py", "--input", "photo.png", "--output", "y=y.npy", "--mean", "0.5", "--std", "0.5"])
    assert np.allclose(np.load("y.npy"), [[1, -1, -0.6]])


def test_guessed_sizes_are_reported_in_one_warning(model, capsys):
    assert main(["run", model, "--random"]) == 0
    output = capsys.readouterr()
    assert output.err.count("\n") == 1
    assert "are guessed: --shapes=x:2x3" in output.err
    assert main(["run", model, "--random", "--shapes", "x:7x3"]) == 0
    output = capsys.readouterr()
    assert (output.err, "(7, 3)" in output.out) == ("", True)


@pytest.mark.parametrize("words", [("report", "-o", "m.html"), ("draw", "-o", "m.svg"), ("explain",)])
def test_pages_and_drawings_have_the_sizes_of_run_and_report_them_once(words, model, capsys):
    command, *more = words
    assert main([command, model, *more]) == 0
    output = capsys.readouterr()
    warning = "sizes of dynamic dimensions are guessed: x:2x3"
    assert output.err == f"anyrt {command}: warning: {warning}\n"
    assert (warning if more else "at x (2, 3)") in (Path(more[1]).read_text() if more else output.out)


def test_guesses_that_a_network_rejects_become_the_optimum_of_the_builder(folder, capsys):
    Path("rows.py").write_text(
        "import numpy as np\nimport anyrt as trt\n\n\ndef define(network):\n"
        "    x = network.add_input('x', trt.float32, (-1, 3))\n"
        "    ones = network.add_constant((4, 3), np.ones((4, 3), np.float32)).get_output(0)\n"
        "    total = network.add_elementwise(x, ones, trt.ElementWiseOperation.SUM)\n"
        "    network.mark_output(total.get_output(0))\n"
    )
    assert main(["report", "rows.py", "-o", "rows.html"]) == 0
    assert capsys.readouterr().err.endswith("are guessed: x:1x3\n")


def test_exec_reports_guessed_sizes_once_and_bounds_its_trace(model, capsys):
    assert (
        main(["exec", f"--onnx={model}", "--iterations=2000", "--duration=0", "--warmUp=0", "--avgRuns=1"])
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert sum("overridden to 1: --shapes=x:1x3" in line for line in lines) == 1
    assert sum("Average on 1 runs" in line for line in lines) == 25
    assert any("1975 averages more" in line for line in lines)


def archive(name: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        file.writestr(name, "x")
    return held.getvalue()


OTHER_FILES = {
    "PyTorch": archive("archive/data.pkl"),
    "TFLite": b"\x1c\0\0\0TFL3",
    "safetensors": struct.pack("<Q", 70) + b'{"weight"',
    "LFS": b"version https://git-lfs.github.com/spec/v1\n",
    "HTML": b"<!DOCTYPE html><html>",
    "empty": b"",
    "TensorRT": b"ftrt\0\0",
    "pickle": b"\x80\x04\x95",
    "text": "no model, größer\n".encode(),
}


@pytest.mark.parametrize("kind", OTHER_FILES)
@pytest.mark.parametrize("command", ["check", "compare", "run", "inspect", "explain"])
def test_a_file_that_is_no_model_says_what_it_seems_to_be(command, kind, folder, capsys, golden_text):
    Path("m.onnx").write_bytes(OTHER_FILES[kind])
    assert main([command, "m.onnx"]) == 2
    place, _, text = capsys.readouterr().err.rstrip("\n").partition(": got ")
    assert place in {f"anyrt {command}: [AR416] {name}" for name in ("m.onnx", "the model")}
    golden_text(text, kind)
    assert seems(OTHER_FILES[kind]) is not None


def test_dictionaries_of_a_classifier_are_cut_off_with_a_warning(folder, capsys):
    x = helper.make_tensor_value_info("x", 1, [2, 3])
    kind = helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, []))
    y = helper.make_value_info("probabilities", helper.make_sequence_type_proto(kind))
    nodes = [
        helper.make_node("Softmax", ["x"], ["p"], axis=1),
        helper.make_node(
            "ZipMap", ["p"], ["probabilities"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]
        ),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets), "zip.onnx")
    assert main(["run", "zip.onnx", "--random", "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)[0]["output"] == "probabilities"
    assert "zipmap=False" in output.err
    assert main(["compare", "zip.onnx", "--against", "reference"]) == 0
