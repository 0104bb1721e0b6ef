"""Pooling: the maximum or the average of each window that slides over the last two or three axes.

add_pooling_nd(x, PoolingType.MAX, (3, 3)).stride_nd = (2, 2)        # x: (N, C, H, W)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np

from anyrt.core.dims import Dim, add, total
from anyrt.core.dtype import wide
from anyrt.core.enums import DataType, LayerType, PaddingMode, PoolingType
from anyrt.core.errors import ArgumentError, DTypeError, ShapeError
from anyrt.ir.graph import Value, apply
from anyrt.ops._check import checked, show
from anyrt.ops._math import in_float, number
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import INTS, REALS
from anyrt.ops._window_folds import fold
from anyrt.ops._windows import Slide, Span, per_axis, slides, spans, windows
from anyrt.prims.build import cast, iota, map_, reduce_, reshape, scalar
from anyrt.prims.const import Shape
from anyrt.prims.reduce import lowest

P, M = PoolingType, PaddingMode
TYPES = REALS | {DataType.INT8}
AXES = (2, 3)  # number of axes along which windows slide
INT64, NOWHERE = DataType.INT64, (1 << 63) - 1


def _ones(size: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * len(size)


def _zeros(size: tuple[int, ...]) -> tuple[int, ...]:
    return (0,) * len(size)


@dataclass(frozen=True, slots=True)
class PoolingAttrs(Attrs):
    """Attributes of Pooling."""

    type: PoolingType = attr(Kind.ENUM, "maximum, average, or a weighted mean of both", enum=PoolingType)
    window_size_nd: tuple[int, ...] = attr(
        Kind.DIMS, "size of the window along each of the last two or three axes"
    )
    stride_nd: tuple[int, ...] | None = attr(
        Kind.DIMS, "distance from one window to the next", None, from_attr=("window_size_nd", _ones)
    )
    padding_mode: PaddingMode = attr(
        Kind.ENUM,
        "how padding and output size are computed; the SAME modes ignore the paddings below",
        PaddingMode.EXPLICIT_ROUND_DOWN,
        enum=PaddingMode,
    )
    pre_padding: tuple[int, ...] | None = attr(
        Kind.DIMS, "padding before the first element", None, from_attr=("window_size_nd", _zeros)
    )
    post_padding: tuple[int, ...] | None = attr(
        Kind.DIMS, "padding after the last element", None, from_attr=("window_size_nd", _zeros)
    )
    padding_nd: tuple[int, ...] | None = attr(
        Kind.DIMS, "sets pre_padding and post_padding", None, sets=("pre_padding", "post_padding")
    )
    dilation_nd: tuple[int, ...] | None = attr(
        Kind.DIMS,
        "distance from one element of a window to the next; an extension",
        None,
        from_attr=("window_size_nd", _ones),
    )
    blend_factor: float = attr(Kind.FLOAT, "weight of the average in MAX_AVERAGE_BLEND, 0 to 1", 0.0)
    average_count_excludes_padding: bool = attr(
        Kind.BOOL, "if True, averages do not count the elements of padding", True
    )

    indices_type: DataType | None = attr(
        Kind.ENUM,
        "int32 or int64 adds output 1 with the position of each maximum; an extension",
        None,
        enum=DataType,
    )

    @property
    def paddings(self) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """pre_padding and post_padding; None where not set."""
        both = self.padding_nd
        before = both if self.pre_padding is None else self.pre_padding
        return before, both if self.post_padding is None else self.post_padding


def expand(layer: Layer[PoolingAttrs]) -> tuple[Value, ...]:
    """Maxima, or sums divided by counts, of a view of the windows; averages in float32 or float64. Among
    equal maxima, the position is the lowest."""
    x, attrs = layer.input(0), layer.attrs
    sliding = _sliding(layer)
    by, sizes = sliding.by, x.shape[-len(sliding.by) :]
    at, rules = spans(layer.name, attrs.padding_mode, sizes, by, sliding.before, sliding.after)
    x = checked(x, rules)
    if attrs.type is P.MAX:
        most = fold("max", layer.name, x, by, at)
        return (most,) if attrs.indices_type is None else (most, _places(layer, x, most, by, at))
    if attrs.type is P.AVERAGE:
        return (in_float(x, lambda y: _average(layer, y, by, at)),)
    share = attrs.blend_factor

    def blend(y: Value) -> Value:
        most, middle = fold("max", layer.name, y, by, at), _average(layer, y, by, at)
        return map_("fma", middle, scalar(share, y), map_("mul", most, scalar(1.0 - share, y)))

    return (in_float(x, blend),)


def _places(
    layer: Layer[PoolingAttrs], x: Value, most: Value, by: Sequence[Slide], at: Sequence[Span]
) -> Value:
    """The first position of each maximum in the plane of the last axes, row-major; −1 for an empty window."""
    axes, lead = len(by), x.type.rank - len(by)
    framed = windows(layer.name, x, by, at, lowest(x.dtype))
    same = map_("eq", framed, reshape(most, (*most.shape, *(1,) * axes)))
    same = map_("or", same, map_("ne", framed, framed))  # a NaN is the maximum of its window
    place, inside = None, None
    for k, (each, span, size) in enumerate(zip(by, at, x.shape[lead:], strict=True)):
        window = iota(_alone(framed.type.rank, lead + k, span.count), lead + k, INT64)
        element = iota(_alone(framed.type.rank, lead + axes + k, each.size), lead + axes + k, INT64)
        element = map_("mul", element, scalar(each.dilation, element))
        along = map_("add", map_("mul", window, scalar(each.stride, window)), element)
        along = map_("sub", along, number(span.before, along))
        below = map_("lt", along, number(size, along))
        here = map_("and", map_("le", scalar(0, along), along), below)
        inside = here if inside is None else map_("and", inside, here)
        place = along if place is None else map_("add", map_("mul", place, number(size, place)), along)
    assert place is not None, "windows have axes"
    assert inside is not None, "windows have axes"
    there = map_("and", same, inside)
    places = reduce_(
        "min", map_("select", there, place, scalar(NOWHERE, place)), range(lead + axes, lead + 2 * axes)
    )
    places = map_("select", map_("eq", places, scalar(NOWHERE, places)), scalar(-1, places), places)
    assert layer.attrs.indices_type is not None, "indices_type is set"
    return cast(reshape(places, most.shape), layer.attrs.indices_type)


def _alone(rank: int, axis: int, size: Dim) -> tuple[Dim, ...]:
    return tuple(size if k == axis else 1 for k in range(rank))


def _average(layer: Layer[PoolingAttrs], x: Value, by: Sequence[Slide], at: Sequence[Span]) -> Value:
    """The sum times the reciprocal of the count: a constant, or the product of one count per axis.
    A division takes as long as the sum of twenty elements."""
    summed = fold("sum", layer.name, x, by, at)
    first, excludes = x.type.rank - len(by), layer.attrs.average_count_excludes_padding
    pairs = enumerate(zip(by, at, strict=True), first)
    counts = [_elements(x, axis, each, span, excludes) for axis, (each, span) in pairs]
    same = math.prod(each.size for each, count in zip(by, counts, strict=True) if count is None)
    varying = [count for count in counts if count is not None]
    if not varying:
        return map_("mul", summed, scalar(1 / same, summed))
    counted = reduce(lambda a, b: map_("mul", a, b), varying, scalar(float(same), summed))
    return map_("mul", summed, map_("div", scalar(1.0, counted), counted))


def _elements(x: Value, axis: int, by: Slide, span: Span, excludes: bool) -> Value | None:
    """The number of counted elements of each window along `axis`; None if all are counted."""
    border = (span.before, span.after, span.overhang) if excludes else (span.overhang,)
    if all(d == 0 for d in border):
        return None
    rank, size = x.type.rank, x.shape[axis]
    low, high = (
        (span.before, add(span.before, size)) if excludes else (0, total((span.before, size, span.after)))
    )
    start = iota(tuple(span.count if k == axis else 1 for k in range(rank)), axis, DataType.INT32)
    start = map_("mul", start, scalar(by.stride, start))
    if by.dilation > 1:
        most, least = (_steps(map_("sub", _number(n, rank), start), by.dilation) for n in (high, low))
        most, least = map_("min", most, scalar(by.size, most)), map_("max", least, scalar(0, least))
        count = map_("sub", most, least)
    else:
        end = map_("min", map_("add", start, scalar(by.size, start)), _number(high, rank))
        count = map_("sub", end, map_("max", start, _number(low, rank)))
    return cast(map_("max", count, scalar(0, count)), wide(x.dtype))


def _steps(distance: Value, step: int) -> Value:
    """The number of multiples of `step`, from 0 on, that are less than a distance."""
    return map_("floordiv", map_("add", distance, scalar(step - 1, distance)), scalar(step, distance))


def _number(n: Dim, rank: int) -> Value:
    return reshape(cast(apply(Shape((n,))), DataType.INT32), (1,) * rank)


@dataclass(frozen=True, slots=True)
class Sliding:
    """Checked attributes: the windows along each axis, and the explicit paddings."""

    by: tuple[Slide, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


def _sliding(layer: Layer[PoolingAttrs]) -> Sliding:
    attrs, where, rank = layer.attrs, layer.name, layer.input(0).type.rank
    count = len(attrs.window_size_nd)
    if count not in AXES:
        got, do = f"window_size_nd {show(attrs.window_size_nd)}", "pass 2 sizes (rows, columns) or 3"
        raise ShapeError("AR108", where, got, "2 or 3 values", do)
    if rank <= count:
        do = "add dimensions of size 1 with a shuffle or unsqueeze"
        raise ShapeError("AR101", where, f"rank {rank} for windows of {count} axes", f"rank > {count}", do)
    share = f"blend_factor {attrs.blend_factor}"
    if not math.isfinite(attrs.blend_factor):
        raise ArgumentError("AR308", where, share, "a finite number", "set the weight of the average, 0 to 1")
    if not 0 <= attrs.blend_factor <= 1:
        raise ArgumentError("AR304", where, share, "0 to 1", "use 0 for the maximum, 1 for the average")
    if attrs.indices_type is not None and (attrs.type is not P.MAX or attrs.indices_type not in INTS):
        got = f"{attrs.indices_type.name} positions of {attrs.type.name}"
        raise DTypeError("AR206", where, got, "INT32 or INT64 positions of MAX", "do not set indices_type")
    by = slides(where, attrs.window_size_nd, attrs.stride_nd, attrs.dilation_nd, name="window_size_nd")
    names = ("pre_padding", "post_padding")
    paddings = zip(names, attrs.paddings, strict=True)
    before, after = (per_axis(where, name, padding, count, 0) for name, padding in paddings)
    return Sliding(by, before, after)


def ref(attrs: PoolingAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Window by window: NumPy's max and sum of the elements inside the input."""
    x, lead = arrays[0], arrays[0].ndim - len(attrs.window_size_nd)
    plans = [_windows_of_axis(attrs, k, size) for k, size in enumerate(x.shape[lead:])]
    y = np.empty((*x.shape[:lead], *map(len, plans)), x.dtype)
    places = np.empty(y.shape, np.int64)
    for at in np.ndindex(*map(len, plans)):
        parts = [plan[i] for plan, i in zip(plans, at, strict=True)]
        here = np.ix_(*map(range, x.shape[:lead]), *(inside for inside, _ in parts))
        inside = x[here]
        y[(..., *at)] = _pooled(attrs, inside, math.prod(n for _, n in parts))
        for batch in np.ndindex(x.shape[:lead]):
            places[(*batch, *at)] = _first(inside[batch], [at for at, _ in parts], x.shape[lead:])
    return (y,) if attrs.indices_type is None else (y, places)


