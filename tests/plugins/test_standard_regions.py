"""Regions, deformable convolutions and scattered elements among the standard plug-ins, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import anyrt as trt
from tests.onnx.conftest import of_node
from tests.plugins.standards import Engine, create, holds, run


def normal(rng, *shape):
    """Numbers about 0."""
    return rng.standard_normal(shape).astype(np.float32)


def by_onnx(op, *arrays, opset=21, **attributes):
    """What ONNX's reference gives; None for an input that is left out."""
    names = [f"x{k}" if x is not None else "" for k, x in enumerate(arrays)]
    inputs = {n: x for n, x in zip(names, arrays, strict=True) if n}
    node = helper.make_node(op, names, ["y"], **attributes)
    return ReferenceEvaluator(of_node(node, inputs, {}, opset)).run(None, inputs)


@pytest.mark.parametrize(("half", "mode"), [(1, 1), (0, 0)])
def test_regions_are_pooled_as_in_onnx(rng, half, mode):
    x, of = normal(rng, 2, 3, 10, 12), np.int32([0, 1, 1, 0])
    corners = rng.uniform(0, 8, (4, 2))
    rois = np.concatenate([corners, corners + rng.uniform(1, 6, (4, 2))], 1).astype(np.float32)
    sizes = {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.5}
    got = run("ROIAlign_TRT", x, rois, of, coordinate_transformation_mode=half, mode=mode, **sizes)
    words = {"coordinate_transformation_mode": "half_pixel" if half else "output_half_pixel"}
    words["mode"] = "avg" if mode else "max"
    holds(got, by_onnx("RoiAlign", x, rois, of.astype(np.int64), **words, **sizes), 1e-4)


def test_crops_are_bilinear_and_zero_outside(rng):
    x, rois = normal(rng, 2, 3, 6, 7), rng.uniform(-0.1, 1.1, (2, 4, 4, 1)).astype(np.float32)
    expected = np.zeros((2, 4, 3, 5, 2))
    for n, b, i, j in np.ndindex(2, 4, 5, 2):
        y1, x1, y2, x2 = rois[n, b, :, 0]
        y, left = y1 * 5 + i * (y2 - y1) * 5 / 4, x1 * 6 + j * (x2 - x1) * 6
        if 0 <= y <= 5 and 0 <= left <= 6:
            shares = [np.maximum(1 - abs(p - np.arange(m)), 0) for p, m in ((y, 6), (left, 7))]
            expected[n, b, :, i, j] = np.einsum("chw,h,w->c", x[n], *shares)
    engine = Engine(create("CropAndResizeDynamic", crop_height=5, crop_width=2), [x, rois], dynamic=True)
    holds(engine(x, rois), [expected])
    holds(engine(x[:1], rois[:1, :2]), [expected[:1, :2]])


def test_a_convolution_has_offsets_and_factors(rng):
    x, kernel, bias = normal(rng, 2, 4, 6, 6), normal(rng, 3, 4, 3, 3), normal(rng, 3)
    offset, mask = normal(rng, 2, 18, 6, 6), rng.uniform(0, 1, (2, 9, 6, 6)).astype(np.float32)
    fields = {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "group": 1, "deformable_group": 1}
    got = run("ModulatedDeformConv2d", x, offset, mask, kernel, bias, **fields)
    holds(got, by_onnx("DeformConv", x, kernel, offset, bias, mask, pads=[1] * 4, kernel_shape=[3, 3]), 1e-4)


def test_elements_are_stored_and_combined(rng):
    x, at, v = normal(rng, 5, 4), rng.permutation(20).reshape(5, 4) % 5, normal(rng, 5, 4)
    expected = x.astype(np.float64)
    for i, j in np.ndindex(5, 4):
        expected[at[i, j], j] += v[i, j]
    holds(run("ScatterElements", x, at, v, axis=0, reduction="add", version="2"), [expected])
    rows = np.int32([[3], [0]])
    expected = x.copy()
    expected[[3, 0]] = v[:2]
    holds(run("ScatterND", x, rows, v[:2]), [expected])


