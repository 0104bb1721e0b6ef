"""Regions of images, deformable convolutions, and layers that move or scatter elements."""

from __future__ import annotations

import numpy as np

from anyrt.api.compose.boxes import Bins, sampled
from anyrt.api.compose.ordered import REDUCTIONS, scatter
from anyrt.api.compose.sizes import Size, length, window
from anyrt.api.compose.tensor import Tensor
from anyrt.api.compose.windows import Offsets, Windows, deformed
from anyrt.api.plugins.standard._part import FLOAT, INT32, INT64, Part
from anyrt.api.plugins.standard._record import Field, Standard
from anyrt.core.enums import (
    ActivationType,
    DataType,
    InterpolationMode,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    UnaryOperation,
)
from anyrt.core.errors import ShapeError


def roi_align(part: Part) -> Tensor:
    """RoiAlign of ONNX: means or maxima of samples in the bins of regions."""
    x, rois, images = part.inputs
    bins = Bins(
        (part.whole("output_height"), part.whole("output_width")),
        part.whole("sampling_ratio"),
        part.real("spatial_scale"),
        half=bool(part.whole("coordinate_transformation_mode")),
        maxima=not part.whole("mode"),
    )
    return sampled(part, x, rois, images, bins)


def crop_and_resize(part: Part) -> Tensor:
    """Bilinear samples of each region, zeros outside the image: (images, regions, channels, rows, columns). A
    region is its lower and upper corner (y, x) as fractions of the image."""
    x, rois = part.of_rank(0, 4), part.of_rank(1, 3, 4)
    rois = rois.squeeze(3) if rois.rank == 4 else rois
    crops = part.whole("crop_height"), part.whole("crop_width")
    rows, columns = (_shares(part, rois.cast(FLOAT), k, crops[k], length(x, 2 + k)) for k in (0, 1))
    images = x.cast(FLOAT).unsqueeze(1)
    along = part.matmul(rows.unsqueeze(2), images)
    return part.matmul(along, columns.unsqueeze(2), turn_b=True).cast(x.dtype)


def _shares(part: Part, rois: Tensor, k: int, bins: int, size: Size) -> Tensor:
    """The weight of each element of an axis for each sample: (images, regions, samples, elements)."""
    low, high = (window(rois, 2, k + end, 1).unsqueeze(3) for end in (0, 2))
    whole = part.constant([size], INT64) if isinstance(size, int) else size
    last = (whole - 1).cast(FLOAT).reshape((1, 1, 1, 1))
    if bins > 1:
        step = part.constant(np.arange(bins).reshape((1, 1, -1, 1)), FLOAT)
        place = low * last + step * ((high - low) * last / float(bins - 1))
    else:
        place = (low + high) * 0.5 * last
    here = part.counted(size).cast(FLOAT).unsqueeze(0, 1, 2)
    share = (1.0 - part.unary(UnaryOperation.ABS, place - here)).maximum(0.0)
    inside = ~(place < 0.0) & ~(place > last)
    return part.where_(inside, share, part.like(0.0, share))


def deformable_convolution(part: Part) -> Tensor:
    """A modulated deformable convolution; inputs: image, offsets, factors, kernel, bias."""
    x, offset, mask, kernel = (part.of_rank(k, 4) for k in range(4))
    pads = part.wholes("padding")
    by = Windows(kernel.sizes[2:], part.wholes("stride"), part.wholes("dilation"), pads, pads)
    offsets = Offsets(offset, part.whole("deformable_group"), mask)
    return deformed(part, x, kernel, part.optional(4), by, offsets, part.whole("group"))


def resize_nearest(part: Part) -> Tensor:
    """Nearest-neighbour scaling of the last two axes; positions round down."""
    x = part.of_rank(0, 4)
    scale = part.real("scale")
    sizes = x.sizes[2:]
    if scale == int(scale) or all(n >= 0 and n * scale == _times(part, n, scale) for n in sizes):
        asymmetric, floor = ResizeCoordinateTransformation.ASYMMETRIC, ResizeRoundMode.FLOOR
        how = {"coordinate_transformation": asymmetric, "nearest_rounding": floor}
        mode = InterpolationMode.NEAREST
        return part.layer("add_resize", x, resize_mode=mode, scales=[1.0, 1.0, scale, scale], **how)
    for axis in (2, 3):  # add_resize would use the quotient of the sizes as scale
        many = part.counted(_times(part, length(x, axis), scale)).cast(DataType.DOUBLE)
        place = part.unary(UnaryOperation.FLOOR, many / scale).cast(INT64)
        x = part.gather(x, place.minimum(part.size(x, axis) - 1), axis)
    return x


