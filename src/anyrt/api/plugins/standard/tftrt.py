"""EfficientNMS as TensorFlow's CombinedNonMaxSuppression: with a maximum number of boxes of each class."""

from __future__ import annotations

from anyrt.api.compose.sizes import Size, length, smaller, window
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.standard._part import FLOAT, Part
from anyrt.api.plugins.standard._record import Field, Standard
from anyrt.api.plugins.standard.detections import (
    CANDIDATES,
    THRESHOLDS,
    Limits,
    at_class,
    below,
    boxes_of,
    least,
    operands,
    select,
)


def combined(part: Part) -> list[Tensor]:
    """The number of selected boxes, the boxes, their scores and their classes. If pad_per_class, the outputs
    have no more places than all classes together can fill."""
    kind, room = part.inputs[0].dtype, part.whole("max_total_size")
    boxes, scores = (x.cast(FLOAT) for x in operands(part))
    each = part.whole("max_output_size_per_class")
    score = below(least(part.real("score_threshold"), False, kind))
    limits = Limits(room, CANDIDATES, score, below(part.real("iou_threshold")), each)
    kept = select(part, boxes, scores, limits)
    values, chosen = at_class(part, scores, kept), boxes_of(part, boxes, kept, length(scores, 2))
    if part.whole("clip_boxes"):
        chosen = chosen.clip(0.0, 1.0)
    size: Size = room
    if part.whole("pad_per_class") and each > 0:
        size = smaller(room, length(scores, 2) * each)
    classes = part.where_(kept.there, kept.of, kept.of * 0)
    rows = [window(x, 1, 0, size) for x in (chosen.cast(kind), values.cast(kind), classes)]
    return [kept.count, *rows]


def combined_static(part: Part) -> list[Tensor]:
    """The same with a count of shape (images)."""
    count, *rest = combined(part)
    return [count.squeeze(1), *rest]


FIELDS = (
    Field("max_output_size_per_class", -1, -1),
    Field("max_total_size", 100, 1),
    *THRESHOLDS[::-1],
    Field("pad_per_class", 0, 0, 1),
    Field("clip_boxes", 0, 0, 1),
)
PLUGINS = (
    Standard("EfficientNMS_Explicit_TF_TRT", combined, FIELDS, inputs=(2, 2), outputs=4),
    Standard("EfficientNMS_Implicit_TF_TRT", combined_static, FIELDS, inputs=(2, 2), outputs=4),
)
