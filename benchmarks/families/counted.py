"""Layers with data-dependent result sizes: elements that are not zero, boxes after suppression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.families.case import Case, Family, Make, Node, Random, Shape, constant_of, size
from benchmarks.values import Array

OBJECTS = 60  # of an image; boxes lie around them
OVERLAP = 0.5
MOST = 100  # boxes of a class


def cases() -> Iterator[Case]:
    """Sparse and dense elements of a large array, of a mask and of a small array; detections of small and
    large heads, of one class, with few and with many scores above the threshold."""
    yield _nonzero((1024, 1024), 0.01)
    yield _nonzero((1024, 1024), 0.5)
    yield _nonzero((8, 65536), 0.1, np.bool_)
    yield _nonzero((64, 64), 0.1)
    yield _boxes(300, 1, 0.3)
    yield _boxes(2100, 20, 0.3)
    yield _boxes(8400, 80, 0.3)
    yield _boxes(8400, 80, 0.03)
    yield _boxes(8400, 1, 0.03)


def _nonzero(shape: Shape, part: float, dtype: Any = np.float32) -> Case:  # Any: a NumPy type
    def make(random: Random) -> Array:
        kept = random.random(shape) < part
        return (kept * random.uniform(1, 2, shape)).astype(dtype)

    return Case(
        f"nonzero_{size(shape)}_{100 * part:.0f}%{'_bool' if dtype is np.bool_ else ''}",
        Family.COUNTED,
        {"x": make},
        Node("NonZero", ("x",)),
        lambda torch, x: torch.nonzero(x).t(),
        ours=lambda network, x: network.add_non_zero(x),
        wide=True,
        counted=True,
    )


def _around(count: int) -> Make:
    """Corners of boxes, each near one of the objects."""

    def make(random: Random) -> Array:
        middles, sides = random.uniform(0, 640, (OBJECTS, 2)), random.uniform(20, 200, (OBJECTS, 2))
        of = random.integers(0, OBJECTS, count)
        middle = middles[of] + random.normal(0, 6, (count, 2))
        half = sides[of] * random.uniform(0.85, 1.15, (count, 2)) / 2
        return np.concatenate([middle - half, middle + half], 1)[None].astype(np.float32)

    return make


def _boxes(count: int, classes: int, threshold: float) -> Case:
    def scores(random: Random) -> Array:
        return (random.random((1, classes, count)) ** (9 if classes == 1 else 400)).astype(np.float32)

    def ours(network: Any, boxes: Any, scores: Any) -> Any:  # Any: tensors and layers
        turned = network.add_shuffle(scores)
        turned.first_transpose = (0, 2, 1)
        most, overlap, least = (
            constant_of(network, np.array(x, t))
            for x, t in ((MOST, np.int32), (OVERLAP, np.float32), (threshold, np.float32))
        )
        layer = network.add_nms(boxes, turned.get_output(0), most)
        layer.set_input(3, overlap)
        layer.set_input(4, least)
        layer.topk_box_limit = classes * count
        return layer

    numbers = np.array([MOST], np.int64), *(np.array([x], np.float32) for x in (OVERLAP, threshold))
    return Case(
        f"nms_{count}x{classes}_above_{threshold:g}",
        Family.COUNTED,
        {"boxes": _around(count), "scores": scores},
        Node("NonMaxSuppression", ("boxes", "scores", *numbers)),
        None,
        lambda boxes, scores: kept_boxes(boxes[0].astype(np.float64), scores[0], threshold),
        ours,
        wide=True,
        counted=True,
        unordered=True,
    )


def kept_boxes(boxes: Array, scores: Array, threshold: float) -> Array:
    """Rows (image, class, box) of the boxes after suppression."""
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], 1)
    rows = []
    for c, row in enumerate(scores):
        left = np.argsort(-row, kind="stable")
        left = left[row[left] > threshold]
        kept = list[int]()
        while left.size and len(kept) < MOST:
            best, left = left[0], left[1:]
            kept.append(int(best))
            low = np.maximum(boxes[best, :2], boxes[left, :2])
            common = np.prod(np.clip(np.minimum(boxes[best, 2:], boxes[left, 2:]) - low, 0, None), 1)
            left = left[common / (areas[best] + areas[left] - common) <= OVERLAP]
        rows += [(0, c, box) for box in kept]
    return np.array(rows, np.int32).reshape(-1, 3)
