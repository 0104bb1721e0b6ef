"""Networks of the examples, in small sizes, agree with NumPy in float64 for the same weights."""

import math
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.contractions.calls import Act
from benchmarks.contractions.forms import Fold, Mask, Window
from benchmarks.contractions.reference import Exact

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXACT = Exact()
CLOSE = 2e-5  # relative to the largest number: the rounding of float32 through as many layers


def example(name):
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / f"{name}.py")))


def noise(*shape):
    return np.random.default_rng(3).standard_normal(shape, np.float32)


def assert_close(got, want):
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=CLOSE * np.abs(want).max())


def convolved(x, kernel, stride=1, bias=None):
    edge = kernel.shape[-1]
    window = Window((edge, edge), (stride, stride), (edge // 2, edge // 2))
    return EXACT.convolution(x, kernel, bias, window)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def batch_norm(x, w, name):
    parts = ("weight", "bias", "running_mean", "running_var")
    gain, bias, mean, variance = (w[f"{name}.{p}"].astype(np.float64).reshape(-1, 1, 1) for p in parts)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + bias


def resnet18(net, size, w, x):
    def step(x, name, norm, stride=1):
        return batch_norm(convolved(x, w[f"{name}.weight"], stride), w, norm)

    x = np.maximum(step(x, "conv1", "bn1", 2), 0)
    x = EXACT.pool(x, Fold.MAX, Window((3, 3), (2, 2), (1, 1)))
    for name, _, stride in net.blocks(size):
        y = np.maximum(step(x, f"{name}.conv1", f"{name}.bn1", stride), 0)
        y = step(y, f"{name}.conv2", f"{name}.bn2")
        if f"{name}.downsample.0.weight" in w:
            x = step(x, f"{name}.downsample.0", f"{name}.downsample.1", stride)
        x = np.maximum(x + y, 0)
    return x.mean((2, 3)) @ w["fc.weight"].T.astype(np.float64) + w["fc.bias"]


def unet(net, size, w, x):
    def block(x, name):
        for part in (f"{name}.0", f"{name}.1"):
            x = convolved(x, w[f"{part}.conv.weight"])
            rows = x.reshape(1, net.GROUPS, -1)
            rows = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + net.EPSILON)
            gain, bias = (w[f"{part}.norm.{p}"].reshape(-1, 1, 1) for p in ("weight", "bias"))
            x = rows.reshape(x.shape) * gain + bias
            x = x * sigmoid(x)
        return x

    twice, grow = (Window((2, 2), (2, 2), (0, 0), transposed=t) for t in (False, True))
    stored = [block(x, "down0")]
    for level in range(1, len(size.levels)):
        stored.append(block(EXACT.pool(stored[-1], Fold.MAX, twice), f"down{level}"))
    x = stored.pop()
    for level in reversed(range(len(stored))):
        x = EXACT.convolution(x, w[f"up{level}.grow.weight"], w[f"up{level}.grow.bias"], grow)
        x = block(np.concatenate([stored[level], x], 1), f"up{level}")
    return convolved(x, w["last.weight"], bias=w["last.bias"])


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


def test_resnet18_gives_the_same_numbers():
    net = example("resnet18")
    size = net.Size(image=32, width=8, classes=10)
    weights, image = net.random_weights(size), noise(1, 3, 32, 32)
    got = net.build(size, weights).run(image=image)["logits"]
    assert_close(got, resnet18(net, size, weights, image))


def test_a_unet_gives_the_same_numbers():
    net = example("unet")
    size = net.Size(image=16, levels=(8, 16))
    weights, image = net.random_weights(size), noise(1, 3, 16, 16)
    got = net.build(size, weights).run(image=image)["mask"]
    assert_close(got, unet(net, size, weights, image))


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
    for actual, want in zip(got, lstm(size, weights, sequence), strict=True):
        assert_close(actual, want)


def tagger(net, size, w, words):
    """Scores, and the last state."""
    h = c = np.zeros((size.batch, size.hidden))
    states = []
    for x in w["words.weight"][words].astype(np.float64):
        of_x = x @ w["cell.weight_ih_l0"].T + w["cell.bias_ih_l0"]
        of_h = h @ w["cell.weight_hh_l0"].T + w["cell.bias_hh_l0"]
        parts, others = (np.split(a, net.GATES[size.cell], axis=1) for a in (of_x, of_h))
        if size.cell == "lstm":
            enter, keep, new, leave = (a + b for a, b in zip(parts, others, strict=True))
            c = sigmoid(keep) * c + sigmoid(enter) * np.tanh(new)
            h = sigmoid(leave) * np.tanh(c)
        else:
            r, z = (sigmoid(parts[n] + others[n]) for n in (0, 1))
            new = np.tanh(parts[2] + r * others[2])
            h = new + z * (h - new)
        states.append(h)
    return np.stack(states) @ w["tags.weight"].T + w["tags.bias"], h


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_tagger_gives_the_same_scores_for_sentences_of_every_length(cell):
    net = example("tagger")
    size = net.Size(cell=cell, longest=12, width=24, hidden=20)
    weights = net.random_weights(size)
    engine = net.build(size, weights)
    for length in (1, 5, 12):
        words = np.random.default_rng(length).integers(0, size.vocabulary, (length, size.batch))
        got = engine.run(words=words.astype(np.int32))
        for actual, want in zip(got.values(), tagger(net, size, weights, words), strict=True):
            assert_close(actual, want)


def erf(x):
    return np.vectorize(math.erf)(x)


def normalized(x):
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5)


def written(size, w, token):
    """The next tokens, each computed with the keys and values of all previous ones."""
    w = {name: x.astype(np.float64) for name, x in w.items()}
    kept = [([], []) for _ in range(size.layers)]
    out = []
    for turn in range(size.length):
        x = w["tokens"][token] + w["positions"][turn]
        for layer, caches in enumerate(kept):
            query, *pair = (normalized(x) @ w[f"{layer}.{n}"] for n in ("query", "key", "value"))
            for cache, new in zip(caches, pair, strict=True):
                cache.append(new.reshape(size.heads, size.head))
            keys, values = (np.stack(cache, 1) for cache in caches)
            scores = np.einsum("hd,hpd->hp", query.reshape(size.heads, -1), keys) * size.head**-0.5
            weights = np.exp(scores - scores.max(1, keepdims=True))
            mixed = np.einsum("hp,hpd->hd", weights / weights.sum(1, keepdims=True), values)
            x = x + mixed.reshape(-1) @ w[f"{layer}.mix"]
            inner = normalized(x) @ w[f"{layer}.up"]
            x = x + (inner * (1 + erf(inner / np.sqrt(2))) / 2) @ w[f"{layer}.down"]
        token = int((normalized(x) @ w["last"]).argmax())
        out.append(token)
    return out


def test_a_decoder_writes_the_same_tokens():
    net = example("decoder")
    size = net.Size()
    weights = net.random_weights(size)
    engine = net.build(size, weights)
    for first in (7, 11, 150):
        assert engine.run(first=np.int32([first]))["written"].tolist() == written(size, weights, first)


def test_a_loop_in_a_loop_finds_roots():
    expected = np.linspace(-700, 700, 23, dtype=np.float32)
    actual = example("roots").build(len(expected)).run(wanted=expected)
    roots = actual["roots"].astype(np.float64)
    np.testing.assert_allclose(roots**3 + roots, expected, rtol=1e-6, atol=2e-4)
    assert actual["steps"].max() < 20
    assert actual["steps"].min() > 1
