"""Images at another size.

Where the factor of each axis is the quotient of its sizes, the layer Resize has the same coordinates. Other
factors, as 0.6 for 4 elements of which 2 are made, are in the coordinates themselves: positions and weights
along each axis are computed then, in float64 as ONNX's reference does, and elements gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

import numpy as np

from anyrt.api.compose.sizes import Size, entries, length, lengths, numbers, positions
from anyrt.api.compose.tensor import Tensor
from anyrt.core.dtype import is_float
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
from anyrt.ops._types import FLOATS

DOUBLE, INT64 = DataType.DOUBLE, DataType.INT64
MODES = {
    "nearest": InterpolationMode.NEAREST,
    "linear": InterpolationMode.LINEAR,
    "bilinear": InterpolationMode.LINEAR,
    "cubic": InterpolationMode.CUBIC,
}
REACH = {InterpolationMode.NEAREST: 8, InterpolationMode.LINEAR: 3, InterpolationMode.CUBIC: 2}
LAYERS = {  # coordinates that the layer has, if factors are quotients of sizes
    "half_pixel": (ResizeCoordinateTransformation.HALF_PIXEL, ResizeSelector.FORMULA),
    "half_pixel_symmetric": (ResizeCoordinateTransformation.HALF_PIXEL, ResizeSelector.FORMULA),
    "pytorch_half_pixel": (ResizeCoordinateTransformation.HALF_PIXEL, ResizeSelector.UPPER),
    "asymmetric": (ResizeCoordinateTransformation.ASYMMETRIC, ResizeSelector.FORMULA),
    "align_corners": (ResizeCoordinateTransformation.ALIGN_CORNERS, ResizeSelector.FORMULA),
}
ROUNDING = {
    "round_prefer_floor": ResizeRoundMode.HALF_DOWN,
    "round_prefer_ceil": ResizeRoundMode.HALF_UP,
    "floor": ResizeRoundMode.FLOOR,
    "ceil": ResizeRoundMode.CEIL,
}


@dataclass(frozen=True, slots=True)
class How:
    """What the attributes ask for; `region`: beginnings and ends of what is read, as parts of the axes."""

    mode: InterpolationMode
    coordinates: str
    rounding: str
    cubic: float
    antialias: bool
    inside: bool
    beyond: float
    region: Tensor | None


@dataclass(frozen=True, slots=True)
class Line:
    """An axis of `n_in` elements of which `n_out` are made, by a factor, None for the quotient of the two;
    `place`: which of the axes that the node names it is, of `count`."""

    axis: int
    n_in: Size
    n_out: Size
    factor: float | Tensor | None
    place: int
    count: int

    @property
    def stays(self) -> bool:
        """Whether its size is known not to change."""
        return (isinstance(self.n_in, int) and self.n_in == self.n_out) or self.factor == 1

    @property
    def exact(self) -> bool:
        """Whether the factor is the quotient of the sizes."""
        match self:
            case Line(factor=None):
                return True
            case Line(n_in=int(n), n_out=m, factor=float(f)):
                return n * f == m
            case Line(factor=float(f)):
                return f == int(f)
        return False


@importer("Upsample")
def upsample(node: Node) -> Tensor:
    """As Resize began."""
    x = node.input(0)
    how = How(node.choice("mode", "nearest", MODES), "asymmetric", "floor", -0.75, False, False, 0.0, None)
    if node.has("scales"):
        return _resized(node, x, how, _by_factors(node, x, range(x.rank), list(node.attr("scales", (1.0,)))))
    return _resized(node, x, how, _scaled(node, x, range(x.rank), node.input(1)))


@importer("Resize")
def resize(node: Node) -> Tensor:
    """Interpolation: by factors, or to sizes, of all there is or of a region."""
    x, old = node.input(0), node.version < 11
    roi, scales, sizes = (None, node.input(1), None) if old else (_given(node, i) for i in (1, 2, 3))
    coordinates = "asymmetric" if old else node.attr("coordinate_transformation_mode", "half_pixel")
    how = How(
        node.choice("mode", "nearest", MODES),
        coordinates,
        "floor" if old else node.attr("nearest_mode", "round_prefer_floor"),
        node.attr("cubic_coeff_a", -0.75),
        bool(node.attr("antialias", 0)),
        bool(node.attr("exclude_outside", 0)),
        node.attr("extrapolation_value", 0.0),
        roi if coordinates == "tf_crop_and_resize" else None,
    )
    axes = [axis % x.rank for axis in node.attr("axes", tuple(range(x.rank)))]
    if sizes is not None:
        return _resized(node, x, how, _to_sizes(node, x, axes, entries(sizes)))
    if scales is None:
        raise node.unsupported("neither scales nor sizes", "give one of them")
    return _resized(node, x, how, _scaled(node, x, axes, scales))


def _given(node: Node, i: int) -> Tensor | None:
    """An input, if it is there and has elements."""
    x = node.optional(i)
    return None if x is None or x.sizes == (0,) else x


def _scaled(node: Node, x: Tensor, axes: Sequence[int], scales: Tensor) -> list[Line]:
    known = numbers(scales)
    factors = [node.slice(scales, [k], [1]) for k in range(len(axes))] if known is None else known
    return _by_factors(node, x, axes, factors)


def _by_factors(node: Node, x: Tensor, axes: Sequence[int], factors: Sequence[float | Tensor]) -> list[Line]:
    """Sizes are products in float32, rounded down."""
    lines = []
    for place, (axis, factor) in enumerate(zip(axes, factors, strict=True)):
        n = length(x, axis)
        if isinstance(n, int) and isinstance(factor, float):
            many: Size = floor(np.float32(n) * np.float32(factor))
        elif isinstance(factor, float) and factor == int(factor):
            many = n * int(factor)
        else:
            many = _whole(node, _real(node, n, DataType.FLOAT) * _real(node, factor, DataType.FLOAT))
        lines.append(Line(axis, n, many, factor, place, len(axes)))
    return lines


def _to_sizes(node: Node, x: Tensor, axes: Sequence[int], sizes: Sequence[Size]) -> list[Line]:
    """Sizes as they are given, or about those, where all axes get the same factor."""
    policy, count = node.attr("keep_aspect_ratio_policy", "stretch"), len(axes)
    given = [(axis, length(x, axis), size) for axis, size in zip(axes, sizes, strict=True)]
    if policy == "stretch":
        return [Line(axis, n, size, None, place, count) for place, (axis, n, size) in enumerate(given)]
    quotients = node.concat([_real(node, size) / _real(node, n) for _, n, size in given], 0)
    fold = ReduceOperation.MIN if policy == "not_larger" else ReduceOperation.MAX
    factor = node.reduce(fold, quotients, [0])
    wholes = [_whole(node, _real(node, n) * factor + 0.5) for _, n, _ in given]
    return [
        Line(axis, n, whole, factor, place, count)
        for place, ((axis, n, _), whole) in enumerate(zip(given, wholes, strict=True))
    ]


def _real(node: Node, x: float | Tensor, dtype: DataType = DOUBLE) -> Tensor:
    """A number as a float tensor of shape (1,)."""
    return x.cast(dtype) if isinstance(x, Tensor) else node.constant([x], dtype)


def _whole(node: Node, x: Tensor) -> Size:
    """A real number rounded down, as a size."""
    known = numbers(x)
    return floor(known[0]) if known is not None else node.unary(UnaryOperation.FLOOR, x).cast(INT64)


def _resized(node: Node, x: Tensor, how: How, lines: Sequence[Line]) -> Tensor:
    if how.region is None:
        lines = [line for line in lines if not line.stays]
    within = all(line.axis >= x.rank - REACH[how.mode] for line in lines)
    within &= x.rank > 1 or how.mode is not InterpolationMode.CUBIC  # which the layer takes of planes
    has = how.coordinates in LAYERS and x.dtype in FLOATS | {DataType.UINT8}
    if has and within and how.region is None and all(line.exact for line in lines):
        return _by_layer(node, x, how, lines)
    y, inside = _wide(x, how), None
    for line in lines:
        y, here = _along(node, y, how, line)
        inside = here if inside is None or here is None else inside & here
    if inside is not None:
        y = node.where_(inside, y, node.like(how.beyond, y))
    return _back(y, x.dtype)


def _by_layer(node: Node, x: Tensor, how: How, lines: Sequence[Line]) -> Tensor:
    """Factors that are known are told as such: the input may get other sizes after it was parsed."""
    coordinates, single = LAYERS[how.coordinates]
    layer = node.add(
        "add_resize",
        x,
        resize_mode=how.mode,
        coordinate_transformation=coordinates,
        selector_for_single_pixel=single,
        nearest_rounding=ROUNDING[how.rounding],
        cubic_coeff=how.cubic,
        exclude_outside=how.inside,
        antialias=how.antialias,
    )
    factors = {line.axis: line.factor for line in lines if isinstance(line.factor, float)}
    if len(factors) == len(lines):
        layer.scales = [factors.get(axis, 1.0) for axis in range(x.rank)]
        return node.tensor(layer.get_output(0))
    sizes = lengths(x)
    for line in lines:
        sizes[line.axis] = line.n_out
    dims = node.dims(sizes)
    if isinstance(dims, Tensor):
        return node.with_inputs(layer, {1: dims})
    layer.shape = dims
    return node.tensor(layer.get_output(0))


def _wide(x: Tensor, how: How) -> Tensor:
    """In a type that sums are made in."""
    stays = how.mode is InterpolationMode.NEAREST or x.dtype is DOUBLE
    return x if stays else x.cast(DataType.FLOAT)


def _back(y: Tensor, dtype: DataType) -> Tensor:
    """In the type of the input: integers are the nearest ones."""
    if y.dtype is dtype or is_float(dtype):
        return y.cast(dtype)
    return y.nearest(dtype)


def _along(node: Node, x: Tensor, how: How, line: Line) -> tuple[Tensor, Tensor | None]:
    """One axis, by the elements around each coordinate; of a region, which coordinates lie inside, too."""
    at = _coordinates(node, how, line)
    n = _real(node, line.n_in)
    inside = None
    if how.region is not None:
        inside = (~(at < 0) & ~(at > n - 1)).reshape([-1] + [1] * (x.rank - 1 - line.axis))
    if how.mode is InterpolationMode.NEAREST:
        place = _rounded(node, at, how.rounding).maximum(0).minimum(n - 1)
        return node.gather(x, place.cast(INT64), line.axis), inside
    base = node.unary(UnaryOperation.FLOOR, at)
    near, weight = _around(node, how, line, (at - base).unsqueeze(1))
    places = base.unsqueeze(1) + near
    if how.inside:
        there = ~(places < 0) & (places < n)
        weight = weight * there.cast(DOUBLE)
    if how.inside or how.antialias:
        weight = weight / node.reduce(ReduceOperation.SUM, weight, [1])
    places = places.maximum(0).minimum(n - 1).cast(INT64)
    read = node.gather(x, places, line.axis)
    behind = [1] * (x.rank - 1 - line.axis)
    weight = weight.cast(x.dtype).reshape([length(places, 0), length(places, 1), *behind])
    return node.reduce(ReduceOperation.SUM, read * weight, [line.axis + 1], keep=False), inside


def _coordinates(node: Node, how: How, line: Line) -> Tensor:
    """Where each element lies on the axis as it was, float64."""
    at, n, m = positions(node, line.n_out).cast(DOUBLE), _real(node, line.n_in), _real(node, line.n_out)
    factor = m / n if line.factor is None else _real(node, line.factor)
    width = n * factor
    match how.coordinates:
        case "asymmetric":
            return at / factor
        case "tf_half_pixel_for_nn":
            return (at + 0.5) / factor
        case "align_corners":
            return at * (n - 1) / _not_zero(node, width - 1)
        case "half_pixel_symmetric":
            return n * 0.5 * (1 - m / width) + (at + 0.5) / factor - 0.5
        case "pytorch_half_pixel":
            return node.where_(m > 1, (at + 0.5) / factor - 0.5, at * 0)
        case "tf_crop_and_resize":
            first, last = _crop(node, how, line)
            span = (last - first) * (n - 1)
            along = node.where_(width.equal(1), span * 0.5 + at * 0, at * span / _not_zero(node, width - 1))
            return along + first * (n - 1)
        case "half_pixel":
            return (at + 0.5) / factor - 0.5
    raise node.unsupported(f"coordinates {how.coordinates!r}", "choose others")


def _not_zero(node: Node, x: Tensor) -> Tensor:
    return node.where_(x.equal(0), node.like(1, x), x)


def _crop(node: Node, how: How, line: Line) -> tuple[Tensor, Tensor]:
    if how.region is None:
        raise node.unsupported("tf_crop_and_resize without a region", "give roi")
    first, last = (
        node.slice(how.region, [k], [1]).cast(DOUBLE) for k in (line.place, line.place + line.count)
    )
    return first, last


def _rounded(node: Node, at: Tensor, how: str) -> Tensor:
    match how:
        case "floor":
            return node.unary(UnaryOperation.FLOOR, at)
        case "ceil":
            return node.unary(UnaryOperation.CEIL, at)
        case "round_prefer_ceil":
            return node.unary(UnaryOperation.FLOOR, at + 0.5)
    return node.unary(UnaryOperation.CEIL, at - 0.5)


def _around(node: Node, how: How, line: Line, part: Tensor) -> tuple[Tensor, Tensor]:
    """How far from its lower neighbour the elements lie that a coordinate reads, (1, count), and what each
    weighs, (n_out, count), for the part of the way to the next one, (n_out, 1)."""
    reach = 1 if how.mode is InterpolationMode.LINEAR else 2
    spread = _real(node, 1.0)
    if how.antialias:
        factor = line.factor
        if factor is None:
            factor = _real(node, line.n_out) / _real(node, line.n_in)
        spread = _real(node, factor).minimum(1)
    before = _whole(node, (reach + spread * 0) / spread - 1e-9)  # whole widths reach no further element
    near = positions(node, before * 2 + 2).unsqueeze(0) - before
    apart = node.unary(UnaryOperation.ABS, (near.cast(DOUBLE) - part) * spread)
    return near.cast(DOUBLE), _kernel(how, apart)


def _kernel(how: How, d: Tensor) -> Tensor:
    """What an element this far away weighs (R. Keys, 1981, for cubic ones)."""
    if how.mode is InterpolationMode.LINEAR:
        return (1 - d).maximum(0)
    a, layers = how.cubic, d.layers
    inner = ((a + 2) * d - (a + 3)) * d * d + 1
    outer = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return layers.where_(d > 1, layers.where_(d < 2, outer, d * 0), inner)
