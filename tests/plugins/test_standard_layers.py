"""Normalizations and layers of transformers among the standard plug-ins, against NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import anyrt as trt
from tests.plugins.standards import Engine, added, create, holds, run

EPS = 2.0**-23


def normal(rng, *shape):
    """Numbers about 0."""
    return rng.standard_normal(shape).astype(np.float32)


def normed(x, axes, eps, scale, bias):
    """Means taken away, divided by deviations."""
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps) * scale + bias


def test_instance_normalization_has_a_slope_for_negative_numbers(rng):
    x, s, b = normal(rng, 2, 4, 5, 6), normal(rng, 4), normal(rng, 4)
    expected = normed(x, (2, 3), 1e-3, s[:, None, None], b[:, None, None])
    fields = {"epsilon": 1e-3, "scales": s, "bias": b}
    holds(run("InstanceNormalization_TRT", x, **fields), [expected])
    leaky = run("InstanceNormalization_TRT", x, **fields, relu=1, alpha=0.25, version="3")
    holds(leaky, [np.where(expected < 0, expected / 4, expected)])


def test_instance_normalization_runs_with_every_size(rng):
    plugin = create("InstanceNormalization_TRT", "2", scales=np.ones(4), bias=np.zeros(4))
    engine = Engine(plugin, [normal(rng, 2, 4, 6)], dynamic=True)
    for shape in ((2, 4, 6), (4, 4, 12), (0, 4, 3)):
        x = normal(rng, *shape)
        holds(engine(x), [normed(x, (2,), 1e-5, 1.0, 0.0)])


def test_outputs_have_half_precision_like_inputs(rng):
    x = normal(rng, 2, 3, 4, 4).astype(np.float16)
    got = run("InstanceNormalization_TRT", x, scales=np.ones(3), bias=np.zeros(3))
    assert got[0].dtype == np.float16
    holds(got, [normed(x, (2, 3), 1e-5, 1.0, 0.0)], 2e-3)


def test_groups_of_channels_are_normalized(rng):
    x, s, b = normal(rng, 2, 6, 5), normal(rng, 6), normal(rng, 6)
    flat = normed(x.reshape(2, 3, -1), (2,), 1e-5, 1.0, 0.0).reshape(x.shape)
    holds(run("GroupNormalizationPlugin", x, s, b, num_groups=3), [flat * s[:, None] + b[:, None]])


@pytest.mark.parametrize("across", [0, 1])
def test_normalize_divides_by_the_root_of_squares(rng, across):
    x, w = normal(rng, 2, 4, 3, 3), normal(rng, 4)
    got = run("Normalize_TRT", x, weights=w, acrossSpatial=across, channelShared=across, eps=1e-6)
    root = np.sqrt((x.astype(np.float64) ** 2).sum((1, 2, 3) if across else 1, keepdims=True) + 1e-6)
    holds(got, [x / root * (w[0] if across else w[:, None, None])])


def test_functions_of_elements(rng):
    x, bias = normal(rng, 3, 2, 8, 1, 1), normal(rng, 8)
    holds(run("LReLU_TRT", x, negSlope=0.2), [np.where(x < 0, x * np.float32(0.2), x)])
    holds(run("Clip_TRT", x, clipMin=-0.5, clipMax=0.25), [x.clip(-0.5, 0.25)])
    z = x + bias[:, None, None].astype(np.float64)
    expected = z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    holds(run("CustomGeluPluginDynamic", x, type_id=0, bias=bias, version="2"), [expected])


def test_skip_layer_norm_adds_and_normalizes(rng):
    x, y = normal(rng, 3, 2, 8, 1, 1), normal(rng, 3, 2, 8, 1, 1)
    beta, gamma, bias = normal(rng, 8), normal(rng, 8), normal(rng, 8)
    fields = {"type_id": 0, "ld": 8, "beta": beta, "gamma": gamma, "bias": bias}
    expected = normed(x + y + bias[:, None, None], (2,), EPS, gamma[:, None, None], beta[:, None, None])
    engine = Engine(create("CustomSkipLayerNormPluginDynamic", **fields), [x, y], dynamic=True)
    holds(engine(x, y), [expected])
    holds(engine(x[:1], y[:1]), [expected[:1]])


def attended(q, k, v, seen=True):
    """What queries take of values."""
    s = np.where(seen, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ v


@pytest.mark.parametrize("version", ["1", "4"])
def test_qkv_to_context_uses_the_sequence_lengths_of_the_mask(rng, version):
    x, count = normal(rng, 5, 2, 36, 1, 1), np.int32([5, 3])
    got = run("CustomQKVToContextPluginDynamic", x, count, version=version, dynamic=version == "4",
              type_id=0, hidden_size=12, num_heads=3, has_mask=1)  # fmt: skip
    heads, expected = x.reshape(5, 2, 3, 3, 4).astype(np.float64), np.zeros((5, 2, 3, 4))
    for b, h in np.ndindex(2, 3):
        expected[:, b, h] = attended(*heads[:, b, h].transpose(1, 0, 2), np.arange(5)[None] < count[b])
    holds(got, [expected.reshape(5, 2, 12, 1, 1)])


def test_qkv_to_context_supports_packed_sequences(rng):
    x, starts = normal(rng, 8, 36, 1, 1), np.int32([0, 3, 8])
    mask, most = np.ones(8, np.int32), np.ones(5, np.int32)
    got = run("CustomQKVToContextPluginDynamic", x, mask, starts, most, version="2",
              type_id=0, hidden_size=12, num_heads=3, has_mask=1, var_seqlen=1)  # fmt: skip
    heads, expected = x.reshape(8, 3, 3, 4).astype(np.float64), np.zeros((8, 3, 4))
    for (a, b), h in [(p, h) for p in ((0, 3), (3, 8)) for h in range(3)]:
        expected[a:b, h] = attended(*heads[a:b, h].transpose(1, 0, 2))
    holds(got, [expected.reshape(8, 12, 1, 1)])


def test_embeddings_are_summed_and_normalized(rng):
    words, kinds, places = normal(rng, 20, 8), normal(rng, 2, 8), normal(rng, 10, 8)
    beta, gamma = normal(rng, 8), normal(rng, 8)
    ids, kind = rng.integers(0, 20, (5, 2)).astype(np.int32), rng.integers(0, 2, (5, 2)).astype(np.int32)
    mask = np.int32([[1, 1], [1, 1], [1, 0], [1, 0], [0, 0]])
    named = {"layernorm_beta": beta, "layernorm_gamma": gamma, "word_embeddings": words,
             "token_type_embeddings": kinds, "position_embeddings": places}  # fmt: skip
    fields = {f"bert_embeddings_{n}": w.reshape(-1) for n, w in named.items()}
    got = run("CustomEmbLayerNormPluginDynamic", ids, kind, mask, **fields)
    expected = normed(words[ids] + kinds[kind] + places[:5, None], (2,), EPS, gamma, beta)
    holds(got, [expected[..., None, None], np.array([4, 2])])
    half = run("CustomEmbLayerNormPluginDynamic", ids, kind, mask, output_fp16=1, version="6", **fields)
    assert half[0].dtype == np.float16


def embedded(words, kinds, places, gamma):
    """The fields of an embedding, without a shift."""
    named = {"layernorm_beta": np.zeros(words.shape[1]), "layernorm_gamma": np.full(words.shape[1], gamma)}
    named |= {"word_embeddings": words, "token_type_embeddings": kinds, "position_embeddings": places}
    return {f"bert_embeddings_{n}": np.float32(w).reshape(-1) for n, w in named.items()}


def test_half_types_in_fields_meet_float32_in_weakly_typed_networks(rng):
    words, kind, place = normal(rng, 5, 8), np.zeros((2, 8)), np.zeros((4, 8))
    plugin = create("CustomEmbLayerNormPluginDynamic", output_fp16=1, **embedded(words, kind, place, 1.0))
    builder = trt.Builder(trt.Logger())
    network, config = builder.create_network(), builder.create_builder_config()
    layer = added(network, [network.add_input(n, trt.int32, (4, 2)) for n in "xkm"], plugin)
    one = network.add_constant((1,) * 5, np.ones(1, np.float32)).get_output(0)
    both = network.add_elementwise(layer.get_output(0), one, trt.ElementWiseOperation.SUM)
    network.mark_output(both.get_output(0))
    x = np.int32([[0, 1], [2, 3], [4, 0], [1, 2]])
    (y,) = builder.build_engine_with_config(network, config).run(x=x, k=0 * x, m=x).values()
    assert y.dtype == np.float32
    holds([y[..., 0, 0]], [normed(words[x], (2,), EPS, 1.0, 1.0)], 2e-3)


def test_products_have_their_weights_as_a_field(rng):
    x, w = normal(rng, 3, 2, 8, 1, 1), normal(rng, 8, 6)
    got = run("CustomFCPluginDynamic", x, out_dims=6, type_id=0, W=w.reshape(-1))
    holds(got, [(x[..., 0, 0] @ w)[..., None, None]])


def bucket(d, span):
    """Distances up to half the span have their own; farther ones share, as their logarithm says."""
    half = span // 2
    if abs(d) > half:
        width = (half - 1) / (np.log(2 * span - 1) - np.log(half)) * (1 - 1e-7)
        d = int(np.sign(d) * (np.ceil((np.log(abs(d)) - np.log(half)) * width) + half))
    return min(max(d + span, 0), 2 * span - 1)


@pytest.mark.parametrize("span", [1, 4, 8])
def test_disentangled_attention_looks_up_distances(rng, span):
    n = 21
    a, b, c = normal(rng, 2, n, n), normal(rng, 2, n, 2 * span), normal(rng, 2, n, 2 * span)
    expected = a.astype(np.float64)
    for i, j in np.ndindex(n, n):
        at = min(max(i - j + 1, 0), 1) if span == 1 else bucket(i - j, span)
        expected[:, i, j] += b[:, i, at] + c[:, j, at]
    got = run("DisentangledAttention_TRT", a, b, c, span=span, factor=0.3, dynamic=span == 4)
    holds(got, [expected * 0.3])


def bilinear(image, y, x):
    """Between four neighbours, zeros outside."""
    result, (top, left) = 0.0, (int(np.floor(y)), int(np.floor(x)))
    for i, j in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        if 0 <= i < image.shape[0] and 0 <= j < image.shape[1]:
            result = result + image[i, j] * (1 - abs(y - i)) * (1 - abs(x - j))
    return result


def test_deformable_attention_samples_several_maps(rng):
    sizes, starts = np.int32([[4, 5], [2, 3]]), np.int32([0, 20])
    x, places = normal(rng, 2, 26, 3, 4), rng.uniform(-0.1, 1.1, (2, 7, 3, 2, 5, 2)).astype(np.float32)
    weights = rng.uniform(0, 1, (2, 7, 3, 2, 5)).astype(np.float32)
    expected = np.zeros((2, 7, 3, 4))
    for n, q, m, level, p in np.ndindex(2, 7, 3, 2, 5):
        (h, w), start = sizes[level], starts[level]
        image = x[n, start : start + h * w, m].reshape(h, w, 4)
        left, top = places[n, q, m, level, p] * [w, h] - 0.5
        expected[n, q, m] += weights[n, q, m, level, p] * bilinear(image, top, left)
    got = run("MultiscaleDeformableAttnPlugin_TRT", x, sizes, starts, places, weights, dynamic=True)
    holds(got, [expected])


@pytest.mark.parametrize(
    ("name", "shapes", "fields", "code"),
    [
        ("CustomFCPluginDynamic", [(3, 2, 8)], {"out_dims": 5, "W": np.ones(48)}, "AR123"),
        ("CustomGeluPluginDynamic", [(3, 2, 8)], {"bias": np.ones(7)}, "AR123"),
        (
            "CustomSkipLayerNormPluginDynamic:4",
            [(1, 8, 6, 1)] * 2,
            {"beta": [1.0] * 6, "gamma": [1.0] * 6},
            "8 entr",
        ),
        (
            "CustomQKVToContextPluginDynamic:3",
            [(1, 8, 6, 1), (3,), (4,)],
            {"hidden_size": 4, "num_heads": 2},
            "AR123",
        ),
        ("GroupNormalizationPlugin", [(1, 4, 8), (4,), (4,)], {"num_groups": 3}, "AR118"),
        ("CustomQKVToContextPluginDynamic", [(3, 2, 8, 1, 1)], {"hidden_size": 4, "num_heads": 2}, "AR123"),
        ("InstanceNormalization_TRT", [(1, 2, 3)], {"scales": np.ones(3), "bias": np.ones(2)}, "AR"),
        ("CustomFCPluginDynamic", [(3,)], {"out_dims": 5, "W": np.ones(48)}, "AR123"),
        ("InstanceNormalization_TRT", [(3, 2)], {"scales": np.ones(2), "bias": np.ones(2)}, "AR123"),
        ("MultiscaleDeformableAttnPlugin_TRT", [(3, 2)] * 5, {}, "AR123"),
        ("LReLU_TRT", [(3, 2), (3, 2)], {}, "AR406"),
    ],
)
def test_invalid_inputs_are_rejected(name, shapes, fields, code):
    with trt.strict(), pytest.raises(trt.errors.AnyrtError, match=code):
        Engine(create(*name.split(":"), **fields), [np.zeros(s, np.float32) for s in shapes])


def test_invalid_tables_are_rejected():
    names = "layernorm_beta", "layernorm_gamma", "word_embeddings", "token_type_embeddings"
    fields = {f"bert_embeddings_{n}": np.ones(8) for n in (*names, "position_embeddings")}
    plugin = create(
        "CustomEmbLayerNormPluginDynamic", **{**fields, "bert_embeddings_word_embeddings": np.ones(9)}
    )
    with trt.strict(), pytest.raises(trt.errors.ShapeError, match="AR123"):
        Engine(plugin, [np.zeros((4, 2), np.int32)] * 3)


STARTS = np.int32([0, 3, 4, 8])


@pytest.mark.parametrize("version", ["2", "3", "4", "5"])
def test_positions_of_packed_sequences_begin_at_zero(rng, version):
    words, kinds, places = normal(rng, 20, 6), normal(rng, 2, 6), normal(rng, 9, 6)
    ids, kind = rng.integers(0, 20, 8).astype(np.int32), rng.integers(0, 2, 8).astype(np.int32)
    sums = words[ids] + kinds[kind] + places[[0, 1, 2, 0, 0, 1, 2, 3]]
    inputs = [ids, kind, STARTS, np.ones(4, np.int32)]
    fields = embedded(words, kinds, places, 0.5)
    got = run("CustomEmbLayerNormPluginDynamic", *inputs, version=version, **fields)
    expected = normed(sums, (1,), EPS, 0.5, 0.0)[..., None, None]
    holds(got, [expected, np.array([3, 1, 4]) if version in "24" else sums[..., None, None]])


@pytest.mark.parametrize(("version", "outputs"), [("3", 1), ("4", 2), ("7", 1), ("8", 2)])
def test_skip_layer_norm_with_channels_before_tokens(rng, version, outputs):
    x, skip, gamma, beta = normal(rng, 1, 5, 5, 1), normal(rng, 1, 5, 5, 1), normal(rng, 5), normal(rng, 5)
    got = run("CustomSkipLayerNormPluginDynamic", x, skip, version=version, gamma=gamma, beta=beta)
    expected = normed((x + skip)[0, ..., 0].T, (1,), EPS, gamma, beta).T[None, ..., None]
    holds(got, [expected, x + skip][:outputs])


@pytest.mark.parametrize("version", ["3", "6"])
def test_attention_with_channels_before_tokens(rng, version):
    x, name = normal(rng, 1, 36, 8, 1), "CustomQKVToContextPluginDynamic"
    got = run(name, x, STARTS, np.ones(4, np.int32), version=version, hidden_size=12, num_heads=3)
    rows, expected = x[0, ..., 0].astype(np.float64).reshape(3, 3, 4, 8), np.zeros((3, 4, 8))
    for (a, b), h in [(p, h) for p in pairwise(STARTS) for h in range(3)]:
        expected[h, :, a:b] = attended(*(part[h, :, a:b].T for part in rows)).T
    holds(got, [expected.reshape(1, 12, 8, 1)])


def test_int32_data_may_be_labelled_float32():
    kind = trt.PluginFieldType
    trt.init_libnvinfer_plugins(None, "")
    creator = trt.get_plugin_registry().get_creator("CustomQKVToContextPluginDynamic", "2", "")
    heads = trt.PluginField("num_heads", np.int32([3]), kind.INT32)
    sizes = [trt.PluginField("hidden_size", np.int32([12]), kind.INT32), heads]
    for number, good in ((np.int32([1]), True), (np.int32([2]), False), (np.float32([1]), False)):
        packed = trt.PluginField("var_seqlen", number, kind.FLOAT32)
        built = creator.create_plugin("", trt.PluginFieldCollection([*sizes, packed]))
        assert (built is not None) is good


@pytest.mark.parametrize("version", ["3", "4", "7", "8"])
def test_skip_layer_norm_before_tokens_runs_with_every_size(rng, version):
    beta, gamma = normal(rng, 6), normal(rng, 6)
    plugin = create("CustomSkipLayerNormPluginDynamic", version, beta=beta, gamma=gamma)
    engine = Engine(plugin, [normal(rng, 1, 6, 6, 1)] * 2, dynamic=True)
    for count in (6, 12, 1, 0):
        x, y = normal(rng, 1, 6, count, 1), normal(rng, 1, 6, count, 1)
        expected = normed(x + y, (1,), EPS, gamma[:, None, None], beta[:, None, None])
        holds(engine(x, y), [expected, x + y][: 2 if version in "48" else 1])


@pytest.mark.parametrize("version", ["3", "6"])
def test_attention_before_tokens_runs_with_every_size(rng, version):
    plugin = create("CustomQKVToContextPluginDynamic", version, hidden_size=12, num_heads=3, dq_probs=0.01)
    arrays = [normal(rng, 1, 36, 8, 1), np.zeros(5, np.int32), np.zeros(5, np.int32)]
    engine = Engine(plugin, arrays, dynamic=True, fixed=(3,))
    for starts in ([0, 3, 8], [0, 5, 5, 9], [0]):
        x = normal(rng, 1, 36, starts[-1], 1)
        heads, expected = x.reshape(3, 3, 4, -1).astype(np.float64), np.zeros((3, 4, starts[-1]))
        for (a, b), h in [(p, h) for p in pairwise(starts) if p[0] < p[1] for h in range(3)]:
            expected[h, :, a:b] = attended(*heads[:, h, :, a:b].transpose(0, 2, 1)).T
        holds(engine(x, np.int32(starts), np.zeros(9, np.int32)), [expected.reshape(1, 12, -1, 1)])


def test_embeddings_of_packed_batches_run_with_every_size(rng):
    words, kinds, places = normal(rng, 20, 6), normal(rng, 2, 6), normal(rng, 15, 6)
    plugin = create("CustomEmbLayerNormPluginDynamic", "3", **embedded(words, kinds, places, 0.5))
    engine = Engine(plugin, [np.zeros(n, np.int32) for n in (8, 8, 4, 5)], dynamic=True)
    for starts in ([0, 3, 3, 8], [0, 5], [0, 1, 2, 9, 12], [0]):
        ids, kind = (rng.integers(0, n, starts[-1]).astype(np.int32) for n in (20, 2))
        at = [k for a, b in pairwise(starts) for k in range(b - a)]
        sums = words[ids] + kinds[kind] + places[np.array(at, int)]
        expected = normed(sums, (1,), EPS, 0.5, 0.0)
        got = engine(ids, kind, np.int32(starts), np.zeros(3, np.int32))
        holds([x[..., 0, 0] for x in got], [expected, sums])
