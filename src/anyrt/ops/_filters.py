"""Parts of Convolution and Deconvolution: attributes, checks of kernels and biases, int8 codes.

Sums of products are FLOAT, or DOUBLE for DOUBLE inputs, so that the bias is added before any rounding. Those
of int8 codes are exact (INT32) and are then converted to FLOAT.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import product
from anyrt.core.dtype import short_name, wide
from anyrt.core.enums import DataType, PaddingMode
from anyrt.core.errors import ArgumentError, DTypeError, GraphError, ShapeError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Shape, Value, apply
from anyrt.ops._check import Requirements, check_weights, checked, need, show, static_shape
from anyrt.ops._product import coded
from anyrt.ops._record import (
    ABSENT,
    EMPTY_BLOB,
    Array,
    Attrs,
    Case,
    Input,
    Kind,
    Layer,
    Method,
    Mistake,
    attr,
    weights,
)
from anyrt.ops._scales import Scale, single, times
from anyrt.ops._types import REALS
from anyrt.ops._windows import Slide, per_axis, slides
from anyrt.prims.build import cast, const, contract, map_, reshape
from anyrt.prims.const import Blob, Const
from anyrt.prims.contract import SUMMED

Numbers = NDArray[np.float64]
MOST_AXES = 3
POSITIONS, INSIDE = "xyz", "uvw"  # labels of contractions: positions, elements of a window
INPUTS = (
    Input("input", REALS | {DataType.INT8, DataType.INT32}),
    Input("kernel", REALS | {DataType.INT8, DataType.INT32}, required=False, same_as=0),
    Input("bias", REALS, required=False),
)


def _ones(size: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * len(size)


def _zeros(size: tuple[int, ...]) -> tuple[int, ...]:
    return (0,) * len(size)


@dataclass(frozen=True, slots=True)
class FilterAttrs(Attrs):
    """Attributes of Convolution and Deconvolution."""

    num_output_maps: int = attr(Kind.INT, "number of output channels")
    kernel_size_nd: tuple[int, ...] = attr(Kind.DIMS, "size of the kernel along each spatial axis")
    kernel: Blob = attr(Kind.WEIGHTS, "values of the kernel; empty if input 1 is connected", EMPTY_BLOB)
    bias: Blob = attr(Kind.WEIGHTS, "one value for each output map; empty: input 2, or no bias", EMPTY_BLOB)
    padding_mode: PaddingMode = attr(
        Kind.ENUM,
        "how padding and output size are computed; the SAME modes ignore the paddings below",
        PaddingMode.EXPLICIT_ROUND_DOWN,
        enum=PaddingMode,
    )
    pre_padding: tuple[int, ...] | None = attr(
        Kind.DIMS, "padding before the first element", None, from_attr=("kernel_size_nd", _zeros)
    )
    post_padding: tuple[int, ...] | None = attr(
        Kind.DIMS, "padding after the last element", None, from_attr=("kernel_size_nd", _zeros)
    )
    padding_nd: tuple[int, ...] | None = attr(
        Kind.DIMS, "padding at both ends", None, sets=("pre_padding", "post_padding")
    )
    stride_nd: tuple[int, ...] | None = attr(
        Kind.DIMS, "distance of neighbouring windows", None, from_attr=("kernel_size_nd", _ones)
    )
    dilation_nd: tuple[int, ...] | None = attr(
        Kind.DIMS,
        "distance of the elements that neighbouring kernel elements are multiplied with",
        None,
        from_attr=("kernel_size_nd", _ones),
    )
    num_groups: int = attr(Kind.INT, "number of groups of channels and output maps", 1)

    @property
    def paddings(self) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """The paddings before and after; None if not set."""
        both = self.padding_nd
        before = both if self.pre_padding is None else self.pre_padding
        return before, both if self.post_padding is None else self.post_padding


@dataclass(frozen=True, slots=True)
class Filter:
    """A layer with checked attributes. `x`: (N, C, …), numbers or int8 codes. `kernel`: of the type of `x`;
    its first two axes are those of the layer, after an axis for groups if there are several.

    step: the scale of sums of products of codes, one number or one for each output map; None for numbers.
    bias: FLOAT or DOUBLE, one for each output map. before, after: the explicit paddings.
    """

    x: Value
    kernel: Value
    step: Value | None
    bias: Value | None
    by: tuple[Slide, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def spatial(self) -> Shape:
        """The spatial sizes of the input."""
        return self.x.shape[2:]


def read(layer: Layer[FilterAttrs], channels_first: bool) -> Filter:
    """The layer's checked operands and weights. channels_first: the kernel is (C, K / G, …), else
    (K, C / G, …)."""
    attrs, name = layer.attrs, layer.name
    by = _slides(layer)
    x, step = _codes(layer, 0)
    channels = _channels(layer, x, len(by))
    before, after = (
        per_axis(name, what, padding, len(by), 0)
        for what, padding in zip(("pre_padding", "post_padding"), attrs.paddings, strict=True)
    )
    maps, groups = attrs.num_output_maps, attrs.num_groups
    front = (channels, maps // groups) if channels_first else (maps, channels // groups)
    shape = (*front, *(each.size for each in by))
    kernel, worth = _kernel(layer, shape, maps_axis=1 if channels_first else 0)
    if groups > 1:
        kernel = reshape(kernel, (groups, shape[0] // groups, *shape[1:]))
    return Filter(x, kernel, _worth(step, worth), _bias(layer), by, before, after)


def summed(f: Filter, equation: str, windows: Value, kernel: Value) -> Value:
    """The contraction of windows with a kernel: FLOAT or DOUBLE, or INT32 for codes and integers."""
    if f.step is None:
        whole = windows.dtype is DataType.INT32
        return contract(equation, windows, kernel, DataType.INT32 if whole else wide(windows.dtype))
    labels, out = equation.split("->")
    sizes = dict(zip(labels.split(",")[1], kernel.shape, strict=True))
    count = prod(d for k, d in sizes.items() if k not in out and isinstance(d, int))
    if count <= SUMMED:
        return contract(equation, windows, kernel, DataType.INT32)
    return contract(equation, cast(windows, DataType.FLOAT), cast(kernel, DataType.FLOAT))


def finished(f: Filter, layer: Layer[FilterAttrs], sums: Value) -> Value:
    """The layer's result: (N, K, …) sums, scaled, with the bias, of the layer's type; FLOAT for int8."""
    if layer.input(0).dtype is DataType.INT32 and f.bias is None:
        return sums
    y = cast(sums, wide(sums.dtype))
    if f.step is not None and f.bias is not None:
        y = map_("fma", y, _beside(f.step, y), _beside(f.bias, y))
    elif f.step is not None:
        y = map_("mul", y, _beside(f.step, y))
    elif f.bias is not None:
        y = map_("add", y, _beside(f.bias, y))
    return cast(y, layer.input(0).dtype)


def _beside(v: Value, y: Value) -> Value:
    """`v`, (K,), reshaped to broadcast with `y`, (N, K, …)."""
    return reshape(v, (1, v.shape[0], *(1 for _ in y.shape[2:])))


def _slides(layer: Layer[FilterAttrs]) -> tuple[Slide, ...]:
    attrs, count = layer.attrs, len(layer.attrs.kernel_size_nd)
    if not 1 <= count <= MOST_AXES:
        got, do = f"kernel_size_nd {show(attrs.kernel_size_nd)}", "give one for each spatial axis"
        raise ShapeError("AR108", layer.name, got, f"1 to {MOST_AXES} sizes", do)
    if attrs.num_output_maps < 1:
        got = f"{attrs.num_output_maps} output maps"
        raise ArgumentError("AR304", layer.name, got, "at least 1", "set num_output_maps")
    return slides(layer.name, attrs.kernel_size_nd, attrs.stride_nd, attrs.dilation_nd)


def of_batches(layer: Layer[FilterAttrs], compute: Callable[[Layer[FilterAttrs]], Value]) -> Value:
    """The result of `compute` for the layer on (N, C, spatial sizes): the axes before the channels are merged
    to N, and split again in the result."""
    x = layer.input(0)
    lead = x.type.rank - len(layer.attrs.kernel_size_nd) - 1
    if lead <= 1:
        return compute(layer)
    stored = (None if c is None else (_flat(c[0], lead), c[1]) for c in layer.codes[:1])
    inputs, codes = (_flat(x, lead), *layer.inputs[1:]), (*stored, *layer.codes[1:])
    y = compute(replace(layer, inputs=inputs, codes=codes))
    return reshape(y, (*x.shape[:lead], *y.shape[1:]))


def _flat(x: Value, lead: int) -> Value:
    """`x` with its first `lead` axes merged."""
    return reshape(x, (product(x.shape[:lead]), *x.shape[lead:]))


def _channels(layer: Layer[FilterAttrs], x: Value, axes: int) -> int:
    """The number of input channels. Raises AR118 unless the groups divide it and the output maps."""
    name, rank, groups = layer.name, x.type.rank, layer.attrs.num_groups
    if rank != axes + 2:
        do = "reshape the input, or change kernel_size_nd"
        got, wanted = f"rank {rank} for a kernel with {axes} spatial axes", f"rank {axes + 2}: (N, C, …)"
        raise ShapeError("AR101", name, got, wanted, do)
    (channels,) = static_shape(name, x.shape[1:2], "channels of size")
    if channels == 0:
        do = "use an input with at least one channel"
        raise ShapeError("AR123", name, f"no channels in {show(x.shape)}", "1 or more", do)
    if groups < 1:
        raise ShapeError("AR118", name, f"{groups} groups", "at least 1", "use 1 for no groups")
    for count, what in ((channels, "channels"), (layer.attrs.num_output_maps, "output maps")):
        if count % groups:
            do = "choose a divisor of the channels and of the output maps"
            raise ShapeError(
                "AR118", name, f"{count} {what} in {groups} groups", f"a multiple of {groups}", do
            )
    return channels


def _codes(layer: Layer[FilterAttrs], i: int) -> tuple[Value, Scale | None]:
    """An operand, or the codes of an int8 operand with their scale."""
    codes = layer.codes[i] if i < len(layer.codes) else None
    return (layer.input(i), None) if codes is None else (codes[0], single(codes[1]))


def _kernel(layer: Layer[FilterAttrs], shape: tuple[int, ...], maps_axis: int) -> tuple[Value, Scale | None]:
    """The kernel, of the input's type, and the scale of its codes."""
    blob, name = layer.attrs.kernel, layer.name
    if layer.optional(1) is None:
        if blob.size == 0:
            wanted, do = f"{prod(shape)} values", "pass a kernel, or connect input 1 with set_input"
            raise GraphError("AR406", name, "no kernel", wanted, do)
        if blob.size != prod(shape):
            got, wanted = f"{blob.size} kernel values", f"{prod(shape)} for {show(shape)}"
            do = "check num_output_maps, kernel_size_nd and num_groups"
            raise ShapeError("AR102", name, got, wanted, do)
        _check_type(layer, blob, "kernel")
        if not layer.int8:
            return cast(apply(Const(blob, shape)), layer.input(0).dtype), None
        return _coded(layer, blob, shape, maps_axis)
    if blob.size:
        got, do = f"{blob.size} kernel values and input 1", "add the layer with an empty kernel"
        raise ShapeError("AR102", name, got, "no values", do)
    kernel, step = _codes(layer, 1)
    return _sized(layer, kernel, shape, "kernel"), step


