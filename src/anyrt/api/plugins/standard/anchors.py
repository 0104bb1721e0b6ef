"""Anchor boxes of feature maps, PriorBox_TRT and GridAnchor_TRT, and the boxes of detections,
SpecialSlice_TRT."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from anyrt.api.compose.sizes import length, window
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.standard._part import Part
from anyrt.api.plugins.standard._record import Field, Standard
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.ops._record import Array

NONE = (0.0,)  # the default of a list of sizes that is not set


def prior_boxes(part: Part) -> Tensor:
    """Boxes around the center of each cell of a feature map, as fractions of the image, in the order of
    Caffe's SSD, then the variances of their coordinates: (images, 2, 4 · boxes, 1)."""
    features, image = part.of_rank(0, 4), part.of_rank(1, 4)
    rows, columns, high, wide = (*features.sizes[2:], *image.sizes[2:])
    high, wide = part.whole("imgH") or high, part.whole("imgW") or wide
    if min(rows, columns, high, wide) < 0:
        raise ShapeError(
            "AR123",
            part.where,
            "a dynamic height or width",
            "static dimensions",
            "make only the batch dynamic",
        )
    steps = part.real("stepH") or high / max(rows, 1), part.real("stepW") or wide / max(columns, 1)
    middles = [(np.arange(n) + part.real("offset")) * s for n, s in zip((rows, columns), steps, strict=True)]
    anchors = _around(middles[0], middles[1], _sides(part)) / np.array([wide, high, wide, high])
    boxes = anchors.clip(0, 1) if part.whole("clip") else anchors
    spread = part.reals("variance")
    table = np.stack([boxes.reshape(-1), np.resize(spread, boxes.size)])
    constant = part.constant(table[None, :, :, None].astype(np.float32))
    return part.expand(constant, [length(features, 0), *constant.sizes[1:]]).cast(features.dtype)


def _sides(part: Part) -> list[tuple[float, float]]:
    """Width and height of each box of a cell."""
    least, most = (part.reals(f"{n}Size") for n in ("min", "max"))
    if most != NONE and len(most) != len(least):
        raise ArgumentError(
            "AR304", part.where, f"{len(most)} maxSize", f"{len(least)}, the number of values of minSize"
        )
    sides = []
    for k, small in enumerate(least):
        sides.append((small, small))
        if most != NONE:
            sides.append((sqrt(small * most[k]),) * 2)
        sides += [(small * sqrt(r), small / sqrt(r)) for r in _ratios(part)]
    return sides


def _ratios(part: Part) -> list[float]:
    """The aspect ratios other than 1, without duplicates."""
    ratios: list[float] = []
    for ratio in part.reals("aspectRatios"):
        for r in (ratio, 1 / ratio) if part.whole("flip") else (ratio,):
            if all(abs(r - other) > 1e-6 for other in (1.0, *ratios)):
                ratios.append(r)
    return ratios


def _around(down: Array, across: Array, sides: Sequence[tuple[float, float]]) -> Array:
    """Corners (x, y, x, y) of boxes of these sides around each point: (rows, columns, sides, 4)."""
    y, x = np.meshgrid(down, across, indexing="ij")
    middle = np.stack([x, y, x, y], -1)[:, :, None]
    half = np.array([(-w / 2, -h / 2, w / 2, h / 2) for w, h in sides])
    return np.asarray(middle + half)


def square_grid(part: Part) -> list[Tensor]:
    """Anchors of SSD for square maps."""
    return _grids(part, [(n, n) for n in part.wholes("featureMapShapes")])


def grid(part: Part) -> list[Tensor]:
    """Anchors of SSD for rectangular maps."""
    shapes = part.wholes("featureMapShapes")
    return _grids(part, list(zip(shapes[::2], shapes[1::2], strict=False)))


def _grids(part: Part, shapes: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Anchors around the center of each cell of each map, as fractions of the image, and the variances of
    their coordinates: (1, 2, 4 · anchors, 1) for each map. Cells are square, as in TensorRT's plug-in."""
    layers = part.whole("numLayers")
    if len(shapes) != layers or len(part.reals("aspectRatios")) < 3:
        got = f"{len(shapes)} featureMapShapes and {len(part.reals('aspectRatios'))} aspectRatios"
        raise ArgumentError("AR304", part.where, got, f"{layers}, the value of numLayers, and at least 3")
    grids = []
    for k, (rows, columns) in enumerate(shapes):
        middles = [(np.arange(n) + 0.5) / rows for n in (rows, columns)]
        boxes = _around(middles[0], middles[1], _sides_of_layer(part, k))
        table = np.stack([boxes.reshape(-1), np.resize(part.reals("variance"), boxes.size)])
        grids.append(part.constant(table[None, :, :, None].astype(np.float32)))
    return grids


def _sides_of_layer(part: Part, k: int) -> list[tuple[float, float]]:
    """Width and height of the anchors of a cell. The first map has three, one of them small. The others have
    one for each ratio, and a square with a side between the scales of this map and the next."""
    ratios, last = part.reals("aspectRatios"), part.whole("numLayers") - 1
    low, high = part.real("minSize"), part.real("maxSize")
    scales = [low + (high - low) * i / max(last, 1) for i in range(last + 1)]
    if k == 0:
        each = zip((0.1, low, low), ratios, strict=False)
    else:
        after = 1.0 if k == last else scales[k + 1]
        each = zip([scales[k]] * len(ratios) + [sqrt(scales[k] * after)], (*ratios, 1.0), strict=True)
    return [(s * sqrt(r), s / sqrt(r)) for s, r in each]


def places(part: Part) -> Tensor:
    """The four coordinates of each detection, without its class and score."""
    x = part.of_rank(0, 3)
    if x.sizes[2] not in (-1, 6):
        raise ShapeError("AR123", part.where, f"{x.sizes[2]} values for a detection", "6")
    return window(x, 2, 0, 4)


GRID = (
    Field("minSize", 0.2, 1e-6),
    Field("maxSize", 0.95, 1e-6),
    Field("aspectRatios", (1.0,), 1e-6, needed=True),
    Field("featureMapShapes", (1,), 1, needed=True),
    Field("variance", (0.1, 0.1, 0.2, 0.2), 0.0, count=4, needed=True),
    Field("numLayers", 6, 1),
)
PLUGINS = (
    Standard(
        "PriorBox_TRT",
        prior_boxes,
        (
            Field("minSize", (1.0,), 1e-6, needed=True),
            Field("maxSize", NONE, 0.0),
            Field("aspectRatios", (1.0,), 1e-6),
            Field("flip", 1, 0, 1),
            Field("clip", 0, 0, 1),
            Field("variance", (0.1, 0.1, 0.2, 0.2), 0.0, count=4),
            Field("imgH", 0, 0),
            Field("imgW", 0, 0),
            Field("stepH", 0.0, 0.0),
            Field("stepW", 0.0, 0.0),
            Field("offset", 0.5),
        ),
        inputs=(2, 2),
    ),
    Standard("GridAnchor_TRT", square_grid, GRID, inputs=(0, 1), outputs="numLayers"),
    Standard("GridAnchorRect_TRT", grid, GRID, inputs=(0, 1), outputs="numLayers"),
    Standard("SpecialSlice_TRT", places),
)