def _times(part: Part, size: Size, scale: float) -> Size:
    """The product in float32, rounded down."""
    if isinstance(size, int):
        return int(np.floor(np.float32(size) * np.float32(scale)))
    return part.unary(UnaryOperation.FLOOR, size.cast(FLOAT) * scale).cast(INT64)


def scatter_elements(part: Part) -> Tensor:
    """A copy with updates stored at positions, or reduced with the elements there."""
    x, at, updates = part.inputs
    reduction = part.choice("reduction", REDUCTIONS)
    return scatter(part, x, at.cast(INT64), updates, reduction, part.axis("axis", x))


def scatter_nd(part: Part) -> Tensor:
    """A copy with slices stored at positions."""
    x, at, updates = part.inputs
    return scatter(part, x, at.cast(INT64), updates)


def pillar_scatter(part: Part) -> Tensor:
    """Features of pillars at their positions in a plane, zeros elsewhere; pillars beyond the count of a frame
    are ignored. Features (frames, pillars, channels), positions (frames, pillars, 4: frame, z, y, x)."""
    voxels, coords, count = part.of_rank(0, 3), part.of_rank(1, 3), part.of_rank(2, 1)
    rows, columns = part.wholes("dense_shape")
    cells = rows * columns
    y, x = (window(coords, 2, k, 1).cast(INT32) for k in (2, 3))
    pillar = part.counted(length(voxels, 1)).cast(INT32).unsqueeze(0, 2)
    valid = pillar < count.cast(INT32).unsqueeze(1, 2)
    cell = part.where_(valid, y * columns + x, part.like(cells, y))  # behind all cells
    frames, many, channels = (length(voxels, k) for k in range(3))
    frame = part.expand(part.counted(frames).cast(INT32).unsqueeze(1, 2), [frames, many, 1])
    empty = part.full([frames, cells + 1, channels], part.constant(np.zeros(()), voxels.dtype))
    at = part.concat([frame, cell], 2).cast(INT64)
    filled = window(scatter(part, empty, at, voxels), 1, 0, cells)
    return filled.transpose(0, 2, 1).reshape([frames, channels, rows, columns])


def coordinates(part: Part) -> Tensor:
    """The input with two more channels: the row and column coordinates, from −1 to 1."""
    x = part.of_rank(0, 4)
    batch, rows, columns = (length(x, k) for k in (0, 2, 3))
    lines = _from_minus_one(part, rows).unsqueeze(0, 1, 3), _from_minus_one(part, columns).unsqueeze(0, 1, 2)
    planes = [part.expand(v.cast(x.dtype), [batch, 1, rows, columns]) for v in lines]
    return part.concat([x, *planes], 1)


def _from_minus_one(part: Part, size: Size) -> Tensor:
    whole = part.constant([size], INT64) if isinstance(size, int) else size
    return part.counted(size).cast(FLOAT) * 2.0 / (whole - 1).maximum(1).cast(FLOAT) - 1.0


def flatten_concat(part: Part) -> Tensor:
    """The concatenated elements of all inputs for each image: (images, elements, 1, 1)."""
    flat = []
    for k in range(len(part.inputs)):
        x = part.of_rank(k, 4)
        flat.append(x.reshape([length(x, 0), length(x, 1) * length(x, 2) * length(x, 3), 1, 1]))
    return part.concat(flat, 1)


def batch_tile(part: Part) -> Tensor:
    """The second input, repeated for each image of the first."""
    x = part.inputs[1]
    return part.expand(x, [length(part.inputs[0], 0), *(length(x, k) for k in range(1, x.rank))])


