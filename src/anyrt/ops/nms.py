"""NMS: selects the best of overlapping boxes, for each class.

add_nms(boxes, scores, max_output_boxes_per_class)   # (count, 3): batch, class, box; and count
layer.set_input(3, iou_threshold); layer.set_input(4, score_threshold)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from anyrt.core.dims import Dim, minimum, mul, product
from anyrt.core.enums import BoundingBoxFormat, DataType, LayerType
from anyrt.core.errors import ArgumentError, DTypeError
from anyrt.ir.graph import Value, apply
from anyrt.ir.symbolic import known
from anyrt.ops._positions import positions
from anyrt.ops._record import ABSENT, Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS, INTS
from anyrt.prims.build import cast, const, expand, gather, iota, map_, reshape, scalar, slice_
from anyrt.prims.const import Shape
from anyrt.prims.ranked import Ranked
from anyrt.prims.suppressed import Suppressed

LIMIT: Final = 5000
CENTERS = BoundingBoxFormat.CENTER_SIZES
F, I = DataType.FLOAT, DataType.INT32  # noqa: E741


@dataclass(frozen=True, slots=True)
class NMSAttrs(Attrs):
    """Attributes of NMS."""

    bounding_box_format: BoundingBoxFormat = attr(
        Kind.ENUM, "format of a box: two corners, or centre and size", BoundingBoxFormat.CORNER_PAIRS,
        enum=BoundingBoxFormat,
    )  # fmt: skip
    topk_box_limit: int = attr(
        Kind.INT, "number of best scores of an image, over all classes, that are considered", LIMIT
    )
    indices_type: DataType = attr(
        Kind.ENUM, "the element type of the indices, int32 or int64", DataType.INT32, enum=DataType
    )


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Numbers of images, boxes per image and classes; `own`: whether each class has boxes of its own."""

    batch: Dim
    boxes: Dim
    classes: Dim
    own: bool


def expanded(layer: Layer[NMSAttrs]) -> tuple[Value, ...]:
    """Scores above the threshold are selected, as by `NonZero`, and ranked. `Suppressed` marks the boxes to
    keep, which are selected in the same way."""
    sizes = _judged(layer)
    scores, attrs = reshape(layer.input(1), (_volume(sizes),)), layer.attrs
    threshold = _number(layer, 4)
    above = map_("gt", cast(scores, F), reshape(threshold, (1,)))
    ((some,), _) = _rows(f"{layer.name}#candidates", above, None)
    order = _order(scores, some, sizes, attrs.topk_box_limit)
    best = gather(some, order, 0)
    most = cast(layer.input(2), I)
    groups, limit = mul(sizes.batch, sizes.classes), attrs.topk_box_limit
    kept = apply(
        Suppressed(groups, sizes.batch, limit),
        _group(best, sizes),
        *_corners(layer, best, sizes),
        most,
        _number(layer, 3),
    )
    ((at,), count) = _rows(f"{layer.name}#count", kept, _most(layer, sizes))
    return cast(_indices(gather(best, at, 0), sizes), attrs.indices_type), cast(count, I)


def _rows(name: str, mask: Value, most: Dim | None) -> tuple[tuple[Value, ...], Value]:
    """The positions of True in a row, and their number."""
    rows, count = positions(name, mask, I, most)
    return (reshape(rows, rows.shape[1:]),), count


def _judged(layer: Layer[NMSAttrs]) -> _Sizes:
    boxes, scores, attrs = layer.input(0), layer.input(1), layer.attrs
    if attrs.indices_type not in INTS:
        got, do = f"indices of {attrs.indices_type.name}", "set indices_type"
        raise DTypeError("AR202", layer.name, got, "INT32 or INT64", do)
    if attrs.topk_box_limit < 1:
        got, do = f"topk_box_limit {attrs.topk_box_limit}", "set it to 1 or more"
        raise ArgumentError("AR304", layer.name, got, "1 or more", do)
    return _Sizes(scores.shape[0], scores.shape[1], scores.shape[2], boxes.type.rank == 4)


