"""Values in the range of a type stay in range through every rewrite."""

import numpy as np
import pytest

import anyrt as trt

SOFTMAX = trt.AttentionNormalizationOp.SOFTMAX


def attention(net, queries, keys, causal=False):
    """An engine for attention over this many keys; −1: as many as there are."""
    q, k, v = (
        net.add_input(n, trt.float32, (1, 2, s, 8)) for n, s in (("q", queries), ("k", keys), ("v", keys))
    )
    net.add_attention(q, k, v, SOFTMAX, causal).get_output(0).name = "y"
    net.mark_output(net.get_layer(net.num_layers - 1).get_output(0))
    config = net.builder.create_builder_config()
    if keys < 0:
        profile = net.builder.create_optimization_profile()
        for name in "kv":
            profile.set_shape(name, (1, 2, 1, 8), (1, 2, 64, 8), (1, 2, 500, 8))
        config.add_optimization_profile(profile)
    return net.builder.build_engine_with_config(net, config)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("most", [1e38, 3.4e38])
@pytest.mark.parametrize(("queries", "keys"), [(1, 64), (64, 64), (200, 500), (3, -1)])
def test_the_mean_of_large_values_is_no_larger(net, queries, keys, most, causal):
    engine, here = attention(net, queries, keys, causal), keys if keys > 0 else 333
    zeros = {n: np.zeros((1, 2, s, 8), np.float32) for n, s in (("q", queries), ("k", here))}
    y = engine.run(**zeros, v=np.full((1, 2, here, 8), most, np.float32))["y"]
    np.testing.assert_allclose(y.astype(np.float64), most, rtol=max(1, here) * 2.0**-24 + 1e-6)


def test_values_of_every_size_weigh_as_they_should(net):
    engine, rng = attention(net, 40, 130), np.random.default_rng(0)
    q, k = (rng.standard_normal((1, 2, s, 8)).astype(np.float32) for s in (40, 130))
    v = np.exp2(rng.uniform(-100, 127, (1, 2, 1, 8)) + np.zeros((1, 2, 130, 8))).astype(np.float32)
    y = engine.run(q=q, k=k, v=v)["y"]
    np.testing.assert_allclose(y, np.broadcast_to(v[:, :, :1], y.shape), rtol=1e-6)
