"""GridSample, AffineGrid and Col2Im."""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.api.compose.normalizations import wide
from anyrt.api.compose.sizes import Size, entries, lengths, positions, stack
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType, InterpolationMode, ReduceOperation, SampleMode, ScatterMode
from anyrt.onnx.node import Node, importer

INT64 = DataType.INT64
INTERPOLATION = {
    "nearest": InterpolationMode.NEAREST,
    "linear": InterpolationMode.LINEAR,
    "bilinear": InterpolationMode.LINEAR,
    "cubic": InterpolationMode.CUBIC,
    "bicubic": InterpolationMode.CUBIC,
}
OUTSIDE = {"zeros": SampleMode.FILL, "border": SampleMode.CLAMP, "reflection": SampleMode.REFLECT}


@importer("GridSample")
def grid_sample(node: Node) -> Tensor:
    """Interpolation at positions from −1 to 1 across the image."""
    return node.layer(
        "add_grid_sample",
        node.input(0),
        node.input(1).cast(node.input(0).dtype),
        interpolation_mode=node.choice("mode", "linear", INTERPOLATION),
        sample_mode=node.choice("padding_mode", "zeros", OUTSIDE),
        align_corners=bool(node.attr("align_corners", 0)),
    )


@importer("AffineGrid")
def affine_grid(node: Node) -> Tensor:
    """The positions of an affine map for each element of an image: from −1 to 1, the last axis first."""
    theta, sizes = node.input(0), entries(node.input(1))[2:]
    rank, whole = len(sizes), stack(node, sizes)
    at: list[Tensor] = []
    for axis, n in enumerate(sizes):
        place, many = positions(node, n).cast(theta.dtype), stack(node, [n]).cast(theta.dtype)
        line = place * 2 / (many - 1) - 1 if node.attr("align_corners", 0) else (place * 2 + 1) / many - 1
        at.insert(0, line.reshape([-1] + [1] * (rank - 1 - axis)))
    at.append(node.constant([1.0], theta.dtype).reshape([1] * rank))
    points = node.concat([node.expand(x, whole).reshape((-1, 1)) for x in at], 1)
    grid = node.matmul(points.unsqueeze(0), theta, turn_b=True)
    return grid.reshape([theta.size(0), *sizes, rank])


@importer("Col2Im")
def col2im(node: Node) -> Tensor:
    """The sum of overlapping blocks at their positions in an image."""
    x, image, block = node.input(0), entries(node.input(1)), entries(node.input(2))
    rank = len(image)
    ones, zeros = (1,) * rank, (0,) * (2 * rank)
    dilations, strides = node.attr("dilations", ones), node.attr("strides", ones)
    pads = node.attr("pads", zeros)
    at, inside, factor = node.constant([0], INT64), node.constant([True]), node.constant([1], INT64)
    for axis in reversed(range(rank)):
        n, many = image[axis], block[axis]
        free = n + (pads[axis] + pads[rank + axis] - 1) - (many - 1) * dilations[axis]
        starts = positions(node, free // strides[axis] + 1) * strides[axis]
        place = (positions(node, many) * dilations[axis] - pads[axis]).unsqueeze(1) + starts
        # The axes of blocks precede those of positions.
        place = place.reshape(_spread(place, axis, rank))
        inside = inside & ~(place < 0) & (place < n)
        at = at + place * factor
        factor = factor * n
    places = node.where_(inside, at, factor).reshape((1, 1, -1))  # out of range: ignored
    channels = x.size(1) // _product(node, block)
    parts = wide(x) if x.is_float else x  # otherwise half types round after each block
    parts = parts.reshape([x.size(0), channels, -1])
    empty = node.full([x.size(0), channels, factor], node.constant(0, parts.dtype))
    added = node.layer(
        "add_scatter",
        empty,
        node.expand(places, parts.shape()),
        parts,
        ScatterMode.ELEMENT,
        axis=2,
        reduction=ReduceOperation.SUM,
    )
    return added.reshape([x.size(0), channels, *image]).cast(x.dtype)


def _spread(place: Tensor, axis: int, rank: int) -> list[Size]:
    many, starts = lengths(place)
    sizes: list[Size] = [1] * (2 * rank)
    sizes[axis], sizes[rank + axis] = many, starts
    return sizes


def _product(node: Node, sizes: Sequence[Size]) -> Tensor:
    return node.reduce(ReduceOperation.PROD, stack(node, sizes), [0])
