"""Operators that TensorRT's own tools write, in any domain, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import anyrt as trt
from anyrt.onnx.backend import prepare
from tests.onnx.conftest import of_node

RNG = np.random.default_rng(11)


def normal(*shape):
    """Random numbers around 0."""
    return RNG.standard_normal(shape).astype(np.float32)


def close(got, expected, tol=1e-5):
    """Compare, up to a tolerance."""
    np.testing.assert_allclose(np.asarray(got, np.float64), expected, rtol=tol, atol=tol)


@pytest.mark.parametrize("domain", ["", "trt", "com.nvidia"])
def test_shuffle_transposes_reshapes_and_transposes(run, domain):
    x = normal(2, 3, 4)
    got = run("TRT_Shuffle", {"x": x}, domain=domain, first_perm=[2, 0, 1], second_perm=[1, 0],
              reshape_dims=[0, -1], zero_is_placeholder=1)  # fmt: skip
    assert (got == x.transpose(2, 0, 1).reshape(4, 6).T).all()
    assert (run("TRT_Shuffle", {"x": x}, {"to": np.int64([6, 4])}) == x.reshape(6, 4)).all()


def test_scale_has_those_weights_that_are_flagged(run):
    x, w, b = normal(2, 3, 4, 4), normal(3), normal(3)
    got = run("TRT_Scale", {"x": x}, {"w": w, "b": b}, mode="channel", scale=1, shift=1, power=0)
    close(got, x * w[:, None, None] + b[:, None, None])
    got = run(
        "TRT_Scale", {"x": np.abs(x)}, {"p": np.float32([0.5])}, mode="uniform", scale=0, shift=0, power=1
    )
    close(got, np.sqrt(np.abs(x)))


def test_matrices_are_multiplied_as_the_attributes_say(run):
    a, b = normal(5, 3), normal(4, 3)
    close(run("TRT_MatMul", {"a": a, "b": b}, op_0="none", op_1="transpose"), a @ b.T)
    close(run("TRT_MatMul", {"a": a, "b": b[0]}, op_0="none", op_1="vector"), a @ b[0])


def test_the_least_are_found(run):
    x = RNG.permutation(24).reshape(4, 6).astype(np.float32)
    values, at = run("TRT_TopK_Min", {"x": x}, {"k": np.int32([2])}, axis=1, outputs=2)
    assert (values == np.sort(x, 1)[:, :2]).all()
    assert (at == np.argsort(x, 1)[:, :2]).all()


def test_softmax_ends_where_rows_do(run):
    x, ends = normal(2, 1, 5), np.int32([[[5]], [[2]]])
    e = np.where(np.arange(5) < ends, np.exp(x), 0)
    got = run("TRT_RaggedSoftmax", {"x": x, "ends": ends})
    close(got, e / e.sum(2, keepdims=True))


def test_slices_gathers_and_quotients(run):
    x = normal(4, 6)
    assert (run("TRT_Slice", {"x": x}, start=[1, 0], size=[2, 3], stride=[1, 2]) == x[1:3, :6:2]).all()
    at = {n: np.int64(v) for n, v in (("a", [1, 0]), ("b", [2, 3]), ("c", [1, 2]))}
    assert (run("TRT_Slice", {"x": x, **at}) == x[1:3, :6:2]).all()
    places = np.int32([[0, 5], [1, 1], [2, 0], [3, 3]])
    got = run("TRT_Gather", {"x": x, "at": places}, axis=1, nbElementWiseDims=1)
    assert (got == np.take_along_axis(x, places, 1)).all()
    close(run("TRT_FloorDiv", {"x": x, "y": np.float32([[0.7]])}), np.floor(x / np.float32(0.7)))


def test_resize_has_scales_or_sizes(run):
    x = normal(1, 2, 3, 3)
    words = {
        "mode": "nearest",
        "coordTransform": "asymmetric",
        "resizeSelector": "formula",
        "round_mode": "floor",
    }
    expected = x.repeat(2, 2).repeat(2, 3)
    assert (run("TRT_Resize", {"x": x}, scales=[1.0, 1.0, 2.0, 2.0], **words) == expected).all()
    assert (run("TRT_Resize", {"x": x}, output_dims=[1, 2, 6, 6], **words) == expected).all()
    assert (run("TRT_Resize", {"x": x}, {"to": np.int64([1, 2, 6, 6])}, **words) == expected).all()


def test_windows_are_those_of_onnx(run):
    x, w = normal(1, 2, 6, 6), normal(3, 2, 3, 3)
    assert (
        run("TRT_Conv", {"x": x}, {"w": w}, pads=[1] * 4) == run("Conv", {"x": x}, {"w": w}, pads=[1] * 4)
    ).all()
    turned = w.transpose(1, 0, 2, 3).copy()
    assert (run("TRT_Deconv", {"x": x}, {"w": turned}) == run("ConvTranspose", {"x": x}, {"w": turned})).all()
    windows = {"kernel_shape": [2, 2], "strides": [2, 2]}
    most, mean = (run(f"TRT_{n}", {"x": x}, **windows) for n in ("MaxPool", "AveragePool"))
    assert (most == run("MaxPool", {"x": x}, **windows)).all()
    close(run("TRT_MaxAverageBlendPool", {"x": x}, blend=0.25, **windows), 0.75 * most + 0.25 * mean)


@pytest.mark.parametrize(("kind", "most"), [("FP8", 448.0), ("INT4", 7.0)])
def test_codes_and_back(run, kind, most):
    x, scale = np.float32([-1000, -0.5, 0, 0.25, 1, 1000]), np.float32(0.25)
    model = of_node(helper.make_node(f"TRT_{kind}QuantizeLinear", ["x", "s"], ["q"], domain="trt"),
                    {"x": x}, {"s": scale}, 21)  # fmt: skip
    model.graph.node.append(helper.make_node(f"TRT_{kind}DequantizeLinear", ["q", "s"], ["y"], domain="trt"))
    model.graph.output[0].name = "y"
    (got,) = prepare(model).run({"x": x})
    low = -8.0 if kind == "INT4" else -most
    assert got.tolist() == [low * 0.25, -0.5, 0, 0.25, 1, most * 0.25]


def test_a_cache_gets_new_tokens(run):
    cache, new, at = normal(2, 3, 8, 4), normal(2, 3, 2, 4), np.int32([1, 5])
    expected = cache.copy()
    for b in range(2):
        expected[b, :, at[b] : at[b] + 2] = new[b]
    assert (run("TRT_KVCacheUpdate", {"cache": cache, "new": new, "at": at}) == expected).all()


def test_a_plugin_is_made_of_what_it_serialised(run):
    trt.init_libnvinfer_plugins(None, "")
    creator = trt.get_plugin_registry().get_creator("LReLU_TRT", "1", "")
    slope = trt.PluginField("negSlope", np.float32([0.5]), trt.PluginFieldType.FLOAT32)
    data = creator.create_plugin("p", trt.PluginFieldCollection([slope])).serialize()
    for version, reported in (("1", None), ("3", "AR823")):
        node = helper.make_node("TRT_PluginV2", ["x"], ["y"], version=version, namespace="", data=data)
        node.attribute.append(helper.make_attribute("name", "LReLU_TRT"))
        model = of_node(node, {"x": np.float32([-2, 4])}, {}, 21)
        if reported is None:
            assert prepare(model).run({"x": np.float32([-2, 4])})[0].tolist() == [-1, 4]
            continue
        with pytest.raises(trt.errors.PluginError, match=reported):
            prepare(model)


def test_weights_that_are_computed_are_rejected(run):
    with pytest.raises(trt.errors.NotSupportedError, match="AR901"):
        run("TRT_Scale", {"x": normal(1, 3, 2, 2), "w": normal(3)}, mode="channel", scale=1)


def test_unknown_words_are_rejected(run):
    with pytest.raises(trt.errors.ArgumentError, match="AR304"):
        run("TRT_MatMul", {"a": normal(2, 2), "b": normal(2, 2)}, op_0="transposed", op_1="none")


def test_the_parser_says_that_they_are_supported():
    builder = trt.Builder(trt.Logger())
    parser = trt.OnnxParser(builder.create_network(), builder.logger)
    assert parser.supports_operator("TRT_Conv")
    assert not parser.supports_operator("TRT_Nothing")
