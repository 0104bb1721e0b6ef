"""Proposals and detections of Mask R-CNN: the best of the boxes that anchors or regions are moved to."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

import numpy as np

from anyrt.api.compose.ordered import best, gather_elements, top
from anyrt.api.compose.sizes import length, window
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.standard._part import FLOAT, Part
from anyrt.api.plugins.standard._record import Field, Standard
from anyrt.api.plugins.standard.detections import FARTHEST, Limits, at_class, below, columns, picked, select
from anyrt.core.enums import TopKOperation, UnaryOperation
from anyrt.core.errors import ShapeError
from anyrt.ops._record import Array

VALID = 0.01  # the minimum score of an object
STRIDES = (4, 8, 16, 32, 64)  # of the five maps
STEEPEST = log(1000 / 16)  # the maximum growth of a side, as a logarithm


# ---- anchors and boxes ----------------------------------------------------------------------------


def pyramid_anchors(image: Sequence[int]) -> Array:
    """Corners y, x, y, x of the anchors of all maps, as fractions of the image: (anchors, 4)."""
    anchors = []
    for stride in STRIDES:
        sides = [(8 * stride / sqrt(r), 8 * stride * sqrt(r)) for r in (0.5, 1.0, 2.0)]
        anchors.append(_around(range(0, image[1], stride), range(0, image[2], stride), sides))
    last = np.array([image[1] - 1, image[2] - 1] * 2)
    return np.asarray((np.concatenate(anchors) - [0, 0, 1, 1]) / last)


def level_anchors(image: Sequence[int]) -> list[Array]:
    """Corners y, x, y, x of the anchors of each map, in pixels."""
    sides = ((1.0, 1.0), (0.7, 1.4), (1.4, 0.7))
    return [
        _around(
            range(s // 2, image[1], s), range(s // 2, image[2], s), [(8 * s * h, 8 * s * w) for h, w in sides]
        )
        for s in STRIDES
    ]


def _around(rows: range, across: range, sides: Sequence[tuple[float, float]]) -> Array:
    """Corners of boxes of these heights and widths around each point: (boxes, 4)."""
    y, x = np.meshgrid(np.array(rows), np.array(across), indexing="ij")
    half = np.array([(-h / 2, -w / 2, h / 2, w / 2) for h, w in sides])
    return np.asarray((np.stack([y, x, y, x], -1)[:, :, None] + half).reshape(-1, 4))


def moved(part: Part, boxes: Tensor, deltas: Tensor) -> Tensor:
    """Boxes as fractions of the image, moved by deltas with the standard deviations of Mask R-CNN."""
    low, size = _ends(columns(boxes))
    dy, dx, dh, dw = columns(deltas)
    center = [low[k] + size[k] * 0.5 + d * 0.1 * size[k] for k, d in enumerate((dy, dx))]
    sides = [_exp(part, d * 0.2) * size[k] for k, d in enumerate((dh, dw))]
    first = [c - s * 0.5 for c, s in zip(center, sides, strict=True)]
    ends = [a + s for a, s in zip(first, sides, strict=True)]
    return part.concat([*first, *ends], boxes.rank - 1).clip(0.0, 1.0)


def decoded(
    part: Part, boxes: Tensor, deltas: Tensor, image: Sequence[int], weights: Sequence[int]
) -> Tensor:
    """Boxes in pixels, both ends included, moved by deltas divided by weights, clipped to the image."""
    low, size = _ends(columns(boxes))
    size = [s + 1.0 for s in size]
    d = [x / float(w) for x, w in zip(columns(deltas), weights, strict=True)]
    center = [low[k] + size[k] * 0.5 + d[k] * size[k] for k in (0, 1)]
    sides = [_exp(part, d[k + 2].minimum(STEEPEST)) * size[k] for k in (0, 1)]
    first = [c - s * 0.5 for c, s in zip(center, sides, strict=True)]
    ends = [*first, *(a + s - 1.0 for a, s in zip(first, sides, strict=True))]
    inside = [x.clip(0.0, image[1 + k % 2] - 1.0) for k, x in enumerate(ends)]
    return part.concat(inside, boxes.rank - 1)


def _ends(corners: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """The lower corner, and the sides."""
    a, b, c, d = corners
    return [a, b], [c - a, d - b]


def _exp(part: Part, x: Tensor) -> Tensor:
    return part.unary(UnaryOperation.EXP, x)


def _rows(part: Part, k: int, entries: int, ranks: Sequence[int], like: int = 0) -> Tensor:
    """Input `k` as (images, rows, entries), without trailing axes of size 1, as FLOAT. All inputs have the
    same number of images, and input `like` as many rows; its shape is the shortest expression."""
    x = part.of_rank(k, *ranks)
    if x.sizes[2] not in (entries, -1) or any(n not in (1, -1) for n in x.sizes[3:]):
        raise ShapeError("AR123", part.where, f"{x.sizes} of input {k}", f"{entries} values in each row")
    return x.cast(FLOAT).reshape([length(part.inputs[0], 0), length(part.inputs[like], 1), entries])


def _fits(part: Part, x: Tensor, anchors: Array) -> Tensor:
    """The anchors, after checking that `x` has a row for each."""
    if x.sizes[1] not in (len(anchors), -1):
        got, wanted = f"rows for {x.sizes[1]} anchors", f"{len(anchors)}, for this image_size"
        raise ShapeError("AR123", part.where, got, wanted)
    return part.constant(anchors[None].astype(np.float32))


# ---- proposals ------------------------------------------------------------------------------------


def proposals(part: Part) -> Tensor:
    """The best boxes around anchors, as fractions of the image, then zeros."""
    scores, deltas = _rows(part, 0, 2, (3, 4)), _rows(part, 1, 4, (3, 4))
    anchors = _fits(part, deltas, pyramid_anchors(part.wholes("image_size")))
    boxes, objects = moved(part, anchors, deltas), window(scores, 2, 1, 1)
    limits = Limits(part.whole("keep_topk"), part.whole("prenms_topk"), VALID, part.real("iou_threshold"))
    kept = select(part, boxes.unsqueeze(2), objects, limits)
    return picked(part, boxes, kept.box, kept.there).cast(part.inputs[0].dtype)


def multilevel_proposals(part: Part) -> Tensor:
    """The best boxes of all maps in pixels, from the best of each map."""
    image, room = part.wholes("image_size"), part.whole("keep_topk")
    least = max(below(part.real("fg_threshold")), 0.0)
    limits = Limits(room, part.whole("prenms_topk"), least, part.real("iou_threshold"))
    scores, boxes = [], []
    for k, level in enumerate(level_anchors(image)):
        deltas, objects = (_rows(part, 2 * k + i, n, (3, 4), 2 * k) for i, n in ((0, 4), (1, 1)))
        decoded_boxes = decoded(part, _fits(part, deltas, level), deltas, image, (1, 1, 1, 1))
        kept = select(part, decoded_boxes.unsqueeze(2), objects, limits)
        scores.append(at_class(part, objects, kept).clip(0.0, 1.0))
        boxes.append(picked(part, decoded_boxes, kept.box, kept.there))
    _, at = top(part, part.concat(scores, 1), TopKOperation.MAX, room, 1)
    chosen = part.layer("add_gather", part.concat(boxes, 1), at, 1, num_elementwise_dims=1)
    return chosen.cast(part.inputs[0].dtype)


# ---- detections -----------------------------------------------------------------------------------


def detections(part: Part) -> Tensor:
    """Rows of a box as fractions of the image, its class and score; class −1 for unused places."""
    deltas, scores, rois, of = _of_best(part, 0)
    return _selected(part, moved(part, rois, deltas), scores, of)


def generated_detections(part: Part) -> Tensor:
    """The same with boxes in pixels; the background is not a candidate for the best class."""
    deltas, scores, rois, of = _of_best(part, 1)
    boxes = decoded(part, rois, deltas, part.wholes("image_size"), (10, 10, 5, 5))
    return _selected(part, boxes, scores, of)


def _of_best(part: Part, first: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The deltas of the best class from `first` on for each region, the scores, the regions, and that
    class."""
    classes = part.whole("num_classes")
    deltas, scores = _rows(part, 0, 4 * classes, (3, 5)), _rows(part, 1, classes, (3, 5))
    rois = _rows(part, 2, 4, (3,))
    if classes == 1:
        return deltas, scores, rois, part.full(rois.shape(), part.constant(np.int64(0)))
    of = best(part, window(scores, 2, first, classes - first), TopKOperation.MAX, 2) + first
    each = deltas.reshape([length(deltas, 0), length(deltas, 1), classes, 4])
    index = part.expand(of.unsqueeze(3), [length(deltas, 0), length(deltas, 1), 1, 4])
    return gather_elements(part, each, index, 2).squeeze(2), scores, rois, of


