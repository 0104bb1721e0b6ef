"""Convolution: sums of products of a kernel with the elements under it, at each position.

add_convolution_nd(x, 8, (3, 3), kernel, bias)      # x: (N, C, H, W), kernel: 8 * C * 3 * 3 values
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from anyrt.core.enums import DataType, LayerType, PaddingMode
from anyrt.ir.graph import Value
from anyrt.ops import _filters
from anyrt.ops._check import checked, show
from anyrt.ops._filters import INSIDE, POSITIONS, FilterAttrs
from anyrt.ops._record import Array, Case, Layer, Mistake, Op
from anyrt.ops._windows import spans, windows
from anyrt.prims.build import reshape


def expand(layer: Layer[FilterAttrs]) -> tuple[Value, ...]:
    """One `Contract` of all windows with the kernel; groups have a label of their own."""
    return (_filters.of_batches(layer, _convolved),)


def _convolved(layer: Layer[FilterAttrs]) -> Value:
    """The layer on (N, C, spatial sizes)."""
    f = _filters.read(layer, channels_first=False)
    mode, groups = layer.attrs.padding_mode, layer.attrs.num_groups
    at, rules = spans(layer.name, mode, f.spatial, f.by, f.before, f.after)
    under = windows(layer.name, checked(f.x, rules), f.by, at, groups=groups)
    g, out, inside = "g" * (groups > 1), POSITIONS[: len(f.by)], INSIDE[: len(f.by)]
    sums = _filters.summed(f, f"n{g}c{out}{inside},{g}kc{inside}->n{g}k{out}", under, f.kernel)
    sums = reshape(sums, (f.x.shape[0], layer.attrs.num_output_maps, *(s.count for s in at)))
    return _filters.finished(f, layer, sums)


def ref(attrs: FilterAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Kernel element by kernel element: the inputs under it at all positions, times its weights."""
    x, size, groups = arrays[0].astype(np.float64), attrs.kernel_size_nd, attrs.num_groups
    axes = x.ndim - len(size) - 1
    batch, channels = math.prod(x.shape[:axes]), x.shape[axes]
    spatial = x.shape[axes + 1 :]
    weights_, bias = _filters.kernel_and_bias(attrs, arrays)
    stride, gap = (v or (1,) * len(size) for v in (attrs.stride_nd, attrs.dilation_nd))
    reach = [1 + d * (f - 1) for d, f in zip(gap, size, strict=True)]
    placed = [_place(attrs, k, n, stride[k], reach[k]) for k, n in enumerate(spatial)]
    counts = [count for _, count in placed]
    around = [(before, count * stride[k] + reach[k]) for k, (before, count) in enumerate(placed)]
    padded = np.pad(x, [*(axes + 1) * [(0, 0)], *around])
    padded = padded.reshape(batch, groups, channels // groups, *padded.shape[axes + 1 :])
    kernel = weights_.reshape(groups, attrs.num_output_maps // groups, channels // groups, *size)
    y = np.zeros((batch, groups, attrs.num_output_maps // groups, *counts))
    for at in np.ndindex(*size):
        under = tuple(
            slice(i * d, i * d + n * s, s) for i, d, n, s in zip(at, gap, counts, stride, strict=True)
        )
        y += np.einsum("ngc...,gkc->ngk...", padded[:, :, :, *under], kernel[:, :, :, *at])
    y = y.reshape(*x.shape[:axes], attrs.num_output_maps, *counts)
    return (y + bias.reshape(-1, *(1 for _ in size)),)


def _place(attrs: FilterAttrs, axis: int, size: int, stride: int, reach: int) -> tuple[int, int]:
    """The padding before the input, and the number of windows."""
    before, after = ((padding or (0, 0, 0))[axis] for padding in attrs.paddings)
    match attrs.padding_mode:
        case PaddingMode.EXPLICIT_ROUND_DOWN:
            return before, math.floor((size + before + after - reach) / stride) + 1
        case PaddingMode.EXPLICIT_ROUND_UP:
            return before, math.ceil((size + before + after - reach) / stride) + 1
    count = math.ceil(size / stride)
    missing = max(0, (count - 1) * stride + reach - size)
    return math.floor(missing / 2) if attrs.padding_mode is PaddingMode.SAME_UPPER else math.ceil(
        missing / 2
    ), count


def dla(layer: Layer[FilterAttrs]) -> str | None:
    """DLA supports two spatial axes, constant weights, and sizes within the documented limits."""
    attrs = layer.attrs
    before, after = (padding or (0, 0) for padding in attrs.paddings)
    size = attrs.kernel_size_nd
    limits = (
        ("kernel sizes", size, 1, 32),
        ("strides", attrs.stride_nd or (1, 1), 1, 8),
        ("dilations", attrs.dilation_nd or (1, 1), 1, 32),
        ("paddings", (*before, *after), 0, 31),
        ("groups", (attrs.num_groups,), 1, 8192),
    )
    if any(p >= f for p, f in zip((*before, *after), (*size, *size), strict=False)):
        return f"DLA takes paddings smaller than the kernel {show(size)}"
    return _filters.dla(layer, limits)


def cases() -> tuple[Case[FilterAttrs], ...]:
    """One to three spatial axes, groups, depthwise, strides, dilation and padding; all types; weights from
    attributes and inputs."""
    up, same, lower = PaddingMode.EXPLICIT_ROUND_UP, PaddingMode.SAME_UPPER, PaddingMode.SAME_LOWER
    case, a, half = _filters.case, FilterAttrs, DataType.HALF
    x, coded = (2, 6, 5, 6), DataType.INT8
    return (
        case((1, 2, 4, 5), a(3, (3, 3))),
        case((1, 2, 9), a(3, (3,), pre_padding=(2,), post_padding=(1,), stride_nd=(2,))),
        case((1, 2, 4, 5, 6), a(3, (2, 3, 1), padding_nd=(1, 0, 1), stride_nd=(2, 1, 2))),
        case(x, a(4, (3, 2), padding_mode=same, dilation_nd=(1, 3), num_groups=2), bias=True),
        case((1, 5, 8, 17), a(5, (3, 3), padding_mode=lower, stride_nd=(2, 2), num_groups=5), bias=True),
        case((1, 4, 7, 8), a(8, (3, 3), padding_mode=up, padding_nd=(1, 1), stride_nd=(3, 2), num_groups=4)),
        case((2, 16, 3, 5), a(20, (1, 1)), bias=True),
        case((0, 3, 5, 7), a(4, (3, 3))),
        case((2, 3, 4, 5, 6), a(3, (3, 2), num_groups=1), bias=True),
        case((2, 1, 3, 4, 5, 6), a(4, (3, 2), stride_nd=(2, 1), num_groups=2), half),
        *(case(x, a(8, (3, 3), num_groups=2), t, bias=True) for t in (half, DataType.BF16)),
        case(x, a(4, (3, 2), padding_mode=same), operands=((4, 6, 3, 2), (4,))),
        case(x, a(4, (3, 2), num_groups=2), half, operands=((4, 3, 3, 2),)),
        case(x, a(4, (3, 2), num_groups=2), DataType.INT32, operands=((4, 3, 3, 2),)),
        case(x, a(8, (3, 3), padding_nd=(1, 1), num_groups=2), coded, bias=True, int8=((0.5,), 300.0)),
        case(x, a(4, (3, 3)), coded, operands=((4, 6, 3, 3),), int8=((0.5, 0.25), 3000.0)),
    )


def mistakes() -> tuple[Mistake[FilterAttrs], ...]:
    """Sizes, groups, windows, and wrong numbers and types of weights."""
    far = FilterAttrs(4, (3, 2), _filters.values(72), dilation_nd=(1, 4))
    wide = FilterAttrs(4, (3, 3), _filters.values(108))
    x = (1, 3, 5, 4)
    return (
        *_filters.mistakes((4, 3, 3, 3), (6, 2, 3, 3)),
        Mistake("AR126", "a window larger than its padded input", far, (x,)),
        Mistake(
            "AR111",
            "padding to more than 2^31 elements",
            replace(wide, padding_nd=(2**15, 2**14)),
            (x,),
        ),
    )


OPS = (
    Op(
        layer=LayerType.CONVOLUTION,
        cls="IConvolutionLayer",
        methods=_filters.methods("convolution"),
        inputs=_filters.INPUTS,
        attrs=FilterAttrs,
        expand=expand,
        ref=ref,
        doc="Multiplies a kernel (output maps, channels of a group, spatial sizes) with the elements under "
        "it at each position, sums the products, and adds a bias. The kernel is not flipped. Positions are "
        "the stride apart. The input is (N, C, spatial sizes), padded with zeros; the output is (N, "
        "num_output_maps, …). Further axes before C are batch axes, too. Half types are summed in float32 "
        "and rounded once. int8 with dynamic ranges multiplies codes, whose sums are exact. A float32 "
        "kernel is rounded to int8 for that: the largest magnitude of each output map becomes 127. One "
        "spatial axis, int8 groups of any size, and int32 with a kernel tensor and no bias, whose sums are "
        "int32, are extensions.",
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=("Conv", "QLinearConv", "ConvInteger"),
        real_int8=lambda attrs: True,
        source="operator page Convolution, C++ header",
    ),
)  # fmt: skip
