"""Proposals of Faster R-CNN and their pooling, against a loop over boxes in NumPy."""

from __future__ import annotations

from math import ceil, floor, sqrt

import numpy as np
import pytest

import anyrt as trt
from tests.plugins.standards import Engine, create, holds, run
from tests.plugins.test_standard_detections import overlap, scores

HIGH, WIDE = 60, 90
END = np.array([0, 0, 1, 1])
FIELDS = {"input_height": HIGH, "input_width": WIDE, "rpn_stride": 8, "roi_min_size": 6.0,
          "nms_iou_threshold": 0.4, "pre_nms_top_n": 60, "post_nms_top_n": 10,
          "anchor_sizes": [10.0, 25.0], "anchor_ratios": [1.0, 4.0, 0.25]}  # fmt: skip
POOL = {"poolingH": 2, "poolingW": 3, "featureStride": 16, "preNmsTop": 60, "nmsMaxOut": 6,
        "anchorsRatioCount": 3, "anchorsScaleCount": 2, "iouThreshold": 0.4,
        "minBoxSize": 12.0, "spatialScale": 0.0625,
        "anchorsRatios": [0.5, 1.0, 2.0], "anchorsScales": [1.0, 2.0]}  # fmt: skip


def moved(deltas, sides, stride, first):
    """Corners of one image's boxes in the order of anchors, rows and columns."""
    results = []
    for a, row, column in np.ndindex(len(sides), *deltas.shape[1:]):
        dx, dy, dw, dh = deltas[4 * a : 4 * a + 4, row, column].astype(np.float64)
        w, h = sides[a]
        x, y, w, h = (
            column * stride + first + dx * w,
            row * stride + first + dy * h,
            w * np.exp(dw),
            h * np.exp(dh),
        )
        corners = np.array([x - w / 2, y - h / 2, x + w / 2, y + h / 2])
        results.append(corners.clip(0, [WIDE - 1, HIGH - 1] * 2))
    return np.array(results)


def best(boxes, s, fits, top, room, most):
    """Boxes that no better one overlaps; those that do not fit come last."""
    ranks = sorted(range(len(boxes)), key=lambda n: (not fits[n], -s[n] if fits[n] else n))
    results = []
    for n in ranks[:top]:
        if all(overlap(boxes[n] + END, b + END) <= most for b in results):
            results.append(boxes[n])
    return np.array([*results, *[np.zeros(4)] * room])[:room]


def proposed(s, deltas, room=10):
    """Proposals of one image."""
    sides = [(n * sqrt(r), n / sqrt(r)) for n in FIELDS["anchor_sizes"] for r in FIELDS["anchor_ratios"]]
    boxes = moved(deltas, sides, 8, 4)
    fits = ((boxes[:, 2:] - boxes[:, :2]) > 6).all(1)
    result = best(boxes, s.reshape(-1), fits, 60, room, 0.4)
    return result[:, [1, 0, 3, 2]] / ([HIGH - 1, WIDE - 1] * 2)


def inputs(rng, images, rows, columns):
    """Scores and deltas of six anchors."""
    deltas = rng.normal(0, 0.4, (images, 24, rows, columns)).astype(np.float32)
    return scores(rng, images, 6, rows, columns), deltas


@pytest.mark.sampled(2)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["Proposal", "ProposalDynamic"])
def test_proposals_are_the_best_boxes_of_a_grid(rng, name):
    engine = Engine(create(name, **FIELDS), inputs(rng, 2, 4, 5), dynamic=True)
    for images, rows, columns in ((2, 4, 5), (4, 7, 10), (1, 1, 1)):
        s, deltas = inputs(rng, images, rows, columns)
        want = np.stack([proposed(s[i], deltas[i]) for i in range(images)])
        holds(engine(s, deltas), [want[..., None]], 1e-4)
    assert engine(*inputs(rng, 0, 4, 5))[0].shape == (0, 10, 4, 1)


def test_boxes_that_are_too_small_come_last(rng):
    s, deltas = inputs(rng, 1, 1, 1)
    deltas[:, 2::4] = -3  # one twentieth as wide
    want = proposed(s[0], deltas[0])
    assert want.any()
    holds(run("Proposal", s, deltas, **FIELDS), [want[None, ..., None]], 1e-4)


def pooled(x, box):
    """The largest element of each of 2 × 3 bins of a map."""
    x1, y1, x2, y2 = (floor(v / 16 + 0.5) for v in box)
    out = np.zeros((len(x), 2, 3))
    for i, j in np.ndindex(2, 3):
        h, w = max(y2 - y1 + 1, 1) / 2, max(x2 - x1 + 1, 1) / 3
        part = x[:, y1 + floor(i * h) : y1 + ceil((i + 1) * h), x1 + floor(j * w) : x1 + ceil((j + 1) * w)]
        out[:, i, j] = part.max((1, 2)) if part.size else 0
    return out


def image(images):
    """Height and width of images, and how much they were scaled."""
    return np.tile(np.float32([HIGH, WIDE, 1.5]), (images, 1)).reshape(images, 1, 1, 3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dynamic", [False, True])
def test_regions_are_proposed_and_pooled(rng, dynamic):
    s, deltas = inputs(rng, 2, 4, 5)
    s = np.concatenate([s[:, ::-1], s], 1)
    maps = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    engine = Engine(create("RPROI_TRT", **POOL), [s, deltas, maps, image(2)], dynamic)
    rois, got = engine(s, deltas, maps, image(2))
    whole = [(round(16 / sqrt(r)), floor(round(16 / sqrt(r)) * r + 0.5)) for r in (0.5, 1, 2)]
    sides = [(n * w, n * h) for w, h in whole for n in (1, 2)]
    for i in range(2):
        boxes = moved(deltas[i], sides, 16, 7.5)
        fits = ((boxes[:, 2:] - boxes[:, :2] + 1) >= 18).all(1)
        want = best(boxes, s[i, 6:].reshape(-1), fits, 60, 6, 0.4)
        holds([rois[i, 0], got[i]], [want, np.stack([pooled(maps[i], b) for b in want])], 1e-4)


def test_invalid_channels_and_counts_are_rejected(rng):
    s, deltas = inputs(rng, 1, 4, 5)
    with trt.strict(), pytest.raises(trt.errors.ShapeError, match=r"AR123.*5 channels of input 0"):
        run("Proposal", s[:, :5], deltas, **FIELDS)
    maps = rng.standard_normal((1, 3, 4, 5)).astype(np.float32)
    with trt.strict(), pytest.raises(trt.errors.ArgumentError, match=r"AR304.*2 anchorsRatios"):
        run(
            "RPROI_TRT",
            np.concatenate([s, s], 1),
            deltas,
            maps,
            image(1),
            **{**POOL, "anchorsRatios": [1.0, 2.0]},
        )
    with trt.strict(), pytest.raises(trt.errors.PluginError, match=r"AR822.*rpn_stride"):
        create("Proposal", **{n: x for n, x in FIELDS.items() if n != "rpn_stride"})
