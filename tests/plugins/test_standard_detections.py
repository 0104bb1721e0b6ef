"""EfficientNMS and BatchedNMS against a loop over boxes in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import anyrt as trt
from tests.plugins.standards import Engine, create, holds, run


def boxes(rng, *shape):
    """Corners, the second pair behind the first."""
    low = rng.uniform(0, 10, (*shape, 2))
    return np.concatenate([low, low + rng.uniform(0.5, 6, (*shape, 2))], -1).astype(np.float32)


def scores(rng, *shape):
    """Different numbers below 1."""
    return (rng.permutation(int(np.prod(shape))).reshape(shape) / max(1, np.prod(shape))).astype(np.float32)


def overlap(a, b):
    """The ratio of intersection and union."""
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    common = float(np.prod(sides))
    return common / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common) if common > 0 else 0.0


def kept(boxes, scores, room, least, most, background=-1, agnostic=False, compared=4096):
    """Of one image the boxes (N, C, 4) that are kept: (score, box, class), the best first."""
    order = sorted((-scores[n, c], n, c) for n, c in np.ndindex(scores.shape) if c != background)
    results = []
    for s, n, c in order[:compared]:
        same = [b for _, b, d in results if agnostic or c == d]
        if -s >= least and all(overlap(boxes[n, c], b) < most for b in same):
            results.append((-s, boxes[n, c], c))
    return results[:room]


def reference(x, scores, room, least, most, empty=0, **more):
    """The expected outputs, of fixed size."""
    images, classes = len(scores), scores.shape[2]
    wide = x[:, :, None] if x.ndim == 3 else x
    wide = np.broadcast_to(wide, (*wide.shape[:2], classes, 4))
    out = [np.zeros((images, 1)), np.zeros((images, room, 4)), np.zeros((images, room)),
           np.full((images, room), float(empty))]  # fmt: skip
    for i in range(images):
        result = kept(wide[i], scores[i], room, least, most, **more)
        out[0][i] = len(result)
        for k, (s, box, c) in enumerate(result):
            out[1][i, k], out[2][i, k], out[3][i, k] = box, s, c
    return out


NMS = {"score_threshold": 0.3, "iou_threshold": 0.4, "max_output_boxes": 12, "box_coding": 0}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("agnostic", [0, 1])
@pytest.mark.parametrize("own", [(), (1,), (3,)])
def test_efficient_nms_keeps_the_best_boxes_of_each_class(rng, agnostic, own):
    plugin = create("EfficientNMS_TRT", **NMS, background_class=1, class_agnostic=agnostic)
    engine = Engine(plugin, [boxes(rng, 2, 30, *own), scores(rng, 2, 30, 3)], dynamic=True)
    for images, many in ((2, 30), (4, 60), (1, 1)):
        x, s = boxes(rng, images, many, *own), scores(rng, images, many, 3)
        got = engine(x, s)
        assert [y.dtype for y in got] == [np.int32, np.float32, np.float32, np.int32]
        holds(got, reference(x, s, 12, 0.3, 0.4, background=1, agnostic=bool(agnostic)))


@pytest.mark.parametrize("shape", [(0, 30, 3), (2, 0, 3), (2, 30, 0)])
def test_efficient_nms_of_nothing_keeps_nothing(rng, shape):
    x, s = boxes(rng, *shape[:2]), scores(rng, *shape)
    count, *rest = run("EfficientNMS_TRT", x, s, **NMS)
    assert count.shape == (shape[0], 1)
    assert not count.any()
    assert not any(y.any() for y in rest)


def test_efficient_nms_supports_centers_raw_scores_and_anchors(rng):
    anchors, deltas = boxes(rng, 1, 20), rng.normal(0, 0.1, (2, 20, 4)).astype(np.float32)
    raw = rng.normal(0, 2, (2, 20, 3)).astype(np.float32)
    fields = {**NMS, "box_coding": 1, "score_activation": 1}
    got = run("EfficientNMS_TRT", deltas, raw, anchors, **fields)
    center = deltas[..., :2] * anchors[..., 2:] + anchors[..., :2]
    size = anchors[..., 2:] * np.exp(deltas[..., 2:])
    corners = np.concatenate([center - size / 2, center + size / 2], -1)
    holds(got, reference(corners, 1 / (1 + np.exp(-raw.astype(np.float64))), 12, 0.3, 0.4), 1e-4)


@pytest.mark.rare
def test_efficient_nms_moves_corners_of_anchors_by_sums(rng):
    anchors, deltas = boxes(rng, 2, 20), np.zeros((2, 20, 4), np.float32)
    s = scores(rng, 2, 20, 2)
    holds(run("EfficientNMS_TRT", deltas, s, anchors, **NMS), reference(anchors, s, 12, 0.3, 0.4))


def test_scores_of_half_precision_count_from_the_rounded_threshold(rng):
    x, s = boxes(rng, 1, 8).astype(np.float16), np.full((1, 8, 1), 0.3, np.float16)
    got = run("EfficientNMS_TRT", x, s, **{**NMS, "iou_threshold": 1.0})
    assert got[0].tolist() == [[8]]
    assert [y.dtype for y in got[1:3]] == [np.float16, np.float16]


def test_a_ratio_equal_to_the_threshold_drops_a_box():
    x = np.float32([[[0, 0, 2, 2], [0, 0, 2, 1], [5, 5, 6, 6]]])
    s = np.float32([[[0.9], [0.8], [0.5]]])
    count, result, *_ = run("EfficientNMS_TRT", x, s, **{**NMS, "iou_threshold": 0.5, "score_threshold": 0.5})
    assert count.tolist() == [[2]]
    assert result[0, 1].tolist() == [5, 5, 6, 6]


def test_unused_places_of_indices_repeat_the_last_row(rng):
    x, s = boxes(rng, 2, 9), scores(rng, 2, 9, 2)
    got = run("EfficientNMS_ONNX_TRT", x, s, score_threshold=0.5, iou_threshold=0.4,
              max_output_boxes_per_class=20)[0]  # fmt: skip
    wide = np.broadcast_to(x[:, :, None], (2, 9, 2, 4))
    rows = []
    for i in range(2):
        for score, _, c in kept(wide[i], s[i], 20, 0.5, 0.4):
            rows.append((i, c, int(np.argwhere(s[i, :, c] == score)[0, 0])))
    assert got.shape == (40, 3)
    assert got.tolist() == [list(r) for r in rows] + [list(rows[-1])] * (40 - len(rows))


def test_indices_of_nothing_are_minus_one(rng):
    x, s = boxes(rng, 1, 4), np.zeros((1, 4, 2), np.float32)
    got = run("EfficientNMS_ONNX_TRT", x, s, score_threshold=0.5, iou_threshold=0.4,
              max_output_boxes_per_class=3)[0]  # fmt: skip
    assert got.tolist() == [[-1] * 3] * 3


BATCHED = {"numClasses": 3, "topK": 60, "keepTopK": 10, "scoreThreshold": 0.3, "iouThreshold": 0.4}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("share", [0, 1])
def test_batched_nms_returns_classes_as_floats(rng, share):
    own = 1 if share else 3
    plugin = create("BatchedNMSDynamic_TRT", **BATCHED, shareLocation=share, clipBoxes=0)
    engine = Engine(plugin, [boxes(rng, 2, 30, own), scores(rng, 2, 30, 3)], dynamic=True)
    for images, many in ((2, 30), (4, 60), (0, 4), (1, 0)):
        x, s = boxes(rng, images, many, own), scores(rng, images, many, 3)
        got = engine(x, s)
        assert [y.dtype for y in got] == [np.int32, *[np.float32] * 3]
        holds(got, reference(x, s, 10, 0.3, 0.4, empty=-1, compared=many * 3))


@pytest.mark.rare
def test_batched_nms_compares_only_the_best_of_each_class(rng):
    x, s = boxes(rng, 2, 30, 1), scores(rng, 2, 30, 3)
    fields = {**BATCHED, "topK": 5, "backgroundLabelId": 0, "clipBoxes": 0}
    low = np.sort(s, 1)[:, -5:-4]
    best = np.where(s >= low, s, 0)
    got = run("BatchedNMS_TRT", x, s, **fields)
    first, *rest = reference(x, best, 10, 0.3, 0.4, empty=-1, background=0)
    assert got[0].tolist() == first[:, 0].tolist()
    holds(got[1:], rest)


def test_boxes_are_clipped_and_counted_in_pixels(rng):
    x, s = boxes(rng, 1, 20, 1).round(), scores(rng, 1, 20, 1)
    fields = {**BATCHED, "numClasses": 1, "isNormalized": 0}
    got = run("BatchedNMSDynamic_TRT", x, s, **fields)
    grown = x + np.float32([0, 0, 1, 1])
    _, actual, *rest = reference(grown, s, 10, 0.3, 0.4, empty=-1)
    plain = np.where(actual != 0, actual - [0, 0, 1, 1], 0)
    holds(got[1:], [plain.clip(0, 1), *rest])


def test_batched_nms_rejects_a_wrong_number_of_classes(rng):
    with trt.strict(), pytest.raises(trt.errors.ShapeError, match=r"AR123.*2 classes"):
        Engine(create("BatchedNMSDynamic_TRT", **BATCHED), [boxes(rng, 1, 4, 1), scores(rng, 1, 4, 2)])