def test_pillars_beyond_the_count_are_ignored(rng):
    voxels, count = normal(rng, 2, 5, 3), np.int32([5, 2])
    cells = np.stack([rng.permutation(12)[:5] for _ in range(2)])
    coords = np.zeros((2, 5, 4), np.int32)
    coords[..., 2], coords[..., 3] = cells // 4, cells % 4
    expected = np.zeros((2, 3, 3, 4))
    for n, p in np.ndindex(2, 5):
        if p < count[n]:
            expected[n, :, cells[n, p] // 4, cells[n, p] % 4] = voxels[n, p]
    holds(run("PillarScatterPlugin", voxels, coords, count, dense_shape=[3, 4], dynamic=True), [expected])


def test_channels_of_coordinates_come_last(rng):
    x = normal(rng, 2, 3, 5, 4)
    rows, columns = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-1, 1, 4), indexing="ij")
    planes = np.broadcast_to(np.stack([rows, columns]), (2, 2, 5, 4))
    holds(run("CoordConvAC", x, dynamic=True), [np.concatenate([x, planes], 1)])


def test_elements_of_images_are_concatenated(rng):
    x, y = normal(rng, 2, 2, 2, 2), normal(rng, 2, 3, 2, 2)
    expected = np.concatenate([x.reshape(2, -1), y.reshape(2, -1)], 1)[..., None, None]
    holds(run("FlattenConcat_TRT", x, y, axis=1, ignoreBatch=0, dynamic=True), [expected])
    holds(run("BatchTilePlugin_TRT", x, y[:1]), [np.repeat(y[:1], 2, 0)])
    holds(run("ResizeNearest_TRT", x, scale=2.0), [x.repeat(2, 2).repeat(2, 3)])


def test_reorg_takes_every_other_element_as_darknet_does():
    x = np.arange(2 * 4 * 6 * 6, dtype=np.float32).reshape(2, 4, 6, 6)
    got = run("Reorg_TRT", x, stride=2, version="2")[0]
    assert got.shape == (2, 16, 3, 3)
    assert got[0, 0].tolist() == [[0, 2, 4], [6, 8, 10], [24, 26, 28]]
    assert got[0, 1].tolist() == [[30, 32, 34], [48, 50, 52], [54, 56, 58]]
    assert got[0, 5].tolist() == [[31, 33, 35], [49, 51, 53], [55, 57, 59]]
    assert got[1, 15].tolist() == [[259, 261, 263], [277, 279, 281], [283, 285, 287]]


def test_reorg_takes_images_of_every_size():
    x = np.arange(2 * 4 * 6 * 8, dtype=np.float32).reshape(2, 4, 6, 8)
    engine = Engine(create("Reorg_TRT", "2", stride=2), [x], dynamic=True, fixed=(1,))
    for part in (x, x[:1], x[:, :, :2, :4], x[:0], x[:, :, :0]):
        b, _, h, w = part.shape
        expected = part.reshape(b, 1, h, 2, w, 2).transpose(0, 3, 5, 1, 2, 4).reshape(b, 16, h // 2, w // 2)
        holds(engine(part), [expected])


def test_region_has_chances_and_sigmoids(rng):
    x = normal(rng, 2, 2 * 8, 3, 3)
    y = x.reshape(2, 2, 8, 3, 3).astype(np.float64)
    odds, e = 1 / (1 + np.exp(-y)), np.exp(y[:, :, 5:])
    parts = [odds[:, :, :2], y[:, :, 2:4], odds[:, :, 4:5], e / e.sum(2, keepdims=True)]
    holds(run("Region_TRT", x, num=2, coords=4, classes=3), [np.concatenate(parts, 2).reshape(x.shape)])


@pytest.mark.parametrize(
    ("name", "shapes", "fields", "code"),
    [
        ("Reorg_TRT", [(1, 4, 5, 6)], {"stride": 2}, "AR118"),
        ("Region_TRT", [(1, 17, 3, 3)], {"num": 2, "classes": 3}, "AR123"),
        ("CropAndResize", [(1, 3, 4), (1, 2, 4)], {}, "AR123"),
        ("ScatterElements", [(2, 2)], {}, "AR406"),
    ],
)
def test_invalid_inputs_are_rejected(name, shapes, fields, code):
    with trt.strict(), pytest.raises(trt.errors.AnyrtError, match=code):
        Engine(create(name, **fields), [np.zeros(s, np.float32) for s in shapes])
