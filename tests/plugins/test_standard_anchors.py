"""Prior boxes, and boxes of detections, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import anyrt as trt
from tests.plugins.standards import Engine, create, holds, run


def priors(rows, columns, high, wide, least, most, ratios, offset=0.5):
    """As the loops of Caffe's SSD say."""
    results = []
    for row in range(rows):
        for column in range(columns):
            x, y = (column + offset) * wide / columns, (row + offset) * high / rows
            for k, s in enumerate(least):
                sides = [(s, s), *([(np.sqrt(s * most[k]),) * 2] if most else [])]
                sides += [(s * np.sqrt(r), s / np.sqrt(r)) for r in ratios]
                for w, h in sides:
                    results.append(
                        [(x - w / 2) / wide, (y - h / 2) / high, (x + w / 2) / wide, (y + h / 2) / high]
                    )
    return np.array(results)


@pytest.mark.parametrize("flip", [0, 1])
@pytest.mark.parametrize("most", [[], [60.0, 110.0]])
def test_priors_lie_around_each_cell_with_their_variances(flip, most):
    x, image = np.zeros((2, 5, 3, 4), np.float32), np.zeros((2, 3, 90, 160), np.float32)
    fields = {"minSize": [30.0, 70.0], "aspectRatios": [2.0, 1.0, 2.0, 3.0], "flip": flip, "offset": 0.25}
    (got,) = run("PriorBox_TRT", x, image, **fields, **({"maxSize": most} if most else {}))
    ratios = [2, 1 / 2, 3, 1 / 3] if flip else [2, 3]
    want = priors(3, 4, 90, 160, [30, 70], most, ratios, 0.25)
    assert got.shape == (2, 2, want.size, 1)
    holds([got[0, 0, :, 0], got[1, 0, :, 0]], [want.ravel()] * 2)
    holds([got[1, 1, :, 0].reshape(-1, 4)[:3]], [np.array([[0.1, 0.1, 0.2, 0.2]] * 3)])


def test_priors_are_clipped_and_use_the_fields_for_sizes_and_steps():
    x, image = np.zeros((1, 1, 2, 2), np.float16), np.zeros((1, 3, 7, 7), np.float16)
    fields = {"minSize": [40.0], "clip": 1, "imgH": 64, "imgW": 32, "stepH": 32.0, "stepW": 16.0}
    (got,) = run("PriorBox_TRT", x, image, **fields, variance=[0.5, 1.0, 2.0, 4.0])
    want = priors(2, 2, 64, 32, [40], [], []).clip(0, 1)
    assert got.dtype == np.float16
    holds([got[0, 0, :, 0], got[0, 1, :, 0]], [want.ravel(), np.tile([0.5, 1, 2, 4], 4)], 1e-3)


@pytest.mark.parametrize(
    ("fields", "message"), [({"maxSize": [1.0, 2.0]}, "2 maxSize"), ({"flip": 2}, "flip")]
)
def test_invalid_fields_of_priors_are_rejected(fields, message):
    x, image = np.zeros((1, 1, 2, 2), np.float32), np.zeros((1, 3, 8, 8), np.float32)
    with trt.strict(), pytest.raises(trt.errors.ArgumentError, match=f"AR304.*{message}"):
        Engine(create("PriorBox_TRT", minSize=[4.0], **fields), (x, image))


def test_boxes_of_detections_are_their_first_four_values(rng):
    x = rng.standard_normal((2, 7, 6)).astype(np.float32)
    assert np.array_equal(run("SpecialSlice_TRT", x)[0], x[:, :, :4])
    with trt.strict(), pytest.raises(trt.errors.ShapeError, match=r"AR123.*5 values"):
        run("SpecialSlice_TRT", x[:, :, :5])


SSD = {"numLayers": 3, "minSize": 0.2, "maxSize": 0.95, "aspectRatios": [1.0, 2.0, 0.5, 3.0, 0.33],
       "variance": [0.1, 0.1, 0.2, 0.2]}  # fmt: skip


def cells(rows, columns, sides):
    """One anchor after the other."""
    results = []
    for row in range(rows):
        for column in range(columns):
            x, y = (column + 0.5) / rows, (row + 0.5) / rows
            results += [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for w, h in sides]
    return np.array(results)


def test_anchors_lie_on_the_grid_of_each_map():
    got = run("GridAnchorRect_TRT", featureMapShapes=[4, 6, 2, 3, 1, 1], **SSD)
    first = [(0.1, 0.1), (0.2 * 2**0.5, 0.2 / 2**0.5), (0.2 * 0.5**0.5, 0.2 / 0.5**0.5)]
    expected = [cells(4, 6, first)]
    for rows, columns, scale, after in ((2, 3, 0.575, 0.95), (1, 1, 0.95, 1.0)):
        sides = [(scale * r**0.5, scale / r**0.5) for r in SSD["aspectRatios"]]
        expected.append(cells(rows, columns, [*sides, ((scale * after) ** 0.5,) * 2]))
    assert [y.shape for y in got] == [(1, 2, 4 * len(w), 1) for w in expected]
    for y, w in zip(got, expected, strict=True):
        holds([y[0, 0, :, 0], y[0, 1, -4:, 0]], [w.ravel(), np.float64([0.1, 0.1, 0.2, 0.2])])


def test_square_maps_have_one_size_each():
    got, wide = (run(f"GridAnchor{kind}_TRT", featureMapShapes=shapes, **SSD)
                 for kind, shapes in (("", [4, 2, 1]), ("Rect", [4, 4, 2, 2, 1, 1])))  # fmt: skip
    for a, b in zip(got, wide, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("GridAnchor_TRT", {"featureMapShapes": [4, 2]}),
        ("GridAnchorRect_TRT", {"featureMapShapes": [4, 4, 2, 2, 1]}),
        ("GridAnchor_TRT", {"featureMapShapes": [4, 2, 1], "aspectRatios": [1.0, 2.0]}),
        ("GridAnchor_TRT", {"featureMapShapes": [4, 2, 0]}),
    ],
)
def test_invalid_maps_and_ratios_are_rejected(name, fields):
    with trt.strict(), pytest.raises(trt.errors.AnyrtError, match=r"AR304|AR123"):
        Engine(create(name, **{**SSD, **fields}), ())
