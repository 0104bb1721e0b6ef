"""Operators of ONNX Runtime's own domain, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from tests.onnx.conftest import of_node

RNG = np.random.default_rng(8)


def random(*shape):
    """Random numbers around 0."""
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture
def same(run):
    """Run a node in AnyRT and in ONNX Runtime; `dynamic` inputs have dynamic dimensions in AnyRT."""

    def same_(op, inputs, constants=None, tol=2e-4, order=None, outputs=1, domain="com.microsoft", **attrs):
        more = {"order": order, "outputs": outputs, "domain": domain, "dynamic": attrs.pop("dynamic", ())}
        got = run(op, inputs, constants, **more, **attrs)
        names = [f"y{k}" for k in range(outputs)] if isinstance(outputs, int) else list(outputs)
        node = helper.make_node(op, order or [*inputs, *(constants or {})], names, domain=domain, **attrs)
        model = of_node(node, inputs, constants or {}, 21)
        model.ir_version = 10
        expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, dict(inputs))
        for a, b in zip(got if isinstance(got, tuple) else (got,), expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(np.float64(a), np.float64(b), rtol=tol, atol=tol)

    return same_


@pytest.mark.parametrize("op", ["Gelu", "BiasGelu", "FastGelu", "QuickGelu"])
def test_gelus_are_those_of_their_names(same, op):
    inputs = {"x": 3 * random(2, 5, 8)} | ({"b": random(8)} if op in ("BiasGelu", "FastGelu") else {})
    same(op, inputs, dynamic=("x",))


@pytest.mark.parametrize("activation", ["Relu", "LeakyRelu", "Clip", "HardSigmoid", "Tanh", "Sigmoid"])
def test_activations_follow_convolutions(same, activation):
    params = {"LeakyRelu": [0.3], "Clip": [-1.0, 2.0], "HardSigmoid": [0.3, 0.4]}.get(activation)
    more = {"activation_params": params} if params else {}
    same("FusedConv", {"x": random(1, 3, 7, 8)}, {"w": random(4, 3, 3, 3), "b": random(4)},
         activation=activation, pads=[1] * 4, **more)  # fmt: skip


def test_sums_stand_between_a_convolution_and_its_activation(same):
    inputs = {"x": random(1, 3, 7, 8), "z": random(1, 4, 5, 6)}
    weights = {"w": random(4, 3, 3, 3), "b": random(4)}
    same("FusedConv", inputs, weights, order=["x", "w", "b", "z"], activation="Relu")


@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_products_of_transposed_matrices_are_scaled(same, turned):
    a, b = random(2, *[(4, 5), (5, 4)][turned[0]]), random(2, *[(5, 6), (6, 5)][turned[1]])
    same("FusedMatMul", {"a": a, "b": b}, transA=turned[0], transB=turned[1], alpha=0.5)


def test_gemm_has_an_activation_behind_it(same):
    inputs = {"a": random(4, 5), "b": random(6, 5), "c": random(6)}
    same("FusedGemm", inputs, transB=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.2)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("simple", [False, True])
def test_sums_are_normalised_and_given_too(same, simple, bias):
    inputs = {"x": random(2, 5, 8), "s": random(2, 5, 8), "g": random(8)}
    inputs |= ({} if simple else {"beta": random(8)}) | ({"b": random(8)} if bias else {})
    op = "SkipSimplifiedLayerNormalization" if simple else "SkipLayerNormalization"
    same(op, inputs, outputs=["y", "", "", "sum"], dynamic=("x", "s"), epsilon=1e-5)


def test_rms_norm_stands_in_the_domain_of_onnx_too(same):
    same("SimplifiedLayerNormalization", {"x": random(2, 5, 8), "g": random(8)}, domain="", axis=-1)


@pytest.mark.parametrize("mask", [True, False])
def test_embeddings_are_added_up_and_normalised(same, mask):
    ids = {"ids": RNG.integers(0, 11, (2, 5)), "kind": RNG.integers(0, 2, (2, 5))}
    ids = {n: x.astype(np.int32) for n, x in ids.items()}
    tables = {"w": random(11, 8), "p": random(9, 8), "k": random(2, 8), "g": random(8), "b": random(8)}
    masks = {"m": RNG.integers(0, 2, (2, 5)).astype(np.int32)} if mask else {}
    order = ["ids", "kind", "w", "p", "k", "g", "b", *masks]
    same("EmbedLayerNormalization", ids | masks, tables, order=order, outputs=2, epsilon=1e-5)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("mask", [None, (2,), (2, 5), (2, 5, 5)])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_projects_and_masks(same, mask, causal):
    inputs = {"x": random(2, 5, 8)}
    if mask is not None:
        shown = np.int32([3, 5]) if mask == (2,) else RNG.integers(0, 2, mask).astype(np.int32)
        inputs["m"] = shown
    weights = {"w": random(8, 24), "b": random(24)}
    order = ["x", "w", "b", *(["m"] if mask is not None else [])]
    same("Attention", inputs, weights, order=order, num_heads=2, unidirectional=causal, dynamic=("x",))


def test_attention_keeps_keys_and_values_of_before(same):
    inputs = {"x": random(2, 3, 8), "past": random(2, 2, 2, 4, 4)}
    order = ["x", "w", "b", "", "past"]
    same("Attention", inputs, {"w": random(8, 24), "b": random(24)}, order=order, outputs=2,
         num_heads=2, unidirectional=1)  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mask", [None, (2,), (2, 7)])
@pytest.mark.parametrize("bias", [True, False])
def test_heads_attend_to_another_sequence(same, mask, bias):
    inputs = {"q": random(2, 5, 8), "k": random(2, 7, 8), "v": random(2, 7, 8)}
    inputs |= {"b": random(24)} if bias else {}
    if mask is not None:
        inputs["m"] = np.int32([4, 7]) if mask == (2,) else RNG.integers(0, 2, mask).astype(np.int32)
    order = ["q", "k", "v", "b" if bias else "", *(["m"] if mask is not None else [])]
    same("MultiHeadAttention", inputs, order=order, num_heads=2, dynamic=("q", "k"))


def test_heads_attend_to_what_was_kept(same):
    inputs = {"q": random(2, 3, 8), "k": random(2, 3, 8), "v": random(2, 3, 8), "more": random(1, 2, 3, 7)}
    inputs |= {"pk": random(2, 2, 4, 4), "pv": random(2, 2, 4, 4)}
    order = ["q", "k", "v", "", "", "more", "pk", "pv"]
    same("MultiHeadAttention", inputs, order=order, num_heads=2, outputs=3)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("ids", [(1,), (2, 5)])
def test_angles_rotate_pairs_of_each_head(same, interleaved, ids):
    inputs = {"x": random(2, 5, 16), "ids": RNG.integers(0, 4, ids)}
    same("RotaryEmbedding", inputs, {"cos": random(12, 4), "sin": random(12, 4)}, interleaved=interleaved)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("past", [0, 6])
@pytest.mark.parametrize("window", [-1, 3])
def test_groups_of_heads_share_a_cache(same, rotary, past, window):
    b, n = (1, 2) if past else (2, 5)
    inputs = {"q": random(b, n, 64), "k": random(b, n, 32), "v": random(b, n, 32)}
    inputs |= {"pk": random(b, 2, past, 16), "pv": random(b, 2, past, 16)} if past else {}
    inputs |= {"ends": np.int32([past + n - 1] * b), "total": np.array(past + n, np.int32)}
    inputs |= {"cos": random(20, 8), "sin": random(20, 8)} if rotary else {}
    order = ["q", "k", "v", *(["pk", "pv"] if past else ["", ""]), "ends", "total"]
    order += ["cos", "sin"] if rotary else []
    same("GroupQueryAttention", inputs, order=order, outputs=3, num_heads=4, kv_num_heads=2,
         do_rotary=rotary, local_window_size=window)  # fmt: skip


def test_batches_fill_a_cache_by_themselves(run):
    inputs = {"q": random(2, 1, 32), "k": random(2, 1, 16), "v": random(2, 1, 16)}
    inputs |= {"pk": random(2, 2, 9, 8), "pv": random(2, 2, 9, 8)}
    inputs |= {"ends": np.int32([4, 8]), "total": np.array(9, np.int32)}
    more = {"num_heads": 4, "kv_num_heads": 2, "softcap": 5.0, "domain": "com.microsoft"}
    y, keys, _ = run("GroupQueryAttention", inputs, outputs=3, **more)
    for b, n in enumerate((5, 9)):
        cache = [np.concatenate([inputs[p][b, :, : n - 1], inputs[x][b].reshape(1, 2, 8).swapaxes(0, 1)], 1)
                 for p, x in (("pk", "k"), ("pv", "v"))]  # fmt: skip
        np.testing.assert_array_equal(keys[b, :, :n], cache[0])
        scores = np.tanh(inputs["q"][b].reshape(2, 2, 8) @ cache[0].swapaxes(1, 2) / np.sqrt(8) / 5) * 5
        weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        np.testing.assert_allclose(y[b, 0], (weights @ cache[1]).reshape(-1), rtol=1e-4, atol=1e-5)
