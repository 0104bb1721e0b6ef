"""Networks of the examples, in small sizes, give what NumPy in float64 makes of the same weights."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from benchmarks.contractions.calls import Act
from benchmarks.contractions.forms import Mask
from benchmarks.contractions.reference import Exact

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXACT = Exact()
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


def encoder(net, size, w, x):
    def dense(x, name, dot="."):
        return x @ w[f"{name}{dot}weight"].T.astype(np.float64) + w[f"{name}{dot}bias"]

    def heads(x):
        return x.reshape(1, size.tokens, size.heads, -1).swapaxes(1, 2)

    for layer in range(size.layers):
        name = f"layers.{layer}"
        q, k, v = map(heads, np.split(dense(x, f"{name}.self_attn.in_proj", "_"), 3, axis=2))
        y = EXACT.attention(q / np.sqrt(q.shape[-1]), k, v, Mask.NONE, None).swapaxes(1, 2).reshape(x.shape)
        x = x + dense(y, f"{name}.self_attn.out_proj")
        x = EXACT.normalize(x, w[f"{name}.norm1.weight"], w[f"{name}.norm1.bias"])
        x = x + dense(EXACT.act(dense(x, f"{name}.linear1"), Act.GELU), f"{name}.linear2")
        x = EXACT.normalize(x, w[f"{name}.norm2.weight"], w[f"{name}.norm2.bias"])
    return x


def lstm(size, w, sequence):
    h = c = np.zeros((size.batch, size.hidden))
    for x in sequence:
        gates = x @ w["weight_ih"].T + w["bias_ih"] + h @ w["weight_hh"].T + w["bias_hh"]
        enter, keep, new, leave = np.split(gates, 4, axis=1)
        c = sigmoid(keep) * c + sigmoid(enter) * np.tanh(new)
        h = sigmoid(leave) * np.tanh(c)
    return h, c


def test_an_encoder_gives_the_same_numbers():
    net = example("encoder")
    size = net.Size(layers=2, tokens=9, width=16, heads=2, hidden=24)
    weights, tokens = net.random_weights(size), noise(1, 9, 16)
    got = net.build(size, weights).run(tokens=tokens)["encoded"]
    assert_close(got, encoder(net, size, weights, tokens))


def test_an_lstm_cell_gives_the_same_state_after_some_steps():
    net = example("lstm")
    size = net.Size(batch=3, input=5, hidden=7)
    weights, sequence = net.random_weights(size), noise(4, 3, 5)
    got = net.follow(net.build(size, weights), size, sequence)
    for found, want in zip(got, lstm(size, weights, sequence), strict=True):
        assert_close(found, want)
