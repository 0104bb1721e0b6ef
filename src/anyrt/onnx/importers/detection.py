"""Boxes and regions: non-maximum suppression, pooling of regions, deformable convolution, unpooling."""

from __future__ import annotations

import numpy as np

from anyrt.api.compose.boxes import Bins, pooled, sampled
from anyrt.api.compose.sizes import Size, length, volume
from anyrt.api.compose.tensor import Tensor
from anyrt.api.compose.windows import Offsets, deformed
from anyrt.core.enums import BoundingBoxFormat, DataType, SampleMode, ScatterMode
from anyrt.onnx.importers.windows import kernel_size, windows_of
from anyrt.onnx.node import Node, importer

INT32, INT64 = DataType.INT32, DataType.INT64
LEAST = float(np.finfo(np.float32).min)
EVERY = (1 << 31) - 1


@importer("NonMaxSuppression")
def non_max_suppression(node: Node) -> Tensor:
    """The batch, class and box of selected boxes, in each class in descending order of scores. The layer
    treats each class of an image as a separate image, so that its rows have this order."""
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


@importer("RoiAlign")
def roi_align(node: Node) -> Tensor:
    """The mean or maximum of samples in each bin of the regions."""
    half = node.version >= 16 and node.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    bins = Bins(
        (node.attr("output_height", 1), node.attr("output_width", 1)),
        node.attr("sampling_ratio", 0),
        node.attr("spatial_scale", 1.0),
        half,
        node.attr("mode", "avg") == "max",
    )
    return sampled(node, node.input(0), node.input(1), node.input(2), bins)


@importer("MaxRoiPool")
def max_roi_pool(node: Node) -> Tensor:
    """The maximum of each bin of the regions, whose corners are integers."""
    scale, bins = node.attr("spatial_scale", 1.0), node.required("pooled_shape", (1, 1))
    return pooled(node, node.input(0), node.input(1), bins, scale)


# ---- windows that data move -----------------------------------------------------------------------


@importer("DeformConv")
def deform_conv(node: Node) -> Tensor:
    """A deformable convolution."""
    x, kernel = node.input(0), node.input(1)
    size = kernel_size(node, kernel)
    if len(size) != 2:
        raise node.unsupported(f"offsets along {len(size)} axes", "use two spatial axes")
    offsets = Offsets(node.input(2), node.attr("offset_group", 1), node.optional(4))
    by = windows_of(node, size)
    return deformed(node, x, kernel, node.optional(3), by, offsets, node.attr("group", 1))


@importer("MaxUnpool")
def max_unpool(node: Node) -> Tensor:
    """Max unpooling: each element at its position in the tensor, zeros elsewhere."""
    x, places, shape = node.input(0), node.input(1), node.optional(2)
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
    if shape is None:
        return y
    return node.slice(y, [0] * y.rank, shape, mode=SampleMode.FILL)