def _first(window: Array, along: list[list[int]], sizes: tuple[int, ...]) -> int:
    """The position of the first NaN, or of the first maximum, in a plane of these sizes."""
    if window.size == 0:
        return -1
    flat = window.reshape(-1)
    wrong = np.flatnonzero(np.not_equal(flat, flat))
    index = wrong[0] if wrong.size else np.argmax(flat)
    place = [a[k] for a, k in zip(along, np.unravel_index(index, window.shape), strict=True)]
    return int(np.ravel_multi_index(place, sizes))


def _windows_of_axis(attrs: PoolingAttrs, k: int, size: int) -> list[tuple[list[int], int]]:
    """The positions of each window inside the input, and the number of its elements to divide by."""
    stride, step = (attrs.stride_nd or (1, 1, 1))[k], (attrs.dilation_nd or (1, 1, 1))[k]
    window = (attrs.window_size_nd[k] - 1) * step + 1
    zeros = attrs.padding_nd or (0, 0, 0)
    before, after = (attrs.pre_padding or zeros)[k], (attrs.post_padding or zeros)[k]
    if attrs.padding_mode in (M.SAME_UPPER, M.SAME_LOWER):
        count = math.ceil(size / stride)
        missing = max(0, (count - 1) * stride + window - size)
        less, more = missing // 2, missing - missing // 2
        before, after = (less, more) if attrs.padding_mode is M.SAME_UPPER else (more, less)
    else:
        steps = (before + size + after - window) / stride
        count = (math.floor if attrs.padding_mode is M.EXPLICIT_ROUND_DOWN else math.ceil)(steps) + 1
    windows = []
    for i in range(count):
        places = range(i * stride - before, i * stride - before + window, step)
        inside = [p for p in places if 0 <= p < size]
        counted = inside if attrs.average_count_excludes_padding else [p for p in places if p < size + after]
        windows.append((inside, len(counted)))
    return windows