def reorg(part: Part) -> Tensor:
    """Space to depth with the element order of YOLOv2, which reads the input as the result of the inverse."""
    x, s = part.of_rank(0, 4), part.whole("stride")
    channels, rows, columns = x.sizes[1:]
    known = [n for n in (rows, columns) if n >= 0]
    if channels < 0 or channels % (s * s) or any(n % s for n in known):
        wanted = f"channels in multiples of {s * s}, rows and columns of {s}"
        raise ShapeError("AR118", part.where, f"{channels} channels of {rows} × {columns}", wanted)
    batch, high, wide = (length(x, k) for k in (0, 2, 3))
    y = x.reshape([batch, channels // (s * s), high, s, wide, s]).transpose(0, 3, 5, 1, 2, 4)
    return y.reshape([batch, channels * s * s, high // s, wide // s])


def region(part: Part) -> Tensor:
    """The activations of YOLOv2 for each box: sigmoid of offsets and objectness, softmax of classes."""
    x = part.of_rank(0, 4)
    boxes, coords, classes = (part.whole(n) for n in ("num", "coords", "classes"))
    if x.sizes[1] != boxes * (coords + 1 + classes):
        raise ShapeError("AR123", part.where, f"{x.sizes[1]} channels", f"{boxes * (coords + 1 + classes)}")
    sizes = [length(x, 0), boxes, coords + 1 + classes, length(x, 2), length(x, 3)]
    y = x.reshape(sizes)
    odds = part.activation(ActivationType.SIGMOID, y)
    place = part.counted(coords + 1).unsqueeze(0, 1, 3, 4)
    plain = ~(place < 2) & (place < coords)
    first = part.where_(plain, window(y, 2, 0, coords + 1), window(odds, 2, 0, coords + 1))
    chances = part.layer("add_softmax", window(y, 2, coords + 1, classes), axes=1 << 2)
    whole = part.concat([first, chances], 2)
    return whole.reshape([length(x, 0), x.sizes[1], length(x, 2), length(x, 3)])


CROP = (Field("crop_width", 1, 1), Field("crop_height", 1, 1))
PLUGINS = (
    Standard(
        "ROIAlign_TRT",
        roi_align,
        (
            Field("coordinate_transformation_mode", 1, 0, 1),
            Field("mode", 1, 0, 1),
            Field("output_height", 1, 1),
            Field("output_width", 1, 1),
            Field("sampling_ratio", 0, 0),
            Field("spatial_scale", 1.0, 0.0),
        ),
        ("1", "2"),
        v3=("2",),
        inputs=(3, 3),
    ),
    Standard("CropAndResize", crop_and_resize, CROP, inputs=(2, 2)),
    Standard("CropAndResizeDynamic", crop_and_resize, CROP, ("1", "2"), v3=("2",), inputs=(2, 2)),
    Standard(
        "ModulatedDeformConv2d",
        deformable_convolution,
        (
            Field("stride", (1, 1), 1, count=2),
            Field("padding", (0, 0), 0, count=2),
            Field("dilation", (1, 1), 1, count=2),
            Field("group", 1, 1),
            Field("deformable_group", 1, 1),
        ),
        ("1", "2"),
        v3=("2",),
        inputs=(4, 5),
    ),
    Standard("ResizeNearest_TRT", resize_nearest, (Field("scale", 1.0, 1e-6, needed=True),)),
    Standard(
        "ScatterElements",
        scatter_elements,
        (Field("axis", 0), Field("reduction", "none")),
        ("1", "2"),
        v3=("2",),
        inputs=(3, 3),
    ),
    Standard("ScatterND", scatter_nd, inputs=(3, 3)),
    Standard(
        "PillarScatterPlugin",
        pillar_scatter,
        (Field("dense_shape", (1, 1), 1, count=2, needed=True),),
        inputs=(3, 3),
    ),
    Standard("CoordConvAC", coordinates),
    Standard(
        "FlattenConcat_TRT",
        flatten_concat,
        (Field("axis", 1, 1, 1), Field("ignoreBatch", 0, 0, 0)),
        inputs=(1, 128),
    ),
    Standard("BatchTilePlugin_TRT", batch_tile, inputs=(2, 2)),
    Standard("Reorg_TRT", reorg, (Field("stride", 2, 1),), ("1", "2")),
    Standard(
        "Region_TRT",
        region,
        (Field("num", 5, 1), Field("coords", 4, 4, 4), Field("classes", 80, 1)),
    ),
)
