"""The plug-ins of diffusion models against NumPy."""

from __future__ import annotations

from math import erf

import numpy as np
import pytest

import anyrt as trt
from tests.plugins.standards import Engine, create, holds, run
from tests.plugins.test_standard_layers import normal, normed


@pytest.mark.parametrize("swish", [0, 1])
def test_thirty_two_groups_are_normalized(rng, swish):
    scale, bias = normal(rng, 64), normal(rng, 64)
    plugin = create("GroupNorm", epsilon=1e-3, bSwish=swish)
    engine = Engine(plugin, [normal(rng, 2, 64, 3, 4).astype(np.float16), scale, bias], dynamic=True)
    for shape in ((2, 64, 3, 4), (4, 64, 6, 8), (1, 64, 1, 1), (0, 64, 3, 4)):
        x = normal(rng, *shape).astype(np.float16)
        flat = normed(x.reshape(shape[0], 32, 2 * shape[2] * shape[3]), (2,), 1e-3, 1.0, 0.0)
        want = flat.reshape(shape) * scale[:, None, None] + bias[:, None, None]
        (got,) = engine(x, scale, bias)
        assert got.dtype == np.float16
        holds([got], [want / (1 + np.exp(-want)) if swish else want], 5e-3)


@pytest.mark.parametrize("axis", [-1, 1, -2])
def test_layers_are_normalized_from_an_axis_on(rng, axis):
    x = normal(rng, 3, 4, 5)
    shape = x.shape[axis % 3 :]
    scale, bias = normal(rng, *shape), normal(rng, *shape)
    got = run("LayerNorm", x, scale, bias, axis=axis, epsilon=1e-4)
    holds(got, [normed(x, tuple(range(axis % 3, 3)), 1e-4, scale, bias)])


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_gates_are_the_second_half(rng, kind):
    engine = Engine(create("SplitGeLU"), [normal(rng, 2, 3, 8).astype(kind)], dynamic=True)
    for shape in ((2, 3, 8), (4, 6, 16), (0, 3, 8), (1, 1, 2)):
        x = normal(rng, *shape).astype(kind)
        a, b = np.split(x.astype(np.float64), 2, axis=2)
        want = a * b * 0.5 * (1 + np.vectorize(erf, otypes=[float])(b / 1.4140625))
        (got,) = engine(x)
        assert got.dtype == kind
        holds([got], [want], 1e-5 if kind is np.float32 else 5e-3)


def test_sequences_become_images(rng):
    engine = Engine(create("SeqLen2Spatial", height=3, width=4), _sequences(rng, 2, 5), dynamic=True)
    for images, channels in ((2, 5), (4, 10), (0, 5)):
        x, bias, other = _sequences(rng, images, channels)
        want = (x + bias + other).reshape(images, 3, 4, channels).transpose(0, 3, 1, 2)
        holds(engine(x, bias, other), [want])


def _sequences(rng, images, channels):
    return normal(rng, images, 12, channels), normal(rng, channels), normal(rng, images, 12, channels)


def attended(q, k, v):
    """softmax(q kᵀ / √d) v of (batch, tokens, heads, entries)."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    odds = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    odds = np.exp(odds - odds.max(-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", odds / odds.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_attention_of_packed_heads(rng, kind):
    tol = 1e-5 if kind is np.float32 else 5e-3
    qkv = normal(rng, 2, 7, 3, 3, 8).astype(kind)
    holds(run("fMHA_V2", qkv), [attended(*(qkv[:, :, :, k] for k in range(3)))], tol)
    q, kv = normal(rng, 2, 5, 3, 8).astype(kind), normal(rng, 2, 7, 3, 2, 8).astype(kind)
    holds(run("fMHCA", q, kv), [attended(q, kv[:, :, :, 0], kv[:, :, :, 1])], tol)


def test_invalid_dimensions_are_rejected(rng):
    wrong = {
        "GroupNorm": (normal(rng, 1, 33, 2, 2), normal(rng, 33), normal(rng, 33)),
        "SplitGeLU": (normal(rng, 2, 8),),
        "fMHA_V2": (normal(rng, 2, 7, 3, 2, 8),),
        "fMHCA": (normal(rng, 2, 7, 3, 8), normal(rng, 2, 7, 3, 3, 8)),
    }
    for name, arrays in wrong.items():
        with trt.strict(), pytest.raises(trt.errors.ShapeError, match=r"AR1(18|23)"):
            run(name, *arrays)
    with trt.strict(), pytest.raises(trt.errors.ShapeError, match=r"AR123.*3 × 5"):
        run("SeqLen2Spatial", *_sequences(rng, 1, 2), height=3, width=5)
    with trt.strict(), pytest.raises(trt.errors.ArgumentError, match=r"AR302.*axis 3"):
        run("LayerNorm", normal(rng, 2, 3), normal(rng, 3), normal(rng, 3), axis=3)