def _pooled(attrs: PoolingAttrs, inside: Array, counted: int) -> Array:
    """The pooled values of windows whose elements `inside` holds along its last axes."""
    axes = tuple(range(-len(attrs.window_size_nd), 0))
    least = lowest(DataType.INT8 if inside.dtype.kind == "i" else DataType.FLOAT)
    most = np.asarray(np.max(inside, axis=axes, initial=least))
    if attrs.type is P.MAX:
        return most
    with np.errstate(all="ignore"):
        average: Array = np.divide(np.sum(inside.astype(np.float64), axis=axes), counted)
        share = attrs.blend_factor
        blend: Array = np.add(np.multiply(1 - share, most), np.multiply(share, average))
        return average if attrs.type is P.AVERAGE else blend


def dla(layer: Layer[PoolingAttrs]) -> str | None:
    """None for maximum and average in two dimensions, within documented sizes."""
    attrs = layer.attrs
    sliding = _sliding(layer)
    if any(each.dilation > 1 for each in sliding.by):
        return "DLA does not pool with dilation"
    if attrs.type is P.MAX_AVERAGE_BLEND:
        return "DLA does not support MAX_AVERAGE_BLEND"
    if len(sliding.by) != 2:
        return "DLA pools in two dimensions only"
    fits = all(each.size <= 8 and each.stride <= 16 for each in sliding.by)
    fits = fits and max(*sliding.before, *sliding.after) <= 7
    return None if fits else "DLA pools with windows of 1 to 8, strides of 1 to 16, padding of 0 to 7"