def _number(layer: Layer[NMSAttrs], k: int) -> Value:
    """A threshold, 0 if it is not connected."""
    operand = layer.inputs[k] if k < len(layer.inputs) else None
    return const(0.0, F) if operand is None else cast(operand, F)


def _volume(sizes: _Sizes) -> Dim:
    return product((sizes.batch, sizes.boxes, sizes.classes))


def _most(layer: Layer[NMSAttrs], sizes: _Sizes) -> Dim | None:
    """The maximum number of kept boxes, if it is known."""
    elements = known(layer.input(2))
    each = None if elements is None else elements.reshape(-1)[0]
    return product((sizes.batch, sizes.classes, max(each, 0))) if isinstance(each, int) else None


def _order(scores: Value, some: Value, sizes: _Sizes, limit: int) -> Value:
    """The positions of the candidates: image by image, best score first, ties in their order."""
    values = cast(gather(scores, some, 0), F)
    (count,) = some.shape
    if sizes.batch == 1:
        return apply(Ranked(0, minimum(count, limit), largest=True), values)
    order = apply(Ranked(0, count, largest=True), values)
    image = _divided(gather(some, order, 0), mul(sizes.boxes, sizes.classes))
    return gather(order, apply(Ranked(0, count, largest=False), image), 0)


def _divided(at: Value, by: Dim) -> Value:
    return at if by == 1 else map_("floordiv", at, _size(by))


def _rest(at: Value, by: Dim) -> Value:
    return map_("mod", at, _size(by))


def _size(dim: Dim) -> Value:
    """A dimension as an int32 of shape (1,), at least 1, so that it can be a divisor."""
    return const([max(dim, 1)], I) if isinstance(dim, int) else cast(apply(Shape((dim,))), I)


def _group(at: Value, sizes: _Sizes) -> Value:
    """Image and class of a score as one number."""
    image = map_("mul", _divided(at, mul(sizes.boxes, sizes.classes)), _size(sizes.classes))
    return map_("add", image, _rest(at, sizes.classes))


def _corners(layer: Layer[NMSAttrs], at: Value, sizes: _Sizes) -> tuple[Value, ...]:
    """The lower and upper ends of the boxes along both axes, for scores at these positions."""
    operand = layer.input(0)
    own = sizes.classes if sizes.own and operand.shape[2] != 1 else 1
    boxes, places = (
        reshape(operand, (sizes.batch, sizes.boxes, own, 4)),
        (sizes.batch, sizes.boxes, sizes.classes),
    )
    starts = ((0, 0, 0, k) for k in range(4))
    columns = (slice_(boxes, start, (*boxes.shape[:3], 1), (1,) * 4) for start in starts)
    every = (reshape(expand(column, (*places, 1)), (_volume(sizes),)) for column in columns)
    a, b, c, d = (cast(gather(column, at, 0), F) for column in every)
    if layer.attrs.bounding_box_format is CENTERS:
        half = [map_("mul", side, scalar(0.5, side)) for side in (c, d)]
        a, b, c, d = (map_(fn, x, h) for fn in ("sub", "add") for x, h in zip((a, b), half, strict=True))
    lower = (map_("min", a, c), map_("min", b, d))
    return (*lower, map_("max", a, c), map_("max", b, d))


def _indices(at: Value, sizes: _Sizes) -> Value:
    """Image, class and box of scores, in three columns."""
    image = _divided(at, mul(sizes.boxes, sizes.classes))
    box = _rest(_divided(at, sizes.classes), sizes.boxes)
    (count,) = at.shape
    image, of, box = (reshape(v, (count, 1)) for v in (image, _rest(at, sizes.classes), box))
    column = iota((1, 3), 1, I)
    rest = map_("select", map_("eq", column, scalar(1, column)), of, box)
    return map_("select", map_("eq", column, scalar(0, column)), image, rest)


