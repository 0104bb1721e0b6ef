"""Polygraphy's command with `--anyrt`, and the loader and runner used directly."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("polygraphy", reason="Polygraphy is not installed: make programs runs this")

from anyrt.integrations.polygraphy import AnyrtRunner, SessionFromModel

pytestmark = pytest.mark.programs
POLYGRAPHY = [sys.executable, "-c", "from polygraphy.tools import main; main()"]
THREADS, MARKED = ["--anyrt-threads", "1"], ["--onnxrt", "--onnx-outputs", "mark", "all"]


@pytest.fixture
def model(tmp_path):
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 3]) for n in "xy")
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Neg", ["r"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y])
    held = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    held.ir_version = 9
    onnx.save(held, tmp_path / "model.onnx")
    return str(tmp_path / "model.onnx")


def test_runner_reports_its_inputs_and_runs(model):
    x = np.float32([[1, -2, 3]])
    with AnyrtRunner(SessionFromModel(model, num_threads=1, checked=True)) as runner:
        reported = runner.get_input_metadata(use_numpy_dtypes=False)["x"]
        outputs = runner.infer({"x": x})
    assert (reported.dtype.name, list(reported.shape)) == ("float32", [None, 3])
    assert outputs["y"].tolist() == [[-1, 0, -3]]


@pytest.mark.parametrize("more", [["--onnxrt"], MARKED, THREADS])
def test_command_runs_the_runner(model, more):
    command = [*POLYGRAPHY, "run", model, "--anyrt", "--input-shapes", "x:[2,3]", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, "PASSED" in done.stdout) == (0, True), done.stdout + done.stderr


def test_plan_runs_as_well(model, tmp_path):
    plan = tmp_path / "model.plan"
    plan.write_bytes(SessionFromModel(model)().engine.serialize())
    command = [*POLYGRAPHY, "run", plan, "--model-type=engine", "--anyrt", "--input-shapes", "x:[1,3]"]
    assert subprocess.run(command, capture_output=True).returncode == 0
