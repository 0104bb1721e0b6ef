"""Models that PyTorch exports agree with PyTorch; without PyTorch, these tests are skipped."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from anyrt.onnx.session import load

if importlib.util.find_spec("torch") is None:
    pytest.skip("PyTorch is not installed: make programs runs this", allow_module_level=True)

from tests.onnx.exports import MODELS, built, export, results

pytestmark = pytest.mark.programs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("opset", [11, 17, 20])
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model_gives_what_its_module_gives(name, opset, static, tmp_path):
    values = built(name, opset)
    export(name, tmp_path / "model.onnx", opset, dynamo=False, static=static)
    session = load(tmp_path / "model.onnx")
    actual = session.run({n: x.numpy() for n, x in zip(values.inputs, values.args, strict=True)})
    for output, expected in zip(values.outputs, results(values), strict=True):
        np.testing.assert_allclose(actual[output], expected.numpy(), rtol=1e-3, atol=1e-4)
