"""Normalization: instance, group and layer normalization with scale and bias.

add_normalization(x, scale, bias, axesMask=1 << 2 | 1 << 3)      # x: (N, C, H, W), scale and bias:
(1, C, 1, 1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from anyrt.core.dims import Dim, equal, floordiv, maximum, mod
from anyrt.core.dtype import wide
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.graph import Shape, Value
from anyrt.ops._check import Requirements, axes_of, checked, need, show
from anyrt.ops._math import mean
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import REALS
from anyrt.prims.build import cast, map_, reshape, scalar
from anyrt.prims.build import expand as expand_

PRECISIONS = (DataType.FLOAT, DataType.HALF)


@dataclass(frozen=True, slots=True)
class NormalizationAttrs(Attrs):
    """Attributes of Normalization."""

    axes: int = attr(Kind.AXES, "axes over which mean and variance are computed")
    epsilon: float = attr(Kind.FLOAT, "added to the variance", 1e-5)
    num_groups: int = attr(Kind.INT, "number of groups of channels (axis 1)", 1)
    compute_precision: DataType = attr(
        Kind.ENUM,
        "float32 or float16; float16 rounds inputs and output to it (not if strongly typed)",
        DataType.FLOAT,
        enum=DataType,
    )
    is_v2: bool = attr(
        Kind.BOOL, "with groups, scale and bias have one value per channel", False, read_only=True
    )


def expand(layer: Layer[NormalizationAttrs]) -> tuple[Value, ...]:
    """Mean, variance from centred values, and one multiply-add with scale and bias, in float32 or float64.

    A compute precision of float16 rounds the inputs and the output to float16. The arithmetic stays in
    float32, as in a kernel for float16."""
    x, precision = layer.input(0), layer.attrs.compute_precision
    axes = _check(layer, x)
    groups = layer.attrs.num_groups
    per_group = groups != 1 and not layer.attrs.is_v2
    fitting = checked(layer.input(1), _check_affine(layer, x, groups if per_group else None))
    parts = (x, fitting, layer.input(2))
    y, scale, bias = (cast(_rounded(v, precision), wide(x.dtype)) for v in parts)
    rules: Requirements = ()
    if groups == 1:
        centre, spread = _statistics(layer, y, axes)
        factor = map_("mul", map_("recip", spread), scale)
    else:
        rules = _check_groups(layer, x.shape[1])
        each, channels = floordiv(x.shape[1], groups), (x.shape[1],) + (1,) * (x.type.rank - 2)
        split = (x.shape[0], groups, each, *x.shape[2:])
        statistics = _statistics(layer, reshape(y, split), tuple(range(2, len(split))))
        centre, spread = (_per_channel(v, each, channels) for v in statistics)
        if per_group:
            one = (1, groups) + (1,) * (len(split) - 2)
            scale, bias = (_per_channel(reshape(v, one), each, channels) for v in (scale, bias))
        factor = map_("div", scale, spread)  # once per channel: cheap, and one rounding less
    y = map_("fma", map_("sub", y, centre), factor, bias)
    return (checked(cast(_rounded(y, precision), x.dtype), rules),)


def _statistics(layer: Layer[NormalizationAttrs], x: Value, axes: tuple[int, ...]) -> tuple[Value, Value]:
    """The mean, and the square root of the variance plus epsilon."""
    centre = mean(x, axes)
    variance = mean(map_("square", map_("sub", x, centre)), axes)
    spread = map_("sqrt", map_("add", variance, scalar(layer.attrs.epsilon, variance)))
    return centre, spread


def _per_channel(v: Value, each: Dim, channels: Shape) -> Value:
    """One number per group, (N, G, 1, …), repeated for each channel of the group: (N, C, 1, …)."""
    batch, groups = v.shape[:2]
    return reshape(expand_(v, (batch, groups, each) + (1,) * (v.type.rank - 3)), (batch, *channels))


def _rounded(x: Value, precision: DataType) -> Value:
    """`x` rounded to `precision`; float64 is not rounded."""
    if precision is DataType.FLOAT or x.dtype in (precision, DataType.DOUBLE):
        return x
    return map_("to_half", cast(x, precision))


def _check(layer: Layer[NormalizationAttrs], x: Value) -> tuple[int, ...]:
    attrs, rank = layer.attrs, x.type.rank
    axes = axes_of(layer.name, attrs.axes, rank)
    if not math.isfinite(attrs.epsilon):
        raise ArgumentError("AR308", layer.name, f"epsilon {attrs.epsilon}", "a finite number", "use 1e-5")
    if attrs.epsilon <= 0:
        raise ArgumentError("AR304", layer.name, f"epsilon {attrs.epsilon}", "a number above 0", "use 1e-5")
    if attrs.compute_precision not in PRECISIONS:
        got = f"compute_precision {attrs.compute_precision.name}"
        raise ArgumentError("AR304", layer.name, got, "FLOAT or HALF", "set it to FLOAT")
    if attrs.num_groups < 1:
        raise ShapeError(
            "AR118", layer.name, f"{attrs.num_groups} groups", "at least 1", "use 1 for no groups"
        )
    if attrs.num_groups != 1 and axes != tuple(range(2, rank)):
        got = f"axes {show(axes)} with {attrs.num_groups} groups for rank {rank}"
        wanted = f"axes {show(tuple(range(2, rank)))}"
        raise ArgumentError("AR309", layer.name, got, wanted, "normalize all axes after axis 1")
    return axes


def _check_groups(layer: Layer[NormalizationAttrs], channels: Dim) -> Requirements:
    groups = layer.attrs.num_groups
    got, do = f"{channels} channels in {groups} groups", f"set num_groups to a divisor of {channels}"
    return need(
        layer.name, mod(channels, groups), Relation.EQ, 0, "AR118", got, f"a multiple of {groups}", do
    )


def _check_affine(layer: Layer[NormalizationAttrs], x: Value, groups: int | None) -> Requirements:
    """Scale and bias must have one shape, which broadcasts to the input or holds one value per group."""
    scale, bias = layer.input(1), layer.input(2)
    rank, rules = x.type.rank, list[Requirements]()
    text = f"scale {show(scale.shape)} and bias {show(bias.shape)} for input {show(x.shape)}"
    if scale.type.rank != rank or bias.type.rank != rank:
        raise ShapeError("AR119", layer.name, text, f"rank {rank} for both", "add dimensions of size 1")
    if groups is None:
        wanted, do = "1 or the input's size in each dimension, the same for both", "reshape scale and bias"
        targets = x.shape
    else:
        targets = (1, groups) + (1,) * (rank - 2)
        wanted, do = show(targets), "use add_normalization_v2 for one value per channel"
    for s, b, d in zip(scale.shape, bias.shape, targets, strict=True):
        rules.append(need(layer.name, s, Relation.EQ, b, "AR119", text, wanted, do))
        if groups is not None:
            rules.append(need(layer.name, s, Relation.EQ, d, "AR119", text, wanted, do))
        elif s not in (1, d):
            if equal(s, 1) == 0 and equal(s, d) == 0:
                raise ShapeError("AR119", layer.name, text, wanted, do)
            rules.append((Requirement(s, Relation.BROADCAST, d, "AR119", layer.name, do),))
            rules.append(need(layer.name, s, Relation.LE, maximum(d, 1), "AR119", text, wanted, do))
    return tuple(rule for group in rules for rule in group)


def ref(attrs: NormalizationAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """`np.mean` and `np.var` over the axes, or over the elements of each group."""
    stored = np.float16 if attrs.compute_precision is DataType.HALF else np.float64
    x, scale, bias = (a.astype(stored).astype(np.float64) for a in arrays)
    axes = tuple(i for i in range(x.ndim) if attrs.axes & (1 << i))
    if x.size == 0:
        return (x,)
    flat = x
    if attrs.num_groups != 1:
        flat, axes = x.reshape(x.shape[0], attrs.num_groups, -1), (2,)
        if not attrs.is_v2:
            per_group = x.shape[1] // attrs.num_groups
            scale, bias = (np.repeat(a, per_group, axis=1) for a in (scale, bias))
    centred = flat - np.mean(flat, axis=axes, keepdims=True)
    y = centred / np.sqrt(np.var(flat, axis=axes, keepdims=True) + attrs.epsilon)
    return (y.reshape(x.shape) * scale + bias,)


def _case(
    shape: tuple[int, ...],
    affine: tuple[int, ...],
    axes: tuple[int, ...],
    groups: int = 1,
    v2: bool = False,
    dtype: DataType = DataType.FLOAT,
) -> Case[NormalizationAttrs]:
    mask = sum(1 << a for a in axes)
    # Scale and bias stay static in the dynamic version, as in real networks.
    open_axes = (
        tuple(i for i in range(len(shape)) if affine[i] == 1 and not (i == 1 and groups != 1)),
        (),
        (),
    )
    return Case(
        NormalizationAttrs(mask, num_groups=groups, is_v2=v2),
        (shape, affine, affine),
        (dtype,),
        dynamic=open_axes,
        rtol=4e-6,
        atol=8e-6,
    )


def cases() -> tuple[Case[NormalizationAttrs], ...]:
    """Instance, layer and group normalization, all types, odd sizes, ranks 2 to 8."""
    nchw = (2, 6, 3, 5)
    eight = (1, 4, 1, 2, 1, 3, 2, 2)
    out = [
        _case((2, 3, 15, 17), (1, 3, 1, 1), (2, 3)),
        _case((1, 2, 31), (1, 2, 1), (2,)),
        _case((2, 3, 2, 3, 5), (1, 3, 1, 1, 1), (2, 3, 4)),
        _case((3, 33), (1, 33), (1,)),
        _case((2, 5, 7), (1, 5, 7), (1, 2)),
        _case((2, 5, 7), (1, 1, 7), (2,)),
        _case((2, 5, 7), (1, 1, 1), (0, 1, 2)),
        _case((4, 3), (4, 3), (0,)),
        _case((17,), (17,), (0,)),
        _case((2, 3, 1, 1), (1, 3, 1, 1), (2, 3)),
        _case((0, 3, 2, 2), (1, 3, 1, 1), (2, 3)),
        _case((2, 3, 0, 2), (1, 3, 1, 1), (2, 3)),
        _case(eight, (1, 4, 1, 1, 1, 1, 1, 1), tuple(range(2, 8))),
        _case(eight, (1, 2, 1, 1, 1, 1, 1, 1), tuple(range(2, 8)), 2),
        _case(eight, (1, 4, 1, 1, 1, 1, 1, 1), tuple(range(2, 8)), 2, True),
    ]
    for groups in (2, 3, 6):
        out.append(_case(nchw, (1, groups, 1, 1), (2, 3), groups))
        out.append(_case(nchw, (1, 6, 1, 1), (2, 3), groups, True))
    for t in (DataType.HALF, DataType.BF16):
        out.append(_case(nchw, (1, 6, 1, 1), (2, 3), dtype=t))
        out.append(_case(nchw, (1, 2, 1, 1), (2, 3), 2, dtype=t))
    for groups in (1, 2):
        attrs = NormalizationAttrs(12, num_groups=groups, compute_precision=DataType.HALF, is_v2=True)
        for t in (DataType.FLOAT, DataType.BF16):
            shapes = (nchw, (1, 6, 1, 1), (1, 6, 1, 1))
            out.append(Case(attrs, shapes, (t,), dynamic=((0, 2, 3), (), ()), rtol=2.0**-11, atol=1e-5))
    far = np.linspace(1000.0, 1001.0, 60).reshape(2, 3, 2, 5)
    mask = 1 << 2 | 1 << 3
    affine = (1, 3, 1, 1)
    # A mean far from zero: a one-pass variance would lose all digits.
    out.append(
        Case(NormalizationAttrs(mask, 1e-3), ((2, 3, 2, 5), affine, affine), data=(far, None, None),
             dynamic=((0, 2, 3), (), ()), rtol=1e-3, atol=1e-3)
    )  # fmt: skip
    return tuple(out)


def mistakes() -> tuple[Mistake[NormalizationAttrs], ...]:
    """Wrong axes, groups, and shapes of scale and bias."""
    n, x, channel = NormalizationAttrs, (2, 6, 3, 5), (1, 6, 1, 1)
    good = (x, channel, channel)
    spatial, five = 1 << 2 | 1 << 3, (1, 5, 1, 1)
    fours = n(spatial, num_groups=4, is_v2=True)
    ints = (DataType.INT32,) * 3
    mixed = (DataType.FLOAT, DataType.HALF, DataType.HALF)
    return (
        Mistake("AR302", "an axes mask of 0", n(0), good),
        Mistake("AR302", "an axes mask with bits beyond the rank", n(1 << 4), good),
        Mistake("AR118", "channels not divisible by num_groups", fours, good),
        Mistake("AR118", "fewer than 1 group", n(spatial, num_groups=0), good),
        Mistake("AR309", "groups, and axes other than all after axis 1", n(1 << 3, num_groups=2), good),
        Mistake("AR119", "scale that does not broadcast", n(spatial), (x, five, five)),
        Mistake("AR119", "scale and bias of different shapes", n(spatial), (x, channel, (1, 1, 1, 1))),
        Mistake("AR119", "scale of a different rank", n(spatial), (x, (6,), (6,))),
        Mistake("AR119", "one value per channel with groups (not v2)", n(spatial, num_groups=2), good),
        Mistake("AR304", "an epsilon that is not above 0", n(spatial, 0.0), good),
        Mistake("AR308", "an epsilon that is not finite", n(spatial, math.inf), good),
        Mistake("AR304", "a compute precision other than float32 and float16",
                n(spatial, compute_precision=DataType.INT8), good),
        Mistake("AR202", "an unsupported element type", n(spatial), good, ints),
        Mistake("AR203", "scale or bias of a different type than the input", n(spatial), good, mixed),
        Mistake("AR119", "scale that does not fit at run time", n(spatial), (x, five, five), dynamic=True),
        Mistake("AR118", "channels not divisible by num_groups at run time", fours, good, dynamic=True),
    )  # fmt: skip


PARAMS = ("input", "scale", "bias", "axesMask")
RENAMED = (("axesMask", "axes"),)
OPS = (
    Op(
        layer=LayerType.NORMALIZATION,
        cls="INormalizationLayer",
        methods=(
            Method(
                "add_normalization",
                PARAMS,
                renamed=RENAMED,
                example="layer = network.add_normalization(x, scale, bias, 1 << 2 | 1 << 3)\n"
                "layer.epsilon = 1e-3",
            ),
            Method(
                "add_normalization_v2",
                PARAMS,
                fixed=(("is_v2", True),),
                renamed=RENAMED,
                label="NormalizationV2",
                example="layer = network.add_normalization_v2(x, scale, bias, 1 << 2 | 1 << 3)\n"
                "layer.num_groups = 1",
            ),
        ),
        inputs=(Input("input", REALS), Input("scale", REALS, same_as=0), Input("bias", REALS, same_as=0)),
        attrs=NormalizationAttrs,
        expand=expand,
        ref=ref,
        doc="Computes (x − mean) / sqrt(variance + epsilon) · scale + bias in float32. Mean and population "
        "variance are taken over the axes, or over each group of channels and all later axes. Scale and bias "
        "broadcast to the input. With groups, add_normalization expects one value per group (1, G, 1, …), "
        "and add_normalization_v2 one per channel.",
        cases=cases,
        mistakes=mistakes,
        onnx=("InstanceNormalization", "GroupNormalization", "LayerNormalization"),
        source="core page Normalization; add_normalization_v2 from 10.15",
    ),
)
