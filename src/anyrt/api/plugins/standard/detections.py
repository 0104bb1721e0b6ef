"""Non-maximum suppression with outputs of fixed size: EfficientNMS, BatchedNMS, NMS of SSD.

The NMS layer returns rows image by image, the best first. Each image has `room` places: its own rows, then
zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anyrt.api.compose.ordered import cumulative, gather_elements, scatter, top
from anyrt.api.compose.sizes import Size, length, smaller, window
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.standard._part import FLOAT, INT32, Part
from anyrt.api.plugins.standard._record import Field, Standard
from anyrt.core.enums import ActivationType, DataType, ReduceOperation, TopKOperation, UnaryOperation
from anyrt.core.errors import ShapeError

CANDIDATES = 4096  # boxes of an image that EfficientNMS considers
LEAST = -float(1 << 15)  # a lower bound of all scores
FARTHEST = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected boxes of each image: (images, room) for `box` and `of`, the index of the box and its
    class; `there`: whether the place is used; count: the number of used places, (images, 1)."""

    box: Tensor
    of: Tensor
    there: Tensor
    count: Tensor


@dataclass(frozen=True, slots=True)
class Limits:
    """The number of places and of candidates, the score that a box must exceed, and the maximum overlap;
    each: the maximum number of boxes of a class, −1 for no limit."""

    room: int
    candidates: int
    score: float
    overlap: float
    each: int = -1


def select(part: Part, boxes: Tensor, scores: Tensor, limits: Limits) -> Selection:
    """The best boxes of each image; boxes: (images, N, classes or 1, 4), scores: (images, N, classes)."""
    most = part.constant(np.int32(limits.room if limits.each < 0 else min(limits.each, limits.room)))
    layer = part.add("add_nms", boxes, scores, most, topk_box_limit=limits.candidates)
    numbers = {3: part.constant(np.float32(limits.overlap)), 4: part.constant(np.float32(limits.score))}
    rows = part.with_inputs(layer, dict(numbers))
    image = window(rows, 1, 0, 1)
    images = part.counted(length(scores, 0)).cast(INT32).unsqueeze(0)
    count = _counted(part, image.equal(images)).minimum(limits.room)
    place = part.constant(np.arange(limits.room, dtype=np.int32)[None])
    there = place < count
    behind = part.concat([rows, part.constant(np.zeros((1, 3), np.int32))], 0)
    nowhere = part.size(rows, 0).cast(INT32).reshape((1, 1))
    at = part.where_(there, _counted(part, image < images) + place, nowhere)
    row = part.gather(behind, at, 0)
    of, box = (window(row, 2, k, 1).squeeze(2) for k in (1, 2))
    return Selection(box, of, there, count)


def _counted(part: Part, flags: Tensor) -> Tensor:
    """The number of flagged rows of each column: (columns, 1)."""
    return part.reduce(ReduceOperation.SUM, flags.cast(INT32), [0], keep=False).unsqueeze(1)


def picked(part: Part, x: Tensor, at: Tensor, there: Tensor, empty: float = 0.0) -> Tensor:
    """The entries of axis 1 at these positions of each image, `empty` for unused places."""
    if x.sizes[1] < 1:  # there may be no entry to read
        x = part.concat(
            [x, part.full([length(x, 0), 1, *x.sizes[2:]], part.constant(np.zeros(()), x.dtype))], 1
        )
    y = part.layer("add_gather", x, at, 1, num_elementwise_dims=1)
    mask = there.unsqueeze(*range(2, y.rank))
    return part.where_(mask, y, part.like(empty, y))


def below(x: float) -> float:
    """The next smaller float32; a value above it is at least `x`."""
    return float(np.nextafter(np.float32(x), np.float32(-np.inf)))


def without(part: Part, scores: Tensor, of: int) -> Tensor:
    """The scores without class `of`, if that is not negative."""
    if of < 0:
        return scores
    classes = part.counted(length(scores, 2)).unsqueeze(0, 1)
    return part.where_(classes.equal(of), part.like(-np.inf, scores), scores)


