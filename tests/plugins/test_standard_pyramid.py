"""Pooling of regions from pyramids of maps, against a loop over bins in NumPy."""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np
import pytest

import anyrt as trt
from tests.plugins.standards import Engine, create, holds, run

IMAGE = (128, 96)
MODES = {0: (0.0, 0.0), 1: (0.0, 0.5), 2: (0.5, 0.5)}  # what is taken from corners, and added to samples


def pyramid(rng, images=2, channels=3, levels=4, dtype=np.float32):
    """Maps of an image of 128 × 96, each half as wide as the one before."""
    sizes = [(images, channels, 32 >> k, 24 >> k) for k in range(levels)]
    return [rng.standard_normal(s).astype(dtype) for s in sizes]


def regions(rng, images=2, many=9):
    """Corners x, y, x, y in pixels, narrow ones and wide ones, some of them beyond the image."""
    low, size = rng.uniform(-5, 90, (images, many, 2)), rng.uniform(0.5, 110, (images, many, 2))
    return np.concatenate([low, low + size], -1).astype(np.float32)


def between(x, row, column):
    """The value between four neighbours, inside the map."""
    high, wide = x.shape[1:]
    row, column = min(max(row, 0), high - 1), min(max(column, 0), wide - 1)
    top, left = int(row), int(column)
    down, right = min(top + 1, high - 1), min(left + 1, wide - 1)
    a, b = row - top, column - left
    first = x[:, top, left] * (1 - b) + x[:, top, right] * b
    return first * (1 - a) + (x[:, down, left] * (1 - b) + x[:, down, right] * b) * a


def pooled(x, box, bins, ratio, mode):
    """One region of one image: (channels, bins, bins); `box`: y, x, y, x as parts of the map."""
    sizes, steps, counts = [*x.shape[1:]] * 2, [], []
    shift, offset = MODES.get(mode, (0.0, 0.0))
    ends = [v * (n - 1 if mode == -1 else n) - shift for v, n in zip(box, sizes, strict=True)]
    for k in (0, 1):
        extent = ends[k + 2] - ends[k]
        steps.append(extent / (bins - 1 if mode == -1 else bins))
        counts.append(ratio or max(1, ceil(extent / bins)))
    out = np.zeros((len(x), bins, bins))
    for i, j, a, b in np.ndindex(bins, bins, *counts):
        row = ends[0] + steps[0] * i + steps[0] * (a + offset) / counts[0]
        out[:, i, j] += between(x, row, ends[1] + steps[1] * j + steps[1] * (b + offset) / counts[1])
    return out / np.prod(counts)


def aligned(rois, maps, bins, ratio=0, mode=2, scale=60, grown=0, limit=None):
    """All regions; corners x, y, x, y in pixels."""
    out = np.zeros((*rois.shape[:2], maps[0].shape[1], bins, bins))
    wide, high = IMAGE[1], IMAGE[0]
    for n, r in np.ndindex(*rois.shape[:2]):
        x1, x2 = sorted(np.clip(rois[n, r, ::2].astype(np.float64), 0, wide) / wide)
        y1, y2 = sorted(np.clip(rois[n, r, 1::2].astype(np.float64), 0, high) / high)
        side = sqrt((y2 - y1 + grown / high) * (x2 - x1 + grown / wide) * high * wide)
        first = scale / 2 if limit is None else limit
        level = sum(side > first * 2**k for k in range(3))
        out[n, r] = pooled(maps[level][n].astype(np.float64), (y1, x1, y2, x2), bins, ratio, mode)
    return out


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ratio", [0, 1, 3])
@pytest.mark.parametrize("mode", [-1, 0, 1, 2])
def test_regions_are_means_of_samples_of_the_selected_map(rng, mode, ratio):
    rois, maps = regions(rng), pyramid(rng)
    got = run("PyramidROIAlign_TRT", rois, *maps, pooled_size=3, image_size=IMAGE, fpn_scale=60,
              roi_coords_transform=mode, sampling_ratio=ratio)  # fmt: skip
    holds(got, [aligned(rois, maps, 3, ratio, mode)], 2e-4)


@pytest.mark.sampled(2)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("ratio", [0, 2])
def test_images_regions_and_maps_may_be_dynamic(rng, ratio):
    plugin = create(
        "PyramidROIAlign_TRT", pooled_size=2, image_size=IMAGE, fpn_scale=60, sampling_ratio=ratio
    )
    engine = Engine(plugin, [regions(rng), *pyramid(rng)], dynamic=True)
    for images, many, channels in ((2, 9, 3), (4, 18, 6), (1, 1, 1)):
        rois, maps = regions(rng, images, many), pyramid(rng, images, channels)
        holds(engine(rois, *maps), [aligned(rois, maps, 2, ratio)], 2e-4)
    assert engine(regions(rng, 2, 0), *pyramid(rng))[0].shape == (2, 0, 3, 2, 2)
    assert engine(regions(rng, 0, 3), *pyramid(rng, 0))[0].shape == (0, 3, 3, 2, 2)


