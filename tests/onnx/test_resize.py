"""Resize and Upsample of ONNX models, compared with ONNX's reference: any factors, sizes and regions."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import anyrt as trt
from anyrt.onnx.session import Session
from tests.onnx.conftest import of_node

X = np.random.default_rng(3).normal(size=(1, 2, 5, 7)).astype(np.float32)
DYNAMIC = pytest.mark.parametrize("dynamic", [(), ("x",)], ids=["static", "dynamic"])
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners")


def factors(*x: float) -> np.ndarray:
    return np.array(x, np.float32)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_factors_that_are_no_quotients_are_in_the_coordinates(agrees, mode, coordinates):
    attributes = {"scales": factors(1, 1, 0.7, 2.3)}
    how = {"mode": mode, "coordinate_transformation_mode": coordinates, "order": ["x", "", "scales"]}
    agrees("Resize", {"x": X}, attributes, **how)


@pytest.mark.sampled(5)
@DYNAMIC
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_factors_may_be_an_input(agrees, mode, dynamic):
    inputs = {"x": X, "scales": factors(1, 1, 1.5, 0.6)}
    agrees("Resize", inputs, order=["x", "", "scales"], mode=mode, dynamic=dynamic)


@pytest.mark.sampled(3)
@DYNAMIC
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_sizes_may_be_an_input(agrees, rounding, dynamic):
    inputs = {"x": X, "sizes": np.array([1, 2, 9, 4])}
    agrees("Resize", inputs, order=["x", "", "", "sizes"], nearest_mode=rounding, dynamic=dynamic)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("outside", [0, 1])
def test_a_smaller_image_is_smoothed(agrees, mode, outside):
    how = {"mode": mode, "antialias": 1, "exclude_outside": outside, "axes": [3, 2]}
    agrees("Resize", {"x": X, "scales": factors(0.55, 0.8)}, order=["x", "", "scales"], **how)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_an_aspect_ratio_is_kept(agrees, policy):
    how = {"axes": [2, 3], "keep_aspect_ratio_policy": policy, "mode": "linear"}
    agrees("Resize", {"x": X}, {"sizes": np.array([9, 8])}, order=["x", "", "", "sizes"], **how)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_region_is_cropped_and_what_lies_beyond_has_a_number(agrees, mode):
    inputs = {"x": X, "roi": factors(0.3, -0.2, 1.2, 0.9), "sizes": np.array([4, 6])}
    how = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
    agrees("Resize", inputs, order=["x", "roi", "", "sizes"], axes=[2, 3], mode=mode, **how)


def test_upsample_repeats(run):
    expected = X.repeat(2, 2).repeat(3, 3)
    np.testing.assert_array_equal(run("Upsample", {"x": X}, opset=7, scales=[1.0, 1, 2, 3]), expected)
    np.testing.assert_array_equal(run("Upsample", {"x": X}, {"s": factors(1, 1, 2, 3)}, opset=9), expected)


def test_bytes_are_interpolated_to_the_nearest_integers(agrees):
    x = np.arange(0, 250, 7, dtype=np.uint8)[:35].reshape(1, 1, 5, 7)
    y = agrees("Resize", {"x": x}, {"s": factors(1, 1, 1.3, 1.7)}, order=["x", "", "s"], mode="linear", tol=1)
    assert y.dtype == np.uint8


@pytest.mark.parametrize("size", [2, 6])
def test_sizes_follow_those_that_an_input_gets_after_it_was_parsed(size):
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="nearest")
    model = of_node(node, {"x": X}, {"s": factors(1, 1, 2, 3)}, 17)
    builder = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR))
    network = builder.create_network()
    assert trt.OnnxParser(network, builder.logger).parse(model.SerializeToString())
    network.get_input(0).shape = (size, 2, 4, 3)
    assert tuple(network.get_output(0).shape) == (size, 2, 8, 9)
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    x = np.float32(np.random.default_rng(size).normal(size=(size, 2, 4, 3)))
    y = Session(trt.Runtime(builder.logger).deserialize_cuda_engine(plan)).run({"x": x})["y"]
    np.testing.assert_array_equal(y, x.repeat(2, 2).repeat(3, 3))


def test_one_axis_is_resized_by_cubics(agrees):
    x = np.float32([1, 4, 2, 8, 5, 7, 1])
    agrees("Resize", {"x": x}, {"sizes": np.array([12])}, order=["x", "", "", "sizes"], mode="cubic")


def test_any_factors_and_coordinates_are_one_layer_with_the_attributes_of_tensorrt():
    how = {"coordinate_transformation_mode": "half_pixel_symmetric", "mode": "linear", "antialias": 1}
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], axes=[2, 1], **how)
    model = of_node(node, {"x": X}, {"s": factors(0.7, 2.3)}, 19)
    network = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR)).create_network()
    assert trt.OnnxParser(network, trt.Logger()).parse(model.SerializeToString())
    layers = [x for x in network if x.type is not trt.LayerType.CONSTANT]
    assert [type(x) for x in layers] == [trt.IResizeLayer]
    assert np.float32(layers[0].scales).tolist() == factors(1, 2.3, 0.7, 1).tolist()
    assert not hasattr(layers[0], "variant")
    assert tuple(network.get_output(0).shape) == (1, 4, 3, 7)
