"""Prior boxes, and places of detections, among the standard plug-ins, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import anyrt as trt
from tests.plugins.standards import Engine, holds, made, run


def priors(rows, columns, high, wide, least, most, ratios, offset=0.5):
    """As the loops of Caffe's SSD say."""
    found = []
    for row in range(rows):
        for column in range(columns):
            x, y = (column + offset) * wide / columns, (row + offset) * high / rows
            for k, s in enumerate(least):
                sides = [(s, s), *([(np.sqrt(s * most[k]),) * 2] if most else [])]
                sides += [(s * np.sqrt(r), s / np.sqrt(r)) for r in ratios]
                for w, h in sides:
                    found.append(
                        [(x - w / 2) / wide, (y - h / 2) / high, (x + w / 2) / wide, (y + h / 2) / high]
                    )
    return np.array(found)


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


def test_priors_are_clipped_and_take_sizes_and_steps_that_are_told():
    x, image = np.zeros((1, 1, 2, 2), np.float16), np.zeros((1, 3, 7, 7), np.float16)
    fields = {"minSize": [40.0], "clip": 1, "imgH": 64, "imgW": 32, "stepH": 32.0, "stepW": 16.0}
    (got,) = run("PriorBox_TRT", x, image, **fields, variance=[0.5, 1.0, 2.0, 4.0])
    want = priors(2, 2, 64, 32, [40], [], []).clip(0, 1)
    assert got.dtype == np.float16
    holds([got[0, 0, :, 0], got[0, 1, :, 0]], [want.ravel(), np.tile([0.5, 1, 2, 4], 4)], 1e-3)


@pytest.mark.parametrize(
    ("fields", "message"), [({"maxSize": [1.0, 2.0]}, "2 maxSize"), ({"flip": 2}, "flip")]
)
def test_priors_of_fields_that_do_not_fit_are_refused(fields, message):
    x, image = np.zeros((1, 1, 2, 2), np.float32), np.zeros((1, 3, 8, 8), np.float32)
    with trt.strict(), pytest.raises(trt.errors.ArgumentError, match=f"AR304.*{message}"):
        Engine(made("PriorBox_TRT", minSize=[4.0], **fields), (x, image))


def test_places_of_detections_are_their_first_four_numbers(rng):
    x = rng.standard_normal((2, 7, 6)).astype(np.float32)
    assert np.array_equal(run("SpecialSlice_TRT", x)[0], x[:, :, :4])
    with trt.strict(), pytest.raises(trt.errors.ShapeError, match=r"AR123.*5 numbers"):
        run("SpecialSlice_TRT", x[:, :, :5])
