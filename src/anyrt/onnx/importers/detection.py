"""Boxes and regions: suppression, pooling of regions, convolutions with offsets, pooling undone."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from anyrt.api.compose.sizes import Size, length, volume
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType, ReduceOperation, SampleMode, ScatterMode, UnaryOperation
from anyrt.core.enums_more import BoundingBoxFormat
from anyrt.onnx.importers.statistics import wide
from anyrt.onnx.importers.windows import Windows, channels_of, filtered, kernel_size, windows_of
from anyrt.onnx.node import Node, importer

INT32, INT64 = DataType.INT32, DataType.INT64
LEAST = float(np.finfo(np.float32).min)
EVERY = (1 << 31) - 1


@importer("NonMaxSuppression")
def non_max_suppression(node: Node) -> Tensor:
    """Batch, class and box of what is kept, of each class the best first. Each class of an image is an image
    of its own to the layer, so that its rows come in this order."""
    boxes, scores = node.input(0), node.input(1)
    images, classes, many = (length(scores, k) for k in range(3))
    groups = volume(scores, (0, 1))
    own = node.expand(boxes.unsqueeze(1), [images, classes, many, 4]).reshape([groups, many, 4])
    most, overlap, least = (node.optional(i) for i in (2, 3, 4))
    count = node.constant(np.int32(0)) if most is None else most.reshape(())
    if count.dtype is not INT32:
        count = count.minimum(EVERY).cast(INT32)
    layer = node.add("add_nms", own, scores.reshape([groups, many, 1]), count, indices_type=INT64)
    layer.topk_box_limit = many if isinstance(many, int) and many > 0 else EVERY
    if node.attr("center_point_box", 0):
        layer.bounding_box_format = BoundingBoxFormat.CENTER_SIZES
    limits = {3: overlap, 4: node.constant(np.float32(LEAST)) if least is None else least}
    kept = node.with_inputs(layer, {i: None if x is None else x.reshape(()) for i, x in limits.items()})
    first, box = (node.gather(kept, node.constant([k], INT64), 1) for k in (0, 2))
    of = node.size(scores, 1)
    image = first // of
    return node.concat([image, first - image * of, box], 1)


# ---- regions --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Samples:
    """Where bins of regions read one axis: each position between two neighbours; (regions, bins, samples).

    low: the first neighbour; share: that of the second one; there: whether it counts at all, inside whether
    it lies on the axis; count: how many a bin has.
    """

    low: Tensor
    share: Tensor
    there: Tensor
    inside: Tensor
    count: Tensor


def samples(node: Node, start: Tensor, extent: Tensor, bins: int, size: Size) -> Samples:
    """`start`, `extent`: of each region along an axis of `size` elements, (regions, 1, 1)."""
    each = extent / float(bins)
    ratio = node.attr("sampling_ratio", 0)
    begin = start + each * counting(node, bins, 1, start.dtype)
    if ratio > 0:
        count = node.constant(np.full((1, 1, 1), ratio), start.dtype)
        index = counting(node, ratio, 2, start.dtype)
    else:  # a bin's own number; of these only those that may lie on the axis, which are half apart at least
        count = node.unary(UnaryOperation.CEIL, each)
        apart = each / count.maximum(1.0)
        skipped = node.unary(UnaryOperation.FLOOR, (begin + 1.0) / apart.maximum(1e-6) * -1.0 - 0.5)
        index = counting(node, size * 2 + 4, 2, start.dtype) + skipped.maximum(0.0)
    place = begin + (index + 0.5) * each / count.maximum(1.0)
    last = number(node, size, start.dtype) - 1.0
    inside = ~((place < -1.0) | (place > last + 1.0))
    kept = place.maximum(0.0).minimum(last)
    low = node.unary(UnaryOperation.FLOOR, kept)
    return Samples(low, kept - low, index < count, inside, count)


def counting(node: Node, size: Size, axis: int, dtype: DataType) -> Tensor:
    """0, 1, … along one axis of three."""
    return node.counted(size).cast(dtype).reshape([-1 if k == axis else 1 for k in range(3)])


def number(node: Node, size: Size, dtype: DataType) -> Tensor:
    """A size, of shape (1, 1, 1)."""
    x = node.constant([size], INT64) if isinstance(size, int) else size
    return x.cast(dtype).reshape((1, 1, 1))


def along(node: Node, size: Size, dtype: DataType) -> Tensor:
    """0, 1, … of an axis, behind those of samples."""
    return node.counted(size).cast(dtype).reshape((1, 1, 1, -1))


def shares(node: Node, at: Samples, size: Size) -> Tensor:
    """How much each element of the axis counts for each bin: (regions, bins, size)."""
    dtype = at.low.dtype
    here = along(node, size, dtype)
    low, share = at.low.unsqueeze(3), at.share.unsqueeze(3)
    counts = (at.there & at.inside).cast(dtype).unsqueeze(3)
    first, second = (low.equal(here).cast(dtype), (low + 1.0).equal(here).cast(dtype))
    weights = (first * (1.0 - share) + second * share) * counts
    sums = node.reduce(ReduceOperation.SUM, weights, [2], keep=False)
    return sums / at.count.maximum(1.0).reshape((-1, 1, 1))


def extremes(node: Node, at: Samples, size: Size) -> tuple[Tensor, Tensor]:
    """The least and the largest weight that an element of the axis has for each bin, (regions, bins, size);
    those of elements that no sample reads are ∞ and −∞."""
    dtype = at.low.dtype
    here, last = along(node, size, dtype), number(node, size, dtype).reshape((1, 1, 1, 1)) - 1.0
    inside = at.inside.unsqueeze(3).cast(dtype)
    low, share = at.low.unsqueeze(3) * inside, at.share.unsqueeze(3)
    ends = []
    for op, beyond in ((ReduceOperation.MIN, np.inf), (ReduceOperation.MAX, -np.inf)):
        nothing = node.constant(np.full((1,) * 4, beyond), dtype)
        parts = [
            node.where_(place.equal(here) & at.there.unsqueeze(3), weight * inside, nothing)
            for place, weight in ((low, 1.0 - share), ((low + 1.0).minimum(last), share))
        ]
        both = parts[0].minimum(parts[1]) if op is ReduceOperation.MIN else parts[0].maximum(parts[1])
        ends.append(node.reduce(op, both, [2], keep=False))
    return ends[0], ends[1]


@importer("RoiAlign")
def roi_align(node: Node) -> Tensor:
    """Means, or maxima, of samples in each bin of regions. Samples lie on a grid, so that what they make of
    an image is a product of matrices on both sides of it."""
    x, rois = node.input(0), wide(node.input(1))
    half = node.version >= 16 and node.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    corners = [column(node, rois, k) * node.attr("spatial_scale", 1.0) - 0.5 * half for k in range(4)]
    sizes = [length(x, 2), length(x, 3)]
    bins = (node.attr("output_height", 1), node.attr("output_width", 1))
    at = []
    for size, count, (a, b) in zip(sizes, bins, ((1, 3), (0, 2)), strict=True):
        extent = corners[b] - corners[a]
        at.append(samples(node, corners[a], extent if half else extent.maximum(1.0), count, size))
    images = chosen(node, wide(x), node.input(2))
    if node.attr("mode", "avg") == "max":
        return largest(node, images, at, sizes).cast(x.dtype)
    rows, columns = (shares(node, a, s).unsqueeze(1) for a, s in zip(at, sizes, strict=True))
    return node.matmul(node.matmul(rows, images), columns, turn_b=True).cast(x.dtype)


def column(node: Node, rois: Tensor, k: int) -> Tensor:
    """One number of each region: (regions, 1, 1)."""
    return node.gather(rois, node.constant([k], INT64), 1).reshape((-1, 1, 1))


def chosen(node: Node, x: Tensor, images: Tensor) -> Tensor:
    """The image of each region; where there is one alone, it broadcasts."""
    return x if x.sizes[0] == 1 else node.gather(x, images, 0)


def largest(node: Node, images: Tensor, at: list[Samples], sizes: list[Size]) -> Tensor:
    """The largest product of an element and its weight, over the samples of each bin."""
    y = images  # (regions, C, rows, columns)
    for k in (1, 0):
        low, high = extremes(node, at[k], sizes[k])
        axes = (1, 2) if k else (1, 3)  # weights as (regions, 1, 1, bins, columns) or (…, bins, rows, 1)
        low, high = (w.unsqueeze(*axes) if k else w.unsqueeze(1, 4) for w in (low, high))
        v = y.unsqueeze(3) if k else y.unsqueeze(2)
        nothing = node.constant(np.full((1,) * 5, -np.inf), images.dtype)
        products = node.where_(high > LEAST, (v * low).maximum(v * high), nothing)
        y = node.reduce(ReduceOperation.MAX, products, [4 if k else 3], keep=False)
    return node.where_(y > LEAST, y, node.like(0.0, y))


@importer("MaxRoiPool")
def max_roi_pool(node: Node) -> Tensor:
    """The largest element of each bin of regions, whose corners are whole numbers."""
    x, rois = node.input(0), wide(node.input(1))
    scale, bins = node.attr("spatial_scale", 1.0), node.required("pooled_shape", (1, 1))
    corners = [node.unary(UnaryOperation.ROUND, column(node, rois, k) * scale) for k in range(1, 5)]
    y = chosen(node, x, column(node, rois, 0).cast(INT64).reshape((-1,)))
    for k, (a, b) in ((1, (0, 2)), (0, (1, 3))):
        extent = (corners[b] - corners[a] + 1.0).maximum(1.0) / float(bins[k])
        bin_ = counting(node, bins[k], 1, rois.dtype)
        low = node.unary(UnaryOperation.FLOOR, bin_ * extent) + corners[a]
        high = node.unary(UnaryOperation.CEIL, (bin_ + 1.0) * extent) + corners[a]
        here = counting(node, length(x, 2 + k), 2, rois.dtype)
        inside = ~(here < low) & (here < high)
        inside = inside.unsqueeze(1, 2) if k else inside.unsqueeze(1, 4)
        v = y.unsqueeze(3) if k else y.unsqueeze(2)
        nothing = node.constant(np.full((1,) * 5, -np.inf)).cast(x.dtype)
        y = node.reduce(ReduceOperation.MAX, node.where_(inside, v, nothing), [4 if k else 3], keep=False)
    return node.where_(y > LEAST, y, node.like(0.0, y))


# ---- windows that data move -----------------------------------------------------------------------


@importer("DeformConv")
def deform_conv(node: Node) -> Tensor:
    """A convolution whose elements lie at offsets, between four neighbours: samples, then a contraction."""
    x, kernel, offset, mask = node.input(0), node.input(1), node.input(2), node.optional(4)
    size = kernel_size(node, kernel)
    if len(size) != 2:
        raise node.unsupported(f"offsets along {len(size)} axes", "use two spatial axes")
    by, groups, count = windows_of(node, size), node.attr("offset_group", 1), prod(size)
    batch, rows, columns = (length(offset, k) for k in (0, 2, 3))
    moved = offset.reshape([batch * groups, count, 2, volume(offset, (2, 3))])
    wide = [_power(length(x, 2 + k)) for k in range(2)]
    grid = [_places(node, by, moved, k, rows, columns, wide[k]) for k in (1, 0)]
    maps, each = channels_of(node, kernel, 0), channels_of(node, kernel, 1)
    channels = each * node.attr("group", 1)
    x = node.slice(x, [0] * 4, [batch, channels, *wide], mode=SampleMode.FILL)
    planes = x.reshape([batch * groups, channels // groups, *wide])
    at = node.concat(grid, 3)
    y = node.layer("add_grid_sample", planes, at, sample_mode=SampleMode.FILL, align_corners=False)
    if mask is not None:
        y = y * mask.reshape([batch * groups, 1, count, rows * columns])
    y = y.reshape([batch, channels, count, rows, columns])
    flat = _flat(node, kernel, (maps, each, count, 1, 1))
    point = Windows((count, 1, 1), (1,) * 3, (1,) * 3, (0,) * 3, (0,) * 3, None)
    return filtered(node, "add_convolution_nd", y, flat, node.optional(3), point, maps).squeeze(2)


def _power(size: Size) -> Size:
    """The next power of two, by which positions are divided without rounding; zeros lie behind the input."""
    return 1 << max(size - 1, 0).bit_length() if isinstance(size, int) else size


def _flat(node: Node, kernel: Tensor, shape: tuple[int, ...]) -> Tensor:
    held = node.held(kernel)
    return kernel.reshape(shape) if held is None else node.weights(held, shape)


def _places(node: Node, by: Windows, moved: Tensor, k: int, rows: Size, columns: Size, size: Size) -> Tensor:
    """Where samples lie along spatial axis `k`, from −1 to 1 over its elements' outer edges:
    (batches · groups, elements of a window, positions, 1)."""
    element = np.indices(by.size)[k].reshape(1, -1, 1) * by.dilation[k] - by.before[k]
    steps = node.counted(columns if k else rows) * by.stride[k]
    steps = steps.reshape([1, -1] if k else [-1, 1])
    window = node.expand(steps, [rows, columns]).reshape([1, 1, rows * columns])
    given, moved = moved.dtype, wide(moved)
    place = (window + node.constant(element, INT64)).cast(moved.dtype)
    shift = node.gather(moved, node.constant([k], INT64), 2).squeeze(2)
    whole = number(node, size, moved.dtype)
    return (((place + shift) * 2.0 + 1.0) / whole - 1.0).cast(given).unsqueeze(3)


@importer("MaxUnpool")
def max_unpool(node: Node) -> Tensor:
    """Each element at its place in the tensor, zeros elsewhere."""
    x, places, wanted = node.input(0), node.input(1), node.optional(2)
    by = windows_of(node, node.required("kernel_shape", ()))
    sizes: list[Size] = [length(x, 0), length(x, 1)]
    spatial = zip(by.stride, by.before, by.after, by.size, strict=True)
    sizes += [(length(x, 2 + k) - 1) * s - (b + a) + n for k, (s, b, a, n) in enumerate(spatial)]
    many: Size = 1
    for size in sizes:
        many = many * size
    zeros = node.full([many], node.constant(np.zeros(()), x.dtype))
    flat = node.layer("add_scatter", zeros, places.reshape((-1,)), x.reshape((-1,)), ScatterMode.ELEMENT)
    y = flat.reshape(sizes)
    if wanted is None:
        return y
    return node.slice(y, [0] * y.rank, wanted, mode=SampleMode.FILL)