def cases() -> tuple[Case[PoolingAttrs], ...]:
    """Every type, kind and padding mode; windows of few, many, all and no elements of the input."""
    a, x, int8 = PoolingAttrs, ((2, 3, 7, 8),), (DataType.INT8,)
    around = partial(a, stride_nd=(2, 1), pre_padding=(1, 0), post_padding=(0, 1))
    average, pair = around(P.AVERAGE, (3, 3)), a(P.MAX, (2, 2), (2, 2))
    up = partial(a, stride_nd=(3, 2), padding_mode=M.EXPLICIT_ROUND_UP, padding_nd=(1, 0))
    lower = partial(a, stride_nd=(2, 2), padding_mode=M.SAME_LOWER, padding_nd=(9, 9))
    special = np.array([np.nan, 1, -np.inf, np.inf, -1, 2, -np.inf, -np.inf, 0, -0.0, 1, 3])
    return (
        Case(a(P.MAX, (3, 3), (2, 2), padding_nd=(1, 1)), ((1, 4, 9, 11),)),
        *(Case(average, x, (t,)) for t in sorted(REALS, key=int)),
        *(Case(pair, x, (t,)) for t in (DataType.HALF, DataType.BF16)),
        Case(pair, x, int8, low=-100, high=100, int8=((0.05,), 0.02)),
        Case(a(P.MAX, (1, 2), padding_nd=(2, 2)), x, int8, low=-100, high=100),
        Case(average, x, int8, low=-100, high=100, int8=((0.05,), 0.03)),
        Case(around(P.MAX_AVERAGE_BLEND, (2, 3), blend_factor=0.25), x),
        Case(up(P.AVERAGE, (3, 3)), x),
        Case(up(P.AVERAGE, (3, 3), average_count_excludes_padding=False), x),
        Case(up(P.MAX, (2, 2)), ((1, 1, 5, 5),)),  # the last row of windows lies after the input
        Case(lower(P.AVERAGE, (2, 4), average_count_excludes_padding=False), x),
        Case(lower(P.MAX, (2, 1)), x),
        Case(a(P.AVERAGE, (3, 2), (2, 3), M.SAME_UPPER), x),
        Case(a(P.MAX, (2, 2)), ((1, 1, 2, 6),), data=(special,)),
        Case(a(P.AVERAGE, (7, 8)), x, dynamic=((0, 1),)),
        Case(a(P.AVERAGE, (7, 8)), x),
        Case(a(P.AVERAGE, (2, 17), (1, 2)), ((1, 2, 3, 40),)),
        Case(a(P.MAX, (19, 1)), ((2, 21, 3),)),
        Case(a(P.AVERAGE, (2, 3, 2), (1, 2, 2), padding_nd=(1, 0, 1)), ((1, 2, 3, 5, 4),)),
        Case(a(P.MAX, (1, 2, 2)), ((2, 3, 4, 5),)),
        Case(pair, ((2, 0, 3, 5),)),
        *(
            Case(replace(c, indices_type=t), shapes)
            for t in (DataType.INT32, DataType.INT64)
            for c, shapes in (
                (a(P.MAX, (3, 3), (2, 2), padding_nd=(1, 1)), x),
                (up(P.MAX, (2, 2)), x),
                (a(P.MAX, (1, 2, 2)), ((2, 3, 4, 5),)),
            )
        ),
        Case(replace(a(P.MAX, (2, 2)), indices_type=DataType.INT64), ((1, 1, 2, 6),), data=(special,)),
        Case(replace(pair, indices_type=DataType.INT32), x, (DataType.BF16,)),
        Case(replace(pair, indices_type=DataType.INT32), x, int8, low=-100, high=100, int8=((0.05,), 0.05)),
        Case(a(P.MAX, (1, 1), (2, 2)), ((1, 1, 2, 1, 3, 2, 3, 4),)),
        *_dilated(),
    )