def operands(part: Part) -> tuple[Tensor, Tensor]:
    """Boxes as (images, N, classes or 1, 4), scores as (images, N, classes)."""
    boxes, scores = part.of_rank(0, 3, 4), part.of_rank(1, 3, 4)
    if scores.rank == 4:
        scores = scores.squeeze(3)
    if boxes.sizes[-1] not in (4, -1):
        raise ShapeError("AR123", part.where, f"boxes of {boxes.sizes[-1]} values", "4 values for each box")
    boxes = boxes.unsqueeze(2) if boxes.rank == 3 else boxes
    if boxes.sizes[2] < 0:  # dynamic: either one box for all classes, or one for each
        boxes = part.expand(boxes, [*(length(scores, k) for k in range(3)), 4])
    return boxes, scores


# ---- EfficientNMS ---------------------------------------------------------------------------------


def efficient_nms(part: Part) -> list[Tensor]:
    """The number of selected boxes, the boxes, their scores and their classes."""
    kind = part.inputs[0].dtype
    boxes, scores = operands(part)
    boxes, raw = corners(part, boxes.cast(FLOAT), part.whole("box_coding")), scores.cast(FLOAT)
    limits = Limits(
        part.whole("max_output_boxes"),
        CANDIDATES,
        below(least(part.real("score_threshold"), bool(part.whole("score_activation")), kind)),
        below(part.real("iou_threshold")),
    )
    kept = ranked(part, boxes, without(part, raw, part.whole("background_class")), limits)
    values = at_class(part, raw, kept)
    if part.whole("score_activation"):
        values = part.where_(
            kept.there, part.activation(ActivationType.SIGMOID, values), part.like(0, values)
        )
    chosen = boxes_of(part, boxes, kept, length(scores, 2))
    return [kept.count, chosen.cast(kind), values.cast(kind), part.where_(kept.there, kept.of, kept.of * 0)]


def least(threshold: float, sigmoid: bool, kind: DataType) -> float:
    """The score threshold; of scores before the sigmoid if `sigmoid`."""
    if sigmoid:
        odds = threshold / max(1.0 - threshold, 1e-30)
        threshold = float(np.log(np.float32(odds))) if threshold > 0 else LEAST
    return float(np.float16(threshold)) if kind is DataType.HALF else threshold


def ranked(part: Part, boxes: Tensor, scores: Tensor, limits: Limits) -> Selection:
    """The same as `select`; if class_agnostic, each box of each class competes with all others."""
    if "class_agnostic" not in part.names or not part.whole("class_agnostic"):
        return select(part, boxes, scores, limits)
    images, many, classes = (length(scores, k) for k in range(3))
    own = part.expand(boxes, [images, many, classes, 4]).reshape([images, many * classes, 1, 4])
    kept = select(part, own, scores.reshape([images, many * classes, 1]), limits)
    by = part.size(scores, 2).cast(INT32).reshape((1, 1)).maximum(1)
    box = kept.box // by
    return Selection(box, kept.box - box * by, kept.there, kept.count)


def at_class(part: Part, scores: Tensor, kept: Selection) -> Tensor:
    """The scores of the selection: (images, room)."""
    flat = scores.reshape([length(scores, 0), _times(scores, 1, 2)])
    by = part.size(scores, 2).cast(INT32).reshape((1, 1))
    return picked(part, flat, kept.box * by + kept.of, kept.there)


def boxes_of(part: Part, boxes: Tensor, kept: Selection, classes: Size) -> Tensor:
    """The boxes of the selection, of its class if each class has its own: (images, room, 4)."""
    at = kept.box
    if boxes.sizes[2] != 1:
        own = part.size(boxes, 2).cast(INT32).reshape((1, 1))
        at = at * own + kept.of.minimum(own - 1)
    flat = boxes.reshape([length(boxes, 0), _times(boxes, 1, 2), 4])
    return picked(part, flat, at, kept.there)


def _times(x: Tensor, a: int, b: int) -> Size:
    return length(x, a) * length(x, b)


def columns(x: Tensor) -> list[Tensor]:
    """The four coordinates of boxes, each with a last axis of 1."""
    return [window(x, -1, k, 1) for k in range(4)]


