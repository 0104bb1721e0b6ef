"""GridSample: samples of an image at the positions of a grid.

add_grid_sample(image, grid)      # image (N, C, H, W), grid (N, h, w, 2) from -1 to 1: (N, C, h, w)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product as each
from typing import Final

import numpy as np

from anyrt.core.dims import Dim, add, always_le, mul, product
from anyrt.core.dtype import is_float, wide
from anyrt.core.enums import DataType, InterpolationMode, LayerType, SampleMode
from anyrt.core.errors import ArgumentError
from anyrt.ir.graph import Value, apply
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import REALS
from anyrt.prims.build import cast, gather, map_, reshape, scalar, slice_
from anyrt.prims.build import expand as expand_
from anyrt.prims.const import Shape

NEAREST, LINEAR, CUBIC = InterpolationMode
CLAMP, FILL, REFLECT = SampleMode.CLAMP, SampleMode.FILL, SampleMode.REFLECT
F: Final = DataType.FLOAT
A: Final = -0.75  # coefficient of cubic weights, as in PyTorch and ONNX


@dataclass(frozen=True, slots=True)
class GridSampleAttrs(Attrs):
    """Attributes of GridSample."""

    interpolation_mode: InterpolationMode = attr(
        Kind.ENUM, "the interpolation: NEAREST, LINEAR or CUBIC", LINEAR, enum=InterpolationMode
    )
    align_corners: bool = attr(
        Kind.BOOL, "whether -1 and 1 are the centres of the outermost elements, not their outer edges", False
    )
    sample_mode: SampleMode = attr(
        Kind.ENUM, "outside the image: 0, the nearest element, or a mirror image", FILL, enum=SampleMode
    )


@dataclass(frozen=True, slots=True)
class Tap:
    """An element to read along one axis: the int32 index `at` inside the axis, times `weight`. Unless
    `inside` is None, the value is 0 where it is false."""

    at: Value
    inside: Value | None
    weight: Value


@dataclass(frozen=True, slots=True)
class Neighbours:
    """One element to read along an axis, at `at`, or two from there on, each times its weight. An element of
    weight 0 is not read. If `weights` is None: one element, 0 where not `inside`."""

    at: Value
    weights: tuple[Value, ...] | None
    inside: Value | None = None

    @property
    def reach(self) -> int:
        """The distance from the first element to the last one."""
        return 0 if self.weights is None else len(self.weights) - 1


@dataclass(frozen=True, slots=True)
class Line:
    """An axis of the image: its size, and the position on it for each output element, (N, 1, P)."""

    size: Dim
    position: Value

    def number(self, factor: int, addend: int, like: Value) -> Value:
        """`size * factor + addend`, in the type of `like`."""
        if isinstance(self.size, int):
            return scalar((float if is_float(like.dtype) else int)(self.size * factor + addend), like)
        return cast(reshape(apply(Shape((add(mul(self.size, factor), addend),))), (1, 1, 1)), like.dtype)


def expand(layer: Layer[GridSampleAttrs]) -> tuple[Value, ...]:
    """Each output element has 1 to 4 taps per axis, in pairs if the axis has at least two elements. A
    `Gather` reads each from the flattened image. Weighted sums run along the innermost axis first. Positions
    and sums are float32, or float64."""
    _check(layer)
    x, grid = layer.input(0), layer.input(1)
    batch, channels, *spatial = x.shape
    sizes = grid.shape[1:-1]
    lines = [_line(layer.attrs, x, grid, axis) for axis in range(len(spatial))]
    some = all(always_le(1, d) for d in spatial)  # an empty image has no neighbours
    read = [_neighbours(layer.attrs, line, some and always_le(2, line.size)) for line in lines]
    flat = reshape(x, (batch, channels, product(spatial)))
    y = _sum(flat, lines, read, [])
    return (reshape(cast(y, x.dtype), (batch, channels, *sizes)),)


def _grid_axes(layer: Layer[GridSampleAttrs]) -> str:
    """The axes of the grid; the last one holds x, y and, for volumes, z."""
    return "batch rows columns 2" if layer.input(0).type.rank == 4 else "batch layers rows columns 3"


def _check(layer: Layer[GridSampleAttrs]) -> None:
    mode = layer.attrs.sample_mode
    if mode not in (CLAMP, FILL, REFLECT):
        do = "set sample_mode"
        raise ArgumentError("AR304", layer.name, mode.name, "CLAMP, FILL or REFLECT", do)


def _line(attrs: GridSampleAttrs, x: Value, grid: Value, axis: int) -> Line:
    """The grid stores x before y: its last coordinate belongs to the first axis of the image."""
    size, count = x.shape[2 + axis], x.type.rank - 2
    batch, *sizes, _ = grid.shape
    start = (0,) * (count + 1) + (count - 1 - axis,)
    numbers = slice_(grid, start, (batch, *sizes, 1), (1,) * (count + 2))
    g = cast(reshape(numbers, (batch, 1, product(sizes))), wide(x.dtype))
    line, one, half = Line(size, g), scalar(1.0, g), scalar(0.5, g)
    if attrs.align_corners:
        return Line(size, map_("mul", map_("mul", map_("add", g, one), half), line.number(1, -1, g)))
    ends = map_("mul", map_("add", g, one), line.number(1, 0, g))
    return Line(size, map_("mul", map_("sub", ends, one), half))


def _neighbours(attrs: GridSampleAttrs, line: Line, by_twos: bool) -> list[Neighbours]:
    """The elements to read along an axis; `by_twos`: in pairs, each at one position."""
    p = _kept(attrs, line)
    if attrs.interpolation_mode is NEAREST:
        tap = _tap(attrs, line, cast(map_("round", p), DataType.INT32), 0, scalar(1.0, p))
        return [Neighbours(tap.at, None, tap.inside)]
    if attrs.interpolation_mode is LINEAR and by_twos:
        return [_between(line, p)]
    low = map_("floor", p)
    at, part = cast(low, DataType.INT32), map_("sub", p, low)
    steps, weigh = ((0, 1), _tent) if attrs.interpolation_mode is LINEAR else ((-1, 0, 1, 2), _weight)
    taps = [_tap(attrs, line, at, step, weigh(part, step)) for step in steps]
    if not by_twos:
        return [Neighbours(t.at, (_there(t, t.at),)) for t in taps]
    return [_pair(line, a, b) for a, b in zip(taps[::2], taps[1::2], strict=True)]


def _between(line: Line, p: Value) -> Neighbours:
    """The two elements around a position, or the outermost two; weights reach 0 at a distance of 1."""
    zero, one, two = (scalar(x, p) for x in (0.0, 1.0, 2.0))
    low = map_("min", map_("max", map_("floor", p), zero), line.number(1, -2, p))
    first = cast(low, DataType.INT32)
    d = map_("sub", p, cast(first, p.dtype))
    near = map_("max", map_("sub", one, map_("abs", d)), zero)
    far = map_("max", map_("min", d, map_("sub", two, d)), zero)
    return Neighbours(first, (near, far))


def _tent(part: Value, step: int) -> Value:
    """The linear weight of the element `step` after a position's lower neighbour."""
    return part if step else map_("sub", scalar(1.0, part), part)


