"""`anyrt.load`: a runnable session from a model or plan, in a file or in memory."""

import numpy as np
import pytest
from onnx import parser

import anyrt
from anyrt.core.errors import ArgumentError, PlanError
from tests.messages import diagnostic

TEXT = '<ir_version: 10, opset_import: ["": 21]> g (float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }'
X = np.float32([[1, -2, 3]])


@pytest.fixture(scope="module")
def model():
    return parser.parse_model(TEXT)


@pytest.mark.parametrize("form", ["model", "bytes", "file", "plan", "plan's file"])
def test_a_loaded_model_runs(form, model, tmp_path):
    plan = bytes(anyrt.load(model).engine.serialize())
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "m.plan").write_bytes(plan)
    inputs = {
        "model": model,
        "bytes": model.SerializeToString(),
        "file": tmp_path / "m.onnx",
        "plan": plan,
        "plan's file": str(tmp_path / "m.plan"),
    }
    session = anyrt.load(inputs[form])
    np.testing.assert_array_equal(session.run({"x": X})["y"], -X)
    assert [(p.name, p.shape) for p in session.inputs + session.outputs] == [("x", (-1, 3)), ("y", (-1, 3))]


def test_a_file_that_is_neither_is_reported():
    with pytest.raises(ArgumentError, match=diagnostic("AR304", "anyrt.load", "dict", "onnx.ModelProto")):
        anyrt.load({})


def test_a_truncated_plan_is_reported(model):
    plan = bytes(anyrt.load(model).engine.serialize())
    with pytest.raises(PlanError):
        anyrt.load(plan[:-10])