def corners(part: Part, boxes: Tensor, centers: int) -> Tensor:
    """Boxes as corners, decoded by anchors if there is a third input."""
    anchors = part.optional(2)
    x = columns(boxes)
    if anchors is not None:
        a = columns(anchors.cast(FLOAT).unsqueeze(2))
        if centers:
            x = [x[k] * a[k + 2] + a[k] for k in (0, 1)] + [_exp(part, x[k]) * a[k] for k in (2, 3)]
        else:
            x = [v + b for v, b in zip(ordered(x), ordered(a), strict=True)]
    if centers:
        x = [x[k] - x[k + 2] * 0.5 for k in (0, 1)] + [x[k] + x[k + 2] * 0.5 for k in (0, 1)]
    return part.concat(x, 3) if centers or anchors is not None else boxes


def ordered(x: Sequence[Tensor]) -> list[Tensor]:
    """Corners with the lower one first."""
    a, b, c, d = x
    return [a.minimum(c), b.minimum(d), a.maximum(c), b.maximum(d)]


def _exp(part: Part, x: Tensor) -> Tensor:
    return part.unary(UnaryOperation.EXP, x)


def efficient_nms_onnx(part: Part) -> Tensor:
    """Image, class and box of the selection. Unused places repeat the last row, or are −1 if nothing is
    selected."""
    boxes, scores = part.of_rank(0, 3, 4), part.of_rank(1, 3)
    boxes = boxes.unsqueeze(2) if boxes.rank == 3 else boxes
    boxes = corners(part, boxes.cast(FLOAT), part.whole("center_point_box"))
    room = part.whole("max_output_boxes_per_class")
    kind, swapped = part.inputs[0].dtype, scores.cast(FLOAT)
    score = below(least(part.real("score_threshold"), False, kind))
    kept = select(part, boxes, swapped, Limits(room, CANDIDATES, score, below(part.real("iou_threshold"))))
    images = part.counted(length(scores, 0)).cast(INT32).unsqueeze(1)
    rows = [part.expand(images, [length(scores, 0), room]), kept.of, kept.box]
    table = part.concat([x.reshape([length(x, 0) * room, 1]) for x in rows], 1)
    return _packed(part, table, kept.there.reshape([length(scores, 0) * room, 1]))


def _packed(part: Part, table: Tensor, there: Tensor) -> Tensor:
    """The used rows first, then copies of the last one."""
    before = cumulative(part, there.cast(INT32), 0)
    total = part.reduce(ReduceOperation.MAX, before, [0]).maximum(0)
    place = part.counted(length(table, 0)).cast(INT32).unsqueeze(1)
    where = part.where_(there, before - 1, part.size(table, 0).cast(INT32).reshape((1, 1)))
    spare = part.full([1, 3], part.constant(np.int32(-1)))
    room = part.concat([part.full([length(table, 0), 3], part.constant(np.int32(-1))), spare], 0)
    filled = scatter(part, room, where.cast(DataType.INT64), table)
    return part.gather(filled, place.minimum((total - 1).maximum(0)).squeeze(1), 0)


# ---- BatchedNMS and NMS of SSD --------------------------------------------------------------------


def batched_nms(part: Part) -> list[Tensor]:
    """The number of selected boxes, the boxes, their scores and their classes, as floats, −1 for unused
    places."""
    kind = part.inputs[0].dtype
    part.of_rank(0, 4)
    boxes, scores = operands(part)
    _same_classes(part, boxes, scores)
    kept, values, chosen = best(part, boxes.cast(FLOAT), scores.cast(FLOAT), part.real("scoreThreshold"),
                                part.real("iouThreshold"), bool(part.whole("caffeSemantics")))  # fmt: skip
    if part.whole("clipBoxes"):
        chosen = chosen.clip(0.0, 1.0)
    classes = part.where_(kept.there, kept.of.cast(FLOAT), part.like(-1.0, values))
    return [kept.count, chosen.cast(kind), values.cast(kind), classes.cast(kind)]


def batched_nms_static(part: Part) -> list[Tensor]:
    """The same with a count of shape (images)."""
    count, *rest = batched_nms(part)
    return [count.squeeze(1), *rest]


