"""Convolutions and pooling of ONNX models, compared with ONNX's reference and ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from tests.onnx.conftest import of_node

RNG = np.random.default_rng(5)


def random(*shape, dtype=np.float32):
    """Random numbers around 0."""
    return RNG.standard_normal(shape).astype(dtype)


def by_ort(op, inputs, constants=(), opset=21, outputs=("y0",), **attrs):
    """The outputs of ONNX Runtime."""
    node = helper.make_node(op, [*inputs, *dict(constants)], list(outputs), **attrs)
    model = of_node(node, inputs, dict(constants), opset)
    model.ir_version = 10
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, dict(inputs))


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("constant", [True, False])
def test_a_convolution_of_any_spatial_axes_takes_weights_from_everywhere(run, axes, constant):
    x, w, b = {"x": random(2, 4, *[7] * axes)}, random(6, 2, *[3] * axes), random(6)
    more = {"group": 2, "pads": [1, 0, 2][:axes] + [2, 1, 0][:axes], "strides": [2] * axes}
    wb = {"w": w, "b": b}
    got = run("Conv", x, wb, **more) if constant else run("Conv", x | wb, **more)
    np.testing.assert_allclose(got, by_ort("Conv", x, wb, **more)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_automatic_borders_are_those_of_the_size_at_hand(run, pad):
    x, w = {"x": random(1, 3, 10, 9)}, {"w": random(5, 3, 4, 3)}
    for open_ in ((), ("x",)):
        got = run("Conv", x, w, auto_pad=pad, strides=[3, 2], dynamic=open_)
        np.testing.assert_allclose(
            got, by_ort("Conv", x, w, auto_pad=pad, strides=[3, 2])[0], rtol=1e-4, atol=1e-4
        )


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "more",
    [
        {"strides": [3, 2], "output_padding": [2, 1]},
        {"strides": [3, 2], "output_padding": [2, 1], "pads": [1, 1, 1, 0]},
        {"strides": [2, 2], "output_shape": [10, 9]},
        {"strides": [3, 3], "output_shape": [14, 11]},
        {"strides": [3, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [3, 2], "auto_pad": "SAME_LOWER"},
        {"dilations": [2, 3], "group": 2},
    ],
)
def test_a_transposed_convolution_has_the_requested_sizes(run, more):
    x, group = {"x": random(2, 4, 5, 4)}, more.get("group", 1)
    w = {"w": random(4, 6 // group, 3, 3), "b": random(6)}
    expected = by_ort("ConvTranspose", x, w, **more)[0]
    for open_ in ((), ("x",)):
        got = run("ConvTranspose", x, w, dynamic=open_, **more)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("ceil", [0, 1])
def test_windows_that_begin_behind_the_input_do_not_count(run, op, ceil):
    x = {"x": random(1, 2, 7, 8)}
    more = {"kernel_shape": [2, 3], "strides": [3, 2], "pads": [1, 1, 1, 1], "ceil_mode": ceil, "opset": 19}
    for open_ in ((), ("x",)):
        got = run(op, x, dynamic=open_, **more)
        np.testing.assert_allclose(got, by_ort(op, x, **more)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_places_of_maxima_count_in_the_whole_tensor(run, order, axes):
    x = {"x": random(2, 3, *[6, 7, 5][:axes])}
    more = {"kernel_shape": [2] * axes, "strides": [2] * axes, "dilations": [2] * axes}
    more |= {"storage_order": order, "outputs": ("y", "i")}
    for open_ in ((), ("x",)):
        y, places = run("MaxPool", x, dynamic=open_, **more)
        expected = by_ort("MaxPool", x, **more)
        np.testing.assert_array_equal(y, expected[0])
        np.testing.assert_array_equal(places, expected[1])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float16])
def test_maxima_of_other_types_are_exact(run, dtype):
    x = RNG.integers(0, 120, (1, 2, 5, 6)).astype(dtype)
    got = run("MaxPool", {"x": x}, kernel_shape=[2, 3])
    expected = np.lib.stride_tricks.sliding_window_view(x, (2, 3), (2, 3)).max((-2, -1))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("ceil", [0, 1])
def test_means_of_dilated_windows_divide_by_what_counts(agrees, include, ceil):
    more = {"kernel_shape": [3, 2], "dilations": [2, 3], "strides": [2, 1], "pads": [1, 1, 2, 1]}
    x = {"x": random(1, 2, 9, 8)}
    agrees("AveragePool", x, count_include_pad=include, ceil_mode=ceil, dynamic=("x",), **more)


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_global_pooling_leaves_one_element_of_each_channel(run, op):
    x = {"x": random(2, 3, 4, 5, 2)}
    got = run(op, x, opset=20, dynamic=("x",))
    np.testing.assert_allclose(got, by_ort(op, x, opset=20)[0], rtol=1e-5)


def test_convolutions_of_nothing_are_empty(run):
    w = {"w": random(5, 3, 3, 3)}
    assert run("Conv", {"x": random(0, 3, 6, 6)}, w, dynamic=("x",)).shape == (0, 5, 4, 4)
    assert run("MaxPool", {"x": random(0, 3, 6, 6)}, kernel_shape=[2, 2]).shape == (0, 3, 5, 5)


@pytest.mark.parametrize("op", ["LpPool", "GlobalLpPool"])
def test_third_roots_of_half_types_are_those_of_numbers_beyond_them(run, op):
    x = np.float16([[[[1827, 300], [5, 0.25]]]])
    more = {"kernel_shape": [1, 1], "p": 3} if op == "LpPool" else {"p": 3}
    expected = x if op == "LpPool" else np.full((1, 1, 1, 1), 1829.7, np.float16)
    np.testing.assert_allclose(run(op, {"x": x}, **more), expected, 2**-10)
