"""Networks of the examples, in small sizes, give what NumPy in float64 makes of the same weights."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLOSE = 2e-5  # of the largest number: the rounding of float32, through as many layers


def example(name):
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / f"{name}.py")))


def noise(*shape):
    return np.random.default_rng(3).standard_normal(shape, np.float32)


def assert_close(got, want):
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=CLOSE * np.abs(want).max())


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(size, w, sequence):
    h = c = np.zeros((size.batch, size.hidden))
    for x in sequence:
        gates = x @ w["weight_ih"].T + w["bias_ih"] + h @ w["weight_hh"].T + w["bias_hh"]
        enter, keep, new, leave = np.split(gates, 4, axis=1)
        c = sigmoid(keep) * c + sigmoid(enter) * np.tanh(new)
        h = sigmoid(leave) * np.tanh(c)
    return h, c


def test_an_lstm_cell_gives_the_same_state_after_some_steps():
    net = example("lstm")
    size = net.Size(batch=3, input=5, hidden=7)
    weights, sequence = net.random_weights(size), noise(4, 3, 5)
    got = net.follow(net.build(size, weights), size, sequence)
    for found, want in zip(got, lstm(size, weights, sequence), strict=True):
        assert_close(found, want)
