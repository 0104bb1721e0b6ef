"""Resize and Upsample: converts their attributes to those of the Resize layer."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from anyrt.api.compose.sizes import Size, entries, lengths, numbers, spread
from anyrt.api.compose.tensor import Tensor
from anyrt.api.model.layer import ILayer
from anyrt.api.model.state import state_of
from anyrt.core.enums import (
    DataType,
    InterpolationMode,
    ReduceOperation,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    ResizeSelector,
    UnaryOperation,
)
from anyrt.onnx.node import Node, importer
from anyrt.ops._resize import Variant
from anyrt.ops.resize import ROI, SCALED, SCALES, SIZES

DOUBLE, INT64 = DataType.DOUBLE, DataType.INT64
HALF_PIXEL, FORMULA = ResizeCoordinateTransformation.HALF_PIXEL, ResizeSelector.FORMULA
CROP = "tf_crop_and_resize"
MODES = {
    "nearest": InterpolationMode.NEAREST,
    "linear": InterpolationMode.LINEAR,
    "bilinear": InterpolationMode.LINEAR,
    "cubic": InterpolationMode.CUBIC,
}
COORDINATES = {
    "half_pixel": (HALF_PIXEL, FORMULA, Variant.PLAIN),
    "half_pixel_symmetric": (HALF_PIXEL, FORMULA, Variant.SYMMETRIC),
    "tf_half_pixel_for_nn": (HALF_PIXEL, FORMULA, Variant.UNSHIFTED),
    "pytorch_half_pixel": (HALF_PIXEL, ResizeSelector.UPPER, Variant.PLAIN),
    "asymmetric": (ResizeCoordinateTransformation.ASYMMETRIC, FORMULA, Variant.PLAIN),
    "align_corners": (ResizeCoordinateTransformation.ALIGN_CORNERS, FORMULA, Variant.PLAIN),
    CROP: (ResizeCoordinateTransformation.ALIGN_CORNERS, FORMULA, Variant.PLAIN),
}
ROUNDING = {
    "round_prefer_floor": ResizeRoundMode.HALF_DOWN,
    "round_prefer_ceil": ResizeRoundMode.HALF_UP,
    "floor": ResizeRoundMode.FLOOR,
    "ceil": ResizeRoundMode.CEIL,
}


@importer("Upsample")
def upsample(node: Node) -> Tensor:
    """Upsample, the predecessor of Resize."""
    x = node.input(0)
    layer, axes = _layer(node, x, "asymmetric", "floor"), range(x.rank)
    if node.has("scales"):
        layer.scales = node.attr("scales", (1.0,))
        return node.tensor(layer.get_output(0))
    return _by_scales(node, layer, axes, x.rank, node.input(1))


@importer("Resize")
def resize(node: Node) -> Tensor:
    """Interpolation by scales or to sizes, of the whole input or of a region."""
    x, old = node.input(0), node.version < 11
    roi, scales, sizes = (None, node.input(1), None) if old else (_present(node, i) for i in (1, 2, 3))
    defaults = ("asymmetric", "floor") if old else ("half_pixel", "round_prefer_floor")
    layer, axes = _layer(node, x, *defaults), _axes(node, x)
    if node.attr("coordinate_transformation_mode", "") == CROP:
        if roi is None:
            raise node.unsupported(f"{CROP} without a region", "pass roi")
        ends = (node.slice(roi, [k * len(axes)], [len(axes)]) for k in (0, 1))
        rest = zip(ends, (0.0, 1.0), strict=True)
        region = node.concat([_of_each(node, part, axes, x.rank, value) for part, value in rest], 0)
        node.with_inputs(layer, {ROI: region})
    if sizes is not None:
        return _to_sizes(node, layer, x, axes, entries(sizes))
    if scales is None:
        raise node.unsupported("neither scales nor sizes", "pass one of them")
    return _by_scales(node, layer, axes, x.rank, scales)


def _present(node: Node, i: int) -> Tensor | None:
    """An input, if it is present and not empty."""
    x = node.optional(i)
    return None if x is None or x.sizes == (0,) else x


def _axes(node: Node, x: Tensor) -> Sequence[int]:
    return [axis % x.rank for axis in node.attr("axes", tuple(range(x.rank)))]


def _layer(node: Node, x: Tensor, coordinates: str, rounding: str) -> ILayer:
    """The layer, without sizes."""
    how, single, variant = node.choice("coordinate_transformation_mode", coordinates, COORDINATES)
    layer = node.add(
        "add_resize",
        x,
        resize_mode=node.choice("mode", "nearest", MODES),
        coordinate_transformation=how,
        selector_for_single_pixel=single,
        nearest_rounding=node.choice("nearest_mode", rounding, ROUNDING),
        cubic_coeff=node.attr("cubic_coeff_a", -0.75),
        exclude_outside=bool(node.attr("exclude_outside", 0)),
        antialias=bool(node.attr("antialias", 0)),
        extrapolation_value=node.attr("extrapolation_value", 0.0),
    )
    state_of(layer).become(SCALED, axes=sum({1 << axis for axis in _axes(node, x)}), variant=variant)
    return layer


def _of_each(node: Node, values: Tensor, axes: Sequence[int], rank: int, rest: float) -> Tensor:
    """A vector with an element for each axis: `values` for `axes`, `rest` for the others."""
    if list(axes) == list(range(rank)):
        return values
    places = [axes.index(axis) if axis in axes else len(axes) for axis in range(rank)]
    values = node.concat([values, node.constant([rest], values.dtype)], 0)
    return node.gather(values, node.constant(places, INT64), 0)


def _by_scales(node: Node, layer: ILayer, axes: Sequence[int], rank: int, scales: Tensor) -> Tensor:
    """Set scales; constant ones as attributes, since the sizes of the input may change after parsing."""
    known = numbers(scales)
    if known is None:
        return node.with_inputs(layer, {SCALES: _of_each(node, scales, axes, rank, 1.0)})
    factors = dict(zip(axes, known, strict=True))
    layer.scales = [factors.get(axis, 1.0) for axis in range(rank)]
    return node.tensor(layer.get_output(0))


def _to_sizes(node: Node, layer: ILayer, x: Tensor, axes: Sequence[int], sizes: Sequence[Size]) -> Tensor:
    """Set sizes; with an aspect ratio policy, all axes get the same factor."""
    policy, before, scales = node.attr("keep_aspect_ratio_policy", "stretch"), lengths(x), None
    if policy != "stretch":
        quotients = [_real(node, m) / _real(node, before[axis]) for axis, m in zip(axes, sizes, strict=True)]
        fold = ReduceOperation.MIN if policy == "not_larger" else ReduceOperation.MAX
        factor = node.reduce(fold, node.concat(quotients, 0), [0])
        sizes = [_whole(node, _real(node, before[axis]) * factor + 0.5) for axis in axes]
        scales = _of_each(node, node.concat([factor] * len(axes), 0), axes, x.rank, 1.0)
    dims = node.dims(spread(sizes, axes, before))
    if isinstance(dims, tuple):
        layer.shape = dims
    return node.with_inputs(layer, {SIZES: None if isinstance(dims, tuple) else dims, SCALES: scales})


def _real(node: Node, x: float | Tensor) -> Tensor:
    """Convert a number to a float64 tensor of shape (1,)."""
    return x.cast(DOUBLE) if isinstance(x, Tensor) else node.constant([x], DOUBLE)


def _whole(node: Node, x: Tensor) -> Size:
    """A number, rounded down, as a size."""
    known = numbers(x)
    return floor(known[0]) if known is not None else node.unary(UnaryOperation.FLOOR, x).cast(INT64)