def test_corners_may_be_fractions_of_the_image_with_y_first(rng):
    rois, maps = regions(rng), pyramid(rng)
    parts = (rois / np.float32([96, 128, 96, 128]))[..., [1, 0, 3, 2]]
    got = run("PyramidROIAlign_TRT", parts, *maps, pooled_size=2, image_size=IMAGE, fpn_scale=60,
              roi_coords_absolute=0, roi_coords_swap=1, roi_coords_plusone=1)  # fmt: skip
    holds(got, [aligned(rois, maps, 2, grown=1)], 2e-4)


@pytest.mark.rare
def test_areas_may_include_both_ends(rng):
    rois = np.float32([[[10, 10, 39.5, 39.5]]])  # 29.5 pixels wide; from 30 on the second map is read
    maps = pyramid(rng, 1)
    for grown in (0, 1):
        got = run("PyramidROIAlign_TRT", rois, *maps, pooled_size=2, image_size=IMAGE, fpn_scale=60,
                  roi_coords_plusone=grown)  # fmt: skip
        holds(got, [aligned(rois, maps, 2, grown=grown)], 2e-4)


def test_the_legacy_mode_reads_one_sample_of_each_bin(rng):
    rois, maps = regions(rng), pyramid(rng)
    parts = (rois / np.float32([96, 128, 96, 128]))[..., [1, 0, 3, 2]]
    got = run("PyramidROIAlign_TRT", parts, *maps, pooled_size=3, legacy=1)
    # Areas are parts of an image of 1024 × 1024 there, whatever the image is.
    limit = sqrt(224**2 * 2 / 1024**2 / 16 * 128 * 96)
    holds(got, [aligned(rois, maps, 3, 1, -1, limit=limit)], 2e-4)


@pytest.mark.rare
def test_maps_of_half_precision_are_summed_in_float32(rng):
    rois, maps = regions(rng, many=4).astype(np.float16), pyramid(rng, dtype=np.float16)
    (got,) = run("PyramidROIAlign_TRT", rois, *maps, pooled_size=2, image_size=IMAGE, fpn_scale=60)
    assert got.dtype == np.float16
    holds([got], [aligned(rois, maps, 2)], 5e-3)


def test_crops_read_the_center_of_bins_and_zero_regions_outside(rng):
    maps, boxes = pyramid(rng, 1, levels=5), np.float32([[[4, 6, 30, 90], [-1, 0, 9, 9], [8, 9, 8, 20]]])
    image = {"image_size": (3, *IMAGE), "pooled_size": 3}
    (got,) = run("MultilevelCropAndResize_TRT", boxes, *maps, **image)
    want = np.zeros((3, 3, 3))
    for i, j in np.ndindex(3, 3):  # 26 × 84 pixels are less than 112², so that the first map is read
        row, column = 4 + 26 * (i + 0.5) / 3, 6 + 84 * (j + 0.5) / 3
        want[:, i, j] = between(maps[0][0].astype(np.float64), row / 4, column / 4)
    holds([got[0, 0]], [want], 1e-4)
    assert not got[0, 1:].any()


@pytest.mark.parametrize("side", [113, 225, 449, 897])
def test_larger_crops_read_later_maps(rng, side):
    sizes = [(1, 2, 256 >> k, 256 >> k) for k in range(5)]
    maps = [np.full(s, k, np.float32) for k, s in enumerate(sizes)]
    box = np.float32([[[0, 0, side - 2, side - 2], [0, 0, side, side]]])
    (got,) = run("MultilevelCropAndResize_TRT", box, *maps, image_size=(3, 1024, 1024), pooled_size=2)
    level = [113, 225, 449, 897].index(side)
    assert (got[0, 0] == level).all()
    assert (got[0, 1] == level + 1).all()


@pytest.mark.rare
def test_crops_of_dynamic_shapes(rng):
    plugin = create("MultilevelCropAndResize_TRT", pooled_size=2, image_size=(3, *IMAGE))
    first = [np.abs(regions(rng, 2, 3)), *pyramid(rng, 2, 2, 5)]
    engine = Engine(plugin, first, dynamic=True)
    assert engine(*first)[0].shape == (2, 3, 2, 2, 2)
    one = [x[:1] for x in first]
    holds(engine(*one), [engine(*first)[0][:1]], 0)
    assert engine(first[0][:, :0], *first[1:])[0].shape == (2, 0, 2, 2, 2)


def test_invalid_maps_and_regions_are_rejected(rng):
    rois, maps = regions(rng), pyramid(rng)
    for wrong in ([rois[..., :3], *maps], [rois, *maps[:3], maps[3][:, :2]], [rois[0], *maps]):
        with trt.strict(), pytest.raises(trt.errors.ShapeError, match="AR123"):
            run("PyramidROIAlign_TRT", *wrong)
    with trt.strict(), pytest.raises(trt.errors.GraphError, match=r"AR406.*4 inputs"):
        run("PyramidROIAlign_TRT", rois, *maps[:3])
    for fields in ({"pooled_size": 0}, {"image_size": [64]}, {"roi_coords_transform": 3}, {"fpn_scale": 1.5}):
        with trt.strict(), pytest.raises(trt.errors.ArgumentError, match="AR304"):
            create("PyramidROIAlign_TRT", **fields)