def _coded(
    layer: Layer[FilterAttrs], blob: Blob, shape: tuple[int, ...], maps_axis: int
) -> tuple[Value, Scale]:
    """The kernel as int8 codes, and their scales: the largest magnitude of each output map has code 127."""
    if blob.dtype is DataType.INT8:
        return apply(Const(blob, shape)), 1.0
    groups = layer.attrs.num_groups
    real = blob.fixed().astype(np.float32).reshape(groups, shape[0] // groups, *shape[1:])
    rest = tuple(a for a in range(1, real.ndim) if a != 1 + maps_axis)
    codes, step = coded(layer.name, real, rest)
    worth = const(step.reshape(-1), DataType.FLOAT)
    return const(codes.reshape(shape), DataType.INT8), worth


def _worth(step: Scale | None, kernel: Scale | None) -> Value | None:
    """The scale of products of codes, one number or one for each output map."""
    if step is None or kernel is None:
        return None
    if isinstance(kernel, float) and isinstance(step, float):
        return const(np.full((1,), step * kernel), DataType.FLOAT)
    each = kernel if isinstance(kernel, Value) else const(np.full((1,), kernel), DataType.FLOAT)
    return times(each if each.type.rank else reshape(each, (1,)), step)


def _bias(layer: Layer[FilterAttrs]) -> Value | None:
    blob, operand, maps = layer.attrs.bias, layer.optional(2), layer.attrs.num_output_maps
    if blob.size and operand is not None:
        got, do = f"{blob.size} bias values and input 2", "add the layer with an empty bias"
        raise ShapeError("AR102", layer.name, got, "no values", do)
    if operand is not None:
        dtype = DataType.FLOAT if layer.int8 else layer.input(0).dtype
        if operand.dtype is not dtype:
            got, do = f"{short_name(operand.dtype)} for input 2", "insert a cast"
            raise DTypeError("AR203", layer.name, got, short_name(dtype), do)
        bias = _sized(layer, operand, (maps,), "bias")
    elif blob.size == 0:
        return None
    else:
        if blob.size != maps:
            got, do = f"{blob.size} bias values", "pass one for each output map, or none"
            raise ShapeError("AR102", layer.name, got, f"{maps}", do)
        _check_type(layer, blob, "bias")
        bias = apply(Const(blob, (maps,)))
    return cast(bias, wide(layer.input(0).dtype))


def _check_type(layer: Layer[FilterAttrs], blob: Blob, what: str) -> None:
    """Raises AR205 unless weights are FLOAT, or of the input's type. A bias is never added to codes."""
    tensor = DataType.INT8 if layer.int8 and what == "kernel" else layer.input(0).dtype
    check_weights(layer.name, blob.dtype, tensor, what)


def _sized(layer: Layer[FilterAttrs], v: Value, shape: tuple[int, ...], what: str) -> Value:
    """The operand with the sizes `shape`, by requirements if its sizes are dynamic."""
    got, wanted = f"{what} {show(v.shape)}", show(shape)
    do = "check num_output_maps, kernel_size_nd and num_groups"
    if v.type.rank != len(shape):
        raise ShapeError("AR123", layer.name, got, wanted, do)
    rules: Requirements = ()
    for d, size in zip(v.shape, shape, strict=True):
        rules += need(layer.name, d, Relation.EQ, size, "AR123", got, wanted, do)
    v = checked(v, rules)
    return v if v.shape == shape else reshape(v, shape)


# ---- parts of both records ------------------------------------------------------------------------


def methods(name: str) -> tuple[Method, ...]:
    """The methods of "convolution" or "deconvolution"; the name without _nd is that of TensorRT 8."""
    shape = "(8, 3, 3, 3)" if name == "convolution" else "(3, 8, 3, 3)"
    return tuple(
        Method(
            method,
            ("input", "num_output_maps", "kernel_shape", "kernel", "bias"),
            (("bias", None),),
            renamed=(("kernel_shape", "kernel_size_nd"),),
            example=f"kernel = np.ones({shape}, np.float32)  # x has 3 channels\n"
            f"layer = network.{method}(x, 8, (3, 3), kernel)\n"
            "layer.stride_nd = (2, 2)",
        )
        for method in (f"add_{name}_nd", f"add_{name}")
    )


def kernel_and_bias(attrs: FilterAttrs, arrays: tuple[Array, ...]) -> tuple[Numbers, Numbers]:
    """For references: kernel and bias, from attributes or operands; a bias of 0 if there is none."""
    operands = [*arrays[1:], ABSENT, ABSENT][:2]
    held = [
        blob.array if array is ABSENT else array
        for blob, array in zip((attrs.kernel, attrs.bias), operands, strict=True)
    ]
    kernel, bias = (a.astype(np.float64) for a in held)
    return kernel, bias if bias.size else np.zeros(attrs.num_output_maps)


def dla(layer: Layer[FilterAttrs], limits: tuple[tuple[str, tuple[int, ...], int, int], ...]) -> str | None:
    """None for two spatial axes, constant weights, and numbers within their limits; else the reason."""
    axes = len(layer.attrs.kernel_size_nd)
    if axes != 2:
        return f"DLA convolves along 2 spatial axes, got {axes}"
    if any(layer.optional(i) is not None for i in (1, 2)):
        return "DLA takes kernel and bias as weights, not as inputs"
    maps = ("output maps", (layer.attrs.num_output_maps,), 1, 8192)
    for what, values, low, high in (*limits, maps):
        if any(not low <= n <= high for n in values):
            return f"DLA takes {what} from {low} to {high}, got {show(values)}"
    return None


def case(
    shape: tuple[int, ...],
    attrs: FilterAttrs,
    dtype: DataType = DataType.FLOAT,
    bias: bool = False,
    operands: tuple[tuple[int, ...], ...] = (),
    int8: tuple[tuple[float, ...], float] | None = None,
) -> Case[FilterAttrs]:
    """A case with generated weights. `operands`: the shapes of inputs 1 and 2, which replace the weights."""
    at = len(shape) - len(attrs.kernel_size_nd) - 1
    count = attrs.num_output_maps * shape[at] // attrs.num_groups * prod(attrs.kernel_size_nd)
    if not operands:
        coded = dtype is DataType.INT8
        kernel = _codes_of(count, prod(attrs.kernel_size_nd)) if coded else values(count, dtype)
        attrs = replace(attrs, kernel=kernel)
    if bias:
        kind = DataType.FLOAT if dtype is DataType.INT8 else dtype
        attrs = replace(attrs, bias=values(attrs.num_output_maps, kind))
    terms = count // attrs.num_output_maps + 1
    rounded = 2.0**-24 * terms * terms * 4  # each sum of products, none above 4, is rounded to float32
    open_axes = tuple(k for k in range(len(shape)) if k != at)
    low, high = (-128.0, 127.0) if int8 else (-2.0, 2.0)
    dtypes = (dtype, dtype, DataType.FLOAT if int8 else dtype)
    shapes = (shape, *operands)
    dynamic = (open_axes, *(tuple(range(len(s))) for s in operands))
    return Case(attrs, shapes, dtypes, (), dynamic, low, high, int8=int8, atol=rounded)


def values(count: int, dtype: DataType = DataType.FLOAT) -> Blob:
    """Multiples of 1/4 from −1.25 to 1.25, which all types represent exactly."""
    return weights(*((k * 7 % 11 - 5) / 4 for k in range(count)), dtype=dtype)


def _codes_of(count: int, size: int) -> Blob:
    """Codes times 1/4. The first of each channel is 127, so that int8 represents all of them exactly."""
    return weights(*((127 if k % size == 0 else k * 37 % 255 - 127) / 4 for k in range(count)))


def mistakes(kernel: tuple[int, ...], turned: tuple[int, ...]) -> tuple[Mistake[FilterAttrs], ...]:
    """Layers that both operators reject. kernel: a valid shape for 6 channels and 4 output maps in 2 groups;
    turned: an invalid one."""
    x, axes = (1, 6, 5, 5), (3, 3)
    good = FilterAttrs(4, axes, values(108), num_groups=2)
    empty = replace(good, kernel=EMPTY_BLOB)
    half, infinite = values(108, DataType.HALF), weights(*(math.inf for _ in range(108)))
    shapes, both = (x, kernel), (x, None, (4,))
    at_build = (
        (
            "AR108",
            "a kernel with no spatial axis or with more than three",
            replace(good, kernel_size_nd=(3,) * 4),
        ),
        (
            "AR108",
            "a number of strides, dilations or paddings that is not that of spatial axes",
            replace(good, stride_nd=(1,)),
        ),
        ("AR304", "a kernel size below 1", replace(good, kernel_size_nd=(0, 3))),
        ("AR304", "a stride or dilation below 1", replace(good, dilation_nd=(1, 0))),
        ("AR304", "a negative padding", replace(good, pre_padding=(-1, 0))),
        ("AR304", "no output maps", replace(good, num_output_maps=0)),
        ("AR118", "fewer than 1 group", replace(good, num_groups=0)),
        ("AR118", "a number of channels that the groups do not divide", replace(good, num_groups=4)),
        ("AR118", "a number of output maps that the groups do not divide", replace(good, num_groups=3)),
        ("AR406", "no kernel", empty),
        ("AR102", "a number of kernel values that does not fit the sizes", replace(good, kernel=values(54))),
        ("AR102", "a number of bias values that is not that of output maps", replace(good, bias=values(3))),
        ("AR205", "a kernel neither of float32 nor of the input's type", replace(good, kernel=half)),
        (
            "AR205",
            "a bias neither of float32 nor of the input's type",
            replace(good, bias=values(4, DataType.HALF)),
        ),
    )
    wrong = tuple(Mistake(code, why, attrs, (x,)) for code, why, attrs in at_build)
    return (
        *wrong,
        Mistake("AR101", "an input with fewer dimensions than the kernel has", good, ((6, 5, 5),)),
        Mistake("AR117", "a dynamic number of channels", good, (x,), dynamic=True),
        Mistake("AR123", "an input without channels", good, ((1, 0, 5, 5),)),
        Mistake("AR102", "both kernel values and input 1", good, shapes),
        Mistake("AR102", "both bias values and input 2", replace(good, bias=values(4)), both),
        Mistake("AR123", "a kernel of the wrong shape", empty, (x, turned)),
        Mistake("AR123", "a bias of the wrong shape", good, (x, None, (1, 4))),
        Mistake("AR202", "a type that the layer does not take", good, (x,), (DataType.INT64,)),
        Mistake("AR202", "a bias of int8", good, both, (DataType.INT8,)),
        Mistake("AR203", "a kernel of the wrong type", empty, shapes, (DataType.FLOAT, DataType.HALF)),
        Mistake("AR203", "a bias of the wrong type", good, both, (DataType.FLOAT, DataType.HALF)),
        Mistake(
            "AR308",
            "int8 with a kernel that is not finite",
            replace(good, kernel=infinite),
            (x,),
            (DataType.INT8,),
        ),
    )