def _weight(part: Value, step: int) -> Value:
    """The cubic weight of the element `step` after a position's lower neighbour (R. Keys, 1981)."""
    d = map_("abs", map_("sub", part, scalar(float(step), part)))
    far = step in (-1, 2)
    terms = (A, -5 * A, 8 * A, -4 * A) if far else (A + 2, -(A + 3), 0.0, 1.0)
    total = scalar(terms[0], d)
    for term in terms[1:]:
        total = map_("fma", total, d, scalar(term, d))
    return total


def _tap(attrs: GridSampleAttrs, line: Line, at: Value, step: int, weight: Value) -> Tap:
    """The element `step` after `at`, clamped to the axis. A cubic tap outside is mirrored once, which
    suffices because positions are mirrored before."""
    place = map_("add", at, scalar(step, at)) if step else at
    zero, last = scalar(0, at), line.number(1, -1, at)
    if attrs.interpolation_mode is CUBIC and attrs.sample_mode is REFLECT:
        low, high = (0, line.number(2, -2, at)) if attrs.align_corners else (-1, line.number(2, -1, at))
        place = map_("max", place, map_("sub", scalar(low, at), place))
        place = map_("min", place, map_("sub", high, place))
    kept = place
    if attrs.interpolation_mode is CUBIC or attrs.sample_mode is FILL:
        kept = map_("max", place, zero)
    if kept is not at:
        kept = map_("min", kept, last)
    return Tap(kept, map_("eq", place, kept) if attrs.sample_mode is FILL else None, weight)


