"""Masked elements never affect a result: neither values nor keys, whatever they contain, at any size."""

import ml_dtypes
import numpy as np
import pytest

import anyrt as trt
from anyrt.backends.cpu import processors

F, BOOL, INT32 = trt.float32, trt.bool, trt.int32
SOFTMAX, NONE = trt.AttentionNormalizationOp.SOFTMAX, trt.AttentionNormalizationOp.NONE
SIZES = [1, 2, 3, 7, 8, 13, 14, 15, 16, 17, 31, 33, 64, 65, 100, 128, 130]
BAD = [np.nan, np.inf, -np.inf]


def attention(size, mask=None, causal=False, norm=SOFTMAX, dtype=F, heads=2):
    """An engine for attention of `size` tokens over as many; `mask`: the type of the mask."""
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    net = builder.create_network(0)
    q, k, v = (net.add_input(n, dtype, (1, heads, size, 8)) for n in "qkv")
    layer = net.add_attention(q, k, v, norm, causal)
    if mask is not None:
        layer.mask = net.add_input("mask", mask, (1, 1, size, size))
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    return builder.build_engine_with_config(net, builder.create_builder_config())


def operands(size, heads=2, dtype=np.float32):
    rng = np.random.default_rng(size)
    return {n: rng.standard_normal((1, heads, size, 8)).astype(dtype) for n in "qkv"}


def rows_not_finite(y):
    """The rows of the first head that contain NaN or infinities."""
    return np.flatnonzero(~np.isfinite(y[0, 0].astype(np.float64)).all(-1)).tolist()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("size", SIZES)
def test_the_last_value_reaches_the_last_row_of_causal_attention_alone(size, bad):
    feeds = operands(size)
    engine = attention(size, causal=True)
    clean = engine.run(**feeds)["y"]
    feeds["v"][0, :, -1] = bad
    y = engine.run(**feeds)["y"]
    assert rows_not_finite(y) == [size - 1]
    np.testing.assert_array_equal(y[:, :, :-1], clean[:, :, :-1])
    np.testing.assert_array_equal(y[0, :, -1], np.full((2, 8), bad, np.float32))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [BOOL, F], ids=["bool", "float"])
