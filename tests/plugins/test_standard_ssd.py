"""NMS_TRT, the last layer of SSD, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import anyrt as trt
from tests.plugins.standards import Engine, create, holds, run
from tests.plugins.test_standard_detections import boxes, reference, scores

FIELDS = {"numClasses": 3, "topK": 40, "keepTopK": 8, "confidenceThreshold": 0.3, "nmsThreshold": 0.4,
          "inputOrder": [0, 1, 2], "backgroundLabelId": 0}  # fmt: skip


def decoded(code, moved, corners):
    """Corners of boxes, one kind after the other as their page has them."""
    low, high = corners[..., :2], corners[..., 2:]
    size = high - low
    if code == 0:
        return moved + corners
    if code == 2:
        return moved * np.concatenate([size, size], -1) + corners
    moved = moved if code == 1 else moved[..., [1, 0, 3, 2]]
    center, half = moved[..., :2] * size + (low + high) / 2, np.exp(moved[..., 2:]) * size / 2
    return np.concatenate([center - half, center + half], -1)


def inputs(rng, images, many):
    """Priors below 1, small moves, and scores."""
    corners = boxes(rng, 1, many) / 16
    spread = np.full((1, many, 4), 0.1, np.float32)
    priors = np.stack([corners.reshape(1, -1), spread.reshape(1, -1)], 1)[..., None]
    moved = rng.normal(0, 1, (images, many, 4)).astype(np.float32)
    s = scores(rng, images, many, 3)
    flat = moved.reshape(images, -1, 1, 1), s.reshape(images, -1, 1, 1)
    return corners, moved * spread, s, (*flat, np.repeat(priors, images, 0))


def rows(result, images):
    """The selected boxes as rows of seven values."""
    count, box, score, label = result
    image = np.broadcast_to(np.arange(images)[:, None], score.shape)
    table = np.concatenate([np.stack([image, label, score], -1), box.clip(0, 1)], -1)
    return table[:, None], count[:, :, None, None]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("code", range(4))
def test_boxes_are_decoded_from_priors(rng, code):
    corners, moved, s, arrays = inputs(rng, 2, 30)
    got = run("NMS_TRT", *arrays, codeType=code, **FIELDS)
    actual = reference(
        decoded(code, moved, corners).astype(np.float32), s, 8, 0.3, 0.4, empty=-1, background=0
    )
    table, count = rows(actual, 2)
    holds([got[0], got[1].view(np.int32)], [table, count], 1e-4)


def test_batches_may_be_dynamic(rng):
    arrays = inputs(rng, 2, 20)[3]
    engine = Engine(create("NMSDynamic_TRT", codeType=1, **FIELDS), arrays, dynamic=True)
    for images, many in ((2, 20), (4, 40), (1, 3)):
        corners, moved, s, arrays = inputs(rng, images, many)
        table, count = engine(*arrays)
        actual = reference(
            decoded(1, moved, corners).astype(np.float32), s, 8, 0.3, 0.4, empty=-1, background=0
        )
        holds([table, count.view(np.int32)], rows(actual, images), 1e-4)


def test_an_invalid_input_order_is_rejected(rng):
    plugin = create("NMS_TRT", **{**FIELDS, "inputOrder": [0, 1, 1]})
    with trt.strict(), pytest.raises(trt.errors.ArgumentError, match="AR304"):
        Engine(plugin, inputs(rng, 1, 4)[3])