def _kept(attrs: GridSampleAttrs, line: Line) -> Value:
    """The position, clamped or mirrored to the axis. Where a mode does not clamp at the edge, the position is
    clamped 3 elements outside, so that weights stay finite."""
    p = line.position
    low, high = scalar(0.0, p), line.number(1, -1, p)
    if attrs.sample_mode is FILL or (attrs.interpolation_mode is CUBIC and attrs.sample_mode is CLAMP):
        low, high = scalar(-3.0, p), line.number(1, 3, p)
    if attrs.sample_mode is REFLECT:
        p = _mirrored(attrs, line)
    if attrs.interpolation_mode is CUBIC and attrs.sample_mode is REFLECT:
        low, high = scalar(-0.5, p), map_("sub", line.number(1, 0, p), scalar(0.5, p))
    # Comparisons with NaN are false, so that NaN becomes the lower end.
    below = map_("select", map_("lt", p, high), p, high)
    return map_("select", map_("lt", low, p), below, low)


def _mirrored(attrs: GridSampleAttrs, line: Line) -> Value:
    """The position, mirrored at the centres or the edges of the outermost elements."""
    p = line.position
    low, span = scalar(-0.5, p), line.number(1, 0, p)
    if attrs.align_corners:  # one element mirrors to itself, with any span
        low, span = scalar(0.0, p), map_("max", line.number(1, -1, p), scalar(1.0, p))
    turn = map_("add", span, span)
    from_low = map_("sub", p, low)
    turns = map_("floor", map_("div", from_low, turn))
    rest = map_("sub", from_low, map_("mul", turns, turn))
    return map_("add", map_("sub", span, map_("abs", map_("sub", rest, span))), low)


def _pair(line: Line, a: Tap, b: Tap) -> Neighbours:
    """Two taps as two consecutive elements. Each element gets the weights of all taps that read it: taps
    coincide at an end of the axis and swap in a mirror image."""
    first = map_("min", map_("min", a.at, b.at), line.number(1, -2, a.at))
    places = (first, map_("add", first, scalar(1, first)))
    return Neighbours(first, tuple(map_("add", _there(a, x), _there(b, x)) for x in places))


def _there(tap: Tap, place: Value) -> Value:
    """The tap's weight if `place` is its element, else 0."""
    same = None if tap.at is place else map_("eq", tap.at, place)
    for condition in (same, tap.inside):
        if condition is not None:
            tap = Tap(tap.at, None, map_("select", condition, tap.weight, scalar(0.0, tap.weight)))
    return tap.weight


def _sum(flat: Value, lines: list[Line], read: list[list[Neighbours]], of: list[Neighbours]) -> Value:
    """The weighted sum over all axes, (N, C, P), float32; `of`: the neighbours along the preceding axes."""
    if len(of) == len(lines):
        return _weighted(flat, lines, of, [])
    total: Value | None = None
    for part in read[len(of)]:
        here = _sum(flat, lines, read, [*of, part])
        total = here if total is None else map_("add", total, here)
    assert total is not None, "an axis has elements"
    return total


def _weighted(flat: Value, lines: list[Line], of: list[Neighbours], steps: list[int]) -> Value:
    """The weighted sum over the neighbours along the axes that follow those in `steps`. It skips elements of
    weight 0, which may be infinite."""
    if len(steps) == len(of):
        return _read(flat, lines, of, steps)
    weights = of[len(steps)].weights
    if weights is None:
        return _weighted(flat, lines, of, [*steps, 0])
    total: Value | None = None
    for k, weight in enumerate(weights):
        part, none = _weighted(flat, lines, of, [*steps, k]), scalar(0.0, weight)
        term = map_("mul", weight, part) if total is None else map_("fma", weight, part, total)
        total = map_("select", map_("ne", weight, none), term, none if total is None else total)
    assert total is not None, "neighbours have weights"
    return total


