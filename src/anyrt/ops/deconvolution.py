"""Deconvolution: the products of each input element with a kernel, summed where kernels overlap.

add_deconvolution_nd(x, 8, (4, 4), kernel, bias)    # x: (N, C, H, W), kernel: C * 8 * 4 * 4 values
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from anyrt.core.dims import Dim, add, ceildiv, floordiv, maximum, mod, mul, total
from anyrt.core.dtype import wide
from anyrt.core.enums import DataType, LayerType, PaddingMode
from anyrt.core.errors import NotSupportedError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Value
from anyrt.ops import _filters
from anyrt.ops._check import Requirements, checked, need, show
from anyrt.ops._filters import INSIDE, POSITIONS, Filter, FilterAttrs
from anyrt.ops._record import Array, Case, Layer, Mistake, Op
from anyrt.ops._windows import Slide, Span, check_mode, lay, padded, spread
from anyrt.prims.build import concat, const, pad, reshape, slice_, windows
from anyrt.prims.build import expand as expand_
from anyrt.prims.view import Axis

COLUMNS = "abd"  # labels of columns, beside POSITIONS and INSIDE
MOST_PHASES = 64  # the maximum number of contractions if there is an alternative
MOST_CLASSES = 1024  # the same if there is none


@dataclass(frozen=True, slots=True)
class Taps:
    """The terms of outputs of one residue along one axis: `size` elements of the kernel, backwards from
    `last`, `step` apart, times as many of the input, `gap` apart, from `start` for the first output. If
    residues are columns, `last_by` and `start_by` are the differences from one residue to the next."""

    size: int
    last: int
    step: int
    start: int
    gap: int
    last_by: int = 0
    start_by: int = 0


@dataclass(frozen=True, slots=True)
class Track:
    """One axis of the output, of `size` elements, cut into phases by residues of the stride.

    taps: one for each residue; a single one if residues are columns: these use equally many elements of the
    kernel, evenly spaced, and the phase has an axis of `columns` elements.
    count: elements of each phase. first: elements of the joined phases before the output.
    """

    size: Dim
    stride: int
    count: Dim
    taps: tuple[Taps, ...]
    columns: int = 0
    first: int = 0

    @property
    def is_alike(self) -> bool:
        """Whether residues are columns."""
        return self.columns > 0

    @property
    def reach(self) -> tuple[int, int]:
        """The least and the largest position from which a first output reads the input."""
        starts = [t.start + c * t.start_by for t in self.taps if t.size for c in range(max(1, self.columns))]
        return min(starts, default=0), max(starts, default=0)


def tracks_of(where: str, by: Sequence[Slide], at: Sequence[Span]) -> tuple[Track, ...]:
    """The phases of the output along each axis.

    Columns need one contraction, which computes whole blocks of the output. Elements that padding cuts off
    are removed afterwards. That is slower than a contraction for each phase, so it is used if nothing is
    removed, or if there would be too many phases.
    """
    many = math.prod(each.stride for each in by) > MOST_PHASES
    alike = [_columns_of(*each, many) for each in zip(by, at, strict=True)]
    phases = math.prod(1 if t else each.stride for t, each in zip(alike, by, strict=True))
    if phases > MOST_CLASSES:
        got = f"strides {show(tuple(each.stride for each in by))}: {phases} residues"
        do = "use dilation 1 and a kernel size that the stride divides, or smaller strides"
        raise NotSupportedError("AR901", where, got, f"at most {MOST_CLASSES}", do)
    each_axis = zip(alike, by, at, strict=True)
    return tuple(tracks or _phases_of(slide, span) for tracks, slide, span in each_axis)


def _columns_of(by: Slide, span: Span, many: bool) -> Track | None:
    """The track with residues as columns, if they are even, or if there are too many; else None."""
    if by.stride == 1 or by.dilation > 1:
        return None
    if by.stride <= MOST_PHASES and mod(span.count, by.stride) == 0:
        first, *rest = (_taps(by, residue + _cut(span)) for residue in range(by.stride))
        last_by, start_by = rest[0].last - first.last, rest[0].start - first.start
        even = replace(first, last_by=last_by, start_by=start_by)
        if first.size and all(t == _column(even, 1 + k) for k, t in enumerate(rest)):
            return Track(span.count, by.stride, floordiv(span.count, by.stride), (even,), by.stride)
    if not many or (by.size % by.stride and by.size >= by.stride):
        return None
    cut, columns = _cut(span), min(by.size, by.stride)
    rows, skipped = max(1, by.size // by.stride), cut // by.stride
    count = add(ceildiv(add(span.count, cut), by.stride), -skipped)
    only = Taps(rows, (rows - 1) * columns, columns, skipped - (rows - 1), 1, last_by=1)
    return Track(span.count, by.stride, count, (only,), columns, cut % by.stride)


def _column(t: Taps, k: int) -> Taps:
    """The taps of residue `k` alone."""
    return replace(t, last=t.last + k * t.last_by, start=t.start + k * t.start_by, last_by=0, start_by=0)


def _phases_of(by: Slide, span: Span) -> Track:
    each = tuple(_taps(by, residue + _cut(span)) for residue in range(by.stride))
    return Track(span.count, by.stride, ceildiv(span.count, by.stride), each)


def _cut(span: Span) -> int:
    assert isinstance(span.before, int), "padding follows from attributes alone"
    return span.before


def _taps(by: Slide, at: int) -> Taps:
    """The terms of the first output of a residue: at = i * stride + f * dilation, i of the input, f of the
    kernel."""
    shared = math.gcd(by.stride, by.dilation)
    step, gap = by.stride // shared, by.dilation // shared
    fits = (f for f in range(min(step, by.size)) if (at - f * by.dilation) % by.stride == 0)
    places = range(next(fits, by.size), by.size, step)
    if not places:
        return Taps(0, 0, 1, 0, 1)
    return Taps(len(places), places[-1], step, (at - places[-1] * by.dilation) // by.stride, gap)


@dataclass(frozen=True, slots=True)
class Spread:
    """The operands of all phases. `x`: the input, padded with zeros. `before`: the number of zeros before
    each axis."""

    layer: Layer[FilterAttrs]
    f: Filter
    tracks: tuple[Track, ...]
    x: Value
    before: tuple[int, ...]


def expand(layer: Layer[FilterAttrs]) -> tuple[Value, ...]:
    """One `Contract` for each class of outputs that sum the same elements of the kernel; the results are
    interleaved. If kernels do not overlap, or classes are many, one `Contract` computes all of them."""
    return (_filters.of_batches(layer, _spread_out),)


def _spread_out(layer: Layer[FilterAttrs]) -> Value:
    """The layer on (N, C, spatial sizes)."""
    f = _filters.read(layer, channels_first=True)
    at, rules = _spans(layer, f)
    tracks = tracks_of(layer.name, f.by, at)
    x, before = _around(layer, checked(f.x, rules), tracks)
    of = Spread(layer, f, tracks, x, before)
    phases = [_filters.finished(f, layer, _sums(of, each)) for each in product(*(t.taps for t in tracks))]
    return _interleaved(phases, tracks)


def _spans(layer: Layer[FilterAttrs], f: Filter) -> tuple[list[Span], Requirements]:
    mode, rules = layer.attrs.padding_mode, list[Requirements]()
    check_mode(layer.name, mode)
    at = [spread(mode, *each) for each in zip(f.spatial, f.by, f.before, f.after, strict=True)]
    for k, span in enumerate(at):
        got, do = f"size {span.count} for spatial axis {k}", "use smaller paddings"
        rules.append(need(layer.name, 0, Relation.LE, span.count, "AR120", got, "a size of 0 or more", do))
    return at, tuple(rule for group in rules for rule in group)


def _around(layer: Layer[FilterAttrs], x: Value, tracks: tuple[Track, ...]) -> tuple[Value, tuple[int, ...]]:
    """The input with zeros wherever a phase reads beyond it, and the number of zeros before each axis."""
    before, frame = list[int](), list[Span]()
    for size, t in zip(x.shape[2:], tracks, strict=True):
        low, high = t.reach
        before.append(max(0, -low))
        last = high + max((each.size - 1) * each.gap for each in t.taps)
        after = maximum(0, total((t.count, last, mul(size, -1))))
        frame.append(Span(before[-1], after, 0, t.count))
    return padded(layer.name, x, frame, 0.0), tuple(before)


def _sums(of: Spread, taps: tuple[Taps, ...]) -> Value:
    """The sums of one class: (N, K, then for each axis its positions and its columns, or 1)."""
    attrs, tracks = of.layer.attrs, of.tracks
    shape: list[Dim] = [of.x.shape[0], attrs.num_output_maps]
    for t in tracks:
        shape += [t.count, t.columns or 1]
    if not all(each.size for each in taps):
        return expand_(const(np.zeros((1,) * len(shape)), wide(of.x.dtype)), tuple(shape))
    by = [Slide(each.size, 1, each.gap) for each in taps]
    starts = [each.start + n for each, n in zip(taps, of.before, strict=True)]
    columns = [(t.columns, each.start_by) for t, each in zip(tracks, taps, strict=True)]
    under = lay(of.x, by, [t.count for t in tracks], starts, attrs.num_groups, columns)
    kernel, inside = _chosen(of, taps)
    g, n = "g" * (attrs.num_groups > 1), len(tracks)
    moving = "".join(COLUMNS[k] for k, (_, step) in enumerate(columns) if step)
    out = "".join(POSITIONS[k] + COLUMNS[k] * t.is_alike for k, t in enumerate(tracks))
    equation = f"n{g}c{POSITIONS[:n]}{INSIDE[:n]}{moving},{g}ck{inside}->n{g}k{out}"
    sums = reshape(_filters.summed(of.f, equation, under, kernel), tuple(shape))
    missing = [n for t in tracks for n in (0, t.stride - t.columns if t.is_alike else 0)]
    return pad(sums, [0] * len(shape), [0, 0, *missing], 0.0)


def _chosen(of: Spread, taps: tuple[Taps, ...]) -> tuple[Value, str]:
    """The elements of the kernel that one class uses, in the order of windows, and their labels."""
    kernel, lead = of.f.kernel, of.f.kernel.type.rank - len(of.tracks)
    axes, shape, labels = [Axis(0, k) for k in range(lead)], list(kernel.shape[:lead]), ""
    for k, (t, each) in enumerate(zip(of.tracks, taps, strict=True)):
        at = len(shape)
        column = ((at + 1, each.last_by),) if t.is_alike else ()
        axes.append(Axis(each.last, at, -each.step, column))
        shape += [each.size, t.columns] if t.is_alike else [each.size]
        labels += INSIDE[k] + COLUMNS[k] * t.is_alike
    return windows(kernel, axes, tuple(shape)), labels


def _interleaved(phases: list[Value], tracks: tuple[Track, ...]) -> Value:
    """The phases of all classes, in the order of `product`, as one output, without the cut-off elements."""
    for k in reversed(range(len(tracks))):
        n = len(tracks[k].taps)
        phases = [concat(phases[i : i + n], 2 * k + 3) for i in range(0, len(phases), n)]
    (whole,) = phases
    lead = whole.shape[:2]
    flat = reshape(whole, (*lead, *(mul(t.count, t.stride) for t in tracks)))
    start, size = [0, 0, *(t.first for t in tracks)], [*lead, *(t.size for t in tracks)]
    return slice_(flat, start, size, [1] * len(start))


def ref(attrs: FilterAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Kernel element by kernel element: its weights times the input, added to the output."""
    x, size, groups = arrays[0].astype(np.float64), attrs.kernel_size_nd, attrs.num_groups
    *lead, channels = x.shape[: x.ndim - len(size)]
    batch, spatial = math.prod(lead), x.shape[x.ndim - len(size) :]
    weights, bias = _filters.kernel_and_bias(attrs, arrays)
    stride, gap = (v or (1,) * len(size) for v in (attrs.stride_nd, attrs.dilation_nd))
    reach = [1 + d * (f - 1) for d, f in zip(gap, size, strict=True)]
    each = attrs.num_output_maps // groups
    kernel = weights.reshape(groups, channels // groups, each, *size)
    x = x.reshape(batch, groups, channels // groups, *spatial)
    whole = [(n - 1) * s + r for n, s, r in zip(spatial, stride, reach, strict=True)]
    y = np.zeros((batch, groups, each, *(max(n, 0) for n in whole)))
    for at in np.ndindex(*size):
        put = tuple(
            slice(i * d, i * d + n * s, s) for i, d, n, s in zip(at, gap, spatial, stride, strict=True)
        )
        y[:, :, :, *put] += np.einsum("ngc...,gck->ngk...", x, kernel[:, :, :, *at])
    kept = tuple(_kept(attrs, k, whole[k], r - stride[k]) for k, r in enumerate(reach))
    y = y[:, :, :, *kept].reshape(*lead, attrs.num_output_maps, *(k.stop - k.start for k in kept))
    return (y + bias.reshape(-1, *(1 for _ in size)),)


def _kept(attrs: FilterAttrs, axis: int, whole: int, overlap: int) -> slice:
    """The elements that remain after padding is cut off; the SAME modes cut off the overlap of kernels."""
    before, after = ((padding or (0, 0, 0))[axis] for padding in attrs.paddings)
    if attrs.padding_mode in (PaddingMode.SAME_UPPER, PaddingMode.SAME_LOWER):
        less, more = max(overlap, 0) // 2, -(-max(overlap, 0) // 2)
        before, after = (less, more) if attrs.padding_mode is PaddingMode.SAME_UPPER else (more, less)
    return slice(before, whole - after)


def dla(layer: Layer[FilterAttrs]) -> str | None:
    """DLA supports two spatial axes and constant weights, without groups, dilation or padding."""
    attrs = layer.attrs
    for what, sizes in (("kernel sizes", attrs.kernel_size_nd), ("strides", attrs.stride_nd or (1, 1))):
        long = sorted(sizes)[:-1] == [1] and max(sizes) in (64, 96, 128)
        if not long and max(sizes) > 32:
            return f"DLA takes {what} to 32, or 64, 96 or 128 beside 1, got {show(sizes)}"
    limits = (
        ("dilations", attrs.dilation_nd or (1, 1), 1, 1),
        ("groups", (attrs.num_groups,), 1, 1),
        ("paddings", tuple(n for padding in attrs.paddings for n in padding or (0, 0)), 0, 0),
    )
    return _filters.dla(layer, limits)


def cases() -> tuple[Case[FilterAttrs], ...]:
    """One to three spatial axes, groups, depthwise, strides, dilation and padding; all types; weights from
    attributes and inputs."""
    same, lower, up = PaddingMode.SAME_UPPER, PaddingMode.SAME_LOWER, PaddingMode.EXPLICIT_ROUND_UP
    case, a, half, coded = _filters.case, FilterAttrs, DataType.HALF, DataType.INT8
    x = (2, 4, 3, 4)
    return (
        case((1, 2, 2, 3), a(2, (2, 2), stride_nd=(2, 2))),
        case((1, 3, 5), a(4, (4,), stride_nd=(2,), padding_nd=(1,)), bias=True),
        case((1, 2, 2, 3, 4), a(3, (2, 3, 1), stride_nd=(2, 1, 3), pre_padding=(0, 1, 0))),
        case(x, a(6, (3, 3), stride_nd=(2, 2), padding_mode=same, num_groups=2), bias=True),
        case((1, 5, 3, 4), a(5, (3, 4), stride_nd=(1, 2), padding_mode=lower, num_groups=5)),
        case((1, 6, 3, 4), a(4, (3, 2), dilation_nd=(2, 3), stride_nd=(3, 1), padding_mode=up), bias=True),
        case((0, 3, 3, 4), a(2, (3, 3), padding_nd=(1, 1))),
        case((1, 1, 2, 3, 3), a(1, (3, 3))),
        case((2, 1, 3, 4, 2, 3), a(6, (3, 2), stride_nd=(2, 1), num_groups=2), half, bias=True),
        case(x, a(6, (3, 4), stride_nd=(1, 2)), half, bias=True),
        case(x, a(6, (2, 4), stride_nd=(2, 2)), DataType.BF16, bias=True),
        case(x, a(3, (3, 2), stride_nd=(2, 2)), operands=((4, 3, 3, 2), (3,))),
        case(x, a(6, (2, 4), stride_nd=(2, 2), num_groups=2), coded, bias=True, int8=((0.5,), 300.0)),
        case(x, a(3, (2, 2), stride_nd=(2, 2)), coded, operands=((4, 3, 2, 2),), int8=((0.5, 0.25), 300.0)),
    )


def mistakes() -> tuple[Mistake[FilterAttrs], ...]:
    """Sizes, groups, paddings, and wrong numbers and types of weights."""
    plain = FilterAttrs(4, (3, 3), _filters.values(108))
    x = (1, 3, 5, 4)
    return (
        *_filters.mistakes((6, 2, 3, 3), (4, 3, 3, 3)),
        Mistake("AR120", "padding larger than the output", replace(plain, padding_nd=(4, 0)), (x,)),
        Mistake("AR111", "more than 2^31 elements", replace(plain, stride_nd=(2**15, 2**15)), (x,)),
        Mistake(
            "AR901",
            "strides of more than 1024 residues, with a dilation or kernel sizes that they do not divide",
            replace(plain, stride_nd=(2**31 - 1, 2), dilation_nd=(2, 2)),
            (x,),
        ),
    )


OPS = (
    Op(
        layer=LayerType.DECONVOLUTION,
        cls="IDeconvolutionLayer",
        methods=_filters.methods("deconvolution"),
        inputs=_filters.INPUTS,
        attrs=FilterAttrs,
        expand=expand,
        ref=ref,
        doc="Multiplies each input element with a kernel (channels, output maps of a group, spatial sizes), "
        "adds the products to the output, where neighbouring kernels are the stride apart and may overlap, "
        "and adds a bias. The input is (N, C, spatial sizes), the output is (N, num_output_maps, …). Further "
        "axes before C are batch axes, too. An output axis has (size - 1) · stride + 1 + dilation · (kernel "
        "size - 1) elements, less the paddings. Half types are summed in float32 and rounded once; int8 is "
        "computed as in Convolution. One spatial axis, bfloat16, and int8 groups of any size are extensions.",
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=("ConvTranspose",),
        real_int8=lambda attrs: True,
        source="operator page Deconvolution, C++ header",
    ),
)