def _dilated() -> tuple[Case[PoolingAttrs], ...]:
    """Dilated windows: every type, mode and way to count."""
    apart = partial(PoolingAttrs, stride_nd=(2, 1), padding_nd=(1, 2), dilation_nd=(2, 3))
    x = ((2, 3, 8, 9),)
    return (
        Case(apart(P.MAX, (3, 2), indices_type=DataType.INT64), x),
        *(
            Case(apart(P.AVERAGE, (2, 3), padding_mode=mode, average_count_excludes_padding=excludes), x)
            for mode in (M.EXPLICIT_ROUND_DOWN, M.EXPLICIT_ROUND_UP, M.SAME_LOWER)
            for excludes in (True, False)
        ),
        Case(replace(apart(P.MAX_AVERAGE_BLEND, (2, 2)), blend_factor=0.5), x),
    )


def mistakes() -> tuple[Mistake[PoolingAttrs], ...]:
    """Wrong ranks, numbers of values, sizes, weights and types."""
    a, x, square = PoolingAttrs, ((1, 2, 4, 5),), (2, 2)
    share = partial(a, P.MAX_AVERAGE_BLEND, square)
    return (
        Mistake("AR206", "indices_type for averages", a(P.AVERAGE, square, indices_type=DataType.INT32), x),
        Mistake("AR206", "a non-integer indices_type", a(P.MAX, square, indices_type=DataType.FLOAT), x),
        Mistake("AR101", "an input without an axis before the window", a(P.MAX, square), ((4, 5),)),
        Mistake("AR108", "a window of other than 2 or 3 axes", a(P.MAX, (2,)), x),
        Mistake("AR108", "a wrong number of strides", a(P.MAX, square, (1, 1, 1)), x),
        Mistake("AR108", "a wrong number of paddings", a(P.MAX, square, pre_padding=(1,)), x),
        Mistake("AR304", "a window size below 1", a(P.MAX, (2, 0)), x),
        Mistake("AR304", "a stride below 1", a(P.MAX, square, (0, 1)), x),
        Mistake("AR304", "a dilation below 1", a(P.MAX, square, dilation_nd=(0, 1)), x),
        Mistake("AR304", "padding below 0", a(P.MAX, square, post_padding=(0, -1)), x),
        Mistake("AR304", "a blend_factor outside 0 to 1", share(blend_factor=1.5), x),
        Mistake("AR308", "an infinite or NaN blend_factor", share(blend_factor=math.nan), x),
        Mistake("AR126", "a window larger than the padded input", a(P.MAX, (5, 2)), x),
        Mistake("AR126", "a window larger than the input at run time", a(P.MAX, (5, 2)), x, dynamic=True),
        Mistake("AR202", "an unsupported element type", a(P.MAX, square), x, (DataType.INT32,)),
    )


