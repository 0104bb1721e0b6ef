"""Rows have the same bits alone and in every batch; models whose rows depend on each other are not joined."""

import threading

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from anyrt import Predictor
from anyrt.serve.batching import Batcher
from anyrt.serve.invariance import mismatch
from anyrt.serve.models import Options, open_model
from anyrt.serve.refused import Limits
from anyrt.serve.settings import Settings
from anyrt.serve.stats import Statistics

MOST = 11
MLP = """(float[n, 96] x) => (float[n, 40] y) {
    a = Gemm(x, w, b) r = Gelu(a) y0 = MatMul(r, v) y = Softmax<axis = -1>(y0) }"""
CONV = """(float[n, 3, 14, 14] x) => (float[n, 10] y) {
    a = Conv<pads = [1, 1, 1, 1]>(x, w, b) r = Relu(a) p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
    c = Conv<pads = [1, 1, 1, 1], group = 4>(p, v) m = GlobalAveragePool(c) f = Flatten(m)
    y = MatMul(f, u) }"""
ATTENTION = """(float[n, t, 32] x) => (float[n, t, 32] y) {
    q = MatMul(x, w) k = MatMul(x, v) q4 = Reshape(q, parts) k4 = Reshape(k, parts) v4 = Reshape(x, parts)
    qt = Transpose<perm = [0, 2, 1, 3]>(q4) kt = Transpose<perm = [0, 2, 3, 1]>(k4)
    vt = Transpose<perm = [0, 2, 1, 3]>(v4) s = MatMul(qt, kt) p = Softmax<axis = -1>(s) o = MatMul(p, vt)
    ot = Transpose<perm = [0, 2, 1, 3]>(o) flat = Reshape(ot, whole) r = Add(flat, x)
    y = LayerNormalization<axis = -1>(r, scale, bias) }"""
MODELS = {
    "mlp": (MLP, {"w": (96, 130), "b": (130,), "v": (130, 40)}, (96,)),
    "conv": (CONV, {"w": (16, 3, 3, 3), "b": (16,), "v": (32, 4, 3, 3), "u": (32, 10)}, (3, 14, 14)),
    "attention": (ATTENTION, {"w": (32, 32), "v": (32, 32), "scale": (32,), "bias": (32,)}, (13, 32)),
}


def model(text, weights):
    found = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> g {text}')
    random = np.random.default_rng(1)
    tensors = {n: random.standard_normal(s).astype(np.float32) / 8 for n, s in weights.items()}
    tensors |= {"parts": np.array([0, 0, 4, 8]), "whole": np.array([0, 0, 32])}
    kept = [numpy_helper.from_array(x, n) for n, x in tensors.items() if f"{n})" in text or f"{n}," in text]
    found.graph.initializer.extend(kept)
    return found


@pytest.fixture(params=MODELS)
def opened(request):
    text, weights, shape = MODELS[request.param]
    with Predictor(model(text, weights)) as predict:
        yield predict, np.random.default_rng(2).standard_normal((MOST, *shape)).astype(np.float32)


def test_rows_have_the_same_bits_at_every_place_of_every_batch(opened):
    predict, x = opened
    alone = [predict.run({"x": x[k : k + 1]})["y"].tobytes() for k in range(MOST)]
    for count in range(2, MOST + 1):
        for first in range(MOST):
            picked = [(first + k * k) % MOST for k in range(count)]
            y = predict.run({"x": x[picked]})["y"]
            assert [row.tobytes() for row in y] == [alone[k] for k in picked], (count, first)


def test_requests_that_are_joined_have_the_bits_of_each_alone(opened):
    predict, x = opened
    statistics, gate = Statistics(), threading.Event()

    def run(arrays):
        assert gate.wait(60)
        return predict.run(arrays)

    ends = np.cumsum([1, 3, 2, 1, 4])
    parts = [x[low:high] for low, high in zip((0, *ends), ends, strict=False)]
    batcher = Batcher(run, Settings(max_batch_size=MOST), Limits(), statistics, joins=True)
    answers = [batcher.submit({"x": part}) for part in parts]
    gate.set()
    for part, answer in zip(parts, answers, strict=True):
        assert answer.result(60)["y"].tobytes() == predict.run({"x": part})["y"].tobytes()
    batcher.close()
    assert statistics.execution_count <= 2


def test_a_trial_at_loading_finds_rows_alike(tmp_path, capsys):
    onnx.save(model(*MODELS["mlp"][:2]), tmp_path / "m.onnx")
    settings = Settings(max_batch_size=9, batch_invariant=True)
    found = open_model(tmp_path / "m.onnx", "m", "1", settings, Options())
    found.close()
    assert found.batcher.joins
    assert '"joins": true' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(float[n, 3] x) => (float[n, 3] y) { m = ReduceMean(x, zero) y = Sub(x, m) }", "of 2 rows differs"),
        (
            "(float[n, 3] x) => (float[n, 3] y) { m = ReduceMin(x, zero) z = Mul(m, o) y = Add(x, z) }",
            "NaN",
        ),
    ],
)
def test_a_model_whose_rows_depend_on_each_other_is_not_joined(text, reason, tmp_path, capsys):
    found = model(text, {})
    kept = {"zero": np.array([0]), "o": np.zeros(1, np.float32)}
    found.graph.initializer.extend(numpy_helper.from_array(x, n) for n, x in kept.items() if f"{n})" in text)
    onnx.save(found, tmp_path / "m.onnx")
    settings = Settings(max_batch_size=8, batch_invariant=True)
    opened = open_model(tmp_path / "m.onnx", "m", "1", settings, Options())
    opened.close()
    assert not opened.batcher.joins
    assert reason in capsys.readouterr().err


def test_rows_that_cannot_be_run_are_not_joined():
    text = "(float[n, m] x, float[n, 3] z) => (float[n, 3] y) { y = Add(x, z) }"
    with Predictor(model(text, {})) as predict:
        inputs = predict.metadata().inputs
        assert "cannot be run" in mismatch(predict.run, inputs, (), 4)
