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
AXES = (2, 3)  # that windows slide along
INT64, NOWHERE = DataType.INT64, (1 << 63) - 1


def _ones(size: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * len(size)


def _zeros(size: tuple[int, ...]) -> tuple[int, ...]:
    return (0,) * len(size)


@dataclass(frozen=True, slots=True)
class PoolingAttrs(Attrs):
    """Attributes of Pooling."""

    type: PoolingType = attr(
        Kind.ENUM, "the maximum or the average of a window, or a mean of both", enum=PoolingType
    )
    window_size_nd: tuple[int, ...] = attr(
        Kind.DIMS, "elements of a window along each of the last two or three axes"
    )
    stride_nd: tuple[int, ...] | None = attr(
        Kind.DIMS, "from one window to the next", None, from_attr=("window_size_nd", _ones)
    )
    padding_mode: PaddingMode = attr(
        Kind.ENUM,
        "how padding and the output's size follow; the SAME modes disregard the paddings below",
        PaddingMode.EXPLICIT_ROUND_DOWN,
        enum=PaddingMode,
    )
    pre_padding: tuple[int, ...] | None = attr(
        Kind.DIMS, "padding before the first element", None, from_attr=("window_size_nd", _zeros)
    )
    post_padding: tuple[int, ...] | None = attr(
        Kind.DIMS, "padding behind the last element", None, from_attr=("window_size_nd", _zeros)
    )
    padding_nd: tuple[int, ...] | None = attr(
        Kind.DIMS, "both paddings", None, sets=("pre_padding", "post_padding")
    )
    dilation_nd: tuple[int, ...] | None = attr(
        Kind.DIMS,
        "from one element of a window to the next; an extension",
        None,
        from_attr=("window_size_nd", _ones),
    )
    blend_factor: float = attr(Kind.FLOAT, "the average's share of MAX_AVERAGE_BLEND, 0 to 1", 0.0)
    average_count_excludes_padding: bool = attr(
        Kind.BOOL, "divide by the input's elements in a window, else by those of padding, too", True
    )

    indices_type: DataType | None = attr(
        Kind.ENUM,
        "once set, to int32 or int64, output 1 says where each maximum lies; an extension",
        None,
        enum=DataType,
    )

    @property
    def paddings(self) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """Before and after; None where nothing was said."""
        both = self.padding_nd
        before = both if self.pre_padding is None else self.pre_padding
        return before, both if self.post_padding is None else self.post_padding


def expand(layer: Layer[PoolingAttrs]) -> tuple[Value, ...]:
    """Maxima, and sums divided by counts, of a view of windows; averages in float32, or float64. Positions of
    maxima are the least of those where an element is equal."""
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
    """Where in the plane of the last axes each maximum lies first, counted row by row; −1 in no element."""
    axes, lead = len(by), x.type.rank - len(by)
    framed = windows(layer.name, x, by, at, lowest(x.dtype))
    same = map_("eq", framed, reshape(most, (*most.shape, *(1,) * axes)))
    same = map_("or", same, map_("ne", framed, framed))  # where there is a NaN, it is the maximum
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
    assert layer.attrs.indices_type is not None, "somebody asked for positions"
    return cast(reshape(places, most.shape), layer.attrs.indices_type)


def _alone(rank: int, axis: int, size: Dim) -> tuple[Dim, ...]:
    return tuple(size if k == axis else 1 for k in range(rank))


def _average(layer: Layer[PoolingAttrs], x: Value, by: Sequence[Slide], at: Sequence[Span]) -> Value:
    """The sum by the reciprocal of the elements that count: of a number, or the product of one for each axis.
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
    """How many elements of each window along `axis` count; None where all of them do."""
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
    """How many multiples of `step`, from 0 on, lie before a distance."""
    return map_("floordiv", map_("add", distance, scalar(step - 1, distance)), scalar(step, distance))


def _number(n: Dim, rank: int) -> Value:
    return reshape(cast(apply(Shape((n,))), DataType.INT32), (1,) * rank)


@dataclass(frozen=True, slots=True)
class Sliding:
    """Checked attributes: how windows slide along each axis, and the explicit paddings."""

    by: tuple[Slide, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


def _sliding(layer: Layer[PoolingAttrs]) -> Sliding:
    attrs, where, rank = layer.attrs, layer.name, layer.input(0).type.rank
    count = len(attrs.window_size_nd)
    if count not in AXES:
        got, do = f"window_size_nd {show(attrs.window_size_nd)}", "give (rows, columns), or three sizes"
        raise ShapeError("AR108", where, got, "2 or 3 values", do)
    if rank <= count:
        do = "add dimensions of size 1 with a shuffle or unsqueeze"
        raise ShapeError("AR101", where, f"rank {rank} for windows of {count} axes", f"rank > {count}", do)
    share = f"blend_factor {attrs.blend_factor}"
    if not math.isfinite(attrs.blend_factor):
        raise ArgumentError("AR308", where, share, "a finite number", "give the average's share, 0 to 1")
    if not 0 <= attrs.blend_factor <= 1:
        raise ArgumentError("AR304", where, share, "0 to 1", "0 is the maximum alone, 1 the average")
    if attrs.indices_type is not None and (attrs.type is not P.MAX or attrs.indices_type not in INTS):
        got = f"{attrs.indices_type.name} positions of {attrs.type.name}"
        raise DTypeError("AR206", where, got, "INT32 or INT64 positions of MAX", "leave indices_type alone")
    by = slides(where, attrs.window_size_nd, attrs.stride_nd, attrs.dilation_nd, name="window_size_nd")
    names = ("pre_padding", "post_padding")
    paddings = zip(names, attrs.paddings, strict=True)
    before, after = (per_axis(where, name, padding, count, 0) for name, padding in paddings)
    return Sliding(by, before, after)


def ref(attrs: PoolingAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Window by window: the elements of the input that lie in it, by NumPy's max and sum."""
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
    """Where the first NaN, or the first of the largest, lies in a plane of these sizes."""
    if window.size == 0:
        return -1
    flat = window.reshape(-1)
    wrong = np.flatnonzero(np.not_equal(flat, flat))
    index = wrong[0] if wrong.size else np.argmax(flat)
    place = [a[k] for a, k in zip(along, np.unravel_index(index, window.shape), strict=True)]
    return int(np.ravel_multi_index(place, sizes))


def _windows_of_axis(attrs: PoolingAttrs, k: int, size: int) -> list[tuple[list[int], int]]:
    """The positions of each window in the input, and how many of its elements count."""
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
    """What becomes of windows, of which `inside` holds the elements along its last axes."""
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
    """Maximum and average in two dimensions, within documented sizes."""
    attrs = layer.attrs
    sliding = _sliding(layer)
    if any(each.dilation > 1 for each in sliding.by):
        return "DLA pools windows whose elements lie side by side"
    if attrs.type is P.MAX_AVERAGE_BLEND:
        return "DLA does not blend maximum and average"
    if len(sliding.by) != 2:
        return "DLA pools in two dimensions"
    fits = all(each.size <= 8 and each.stride <= 16 for each in sliding.by)
    fits = fits and max(*sliding.before, *sliding.after) <= 7
    return None if fits else "DLA pools with windows of 1 to 8, strides of 1 to 16 and borders of 0 to 7"


def cases() -> tuple[Case[PoolingAttrs], ...]:
    """Every type, kind and padding mode; windows of few elements, of many, of all there are, and of none."""
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
        Case(up(P.MAX, (2, 2)), ((1, 1, 5, 5),)),  # the last row of windows lies behind the input
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
    """Elements that lie apart: every type, mode and way to count."""
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
    """Ranks, counts, sizes, shares and types."""
    a, x, square = PoolingAttrs, ((1, 2, 4, 5),), (2, 2)
    share = partial(a, P.MAX_AVERAGE_BLEND, square)
    return (
        Mistake("AR206", "positions of averages", a(P.AVERAGE, square, indices_type=DataType.INT32), x),
        Mistake("AR206", "positions that are no integers", a(P.MAX, square, indices_type=DataType.FLOAT), x),
        Mistake("AR101", "an input without an axis before those of the window", a(P.MAX, square), ((4, 5),)),
        Mistake("AR108", "a window of another number of axes than 2 or 3", a(P.MAX, (2,)), x),
        Mistake("AR108", "strides for other axes than the window's", a(P.MAX, square, (1, 1, 1)), x),
        Mistake("AR108", "padding for other axes than the window's", a(P.MAX, square, pre_padding=(1,)), x),
        Mistake("AR304", "a window of no elements", a(P.MAX, (2, 0)), x),
        Mistake("AR304", "a stride below 1", a(P.MAX, square, (0, 1)), x),
        Mistake("AR304", "a dilation below 1", a(P.MAX, square, dilation_nd=(0, 1)), x),
        Mistake("AR304", "padding below 0", a(P.MAX, square, post_padding=(0, -1)), x),
        Mistake("AR304", "a blend_factor outside 0 to 1", share(blend_factor=1.5), x),
        Mistake("AR308", "a blend_factor that is not finite", share(blend_factor=math.nan), x),
        Mistake("AR126", "a window that is larger than the padded input", a(P.MAX, (5, 2)), x),
        Mistake("AR126", "a window that is larger at run time", a(P.MAX, (5, 2)), x, dynamic=True),
        Mistake("AR202", "a type that Pooling does not take", a(P.MAX, square), x, (DataType.INT32,)),
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
        doc="Windows slide along the last two or three axes. MAX takes the largest element, AVERAGE the "
        "mean, MAX_AVERAGE_BLEND (1 − blend_factor) · max + blend_factor · mean; computed in float32, and "
        "float64, an extension, in float64. "
        "Padding is no candidate for the maximum and adds 0 to the sum; what lies behind it, where "
        "EXPLICIT_ROUND_UP lets the last window reach, is never counted. Where a window has no element that "
        "counts, the mean is NaN, and the maximum −inf. int8 maxima are those of the codes. bfloat16 is an "
        "extension, and so are dilations, and positions: once `indices_type` is set, output 1 has each "
        "maximum's place in the plane of the last two or three axes, counted row by row: the first of equal "
        "ones, and of NaN, and −1 for a window without elements.",
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
