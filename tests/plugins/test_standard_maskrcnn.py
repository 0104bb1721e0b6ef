"""Proposals and detections of Mask R-CNN against a loop over boxes in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import anyrt as trt
from tests.plugins.standards import Engine, create, holds, run
from tests.plugins.test_standard_detections import kept, scores

SIZE = (3, 64, 96)
NMS = {"iou_threshold": 0.3, "keep_topk": 8}


def shifted(box, delta, pixel=0.0, weights=(10, 10, 5, 5), most=np.inf):
    """A box y, x, y, x moved by (dy, dx, log dh, log dw); `pixel`: what is counted besides its sides."""
    dy, dx, dh, dw = delta / weights
    h, w = box[2] - box[0] + pixel, box[3] - box[1] + pixel
    y, x = box[0] + h / 2 + dy * h, box[1] + w / 2 + dx * w
    h, w = h * np.exp(min(dh, most)), w * np.exp(min(dw, most))
    return np.array([y - h / 2, x - w / 2, y + h / 2 - pixel, x + w / 2 - pixel])


def inside(box):
    """A box in pixels, cut off at the borders of the image."""
    return box.clip(0, [SIZE[1] - 1, SIZE[2] - 1] * 2)


def anchors():
    """All anchors, as parts of the image."""
    results = []
    for stride in (4, 8, 16, 32, 64):
        for y in range(0, SIZE[1], stride):
            for x in range(0, SIZE[2], stride):
                for ratio in (0.5, 1, 2):
                    h, w = 8 * stride / ratio**0.5, 8 * stride * ratio**0.5
                    results.append([y - h / 2, x - w / 2, y + h / 2 - 1, x + w / 2 - 1])
    return np.array(results) / ([SIZE[1] - 1, SIZE[2] - 1] * 2)


def level(stride):
    """The anchors of one map, in pixels."""
    results = []
    for y in range(stride // 2, SIZE[1], stride):
        for x in range(stride // 2, SIZE[2], stride):
            for w, h in ((1, 1), (1.4, 0.7), (0.7, 1.4)):
                h, w = 8 * stride * h, 8 * stride * w
                results.append([y - h / 2, x - w / 2, y + h / 2, x + w / 2])
    return np.array(results)


def table(rows, room, width):
    """Rows with zeros behind."""
    return np.array([*rows, *[np.zeros(width)] * room])[:room].reshape(room, width)


def proposed(deltas, s, top=200, room=8):
    """Proposals of one image."""
    moved = [shifted(a, d).clip(0, 1) for a, d in zip(anchors(), deltas, strict=True)]
    return table(
        [b for _, b, _ in kept(np.array(moved)[:, None], s[:, None], room, 0.01, 0.3, compared=top)], room, 4
    )


def inputs(rng, images):
    """Scores of background and objects, and deltas."""
    many = len(anchors())
    s = np.stack([scores(rng, images, many), scores(rng, images, many)], -1)
    return s, rng.normal(0, 1, (images, many, 4)).astype(np.float32)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dynamic", [False, True])
def test_proposals_are_the_best_boxes_around_anchors(rng, dynamic):
    s, deltas = inputs(rng, 2)
    plugin = create("ProposalLayer_TRT", **NMS, prenms_topk=200, image_size=SIZE)
    engine = Engine(plugin, [s[..., None], deltas[..., None]], dynamic)
    want = np.stack([proposed(deltas[i].astype(np.float64), s[i, :, 1]) for i in range(2)])
    holds(engine(s[..., None], deltas[..., None]), [want], 1e-4)
    if dynamic:
        holds(engine(s[:1, ..., None], deltas[:1, ..., None]), [want[:1]], 1e-4)
        assert engine(s[:0, ..., None], deltas[:0, ..., None])[0].shape == (0, 8, 4)


def test_low_scores_propose_nothing(rng):
    s, deltas = inputs(rng, 1)
    got = run("ProposalLayer_TRT", s / np.float32(200), deltas, **NMS, prenms_topk=200, image_size=SIZE)
    assert not got[0].any()


def detected(deltas, s, rois, shift, first, least=0.3, room=8):
    """Detections of one image: (room, 6)."""
    classes = s.shape[1]
    moved, own = np.zeros((len(s), 1, 4)), np.full(s.shape, -1.0)
    for r in range(len(s)):
        of = first + int(np.argmax(s[r, first:]))
        moved[r, 0] = shift(rois[r], deltas[r].reshape(classes, 4)[of])
        own[r, of] = s[r, of] if of else -1
    wide = np.broadcast_to(moved, (len(s), classes, 4))
    result = table([[*b, c, v] for v, b, c in kept(wide, own, room, least, 0.3)], room, 6)
    result[(result == 0).all(1), 4] = -1
    return result


def regions(rng, images, many, classes, scale):
    """Deltas, scores and regions."""
    low, size = rng.uniform(0, 0.8, (images, many, 2)), rng.uniform(0.05, 0.6, (images, many, 2))
    rois = (np.concatenate([low, low + size], -1) * scale).astype(np.float32)
    deltas = rng.normal(0, 1, (images, many, 4 * classes)).astype(np.float32)
    return deltas[..., None, None], scores(rng, images, many, classes)[..., None, None], rois


def in_parts(box, delta):
    return shifted(box, delta).clip(0, 1)


def in_pixels(box, delta):
    return inside(shifted(box, delta, 1.0, (10, 10, 5, 5), np.log(1000 / 16)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "shift", "first", "scale", "more"),
    [
        ("DetectionLayer_TRT", in_parts, 0, 1.0, {}),
        ("GenerateDetection_TRT", in_pixels, 1, 80.0, {"image_size": SIZE}),
    ],
)
def test_detections_are_the_best_regions_of_each_class(rng, name, shift, first, scale, more):
    plugin = create(name, num_classes=4, score_threshold=0.3, **NMS, **more)
    engine = Engine(plugin, regions(rng, 2, 20, 4, scale), dynamic=True)
    for images, many in ((2, 20), (4, 40), (1, 1), (2, 0)):
        values = regions(rng, images, many, 4, scale)
        wide = [x.reshape(x.shape[:3]).astype(np.float64) for x in values]
        want = [detected(*(x[i] for x in wide), shift, first) for i in range(images)]
        holds(engine(*values), [np.stack(want)], 1e-4)


def test_the_only_class_is_the_background(rng):
    got = run("DetectionLayer_TRT", *regions(rng, 1, 5, 1, 1.0), num_classes=1, score_threshold=0.0, **NMS)
    assert got[0][0, :, 4].tolist() == [-1.0] * 8
    assert not got[0][..., [0, 1, 2, 3, 5]].any()


@pytest.mark.rare
def test_proposals_of_several_maps_are_ranked_together(rng):
    values, results = [], []
    for stride in (4, 8, 16, 32, 64):
        boxes = level(stride)
        deltas, s = rng.normal(0, 0.3, boxes.shape).astype(np.float32), scores(rng, 1, len(boxes))[0]
        s *= np.float32(rng.uniform(0.8, 1))
        values += [deltas[None, :, :, None], s[None, :, None, None]]
        moved = [
            inside(shifted(a, d, 1.0, 1, np.log(1000 / 16)))
            for a, d in zip(boxes, deltas.astype(float), strict=True)
        ]
        results += kept(np.array(moved)[:, None], s[:, None], 8, 0.2, 0.3, compared=200)
    got = run("MultilevelProposeROI_TRT", *values, prenms_topk=200, fg_threshold=0.2, image_size=SIZE, **NMS)
    best = sorted(results, key=lambda row: -row[0])
    holds(got, [table([b for _, b, _ in best], 8, 4)[None]], 1e-4)


@pytest.mark.rare
def test_outputs_have_half_precision_like_inputs(rng):
    values = [x.astype(np.float16) for x in regions(rng, 1, 6, 3, 1.0)]
    (got,) = run("DetectionLayer_TRT", *values, num_classes=3, score_threshold=0.3, **NMS)
    assert got.dtype == np.float16
    wide = [x.reshape(6, -1).astype(np.float64) for x in values]
    holds([got[0]], [detected(*wide, in_parts, 0)], 5e-3)


def test_invalid_anchors_classes_and_fields_are_rejected(rng):
    s, deltas = inputs(rng, 1)
    with trt.strict(), pytest.raises(trt.errors.ShapeError, match=r"AR123.*rows for 5 anchors"):
        run("ProposalLayer_TRT", s[:, :5], deltas[:, :5], **NMS, prenms_topk=200, image_size=SIZE)
    with trt.strict(), pytest.raises(trt.errors.ShapeError, match=r"AR123.*input 0"):
        run("DetectionLayer_TRT", *regions(rng, 1, 5, 3, 1.0), num_classes=4, score_threshold=0.3, **NMS)
    with trt.strict(), pytest.raises(trt.errors.PluginError, match=r"AR822.*prenms_topk"):
        create("ProposalLayer_TRT", **NMS)
    with trt.strict(), pytest.raises(trt.errors.ArgumentError, match="AR304"):
        create("DetectionLayer_TRT", num_classes=0, score_threshold=0.3, **NMS)
