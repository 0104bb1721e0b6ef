"""Data-dependent selection of elements in ONNX models: sampled, scattered, joined, compared."""

from __future__ import annotations

import numpy as np
import pytest

RNG = np.random.default_rng(5)
DYNAMIC = pytest.mark.parametrize("dynamic", [(), ("x",)], ids=["static", "dynamic"])


@pytest.mark.sampled(3)
@DYNAMIC
@pytest.mark.parametrize("align", [0, 1])
def test_a_grid_of_an_affine_map_has_the_sizes_of_an_input(agrees, align, dynamic):
    for size in ((2, 3, 4, 5), (2, 1, 3, 4, 5)):
        x = RNG.normal(size=(2, len(size) - 2, len(size) - 1)).astype(np.float32)
        agrees("AffineGrid", {"x": x, "size": np.array(size)}, align_corners=align, dynamic=dynamic)


@DYNAMIC
def test_blocks_overlap_and_reach_outside_an_image(agrees, dynamic):
    x = RNG.normal(size=(2, 3 * 6, 12)).astype(np.float32)
    how = {"strides": [2, 1], "pads": [1, 0, 0, 1], "dilations": [1, 2]}
    agrees("Col2Im", {"x": x, "image": np.array([6, 7]), "block": np.array([2, 3])}, dynamic=dynamic, **how)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64, np.int64])
@DYNAMIC
def test_numbers_that_differ_are_found_and_counted(agrees, ordered, dtype, dynamic):
    x = RNG.integers(-4, 5, (5, 7)).astype(dtype)
    if ordered:
        agrees("Unique", {"x": x}, outputs=4, dynamic=dynamic)
        return
    y, _first, inverse, counts = agrees("Unique", {"x": x.ravel()}, outputs=4, dynamic=dynamic, sorted=0)
    np.testing.assert_array_equal(y[inverse], x.ravel())
    np.testing.assert_array_equal(counts, [np.sum(x == e) for e in y])


@DYNAMIC
def test_slices_that_differ_are_sorted(agrees, dynamic):
    x = RNG.integers(0, 2, (3, 11, 2)).astype(np.float32)
    agrees("Unique", {"x": x}, outputs=4, axis=1, dynamic=dynamic)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_updates_are_combined_with_what_is_there(agrees, reduction):
    x, updates = RNG.normal(size=(4, 5)).astype(np.float32), RNG.normal(size=(3, 5)).astype(np.float32)
    rows = np.array([[1], [-1], [0]])
    agrees("ScatterND", {"x": x, "rows": rows, "updates": updates}, reduction=reduction)
    at = np.array([[1, 0], [-1, 2], [3, 3]])
    agrees("ScatterElements", {"x": x, "at": at, "u": updates[:, :2]}, axis=1, reduction=reduction)


@DYNAMIC
def test_a_cache_is_written_round_its_end(agrees, dynamic):
    x, new = RNG.normal(size=(2, 3, 4, 5)), RNG.normal(size=(2, 3, 2, 5))
    inputs = {"x": x.astype(np.float32), "new": new.astype(np.float32), "at": np.array([3, 1])}
    agrees("TensorScatter", inputs, opset=24, mode="circular", dynamic=dynamic)


def test_elements_selected_by_a_condition_are_kept(run):
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    kept = np.array([True, False, True])
    np.testing.assert_array_equal(run("Compress", {"x": x, "kept": kept}, axis=-1), x[:, [0, 2]])
    np.testing.assert_array_equal(run("Compress", {"x": x, "kept": kept}), [0, 2])


@pytest.mark.parametrize("depth", [np.array(5), np.array([5.0], np.float32)])
def test_the_depth_of_one_hot_may_be_an_input_of_any_type(run, depth):
    values, at = np.array([2, 7], np.int32), np.array([[0, -2], [4, 9]])
    y = run("OneHot", {"at": at, "depth": depth, "values": values}, axis=1)
    expected = np.where(np.arange(5)[:, None] == np.where(at < 0, at + 5, at)[:, None], 7, 2)
    np.testing.assert_array_equal(y, expected)


def test_blocks_of_half_types_that_overlap_are_rounded_once(run):
    x = np.float16([[[0, 0, 2048], [0, 1, 0], [1, 0, 0]]])  # blocks of three, each shifted by one
    got = run("Col2Im", {"x": x}, {"image": np.int64([1, 5]), "block": np.int64([1, 3])})
    assert got.ravel().tolist() == [0, 0, 2050, 0, 0]


@pytest.mark.parametrize(("shape", "axis"), [((0, 2), 1), ((0, 2), 0), ((2, 0), 0), ((1, 0, 7), -2)])
def test_slices_without_elements_are_one_and_the_same(run, shape, axis):
    result = run("Unique", {"x": np.zeros(shape, np.int8)}, axis=axis, outputs=4)
    many = shape[axis]
    assert [x.tolist() for x in result[1:]] == [[0][:many], [0] * many, [many][:many]]