def _same_classes(part: Part, boxes: Tensor, scores: Tensor) -> None:
    classes = part.whole("numClasses")
    own = 1 if part.whole("shareLocation") else classes
    if scores.sizes[2] not in (classes, -1) or boxes.sizes[2] not in (own, -1):
        got = f"scores of {scores.sizes[2]} classes and boxes of {boxes.sizes[2]}"
        raise ShapeError(
            "AR123", part.where, got, f"{classes} and {own}, according to numClasses and shareLocation"
        )


def best(
    part: Part, boxes: Tensor, scores: Tensor, above: float, overlap: float, caffe: bool
) -> tuple[Selection, Tensor, Tensor]:
    """The selection, its scores and boxes; only the best `topK` of each class are candidates."""
    top, room = part.whole("topK"), part.whole("keepTopK")
    scores = without(part, scores, part.whole("backgroundLabelId"))
    many = length(scores, 1)
    if not isinstance(many, int) or many > top:
        scores, boxes = _top(part, scores, boxes, top)
    compared = boxes
    if caffe or not part.whole("isNormalized"):
        a, b, c, d = columns(boxes)
        c, d = (c.maximum(a), d.maximum(b)) if caffe else (c, d)
        grown = 0.0 if part.whole("isNormalized") else 1.0
        compared = part.concat([a, b, c + grown, d + grown], 3)
    kept = select(part, compared, scores, Limits(room, FARTHEST, above, overlap))
    return kept, at_class(part, scores, kept), boxes_of(part, boxes, kept, length(scores, 2))


def _top(part: Part, scores: Tensor, boxes: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """The best `most` scores of each class, with a box for each."""
    sizes = [length(scores, k) for k in range(3)]
    boxes = part.expand(boxes, [*sizes, 4])
    if not isinstance(sizes[1], int):  # the axis may be empty: add an entry that TopK can select
        row = [sizes[0], 1, sizes[2]]
        scores = part.concat([scores, part.full(row, part.constant(np.float32(-np.inf)))], 1)
        boxes = part.concat([boxes, part.full([*row, 4], part.constant(np.float32(0)))], 1)
    count = smaller(length(scores, 1), most)
    values, at = top(part, scores, TopKOperation.MAX, count, 1)
    index = part.expand(at.unsqueeze(3), [*(length(at, i) for i in range(3)), 4])
    return values, gather_elements(part, boxes, index, 1)


THRESHOLDS = (Field("score_threshold", 0.5, 0.0), Field("iou_threshold", 0.5, 0.0))
BATCHED = (
    Field("shareLocation", 1, 0, 1),
    Field("backgroundLabelId", -1),
    Field("numClasses", 1, 1, needed=True),
    Field("topK", 1000, 1, 4096, needed=True),
    Field("keepTopK", 100, 1, needed=True),
    Field("scoreThreshold", 0.0),
    Field("iouThreshold", 0.5),
    Field("isNormalized", 1, 0, 1),
    Field("clipBoxes", 1, 0, 1),
    Field("scoreBits", 16),
    Field("caffeSemantics", 1, 0, 1),
)
PLUGINS = (
    Standard(
        "EfficientNMS_TRT",
        efficient_nms,
        (
            *THRESHOLDS,
            Field("max_output_boxes", 100, 1),
            Field("background_class", -1),
            Field("score_activation", 0, 0, 1),
            Field("class_agnostic", 0, 0, 1),
            Field("box_coding", 0, 0, 1),
        ),
        inputs=(2, 3),
        outputs=4,
    ),
    Standard(
        "EfficientNMS_ONNX_TRT",
        efficient_nms_onnx,
        (*THRESHOLDS, Field("max_output_boxes_per_class", 100, 1), Field("center_point_box", 0, 0, 1)),
        inputs=(2, 2),
    ),
    Standard("BatchedNMSDynamic_TRT", batched_nms, BATCHED, inputs=(2, 2), outputs=4),
    Standard("BatchedNMS_TRT", batched_nms_static, BATCHED, inputs=(2, 2), outputs=4),
)
