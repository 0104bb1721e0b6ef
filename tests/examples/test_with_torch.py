"""Networks of the examples, in their own sizes, give what PyTorch makes of the same weights."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

WHY = "PyTorch, with which examples are compared, is not installed: pip install 'anyrt[bench]' brings it"
torch = pytest.importorskip("torch", reason=WHY)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLOSE = 2e-5  # of the largest number: both compute in float32, in another order


def example(name):
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / f"{name}.py")))


def noise(*shape):
    return np.random.default_rng(3).standard_normal(shape, np.float32)


def assert_close(got, want):
    want = want.detach().numpy()
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=CLOSE * np.abs(want).max())


def tensors(weights):
    return {name: torch.from_numpy(array) for name, array in weights.items()}


def test_an_encoder_agrees_with_pytorch():
    net = example("encoder")
    size = net.Size()
    weights, tokens = net.random_weights(size), noise(1, size.tokens, size.width)
    layer = torch.nn.TransformerEncoderLayer(
        size.width, size.heads, size.hidden, 0.0, "gelu", net.EPSILON, batch_first=True
    )
    whole = torch.nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
    whole.load_state_dict(tensors(weights))
    got = net.build(size, weights).run(tokens=tokens)["encoded"]
    assert_close(got, whole.eval()(torch.from_numpy(tokens)))


def test_an_lstm_cell_agrees_with_pytorch():
    net = example("lstm")
    size = net.Size()
    weights, sequence = net.random_weights(size), noise(10, size.batch, size.input)
    cell, state = torch.nn.LSTMCell(size.input, size.hidden), None
    cell.load_state_dict(tensors(weights))
    for x in torch.from_numpy(sequence):
        state = cell(x, state)
    got = net.follow(net.build(size, weights), size, sequence)
    for found, want in zip(got, state, strict=True):
        assert_close(found, want)
