"""NMS_TRT, the last layer of SSD: boxes decoded from priors, then non-maximum suppression."""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.api.compose.sizes import Size, length, window
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.standard._part import FLOAT, Part
from anyrt.api.plugins.standard._record import Field, Standard
from anyrt.api.plugins.standard.detections import best, columns
from anyrt.core.enums import ActivationType, UnaryOperation
from anyrt.core.errors import ArgumentError, ShapeError

CORNER, CENTER_SIZE, CORNER_SIZE, TF_CENTER = range(4)


def detection_output(part: Part) -> list[Tensor]:
    """Rows of image, class, score and box, clipped to 0 … 1, class −1 for unused places; and the number of
    boxes, an int32 reinterpreted as a float, as in TensorRT."""
    order, classes = part.wholes("inputOrder"), part.whole("numClasses")
    if sorted(order) != [0, 1, 2]:
        raise ArgumentError("AR304", part.where, f"inputOrder {order}", "0, 1 and 2 in some order")
    places, odds, priors = (part.of_rank(k, 4) for k in order)
    kind, images, many = places.dtype, length(places, 0), _count(part, odds, classes)
    own = 1 if part.whole("shareLocation") else classes
    boxes = decoded(part, places.cast(FLOAT).reshape([images, many, own, 4]), priors.cast(FLOAT), many)
    scores = odds.cast(FLOAT).reshape([images, many, classes])
    if part.whole("confSigmoid"):
        scores = part.activation(ActivationType.SIGMOID, scores)
    least, most = part.real("confidenceThreshold"), part.real("nmsThreshold")
    kept, values, chosen = best(part, boxes, scores, least, most, caffe=True)
    label = part.where_(kept.there, kept.of.cast(FLOAT), part.like(-1.0, values))
    image = part.counted(images).cast(FLOAT).unsqueeze(1)
    image = part.expand(image, [images, part.whole("keepTopK")])
    rows = [*(v.unsqueeze(2) for v in (image, label, values)), chosen.clip(0.0, 1.0)]
    count = part.layer("add_cast", kept.count, FLOAT, bits=True)
    return [part.concat(rows, 2).cast(kind).unsqueeze(1), count.unsqueeze(2, 3)]


def _count(part: Part, odds: Tensor, classes: int) -> Size:
    """The number of priors."""
    if odds.sizes[1] < 0:
        return odds.size(1) // classes
    if odds.sizes[1] % classes:
        raise ShapeError("AR118", part.where, f"{odds.sizes[1]} scores", f"a multiple of {classes} classes")
    return odds.sizes[1] // classes


def decoded(part: Part, places: Tensor, priors: Tensor, many: Size) -> Tensor:
    """Boxes as corners; places: (images, priors, classes or 1, 4), priors: (images, 2, 4 · priors, 1),
    corners and then variances."""
    if part.whole("isBatchAgnostic"):
        priors = window(priors, 0, 0, 1)
    corners, spread = (window(priors, 1, k, 1).reshape([length(priors, 0), many, 1, 4]) for k in (0, 1))
    moved = columns(places if part.whole("varianceEncodedInTarget") else places * spread)
    a, b, c, d = columns(corners)
    low, size = (a, b), (c - a, d - b)
    match part.whole("codeType"):
        case code if code == CORNER:
            boxes = [x + p for x, p in zip(moved, (a, b, c, d), strict=True)]
        case code if code == CORNER_SIZE:
            boxes = [x * size[k % 2] + p for k, (x, p) in enumerate(zip(moved, (a, b, c, d), strict=True))]
        case code:
            boxes = _from_centers(part, moved if code == CENTER_SIZE else _turned(moved), low, size)
    return part.concat(boxes, 3)


def _turned(moved: Sequence[Tensor]) -> list[Tensor]:
    """The coordinates with rows and columns exchanged."""
    return [moved[k] for k in (1, 0, 3, 2)]


def _from_centers(
    part: Part, moved: Sequence[Tensor], low: Sequence[Tensor], size: Sequence[Tensor]
) -> list[Tensor]:
    center = [moved[k] * size[k] + (low[k] + size[k] * 0.5) for k in (0, 1)]
    half = [part.unary(UnaryOperation.EXP, moved[k + 2]) * size[k] * 0.5 for k in (0, 1)]
    return [center[k] - half[k] for k in (0, 1)] + [center[k] + half[k] for k in (0, 1)]


FIELDS = (
    Field("shareLocation", 1, 0, 1),
    Field("varianceEncodedInTarget", 0, 0, 1),
    Field("backgroundLabelId", 0),
    Field("numClasses", 1, 1, needed=True),
    Field("topK", 1000, 1, 4096, needed=True),
    Field("keepTopK", 100, 1, needed=True),
    Field("confidenceThreshold", 0.0),
    Field("nmsThreshold", 0.0),
    Field("inputOrder", (0, 2, 1), 0, 2, count=3),
    Field("confSigmoid", 0, 0, 1),
    Field("isNormalized", 1, 0, 1),
    Field("codeType", TF_CENTER, CORNER, TF_CENTER),
    Field("scoreBits", 16),
    Field("isBatchAgnostic", 1, 0, 1),
)
PLUGINS = tuple(
    Standard(name, detection_output, FIELDS, inputs=(3, 3), outputs=2)
    for name in ("NMS_TRT", "NMSDynamic_TRT")
)
