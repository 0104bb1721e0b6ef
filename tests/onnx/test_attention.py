"""Attention and rotary embedding of ONNX models, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import anyrt as trt
from tests.onnx.conftest import of_node

SIZES = [1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 100, 128, 130]
RNG = np.random.default_rng(9)


def random(*shape):
    """Random numbers around 0."""
    return RNG.standard_normal(shape).astype(np.float32)


def weighed(q, k, v, seen, cap=0.0):
    """Attention in float64; `seen`: (queries, keys), with optional leading axes."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.astype(np.float64) for x in (q, np.repeat(k, group, 1), np.repeat(v, group, 1)))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    scores = np.tanh(scores / cap) * cap if cap else scores
    scores = np.where(seen, scores, -1e30)
    weights = np.exp(scores - scores.max(-1, keepdims=True)) * seen
    return weights / np.maximum(weights.sum(-1, keepdims=True), 1e-30) @ v


@pytest.mark.sampled(7)
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (6, 1)])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("size", [8, 5])
@pytest.mark.parametrize("dynamic", [False, True])
def test_heads_attend_in_groups(run, heads, causal, size, dynamic):
    many, few = heads
    inputs = {"q": random(2, many, 5, 8), "k": random(2, few, 5, 8), "v": random(2, few, 5, size)}
    flat = {n: x.swapaxes(1, 2).reshape(2, 5, -1) for n, x in inputs.items()}
    seen = np.tri(5, dtype=bool) if causal else np.ones((5, 5), bool)
    expected = weighed(*inputs.values(), seen).swapaxes(1, 2).reshape(2, 5, -1)
    names = ("q", "k", "v") if dynamic and size == 8 and many == few else ()
    more = {"is_causal": causal, "q_num_heads": many, "kv_num_heads": few}
    got = run("Attention", flat, opset=23, dynamic=names, **more)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("shape", [(5, 9), (3, 1, 9), (2, 1, 5, 9)])
def test_masks_hide_keys_and_rows_without_any_are_zero(run, kind, shape):
    inputs = {"q": random(2, 3, 5, 8), "k": random(2, 3, 9, 8), "v": random(2, 3, 9, 8)}
    seen = RNG.uniform(size=shape) < 0.6
    seen[..., -1, :] = False
    inputs["m"] = seen if kind == "bool" else np.where(seen, np.float32(0), -np.inf).astype(np.float32)
    got = run("Attention", inputs, opset=24, dynamic=("q", "k", "v"), softcap=2.0)
    np.testing.assert_allclose(got, weighed(*list(inputs.values())[:3], seen, 2.0), rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("windows", [(-1, -1), (2, -1), (1, 1)])
@pytest.mark.parametrize("causal", [0, 1])
def test_positions_count_what_was_kept(run, windows, causal):
    inputs = {"q": random(2, 3, 4, 8), "k": random(2, 3, 4, 8), "v": random(2, 3, 4, 8)}
    inputs |= {"pk": random(2, 3, 6, 8), "pv": random(2, 3, 6, 8)}
    order = ["q", "k", "v", "", "pk", "pv"]
    more = {"left_window_size": windows[0], "right_window_size": windows[1], "is_causal": causal}
    y, k, v = run("Attention", inputs, opset=25, order=order, outputs=3, dynamic=tuple(inputs), **more)
    row, column = 6 + np.arange(4)[:, None], np.arange(10)
    seen = (column <= row) | (not causal)
    seen &= (column >= row - windows[0]) | (windows[0] < 0)
    seen &= (column <= row + windows[1]) | (windows[1] < 0)
    np.testing.assert_array_equal(k, np.concatenate([inputs["pk"], inputs["k"]], 2))
    np.testing.assert_allclose(y, weighed(inputs["q"], k, v, seen), rtol=1e-4, atol=1e-5)


def test_lengths_of_a_cache_say_which_keys_there_are(run):
    inputs = {
        "q": random(2, 3, 2, 8),
        "k": random(2, 3, 9, 8),
        "v": random(2, 3, 9, 8),
        "n": np.int64([4, 9]),
    }
    got = run("Attention", inputs, opset=24, order=["q", "k", "v", "", "", "", "n"], is_causal=1)
    rows = inputs["n"].reshape(2, 1, 1, 1) - 2 + np.arange(2)[:, None]
    expected = weighed(inputs["q"], inputs["k"], inputs["v"], np.arange(9) <= rows)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("flat", [True, False])
def test_angles_rotate_the_pairs_of_heads(agrees, interleaved, flat):
    inputs = {"x": random(2, 5, 24) if flat else random(2, 3, 5, 8)}
    inputs |= {"cos": random(12, 3), "sin": random(12, 3), "ids": RNG.integers(0, 12, (2, 5))}
    more = {"num_heads": 3} if flat else {}
    agrees("RotaryEmbedding", inputs, opset=23, interleaved=interleaved, rotary_embedding_dim=6, **more)


def engine(node, inputs, opset, threads):
    """An engine of a model of one node."""
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    net, config = builder.create_network(), builder.create_builder_config()
    model = of_node(node, inputs, {}, opset)
    assert trt.OnnxParser(net, builder.logger).parse(model.SerializeToString())
    config.num_threads = threads
    return builder.build_engine_with_config(net, config)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("size", SIZES)
def test_elements_past_the_lengths_of_a_cache_reach_no_row(size, causal, threads):
    inputs = {n: random(2, 2, size, 8) for n in "qkv"}
    inputs["q"], inputs["n"] = inputs["q"][:, :, :3], np.int64([max(size // 2, min(3, size)), size])
    node = helper.make_node("Attention", ["q", "k", "v", "", "", "", "n"], ["y"], is_causal=causal)
    built = engine(node, inputs, 24, threads)
    clean = built.run(**inputs)["y"]
    for n in "kv":
        inputs[n][0, :, inputs["n"][0] :] = np.nan
    np.testing.assert_array_equal(built.run(**inputs)["y"], clean)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("size", SIZES[2:])
def test_elements_past_the_lengths_of_groups_reach_no_row(size, tokens, threads):
    """The contents of the cache after the past of each item, before the new tokens are written."""
    inputs = {n: random(2, tokens, m * 8) for n, m in (("q", 4), ("k", 2), ("v", 2))}
    inputs |= {n: random(2, 2, size, 8) for n in ("pk", "pv")}
    last = np.int32([max(size // 2, tokens) - 1 if tokens == 1 else size - 1, size - 1])
    inputs |= {"last": last, "total": np.int32([size])}
    more = {"num_heads": 4, "kv_num_heads": 2, "domain": "com.microsoft"}
    node = helper.make_node("GroupQueryAttention", [*inputs], ["y", "nk", "nv"], **more)
    built = engine(node, inputs, 21, threads)
    clean = built.run(**inputs)["y"]
    for n in ("pk", "pv"):
        for k in range(2):
            inputs[n][k, :, last[k] + 1 - tokens :] = np.nan
    np.testing.assert_array_equal(built.run(**inputs)["y"], clean)