OPS = (
    Op(
        layer=LayerType.POOLING,
        cls="IPoolingLayer",
        methods=tuple(
            Method(
                name,
                ("input", "type", "window_size"),
                renamed=(("window_size", "window_size_nd"),),
                example=f"layer = network.{name}(x, trt.PoolingType.MAX, (3, 3))\nlayer.stride_nd = (2, 2)",
            )
            for name in ("add_pooling_nd", "add_pooling")
        ),
        inputs=(Input("input", TYPES),),
        attrs=PoolingAttrs,
        expand=expand,
        ref=ref,
        doc="Pools windows along the last two or three axes. MAX returns the largest element, AVERAGE the "
        "mean, and MAX_AVERAGE_BLEND (1 − blend_factor) · max + blend_factor · mean. The arithmetic is in "
        "float32, for float64 in float64. Padding is ignored by the maximum and adds 0 to the sum. Positions "
        "after the padding, which the last window reaches with EXPLICIT_ROUND_UP, are never counted. If a "
        "window counts no element, the mean is NaN and the maximum −inf. int8 maxima compare codes. "
        "bfloat16, float64, dilations and `indices_type` are extensions. If `indices_type` is set, output 1 "
        "holds the row-major position of each maximum in the plane of the last two or three axes: the first "
        "one of equal maxima or NaN, and −1 for a window without elements.",
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=("MaxPool", "AveragePool", "LpPool"),
        outputs=("output", "indices"),
        asked=lambda attrs: 1 if attrs.indices_type is None else 2,
        real_int8=lambda attrs: attrs.type is not P.MAX,
        source="operator page Pooling",
    ),
)
