"""Region proposals of Faster R-CNN, Proposal and RPROI_TRT: the best boxes around anchors on a grid.

A box includes both of its ends. Boxes that are too small rank behind all others, and fill unused places.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, inf, sqrt

import numpy as np

from anyrt.api.compose.boxes import pooled
from anyrt.api.compose.sizes import Size, length, volume, window
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.standard._part import FLOAT, Part
from anyrt.api.plugins.standard._record import Field, Standard
from anyrt.api.plugins.standard.detections import Limits, columns, picked, select
from anyrt.core.enums import UnaryOperation
from anyrt.core.errors import ArgumentError, ShapeError

LAST = float(np.finfo(np.float32).min)  # the score of boxes that are too small


def proposals(part: Part) -> Tensor:
    """The best boxes, y, x, y, x as fractions of the image: (images, room, 4, 1)."""
    image = float(part.whole("input_height")), float(part.whole("input_width"))
    sizes, ratios = part.reals("anchor_sizes"), part.reals("anchor_ratios")
    sides = [(s * sqrt(r), s / sqrt(r)) for s in sizes for r in ratios]
    stride = part.whole("rpn_stride")
    scores, deltas = _grid(part, 0, len(sides)), _grid(part, 1, 4 * len(sides))
    boxes = _moved(part, deltas, sides, stride, stride / 2, [part.constant(np.float32(n)) for n in image])
    x1, y1, x2, y2 = columns(boxes)
    least = part.real("roi_min_size")
    fits = ((x2 - x1) > least) & ((y2 - y1) > least)
    top, room = part.whole("pre_nms_top_n"), part.whole("post_nms_top_n")
    limits = Limits(room, top, -inf, part.real("nms_iou_threshold"))
    kept = _best(part, boxes, _flat(scores, 1), fits, limits)
    a, b, c, d = columns(kept)
    high, wide = (max(n - 1.0, 1.0) for n in image)
    return part.concat([b / high, a / wide, d / high, c / wide], 2).unsqueeze(3)


def pooled_proposals(part: Part) -> list[Tensor]:
    """The best boxes, x, y, x, y in pixels, (images, 1, room, 4), and the maximum of each of their bins,
    (images, room, channels, rows, columns)."""
    ratios, scales = (part.reals(f"anchors{n}") for n in ("Ratios", "Scales"))
    for name, values in (("Ratio", ratios), ("Scale", scales)):
        if len(values) != part.whole(f"anchors{name}Count"):
            got, count = f"{len(values)} anchors{name}s", part.whole(f"anchors{name}Count")
            raise ArgumentError("AR304", part.where, got, f"{count}, the value of anchors{name}Count")
    stride = part.whole("featureStride")
    sides = [
        (s * w, s * _rounded(w * r)) for r in ratios for w in (_rounded(sqrt(stride**2 / r)),) for s in scales
    ]
    scores, deltas, maps = _grid(part, 0, 2 * len(sides)), _grid(part, 1, 4 * len(sides)), part.of_rank(2, 4)
    objects = _flat(window(scores, 1, len(sides), len(sides)), 1)
    image_sizes = part.of_rank(3, 2, 4).cast(FLOAT)
    sizes = [window(image_sizes.reshape([length(image_sizes, 0), 3]), 1, k, 1).unsqueeze(2) for k in range(3)]
    boxes = _moved(part, deltas, sides, stride, (stride - 1) / 2, sizes[:2])
    x1, y1, x2, y2 = columns(boxes)
    least = sizes[2] * part.real("minBoxSize")
    fits = ~((x2 - x1 + 1.0) < least) & ~((y2 - y1 + 1.0) < least)
    limits = Limits(part.whole("nmsMaxOut"), part.whole("preNmsTop"), -inf, part.real("iouThreshold"))
    kept = _best(part, boxes, objects, fits, limits)
    return [kept.unsqueeze(1), _pooled(part, kept, maps)]


def _rounded(x: float) -> int:
    """The nearest integer; half rounds up."""
    return floor(x + 0.5)


def _grid(part: Part, k: int, channels: int) -> Tensor:
    """Input `k`, (images, channels, rows, columns), as FLOAT."""
    x = part.of_rank(k, 4)
    if x.sizes[1] not in (channels, -1):
        raise ShapeError(
            "AR123", part.where, f"{x.sizes[1]} channels of input {k}", f"{channels}, for these anchors"
        )
    return x.cast(FLOAT)


def _flat(x: Tensor, entries: int) -> Tensor:
    """(images, anchors · rows · columns, entries) of (images, anchors · entries, rows, columns)."""
    sizes: list[Size] = [length(x, k) for k in range(4)]
    anchors = sizes[1] // entries
    y = x.reshape([sizes[0], anchors, entries, *sizes[2:]]).transpose(0, 1, 3, 4, 2)
    return y.reshape([sizes[0], volume(x, (1, 2, 3)) // entries, entries])


def _moved(
    part: Part,
    deltas: Tensor,
    sides: Sequence[tuple[float, float]],
    stride: int,
    first: float,
    image: Sequence[Tensor],
) -> Tensor:
    """Corners x, y, x, y of anchors moved by deltas, clipped to the image: (images, boxes, 4). `first`: the
    center of the first cell; image: its height and width."""
    rows, across = length(deltas, 2), length(deltas, 3)
    dx, dy, dw, dh = columns(_flat(deltas, 4))
    every: list[Size] = [len(sides), rows, across]
    each = [part.constant(np.reshape([s[k] for s in sides], (-1, 1, 1)), FLOAT) for k in (0, 1)]
    lines = part.counted(across).unsqueeze(0, 1), part.counted(rows).unsqueeze(0, 2)
    middle = [line.cast(FLOAT) * float(stride) + first for line in lines]
    grid = [part.expand(v, every).reshape([1, volume(deltas, (1, 2, 3)) // 4, 1]) for v in (*each, *middle)]
    wide, high, x, y = grid
    center = [x + dx * wide, y + dy * high]
    half = [part.unary(UnaryOperation.EXP, d) * side * 0.5 for d, side in ((dw, wide), (dh, high))]
    ends = [c - h for c, h in zip(center, half, strict=True)] + [
        c + h for c, h in zip(center, half, strict=True)
    ]
    last = [(n - 1.0) for n in (image[1], image[0])]
    return part.concat([v.maximum(0.0).minimum(last[k % 2]) for k, v in enumerate(ends)], 2)


def _best(part: Part, boxes: Tensor, scores: Tensor, fits: Tensor, limits: Limits) -> Tensor:
    """The boxes after non-maximum suppression, then zeros: (images, room, 4)."""
    x1, y1, x2, y2 = columns(boxes)
    compared = part.concat([x1, y1, x2 + 1.0, y2 + 1.0], 2)
    ranked = part.where_(fits, scores, part.like(LAST, scores))
    kept = select(part, compared.unsqueeze(2), ranked, limits)
    # All inputs have the same number of images; the shape of one input is the shortest expression.
    return picked(part, boxes, kept.box, kept.there).reshape([length(scores, 0), limits.room, 4])


def _pooled(part: Part, boxes: Tensor, maps: Tensor) -> Tensor:
    """The maximum of each bin of the boxes."""
    images, room = length(maps, 0), part.whole("nmsMaxOut")
    whole = part.unary(UnaryOperation.FLOOR, boxes * part.real("spatialScale") + 0.5)
    image = part.expand(part.counted(images).cast(FLOAT).unsqueeze(1, 2), [images, room, 1])
    rois = part.concat([image, whole], 2).reshape([images * room, 5])
    bins = part.whole("poolingH"), part.whole("poolingW")
    y = pooled(part, maps, rois, bins, 1.0)
    return y.reshape([images, room, length(maps, 1), *bins])


def _whole(*names: str) -> tuple[Field, ...]:
    """Fields of positive integers."""
    return tuple(Field(n, 1, 1, needed=True) for n in names)


PROPOSAL = (
    *_whole("input_height", "input_width", "rpn_stride"),
    Field("roi_min_size", 1.0, 0.0, needed=True),
    Field("nms_iou_threshold", 0.7, 1e-6, needed=True),
    *_whole("pre_nms_top_n", "post_nms_top_n"),
    Field("anchor_sizes", (1.0,), 1e-6, needed=True),
    Field("anchor_ratios", (1.0,), 1e-6, needed=True),
)
PLUGINS = (
    Standard("Proposal", proposals, PROPOSAL, inputs=(2, 2)),
    Standard("ProposalDynamic", proposals, PROPOSAL, inputs=(2, 2)),
    Standard(
        "RPROI_TRT",
        pooled_proposals,
        (
            *_whole("poolingH", "poolingW", "featureStride", "preNmsTop", "nmsMaxOut"),
            *_whole("anchorsRatioCount", "anchorsScaleCount"),
            Field("iouThreshold", 0.7, 1e-6, needed=True),
            Field("minBoxSize", 16.0, 0.0, needed=True),
            Field("spatialScale", 0.0625, 1e-6, needed=True),
            Field("anchorsRatios", (1.0,), 1e-6, needed=True),
            Field("anchorsScales", (1.0,), 1e-6, needed=True),
        ),
        inputs=(4, 4),
        outputs=2,
    ),
)
