"""Boxes, regions and windows with data-dependent positions, compared with ONNX's reference and ONNX
Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from tests.onnx.conftest import of_node

RNG = np.random.default_rng(7)


def by_ort(op, inputs, opset=16, **attrs):
    """The outputs of ONNX Runtime."""
    model = of_node(helper.make_node(op, list(inputs), ["y"], **attrs), inputs, {}, opset)
    model.ir_version = 10
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, dict(inputs))[0]


def boxes(*shape):
    """Boxes as two corners with coordinates between 0 and 20."""
    low = RNG.uniform(0, 12, (*shape, 2))
    return np.concatenate([low, low + RNG.uniform(0.5, 8, (*shape, 2))], -1).astype(np.float32)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("dynamic", [(), ("boxes", "scores")])
def test_rows_come_by_image_class_and_score(run, center, dynamic):
    inputs = {"boxes": boxes(2, 40), "scores": RNG.uniform(0, 1, (2, 3, 40)).astype(np.float32)}
    inputs |= {"most": np.int64([7]), "iou": np.float32([0.3]), "least": np.float32([0.2])}
    got = run("NonMaxSuppression", inputs, opset=11, dynamic=dynamic, center_point_box=center)
    expected = by_ort("NonMaxSuppression", inputs, opset=11, center_point_box=center)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, expected)


def test_nothing_is_kept_where_no_number_is_given(run):
    inputs = {"boxes": boxes(1, 4), "scores": np.ones((1, 1, 4), np.float32)}
    assert run("NonMaxSuppression", inputs, opset=11).shape == (0, 3)


def test_scores_below_zero_count_where_no_threshold_is_given(run):
    inputs = {"boxes": np.float32([[[0, 0, 1, 1], [5, 5, 6, 6]]]), "scores": np.float32([[[-3, -1]]])}
    got = run("NonMaxSuppression", inputs, {"most": np.int64(9)}, opset=11)
    np.testing.assert_array_equal(got, [[0, 0, 1], [0, 0, 0]])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("half", ["half_pixel", "output_half_pixel"])
def test_regions_are_sampled_on_and_beyond_the_image(run, mode, ratio, half):
    rois = np.concatenate([boxes(5), np.float32([[-30, -4, 50, 3], [4, 4, 4, 4], [18, 19, 40, 26]])])
    inputs = {"x": RNG.standard_normal((2, 3, 10, 12)).astype(np.float32), "rois": rois}
    inputs |= {"of": RNG.integers(0, 2, 8)}
    more = {"output_height": 3, "output_width": 4, "sampling_ratio": ratio, "spatial_scale": 0.6}
    more |= {"coordinate_transformation_mode": half, "mode": mode}
    got = run("RoiAlign", inputs, opset=16, dynamic=("x", "rois", "of"), **more)
    np.testing.assert_allclose(got, by_ort("RoiAlign", inputs, **more), rtol=1e-3, atol=1e-4)


def test_bins_of_whole_regions_take_their_largest_element(run):
    rois = np.float32([[0, 0, 0, 9, 6], [1, 3, 2, 11, 9], [1, 5, 5, 5, 5], [0, 9, 8, 30, 30]])
    inputs = {"x": RNG.standard_normal((2, 3, 10, 12)).astype(np.float32), "rois": rois}
    got = run("MaxRoiPool", inputs, opset=16, pooled_shape=[3, 2], spatial_scale=0.8)
    np.testing.assert_array_equal(got, by_ort("MaxRoiPool", inputs, pooled_shape=[3, 2], spatial_scale=0.8))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dynamic", [(), ("x", "o", "m")])
def test_elements_of_windows_lie_at_offsets(agrees, groups, dynamic):
    inputs = {
        "x": RNG.standard_normal((2, 4, 6, 5)), "w": RNG.standard_normal((6, 4 // groups, 3, 2)),
        "o": RNG.standard_normal((2, groups * 12, 5, 6)) * 2, "b": RNG.standard_normal(6),
        "m": RNG.uniform(0, 1, (2, groups * 6, 5, 6)),
    }  # fmt: skip
    inputs = {n: a.astype(np.float32) for n, a in inputs.items()}
    more = {"pads": [1, 1, 2, 1], "dilations": [2, 1], "group": groups, "offset_group": groups}
    agrees("DeformConv", inputs, dynamic=dynamic, opset=19, **more)


def test_maxima_return_to_their_places(agrees):
    x = RNG.permutation(2 * 3 * 36).reshape(2, 3, 6, 6).astype(np.float32)
    windows = np.arange(2 * 3 * 36).reshape(2, 3, 3, 2, 3, 2).transpose(0, 1, 2, 4, 3, 5)
    windows = windows.reshape(2, 3, 3, 3, 4)
    best = x.reshape(-1)[windows].argmax(-1)
    places = np.take_along_axis(windows, best[..., None], -1)[..., 0]
    inputs = {"x": x.reshape(-1)[places], "i": places}
    agrees("MaxUnpool", inputs, kernel_shape=[2, 2], strides=[2, 2], dynamic=("x", "i"))
    inputs["shape"] = np.int64([2, 3, 7, 8])
    agrees("MaxUnpool", inputs, kernel_shape=[2, 2], strides=[2, 2])
