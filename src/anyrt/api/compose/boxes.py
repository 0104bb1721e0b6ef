"""Pooling of image regions in a grid of bins: bilinear samples, or the largest elements.

y = sampled(layers, x, rois, images, Bins((7, 7), scale=0.25))
Samples lie on a grid, so that sampling multiplies the image by a matrix on each side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anyrt.api.compose.layers import INT64, Layers
from anyrt.api.compose.normalizations import wide
from anyrt.api.compose.sizes import Size, length
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType, ReduceOperation, UnaryOperation

LEAST = float(np.finfo(np.float32).min)


@dataclass(frozen=True, slots=True)
class Bins:
    """The bins of a region: a grid of rows and columns with ratio × ratio samples each, or one per element if
    ratio is 0. scale: from corners of regions to elements; half: element centres are at 0.5, so that regions
    smaller than one element keep their size; maxima: instead of means."""

    grid: tuple[int, int]
    ratio: int = 0
    scale: float = 1.0
    half: bool = True
    maxima: bool = False


@dataclass(frozen=True, slots=True)
class Samples:
    """Where the bins of regions read one axis: positions between two neighbours; (regions, bins, samples).

    low: the first neighbour; share: the weight of the second one; there: whether the sample exists; inside:
    whether it lies on the axis; count: the number of samples of a bin.
    """

    low: Tensor
    share: Tensor
    there: Tensor
    inside: Tensor
    count: Tensor


def _samples(layers: Layers, start: Tensor, extent: Tensor, bins: int, ratio: int, size: Size) -> Samples:
    """`start`, `extent`: of each region along an axis of `size` elements, (regions, 1, 1)."""
    each = extent / float(bins)
    begin = start + each * _counting(layers, bins, 1, start.dtype)
    if ratio > 0:
        count = layers.constant(np.full((1, 1, 1), ratio), start.dtype)
        index = _counting(layers, ratio, 2, start.dtype)
    else:  # a count per bin; only samples that may lie on the axis, which are at least half an element apart
        count = layers.unary(UnaryOperation.CEIL, each)
        apart = each / count.maximum(1.0)
        skipped = layers.unary(UnaryOperation.FLOOR, (begin + 1.0) / apart.maximum(1e-6) * -1.0 - 0.5)
        index = _counting(layers, size * 2 + 4, 2, start.dtype) + skipped.maximum(0.0)
    place = begin + (index + 0.5) * each / count.maximum(1.0)
    last = number(layers, size, start.dtype) - 1.0
    inside = ~((place < -1.0) | (place > last + 1.0))
    kept = place.maximum(0.0).minimum(last)
    low = layers.unary(UnaryOperation.FLOOR, kept)
    return Samples(low, kept - low, index < count, inside, count)


def _counting(layers: Layers, size: Size, axis: int, dtype: DataType) -> Tensor:
    """0, 1, … along one axis of three."""
    return layers.counted(size).cast(dtype).reshape([-1 if k == axis else 1 for k in range(3)])


def number(layers: Layers, size: Size, dtype: DataType) -> Tensor:
    """A dimension, of shape (1, 1, 1)."""
    x = layers.constant([size], INT64) if isinstance(size, int) else size
    return x.cast(dtype).reshape((1, 1, 1))


def _along(layers: Layers, size: Size, dtype: DataType) -> Tensor:
    """0, 1, … along an axis that follows those of samples."""
    return layers.counted(size).cast(dtype).reshape((1, 1, 1, -1))


def _shares(layers: Layers, at: Samples, size: Size) -> Tensor:
    """The weight of each element of the axis for each bin: (regions, bins, size)."""
    dtype = at.low.dtype
    here = _along(layers, size, dtype)
    low, share = at.low.unsqueeze(3), at.share.unsqueeze(3)
    counts = (at.there & at.inside).cast(dtype).unsqueeze(3)
    first, second = (low.equal(here).cast(dtype), (low + 1.0).equal(here).cast(dtype))
    weights = (first * (1.0 - share) + second * share) * counts
    sums = layers.reduce(ReduceOperation.SUM, weights, [2], keep=False)
    return sums / at.count.maximum(1.0).reshape((-1, 1, 1))


def _extremes(layers: Layers, at: Samples, size: Size) -> tuple[Tensor, Tensor]:
    """The minimum and maximum weight of each element of the axis for each bin, (regions, bins, size); ∞ and
    −∞ for elements that no sample reads."""
    dtype = at.low.dtype
    here, last = _along(layers, size, dtype), number(layers, size, dtype).reshape((1, 1, 1, 1)) - 1.0
    inside = at.inside.unsqueeze(3).cast(dtype)
    low, share = at.low.unsqueeze(3) * inside, at.share.unsqueeze(3)
    ends = []
    for op, beyond in ((ReduceOperation.MIN, np.inf), (ReduceOperation.MAX, -np.inf)):
        nothing = layers.constant(np.full((1,) * 4, beyond), dtype)
        parts = [
            layers.where_(place.equal(here) & at.there.unsqueeze(3), weight * inside, nothing)
            for place, weight in ((low, 1.0 - share), ((low + 1.0).minimum(last), share))
        ]
        both = parts[0].minimum(parts[1]) if op is ReduceOperation.MIN else parts[0].maximum(parts[1])
        ends.append(layers.reduce(op, both, [2], keep=False))
    return ends[0], ends[1]


def sampled(layers: Layers, x: Tensor, rois: Tensor, images: Tensor, by: Bins) -> Tensor:
    """Means, or maxima, of samples in each bin of regions, (regions, C, rows, columns); rois: two corners (x,
    y) each, (regions, 4); images: the image index of each region, (regions)."""
    rois = wide(rois)
    corners = [_column(layers, rois, k) * by.scale - 0.5 * by.half for k in range(4)]
    sizes = [length(x, 2), length(x, 3)]
    at = []
    for size, count, (a, b) in zip(sizes, by.grid, ((1, 3), (0, 2)), strict=True):
        extent = corners[b] - corners[a]
        extent = extent if by.half else extent.maximum(1.0)
        at.append(_samples(layers, corners[a], extent, count, by.ratio, size))
    planes = _chosen(layers, wide(x), images)
    if by.maxima:
        return _largest(layers, planes, at, sizes).cast(x.dtype)
    rows, columns = (_shares(layers, a, s).unsqueeze(1) for a, s in zip(at, sizes, strict=True))
    return layers.matmul(layers.matmul(rows, planes), columns, turn_b=True).cast(x.dtype)


def _column(layers: Layers, rois: Tensor, k: int) -> Tensor:
    """One number of each region: (regions, 1, 1)."""
    return layers.gather(rois, layers.constant([k], INT64), 1).reshape((-1, 1, 1))


def _chosen(layers: Layers, x: Tensor, images: Tensor) -> Tensor:
    """The image of each region; a single image broadcasts."""
    return x if x.sizes[0] == 1 else layers.gather(x, images, 0)


def _largest(layers: Layers, images: Tensor, at: list[Samples], sizes: list[Size]) -> Tensor:
    """The largest product of an element and its weight, over the samples of each bin."""
    y = images  # (regions, C, rows, columns)
    for k in (1, 0):
        low, high = _extremes(layers, at[k], sizes[k])
        axes = (1, 2) if k else (1, 3)  # weights as (regions, 1, 1, bins, columns) or (…, bins, rows, 1)
        low, high = (w.unsqueeze(*axes) if k else w.unsqueeze(1, 4) for w in (low, high))
        v = y.unsqueeze(3) if k else y.unsqueeze(2)
        nothing = layers.constant(np.full((1,) * 5, -np.inf), images.dtype)
        products = layers.where_(high > LEAST, (v * low).maximum(v * high), nothing)
        y = layers.reduce(ReduceOperation.MAX, products, [4 if k else 3], keep=False)
    return layers.where_(y > LEAST, y, layers.like(0.0, y))


def pooled(layers: Layers, x: Tensor, rois: Tensor, bins: Sequence[int], scale: float) -> Tensor:
    """The largest element of each bin of regions, (regions, C, *bins); rois: the image and two corners (x, y)
    of each, (regions, 5). Corners are multiplied by `scale` and rounded to integers."""
    rois = wide(rois)
    corners = [layers.unary(UnaryOperation.ROUND, _column(layers, rois, k) * scale) for k in range(1, 5)]
    y = _chosen(layers, x, _column(layers, rois, 0).cast(INT64).reshape((-1,)))
    for k, (a, b) in ((1, (0, 2)), (0, (1, 3))):
        extent = (corners[b] - corners[a] + 1.0).maximum(1.0) / float(bins[k])
        bin_ = _counting(layers, bins[k], 1, rois.dtype)
        low = layers.unary(UnaryOperation.FLOOR, bin_ * extent) + corners[a]
        high = layers.unary(UnaryOperation.CEIL, (bin_ + 1.0) * extent) + corners[a]
        here = _counting(layers, length(x, 2 + k), 2, rois.dtype)
        inside = ~(here < low) & (here < high)
        inside = inside.unsqueeze(1, 2) if k else inside.unsqueeze(1, 4)
        v = y.unsqueeze(3) if k else y.unsqueeze(2)
        nothing = layers.constant(np.full((1,) * 5, -np.inf)).cast(x.dtype)
        y = layers.reduce(ReduceOperation.MAX, layers.where_(inside, v, nothing), [4 if k else 3], keep=False)
    return layers.where_(y > LEAST, y, layers.like(0.0, y))