def _read(flat: Value, lines: list[Line], of: list[Neighbours], steps: list[int]) -> Value:
    """The elements `steps` after the first neighbours. The steps offset a slice of the image instead of the
    position, which is computed once for all elements."""
    at: Value = of[0].at
    step: Dim = steps[0]
    reach: Dim = of[0].reach
    for line, part, more in zip(lines[1:], of[1:], steps[1:], strict=True):
        at = map_("add", map_("mul", at, line.number(1, 0, at)), part.at)
        step, reach = add(mul(step, line.size), more), add(mul(reach, line.size), part.reach)
    batch, channels, length = flat.shape
    seen = slice_(flat, (0, 0, step), (batch, channels, add(length, mul(reach, -1))), (1, 1, 1))
    read = cast(gather(seen, expand_(at, (batch, channels, at.shape[2])), 2), wide(flat.dtype))
    inside = [part.inside for part in of if part.inside is not None]
    return map_("select", reduce(partial(map_, "and"), inside), read, scalar(0.0, read)) if inside else read


# ---- the reference ------------------------------------------------------------------------------


def ref(attrs: GridSampleAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Point by point, as PyTorch documents it."""
    x, grid = (a.astype(np.float64) for a in arrays)
    y = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for n, *at in np.ndindex(grid.shape[:-1]):
        numbers = grid[(n, *at)][::-1]
        axes = [[*_ref_taps(attrs, g, size)] for g, size in zip(numbers, x.shape[2:], strict=True)]
        for combination in each(*axes):
            weight = math.prod(w for _, w in combination)
            y[(n, slice(None), *at)] += weight * x[(n, slice(None), *(k for k, _ in combination))]
    return (y,)


def _ref_taps(attrs: GridSampleAttrs, g: float, size: int) -> Iterator[tuple[int, float]]:
    p = (g + 1) / 2 * (size - 1) if attrs.align_corners else ((g + 1) * size - 1) / 2
    if attrs.interpolation_mode is not CUBIC:
        p = _ref_kept(attrs, p, size)
    low = math.floor(p)
    match attrs.interpolation_mode:
        case InterpolationMode.NEAREST:
            taps = [(int(np.rint(p)), 1.0)]
        case InterpolationMode.LINEAR:
            taps = [(low, low + 1 - p), (low + 1, p - low)]
        case InterpolationMode.CUBIC:
            taps = [(k, _ref_weight(abs(p - k))) for k in range(low - 1, low + 3)]
            taps = [(int(_ref_kept(attrs, k, size)), w) for k, w in taps]
    yield from ((k, w) for k, w in taps if 0 <= k < size)


def _ref_kept(attrs: GridSampleAttrs, p: float, size: int) -> float:
    if attrs.sample_mode is FILL:
        return p
    if attrs.sample_mode is REFLECT:
        low, high = (0.0, size - 1.0) if attrs.align_corners else (-0.5, size - 0.5)
        while high > low and not low <= p <= high:
            p = 2 * low - p if p < low else 2 * high - p
    return min(max(p, 0), size - 1)


def _ref_weight(d: float) -> float:
    if d <= 1:
        return (A + 2) * d**3 - (A + 3) * d**2 + 1
    return A * d**3 - 5 * A * d**2 + 8 * A * d - 4 * A


def _off_ties(how: InterpolationMode, shape: tuple[int, ...]) -> tuple[Array | None, ...]:
    """For NEAREST: odd multiples of 1/64 from -2 to 2, none of which is halfway between two elements."""
    numbers = (np.arange(math.prod(shape)) * 74 % 256 - 127) / 64
    return (None, numbers) if how is NEAREST else ()


def cases() -> tuple[Case[GridSampleAttrs], ...]:
    """All modes, aligned corners or not, images and volumes, one element, all types, no elements."""
    a, modes = GridSampleAttrs, (CLAMP, FILL, REFLECT)
    image, grid, near = ((2, 3, 5, 4), (2, 3, 7, 2)), (2, 3, 7, 2), 2e-5
    volume = ((1, 2, 3, 2, 4), (1, 2, 2, 3, 3))
    return (
        *(
            Case(a(how, aligned, mode), shapes, data=_off_ties(how, shapes[1]), rtol=near, atol=near)
            for shapes, modes_of in ((image, InterpolationMode), (volume, (NEAREST, LINEAR)))
            for how in modes_of for aligned in (False, True) for mode in modes
        ),
        Case(a(CUBIC, False, REFLECT), volume, rtol=near, atol=near),
        *(
            Case(a(how, aligned, mode), ((1, 2, 1, 3), (1, 1, 9, 2)), rtol=near, atol=near)
            for how in (LINEAR, CUBIC) for aligned in (False, True) for mode in modes
        ),
        *(
            Case(a(LINEAR, False, mode), image, (t,), rtol=near, atol=1e-3)
            for t in (DataType.HALF, DataType.BF16, DataType.DOUBLE) for mode in modes
        ),
        *(Case(a(LINEAR, False, mode), image, low=-9, high=9, rtol=1e-4, atol=1e-4) for mode in modes),
        Case(a(), ((2, 20, 9, 9), (2, 4, 5, 2)), rtol=near, atol=near),
        *(Case(a(), (x, g)) for x, g in (((0, 2, 3, 3), (0, 2, 2, 2)), ((2, 0, 3, 3), grid))),
        Case(a(CUBIC), ((1, 2, 0, 3), (1, 0, 2, 2))),
    )  # fmt: skip


def mistakes() -> tuple[Mistake[GridSampleAttrs], ...]:
    """Shapes, types, modes that only Slice has."""
    a, f, h = GridSampleAttrs, F, DataType.HALF
    x, grid = (2, 3, 5, 4), (2, 3, 7, 2)
    return (
        Mistake("AR123", "an image of a rank other than 4 and 5", a(), ((2, 3, 5), (2, 3, 2))),
        Mistake("AR123", "a grid of a different rank than the image", a(), (x, (2, 7, 2))),
        Mistake("AR123", "a grid of other than 2 coordinates, 3 for volumes", a(), (x, (2, 3, 7, 3))),
        Mistake("AR123", "different batch sizes of grid and image", a(), (x, (1, 3, 7, 2))),
        Mistake("AR123", "different batch sizes at run time", a(), (x, (1, 3, 7, 2)), dynamic=True),
        Mistake("AR114", "samples of an empty image", a(), ((2, 3, 0, 4), grid)),
        Mistake("AR304", "a mode that GridSample does not have", a(sample_mode=SampleMode.WRAP), (x, grid)),
        Mistake("AR304", "the mode STRICT_BOUNDS", a(sample_mode=SampleMode.STRICT_BOUNDS), (x, grid)),
        Mistake("AR202", "a type that GridSample does not support", a(), (x, grid), (DataType.INT32,)),
        Mistake("AR203", "grid and image of different types", a(), (x, grid), (f, h)),
    )


OPS = (
    Op(
        layer=LayerType.GRID_SAMPLE,
        cls="IGridSampleLayer",
        methods=(
            Method(
                "add_grid_sample",
                ("input", "grid"),
                example="layer = network.add_grid_sample(x, grid)\nlayer.sample_mode = trt.SampleMode.CLAMP",
            ),
        ),
        inputs=(
            Input("input", REALS, axes="batch channels height width | batch channels depth height width"),
            Input("grid", REALS, same_as=0, axes=_grid_axes),
        ),
        attrs=GridSampleAttrs,
        expand=expand,
        ref=ref,
        doc="Samples the image at the positions of the grid. The grid holds x and y, and z for volumes, for "
        "each output element; -1 and 1 are the outer edges of the outermost elements, or their centres with "
        "`align_corners`. NEAREST reads the nearest element, the even one of two; LINEAR reads 2 elements "
        "along each axis, and CUBIC 4, with the coefficient -0.75. Outside the image are zeros (FILL), the "
        "outermost elements (CLAMP), or mirror images (REFLECT), which are mirrored at the positions -1 and "
        "1. A NaN position lies outside, below the lower end. The kernel reads nothing outside the image. "
        "Volumes are an extension.",
        cases=cases,
        mistakes=mistakes,
        onnx=("GridSample",),
        source="operator page GridSample",
    ),
)