def ref(attrs: NMSAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Image by image, scores in descending order."""
    boxes, scores = arrays[0].astype(np.float64), arrays[1].astype(np.float64)
    kept = [
        (image, c, n)
        for image in range(scores.shape[0])
        for n, c in _kept(attrs, boxes[image], scores[image], arrays[2:])
    ]
    dtype = np.int64 if attrs.indices_type is DataType.INT64 else np.int32
    return np.array(kept, dtype).reshape(len(kept), 3), np.array(len(kept), np.int32)


def _kept(attrs: NMSAttrs, boxes: Array, scores: Array, numbers: tuple[Array, ...]) -> list[tuple[int, int]]:
    """The kept pairs of box and class of an image."""
    most, iou, least = (0.0 if x is ABSENT else float(x) for x in (*numbers, *(ABSENT,) * 2)[:3])
    real = scores.astype(np.float64)
    above = sorted(zip(*np.nonzero(real > least), strict=True), key=lambda at: -float(real[at]))
    chosen: list[tuple[int, int]] = []
    for n, c in above[: attrs.topk_box_limit]:
        same = [_box(attrs, boxes, m, c) for m, d in chosen if d == c]
        here = _box(attrs, boxes, n, c)
        if len(same) < most and all(_overlap(here, other) <= iou for other in same):
            chosen.append((n, c))
    return chosen


def _box(attrs: NMSAttrs, boxes: Array, n: int, c: int) -> Array:
    """The ends of a box along both axes."""
    box = boxes[n] if boxes.ndim == 2 else boxes[n, min(c, boxes.shape[1] - 1)]
    return _ends(box, attrs.bounding_box_format)


def _ends(box: Array, how: BoundingBoxFormat) -> Array:
    a, b = box[:2].astype(np.float64), box[2:].astype(np.float64)
    a, b = (a - b / 2, a + b / 2) if how is CENTERS else (a, b)
    return np.array([np.minimum(a, b), np.maximum(a, b)])


def _overlap(a: Array, b: Array) -> float:
    sides = np.minimum(a[1], b[1]) - np.maximum(a[0], b[0])
    common = float(np.prod(np.maximum(sides, 0)))
    union = float(np.prod(a[1] - a[0]) + np.prod(b[1] - b[0])) - common
    return common / union if union else 0.0


def _boxes(shape: tuple[int, ...], seed: int = 0) -> Array:
    """Boxes on a coarse grid, so that no ratio is close to a threshold."""
    return np.random.default_rng(seed).integers(0, 12, (*shape, 4)).astype(np.float64)


def _case(
    a: NMSAttrs = NMSAttrs(),
    shape: tuple[int, int, int] = (1, 40, 3),
    own: bool = False,
    most: int = 5,
    iou: float | None = 0.37,
    least: float | None = 0.31,
    dtype: DataType = F,
    seed: int = 0,
) -> Case[NMSAttrs]:
    rng = np.random.default_rng(seed)
    boxes = _boxes(shape if own else shape[:2], seed)
    scores = rng.permutation(int(np.prod(shape))).reshape(shape) / 256 - 0.1
    limits = (None if x is None else np.array(x) for x in (iou, least))
    data = (boxes, scores, np.array(most), *limits)
    shapes = tuple(None if x is None else x.shape for x in data)
    return Case(a, shapes, (dtype, dtype, I, F, F), data)


def cases() -> tuple[Case[NMSAttrs], ...]:
    """Every attribute and type; one image and several; boxes for all classes and for each class."""
    tied = _case()
    flat = (tied.data[0], np.full((1, 40, 3), 0.5), *tied.data[2:])
    return (
        *(_case(dtype=t) for t in sorted(FLOATS, key=int)),
        *(_case(shape=s, own=own) for s in ((1, 40, 3), (3, 17, 2)) for own in (False, True)),
        *(_case(NMSAttrs(f), shape=(2, 30, 2), seed=3) for f in BoundingBoxFormat),
        *(_case(NMSAttrs(topk_box_limit=n), shape=s) for n in (1, 9) for s in ((1, 40, 3), (2, 20, 3))),
        _case(NMSAttrs(indices_type=DataType.INT64)),
        *(_case(most=n) for n in (0, 1, 1000, -1)),
        *(_case(iou=i, least=s) for i in (None, 1.0) for s in (None, 0.9)),
        *(_case(shape=s) for s in ((1, 1, 1), (0, 5, 2), (2, 0, 2), (1, 5, 0), (1, 700, 1))),
        Case(tied.attrs, tied.shapes, tied.dtypes, flat),
    )


def mistakes() -> tuple[Mistake[NMSAttrs], ...]:
    """Types, shapes, attributes."""
    a, types = NMSAttrs(), (F, F, I)
    shapes: tuple[tuple[int, ...], ...] = ((1, 4, 4), (1, 4, 2), ())
    return (
        Mistake("AR202", "boxes that are not floats", a, shapes, (I, F, I)),
        Mistake("AR203", "scores and boxes of different types", a, shapes, (F, DataType.HALF, I)),
        Mistake("AR202", "a maximum number of boxes that is not int32", a, shapes, (F, F, F)),
        Mistake("AR202", "indices that are not integers", NMSAttrs(indices_type=F), shapes, types),
        Mistake("AR304", "a topk_box_limit of 0", NMSAttrs(topk_box_limit=0), shapes, types),
        Mistake("AR123", "boxes of rank 2", a, ((4, 4), (1, 4, 2), ()), types),
        Mistake("AR123", "boxes of five numbers", a, ((1, 4, 5), (1, 4, 2), ()), types),
        Mistake("AR123", "different numbers of scores and boxes", a, ((1, 5, 4), (1, 4, 2), ()), types),
        Mistake("AR123", "a maximum number of boxes of rank 1", a, ((1, 4, 4), (1, 4, 2), (1,)), types),
        Mistake(
            "AR123", "numbers that differ at run time", a, ((1, 5, 4), (1, 4, 2), ()), types, dynamic=True
        ),
    )


OPS = (
    Op(
        layer=LayerType.NMS,
        cls="INMSLayer",
        methods=(
            Method(
                "add_nms",
                ("boxes", "scores", "max_output_boxes_per_class", "indices_type"),
                defaults=(("indices_type", DataType.INT32),),
                example="boxes = network.add_constant((1, 2, 4), np.float32([[0, 0, 4, 4], [1, 1, 5, 5]]))\n"
                "scores = network.add_constant((1, 2, 1), np.float32([0.9, 0.8]))\n"
                "most = network.add_constant((), np.array(10, np.int32)).get_output(0)\n"
                "layer = network.add_nms(boxes.get_output(0), scores.get_output(0), most)",
            ),
        ),
        inputs=(
            Input("boxes", FLOATS, axes="batch boxes 4 | batch boxes classes? 4"),
            Input("scores", FLOATS, same_as=0, axes="batch boxes classes"),
            Input("max_output_boxes_per_class", frozenset({I}), axes=""),
            Input("iou_threshold", frozenset({F}), required=False, axes=""),
            Input("score_threshold", frozenset({F}), required=False, axes=""),
        ),
        attrs=NMSAttrs,
        expand=expanded,
        ref=ref,
        doc="Non-maximum suppression selects, for each image and class, the boxes with a score above "
        "`score_threshold`, except boxes whose intersection over union with a better selected box is above "
        "`iou_threshold`. The first output has one row per selected box: image, class and box, sorted by "
        "image, then by descending score; equal scores are sorted by box, then by class. Only the best "
        "`topk_box_limit` scores of each image are considered. As an extension, `topk_box_limit` may be any "
        "positive number. The second output is the number of rows, which is known after an inference; the "
        "memory holds the maximum. Corners may be in any order. Thresholds default to 0. Boxes are compared "
        "in float32.",
        cases=cases,
        mistakes=mistakes,
        onnx=("NonMaxSuppression",),
        outputs=("selected_indices", "num_output_boxes"),
        source="operator page NMS; indices_type from 10.14",
    ),
)
