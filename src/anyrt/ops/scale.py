"""Scale: multiply, add and power with coefficients per tensor, channel or element.

add_scale(x, ScaleMode.UNIFORM, shift=[1], scale=[2], power=[2])    # (2x + 1)²
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dtype import short_name
from anyrt.core.enums import DataType, LayerType, ScaleMode
from anyrt.core.errors import DTypeError, ShapeError
from anyrt.ir.graph import Value, apply
from anyrt.ops._check import check_axis, check_weights, show, static_shape
from anyrt.ops._math import in_float
from anyrt.ops._record import (
    EMPTY_BLOB,
    Array,
    Attrs,
    Case,
    Input,
    Kind,
    Layer,
    Method,
    Mistake,
    Op,
    attr,
    weights,
)
from anyrt.ops._types import FLOATS
from anyrt.prims.build import cast, identity, map_
from anyrt.prims.const import Blob, Const

MIN_RANK = 4


@dataclass(frozen=True, slots=True)
class ScaleAttrs(Attrs):
    """Attributes of Scale."""

    mode: ScaleMode = attr(Kind.ENUM, "coefficients per tensor, channel or element", enum=ScaleMode)
    shift: Blob = attr(Kind.WEIGHTS, "added after the multiplication; empty: 0", EMPTY_BLOB)
    scale: Blob = attr(Kind.WEIGHTS, "multiplier; empty: 1", EMPTY_BLOB)
    power: Blob = attr(Kind.WEIGHTS, "exponent, applied last; empty: 1", EMPTY_BLOB)
    channel_axis: int | None = attr(
        Kind.INT,
        "axis of the CHANNEL coefficients, and first axis of the ELEMENTWISE coefficients",
        None,
        from_rank=lambda rank: max(rank - 3, 0),
    )


def expand(layer: Layer[ScaleAttrs]) -> tuple[Value, ...]:
    """(x · scale + shift) ^ power in float32."""
    x, attrs = layer.input(0), layer.attrs
    shape = _coefficient_shape(layer, x)
    _check_types(layer, x)
    shift, scale, power = (
        None if blob.size == 0 else _coefficients(layer, name, blob, shape)
        for name, blob in (("shift", attrs.shift), ("scale", attrs.scale), ("power", attrs.power))
    )
    if shift is None and scale is None and power is None:
        return (identity(x),)

    def compute(y: Value) -> Value:
        if scale is not None and shift is not None:
            y = map_("fma", y, scale, shift)
        elif scale is not None:
            y = map_("mul", y, scale)
        elif shift is not None:
            y = map_("add", y, shift)
        return y if power is None else map_("pow", y, power)

    return (in_float(x, compute),)


def _coefficient_shape(layer: Layer[ScaleAttrs], x: Value) -> tuple[int, ...]:
    rank, axis = x.type.rank, layer.attrs.channel_axis
    if rank < MIN_RANK:
        got, do = f"rank {rank}", "add dimensions of size 1 with a shuffle"
        raise ShapeError("AR101", layer.name, got, f"rank >= {MIN_RANK}", do)
    axis = rank - 3 if axis is None else axis
    check_axis(layer.name, axis, rank)
    match layer.attrs.mode:
        case ScaleMode.UNIFORM:
            return (1,) * rank
        case ScaleMode.CHANNEL:
            covered = static_shape(layer.name, x.shape[axis : axis + 1], f"channel axis {axis} of size")
            return (1,) * axis + covered + (1,) * (rank - axis - 1)
        case ScaleMode.ELEMENTWISE:
            return (1,) * axis + static_shape(
                layer.name, x.shape[axis:], f"axes {axis} to {rank - 1} of sizes"
            )


def _check_types(layer: Layer[ScaleAttrs], x: Value) -> None:
    used = [b.dtype for b in (layer.attrs.shift, layer.attrs.scale, layer.attrs.power) if b.size]
    names = ", ".join(map(short_name, used))
    if len(set(used)) > 1:
        do = "use one element type for shift, scale and power"
        raise DTypeError("AR201", layer.name, f"weights of types {names}", "one type", do)
    tensor = DataType.INT8 if layer.int8 else x.dtype
    if used:
        check_weights(layer.name, used[0], tensor, "weights")


def _coefficients(layer: Layer[ScaleAttrs], name: str, blob: Blob, shape: tuple[int, ...]) -> Value:
    count = int(np.prod(shape))
    if blob.size != count:
        mode = layer.attrs.mode.name
        got, wanted = f"{blob.size} values for {name}", f"{count} in mode {mode}, shape {show(shape)}"
        raise ShapeError("AR102", layer.name, got, wanted, "check mode and channel_axis, or pass no values")
    return cast(apply(Const(blob, shape)), DataType.FLOAT)


def ref(attrs: ScaleAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """The formula, with coefficients broadcast from the right."""
    x = arrays[0].astype(np.float64)
    axis = x.ndim - 3 if attrs.channel_axis is None else attrs.channel_axis
    reach = {
        ScaleMode.UNIFORM: (1,),
        ScaleMode.CHANNEL: x.shape[axis : axis + 1] + (1,) * (x.ndim - axis - 1),
        ScaleMode.ELEMENTWISE: x.shape[axis:],
    }[attrs.mode]

    def spread(blob: Blob) -> NDArray[np.float64]:
        return blob.data.astype(np.float64).reshape(reach) if blob.size else np.ones(())

    with np.errstate(all="ignore"):
        base = x * spread(attrs.scale)
        if attrs.shift.size:
            base = base + spread(attrs.shift)
        # Not np.power: for a scalar exponent of 0.5 it uses sqrt, which differs at −∞ and −0.
        return (np.float_power(base, spread(attrs.power)),)


def dla(layer: Layer[ScaleAttrs]) -> str | None:
    """None without a power other than 1."""
    power = layer.attrs.power
    plain = power.size == 0 or set(power.array.astype(np.float64).tolist()) == {1.0}
    return None if plain else "DLA runs Scale without a power other than 1"


def _spread(count: int, low: float, high: float, dtype: DataType = DataType.FLOAT) -> Blob:
    return weights(*np.linspace(low, high, count), dtype=dtype)


def cases() -> tuple[Case[ScaleAttrs], ...]:
    """Modes, absent coefficients, powers, types, ranks 4 to 8."""
    uniform, channel, elementwise = ScaleMode.UNIFORM, ScaleMode.CHANNEL, ScaleMode.ELEMENTWISE
    one = ScaleAttrs(uniform, weights(0.5), weights(-1.5))
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -3.0, 3.0]).reshape(1, 2, 2, 2)
    int8 = np.arange(-128, 127, 5, dtype=np.int8).reshape(1, 3, 17, 1)
    out = [
        Case(one, ((2, 3, 5, 7),)),
        Case(ScaleAttrs(uniform), ((1, 2, 3, 1),)),
        Case(ScaleAttrs(uniform, shift=weights(3.0)), ((1, 1, 1, 33),)),
        Case(ScaleAttrs(uniform, scale=weights(3.0)), ((1, 17, 1, 31),)),
        Case(ScaleAttrs(uniform, power=weights(2.5)), ((2, 2, 3, 3),), low=0.0),
        Case(ScaleAttrs(channel, _spread(3, -1, 1), _spread(3, 0.5, 2), _spread(3, 1, 3)), ((2, 3, 5, 7),),
             dynamic=((0, 2, 3),), low=1.0),
        Case(ScaleAttrs(channel, _spread(15, -1, 1), _spread(15, 0.5, 2), channel_axis=3), ((2, 3, 2, 15),),
             dynamic=((0, 1, 2),)),
        Case(ScaleAttrs(channel, EMPTY_BLOB, _spread(2, 0.5, 2), channel_axis=0), ((2, 3, 2, 5, 2),),
             dynamic=((1, 2, 3, 4),)),
        Case(ScaleAttrs(elementwise, _spread(30, -1, 1), _spread(30, 0.5, 2)), ((4, 2, 3, 5),),
             dynamic=((0,),)),
        Case(ScaleAttrs(elementwise, _spread(60, -1, 1), _spread(60, 1, 2), channel_axis=0), ((2, 2, 3, 5),),
             static_only=True),  # every axis indexes coefficients
        Case(ScaleAttrs(elementwise, _spread(6, -1, 1), channel_axis=4), ((2, 1, 2, 1, 3, 2),),
             dynamic=((0, 1, 2, 3),)),
        Case(ScaleAttrs(channel, _spread(3, -1, 1), _spread(3, 1, 2), channel_axis=6),
             ((1, 2, 1, 2, 2, 2, 3, 2),), dynamic=((0, 1, 2),)),
        Case(one, ((0, 3, 5, 7),)),
        Case(ScaleAttrs(channel, EMPTY_BLOB, EMPTY_BLOB, EMPTY_BLOB), ((2, 0, 5, 7),), dynamic=((0,),)),
    ]  # fmt: skip
    out += [Case(one, ((1, 3, 4, 5),), (t,)) for t in sorted(FLOATS, key=int)]
    out += [
        Case(
            ScaleAttrs(channel, _spread(3, -1, 1, t), _spread(3, 0.5, 2, t)),
            ((2, 3, 1, 5),),
            (t,),
            dynamic=((0, 2),),
        )
        for t in (DataType.HALF, DataType.BF16)
    ]
    out += [
        Case(ScaleAttrs(uniform, power=weights(p)), ((1, 2, 2, 2),), data=(special,))
        for p in (0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -2.0, 1 / 3)
    ]
    out += [
        Case(one, ((1, 3, 17, 1),), (DataType.INT8,), (int8,), int8=scales)
        for scales in (((1.0,), 1.0), ((0.1,), 0.25), ((1.0,), 0.5))
    ]
    codes = np.arange(-128, 128).reshape(1, 4, 8, 8)
    halves = ScaleAttrs(uniform, weights(1.0), weights(0.5))
    out += [  # exact, with ties in every second element
        Case(halves, ((1, 4, 8, 8),), (DataType.INT8,), (codes,), int8=scales, rtol=0.0, atol=0.0)
        for scales in (((1.0,), 1.0), ((0.25,), 0.125), ((2.0,), 1.0))
    ]
    return tuple(out)


def mistakes() -> tuple[Mistake[ScaleAttrs], ...]:
    """Wrong ranks, axes, and numbers and types of weights."""
    uniform, channel, elementwise = ScaleMode.UNIFORM, ScaleMode.CHANNEL, ScaleMode.ELEMENTWISE
    two, half = weights(1.0, 2.0), weights(1.0, dtype=DataType.HALF)
    open_channel = ScaleAttrs(channel, channel_axis=1, scale=two)
    nchw = ((1, 3, 4, 5),)
    return (
        Mistake("AR101", "an input of fewer than 4 dimensions", ScaleAttrs(uniform), ((3, 4, 5),)),
        Mistake("AR102", "UNIFORM with other than 1 value", ScaleAttrs(uniform, two), nchw),
        Mistake(
            "AR102", "CHANNEL with other than one value for each channel", ScaleAttrs(channel, two), nchw
        ),
        Mistake("AR102", "ELEMENTWISE with a wrong count", ScaleAttrs(elementwise, scale=two), nchw),
        Mistake("AR303", "a channel axis outside the rank", ScaleAttrs(channel, channel_axis=4), nchw),
        Mistake("AR201", "weights of mixed types", ScaleAttrs(uniform, half, weights(2.0)), nchw),
        Mistake("AR205", "weights of neither the input's type nor float32", ScaleAttrs(uniform, half), nchw),
        Mistake("AR202", "an unsupported element type", ScaleAttrs(uniform), nchw, (DataType.INT32,)),
        Mistake("AR117", "a dynamic dimension that indexes coefficients", open_channel, nchw, dynamic=True),
    )


OPS = (
    Op(
        layer=LayerType.SCALE,
        cls="IScaleLayer",
        methods=(
            Method("add_scale", ("input", "mode", "shift", "scale", "power"),
                   (("shift", None), ("scale", None), ("power", None)),
                example="layer = network.add_scale(x, trt.ScaleMode.UNIFORM, scale=np.ones(1, np.float32))"),
            Method("add_scale_nd", ("input", "mode", "shift", "scale", "power", "channel_axis"),
                   (("shift", None), ("scale", None), ("power", None)),
                example="layer = network.add_scale_nd(\n"
                "    x, trt.ScaleMode.CHANNEL, scale=np.ones(3, np.float32), channel_axis=1)"),
        ),
        inputs=(Input("input", FLOATS | {DataType.INT8}),),
        attrs=ScaleAttrs,
        expand=expand,
        ref=ref,
        doc="Computes (input · scale + shift) ^ power, with one coefficient for the tensor, for each channel "
        "or for each element. The arithmetic is in float32, with the rules of IEEE pow; int8 represents real "
        "numbers. The input has 4 to 8 dimensions.",
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=("BatchNormalization", "TRT_Scale"),
        real_int8=lambda attrs: True,
        source="core page Scale; C++ header for the minimum rank and the default channel axis",
    ),
)  # fmt: skip
