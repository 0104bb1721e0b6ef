"""Pillars of point clouds, and decoded boxes, against loops in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import anyrt as trt
from tests.plugins.standards import Engine, create, holds, run

AREA = [-8.0, -4.0, -3.0, 8.0, 4.0, 1.0]
BOXES = {"point_cloud_range": AREA, "anchor_bottom_height": [-1.5, -0.5], "score_thresh": 0.6,
         "dir_offset": 0.7, "dir_limit_offset": 0.2, "anchors": np.linspace(0.5, 3, 16).tolist()}  # fmt: skip
PILLARS = {"max_num_points_per_voxel": 3, "max_voxels": 12, "point_cloud_range": AREA,
           "voxel_feature_num": 10, "voxel_size": [2.0, 2.0, 4.0]}  # fmt: skip


def seen(scores, moves, ways):
    """Rows of one image, by rows, columns and anchors."""
    high, wide, result = *scores.shape[:2], []
    anchors = np.reshape(BOXES["anchors"], (4, 4))
    for row, column, a in np.ndindex(high, wide, 4):
        odds = scores[row, column, 2 * a : 2 * a + 2]
        score = 1 / (1 + np.exp(-odds.max()))
        if score < 0.6:
            continue
        m, way = moves[row, column, 7 * a : 7 * a + 7], ways[row, column, 2 * a : 2 * a + 2]
        dx, dy, dz, turn = anchors[a]
        x, y = -8 + column * 16 / max(wide - 1, 1), -4 + row * 8 / max(high - 1, 1)
        z, side = dz / 2 + BOXES["anchor_bottom_height"][a // 2], np.hypot(dx, dy)
        angle = m[6] + turn - 0.7
        angle += 0.7 - np.floor(angle / np.pi + 0.2) * np.pi + np.pi * (way[0] <= way[1])
        place = [m[0] * side + x, m[1] * side + y, m[2] * dz + z]
        result.append([*place, *np.exp(m[3:6]) * [dx, dy, dz], angle, odds.argmax(), score])
    return result


def maps(rng, *shape):
    """Scores, boxes and directions of two classes."""
    return [rng.standard_normal((*shape, n)).astype(np.float32) for n in (8, 28, 8)]


def test_boxes_above_the_threshold_come_first(rng):
    engine = Engine(create("DecodeBbox3DPlugin", **BOXES), maps(rng, 2, 3, 4), dynamic=True)
    for images, high, wide in ((2, 3, 4), (4, 6, 8), (1, 1, 1), (0, 3, 4)):
        values = maps(rng, images, high, wide)
        got, count = engine(*values)
        want = np.zeros((images, high * wide * 4, 9))
        for i in range(images):
            rows = seen(*(x[i].astype(np.float64) for x in values))
            want[i, : len(rows)] = np.reshape(rows, (-1, 9))
            assert count[i] == len(rows)
        holds([got], [want], 1e-4)


def gathered(points, count, most=3, room=12, values=10):
    """Features and cells of one image's pillars."""
    cells = {}
    for p in points[:count].astype(np.float64):
        if (p[:3] >= AREA[:3]).all() and (p[:3] < AREA[3:]).all():
            cells.setdefault((int((p[1] + 4) // 2), int((p[0] + 8) // 2)), []).append(p)
    features, coords = np.zeros((room, most, values)), np.zeros((room, 4))
    for k, (y, x) in enumerate(sorted(cells)[:room]):
        held = np.array(cells[y, x][:most])
        middle = [x * 2 - 7, y * 2 - 3, -1]
        rows = np.concatenate([held, held[:, :3] - held[:, :3].mean(0), held[:, :3] - middle], 1)
        features[k, : len(held)], coords[k] = rows[:, :values], (0, 0, y, x)
    return features, coords, min(len(cells), room)


def cloud(rng, images, many, numbers):
    """Points, some outside the range, and the number of valid ones."""
    points = rng.uniform(-9, 9, (images, many, numbers)) * ([1, 0.5, 0.3] + [1] * (numbers - 3))
    return points.astype(np.float32), rng.integers(many // 2, many + 1, images).astype(np.int32)


@pytest.mark.parametrize(("numbers", "expected"), [(4, 10), (5, 11), (4, 6)])
def test_points_are_gathered_in_pillars(rng, numbers, expected):
    plugin = create("VoxelGeneratorPlugin", **{**PILLARS, "voxel_feature_num": expected})
    engine = Engine(plugin, cloud(rng, 2, 50, numbers), dynamic=True, fixed=[2])
    for images, many in ((2, 50), (4, 100), (1, 1), (2, 0), (0, 50)):
        points, counts = cloud(rng, images, many, numbers)
        features, coords, count = engine(points, counts)
        for i in range(images):
            want = gathered(points[i], counts[i], values=expected)
            holds([features[i], coords[i]], want[:2], 1e-4)
            assert count[i] == want[2]
    assert [x.dtype for x in (features, coords, count)] == [np.float32, np.int32, np.int32]


def test_few_points_fill_few_pillars(rng):
    plugin = create("VoxelGeneratorPlugin", **PILLARS)
    values = cloud(rng, 1, 1, 4)
    features, coords, count = Engine(plugin, values)(values[0], np.int32([0]))
    assert not features.any()
    assert not coords.any()
    assert count.tolist() == [0]


def test_wrong_numbers_of_values_are_rejected(rng):
    with trt.strict(), pytest.raises(trt.errors.ArgumentError, match=r"AR304.*15 values of anchors"):
        run("DecodeBbox3DPlugin", *maps(rng, 1, 2, 2), **{**BOXES, "anchors": [1.0] * 15})
    with trt.strict(), pytest.raises(trt.errors.ShapeError, match=r"AR123.*input 1"):
        run("DecodeBbox3DPlugin", *(x[..., :8] for x in maps(rng, 1, 2, 2)), **BOXES)
    with trt.strict(), pytest.raises(trt.errors.ShapeError, match=r"AR123.*6 values"):
        run("VoxelGeneratorPlugin", *cloud(rng, 1, 5, 6), **PILLARS)
    with trt.strict(), pytest.raises(trt.errors.ArgumentError, match=r"AR304.*voxel_feature_num 11"):
        run("VoxelGeneratorPlugin", *cloud(rng, 1, 5, 4), **{**PILLARS, "voxel_feature_num": 11})