def _selected(part: Part, boxes: Tensor, scores: Tensor, of: Tensor) -> Tensor:
    """Rows of the selected boxes of each class except the first, the background."""
    classes = part.counted(length(scores, 2)).unsqueeze(0, 1)
    own = classes.equal(of) & (classes > 0)
    least = max(below(part.real("score_threshold")), VALID)
    room = part.whole("keep_topk")
    limits = Limits(room, FARTHEST, least, part.real("iou_threshold"))
    kept = select(part, boxes.unsqueeze(2), part.where_(own, scores, part.like(-np.inf, scores)), limits)
    values = at_class(part, scores, kept).clip(0.0, 1.0)
    label = part.where_(kept.there, kept.of.cast(FLOAT), part.like(-1.0, values))
    parts = [picked(part, boxes, kept.box, kept.there), label.unsqueeze(2), values.unsqueeze(2)]
    return part.concat(parts, 2).cast(part.inputs[0].dtype)


KEPT = (Field("keep_topk", 100, 1, needed=True), Field("iou_threshold", 0.5, 1e-6, needed=True))
TOP = Field("prenms_topk", 1024, 1, 4096, needed=True)
DETECTIONS = (Field("num_classes", 1, 1, needed=True), Field("score_threshold", 0.0, 0.0, needed=True), *KEPT)
IMAGE = Field("image_size", (3, 832, 1344), 1, count=3)
PLUGINS = (
    Standard(
        "ProposalLayer_TRT",
        proposals,
        (TOP, *KEPT, Field("image_size", (3, 1024, 1024), 2, count=3)),
        inputs=(2, 2),
    ),
    Standard("DetectionLayer_TRT", detections, DETECTIONS, inputs=(3, 3)),
    Standard("GenerateDetection_TRT", generated_detections, (*DETECTIONS, IMAGE), inputs=(3, 3)),
    Standard(
        "MultilevelProposeROI_TRT",
        multilevel_proposals,
        (TOP, *KEPT, Field("fg_threshold", 0.0, 0.0, needed=True), IMAGE),
        inputs=(10, 10),
    ),
)