@pytest.mark.parametrize("size", SIZES[1:])
def test_elements_excluded_by_a_mask_tensor_reach_no_result(size, kind):
    """Random rows and columns; the last row sees all, the first nothing."""
    feeds, seen = operands(size), np.random.default_rng(0).random((1, 1, size, size)) < 0.4
    seen[..., size // 2], seen[..., -1, :], seen[..., 0, :] = False, True, False
    mask = seen if kind == BOOL else np.where(seen, 0.5, -np.inf).astype(np.float32)
    engine = attention(size, kind)
    clean = engine.run(**feeds, mask=mask)["y"]
    feeds["k"][:, :, size // 2] = feeds["v"][:, :, size // 2] = np.nan
    y = engine.run(**feeds, mask=mask)["y"]
    assert rows_not_finite(y) == [size - 1]
    np.testing.assert_array_equal(y[:, :, :-1], clean[:, :, :-1])
    assert not y[:, :, 0].any()


@pytest.mark.parametrize("level", [x for x in ("avx2", "sse2") if x != processors.host().level.value])
@pytest.mark.parametrize("size", [3, 16, 33, 130])
def test_vectors_of_every_width_hide_the_same(size, level, monkeypatch):
    monkeypatch.setenv("ANYRT_CPU", level)
    feeds = operands(size)
    feeds["v"][0, :, -1] = np.nan
    assert rows_not_finite(attention(size, causal=True).run(**feeds)["y"]) == [size - 1]


@pytest.mark.parametrize("size", [5, 40, 130])
def test_without_normalisation_masked_elements_reach_no_result(size):
    feeds = operands(size)
    feeds["k"][:, :, -1], feeds["v"][:, :, -1] = np.inf, np.nan
    assert rows_not_finite(attention(size, causal=True, norm=NONE).run(**feeds)["y"]) == [size - 1]


@pytest.mark.parametrize("dtype", [trt.float16, trt.bfloat16], ids=["half", "bf16"])
@pytest.mark.parametrize("size", [7, 16, 33, 64, 130])
def test_half_types_hide_values_as_float32_does(size, dtype):
    feeds = operands(size, dtype=np.float16 if dtype is trt.float16 else ml_dtypes.bfloat16)
    feeds["v"][0, :, -1] = np.inf
    y = attention(size, causal=True, dtype=dtype).run(**feeds)["y"]
    assert rows_not_finite(y) == [size - 1]
    assert np.isposinf(y[0, :, -1].astype(np.float32)).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", SIZES)
def test_elements_past_the_bounds_of_ragged_rows_reach_no_result(net, size, threads):
    """Neither elements of the rows, nor the values that they weigh."""
    source = [net.add_input("x", F, (5, size)), net.add_input("n", INT32, (5, 1))]
    v, weights = net.add_input("v", F, (size, 8)), net.add_ragged_softmax(*source).get_output(0)
    output = net.add_matrix_multiply(weights, trt.MatrixOperation.NONE, v, trt.MatrixOperation.NONE)
    for name, tensor in (("w", weights), ("y", output.get_output(0))):
        tensor.name = name
        net.mark_output(tensor)
    engine, rng = built(net, threads), np.random.default_rng(size)
    x, v = (rng.standard_normal(s).astype(np.float32) for s in ((5, size), (size, 8)))
    n = np.int32([[0], [size // 2], [size - 1], [1], [size // 3]]).clip(0, size - 1)
    clean, behind = engine.run(x=x, n=n, v=v), np.arange(size) >= n
    v[size - 1] = np.nan
    got = engine.run(x=np.where(behind, np.nan, x), n=n, v=v)
    for name in "wy":
        np.testing.assert_array_equal(got[name], clean[name])


def built(net, threads):
    config = net.builder.create_builder_config()
    config.num_threads = threads
    return net.builder.build_engine_with_config(net, config)


def masked(net, scores, seen, least, how):
    """Weights from scores; those outside `seen` are 0."""
    size = seen.shape[-1]
    low = net.add_constant((1, 1, 1), np.full((1, 1, 1), least, np.float32)).get_output(0)
    mask = net.add_constant((1, size, size), trt.Weights(np.ascontiguousarray(seen))).get_output(0)
    if how == "add":
        table = net.add_constant((1, size, size), np.where(seen, 0, np.float32(least))).get_output(0)
        scores = net.add_elementwise(scores, table, trt.ElementWiseOperation.SUM).get_output(0)
    if how == "select":
        scores = net.add_select(mask, scores, low).get_output(0)
    softmax = net.add_softmax(scores)
    softmax.axes = 4
    weights = softmax.get_output(0)
    if how == "weights":
        none = net.add_constant((1, 1, 1), np.zeros((1, 1, 1), np.float32)).get_output(0)
        weights = net.add_select(mask, weights, none).get_output(0)
    return weights


@pytest.mark.sampled(3)
@pytest.mark.parametrize("least", [-1e4, -1e9, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize("how", ["add", "select", "weights"])
@pytest.mark.parametrize("size", [7, 16, 33, 130])
def test_finite_masks_that_leave_no_weight_hide_values(size, how, least):
    """Masks as programs without infinity write them, as inputs and as constants."""
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    net = builder.create_network(0)
    q, k, v = (net.add_input(n, F, (1, size, 8)) for n in "qkv")
    op = trt.MatrixOperation
    scores = net.add_matrix_multiply(q, op.NONE, k, op.TRANSPOSE).get_output(0)
    weights = masked(net, scores, np.tri(size)[None] > 0, least, how)
    y = net.add_matrix_multiply(weights, op.NONE, v, op.NONE).get_output(0)
    y.name = "y"
    net.mark_output(y)
    engine = builder.build_engine_with_config(net, builder.create_builder_config())
    feeds = {n: x[:, 0] for n, x in operands(size).items()}
    clean = engine.run(**feeds)["y"]
    feeds["v"][0, -1] = np.nan
    result = engine.run(**feeds)["y"]
    assert np.flatnonzero(~np.isfinite(result[0]).all(-1)).tolist() == [size - 1]
    np.testing.assert_array_equal(result[0, :-1], clean[0, :-1])
