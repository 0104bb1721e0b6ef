"""Cast: conversion to another element type.

add_cast(x, DataType.FLOAT)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.dtype import (
    bits,
    held_dtype,
    is_float,
    is_integer,
    is_packed,
    is_signed,
    numpy_dtype,
    short_name,
    wide,
)
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import DTypeError
from anyrt.ir.graph import Value
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import EVERY, FLOATS, INTS
from anyrt.prims._convert import limits
from anyrt.prims.build import cast, const, converted, identity, map_, pattern, scalar

THEIRS = FLOATS | INTS | {DataType.BOOL, DataType.INT8, DataType.UINT8}
# The magnitudes that overflow these types, which have no infinities: half a step above the largest number,
# where ties round to the even code. 464 itself does not overflow, it becomes 448.
BEYOND = {DataType.FP8: 464.0, DataType.FP8E4M3FNUZ: 248.0, DataType.FP8E5M2FNUZ: 61440.0}
# The largest number of 8-bit floats that have infinities.
LARGEST = {DataType.FP8E5M2: 57344.0}
# Types whose bits follow from the number, and signed integers by width.
EXACT = frozenset(t for t in DataType if is_integer(t) and not is_packed(t)) | {
    *(DataType.BOOL, DataType.HALF, DataType.FLOAT, DataType.DOUBLE)
}
SIGNED = {8: DataType.INT8, 16: DataType.INT16, 32: DataType.INT32, 64: DataType.INT64}


@dataclass(frozen=True, slots=True)
class CastAttrs(Attrs):
    """Attributes of Cast."""

    to_type: DataType = attr(Kind.ENUM, "the type of the output", enum=DataType)
    saturate: bool = attr(
        Kind.BOOL, "whether 8-bit floats saturate instead of becoming infinite or NaN; an extension", True
    )
    bits: bool = attr(
        Kind.BOOL, "whether bits are reinterpreted as a type of the same width; an extension", False
    )


def expand(layer: Layer[CastAttrs]) -> tuple[Value, ...]:
    """One `Map`. With `saturate`, numbers that overflow a type with infinities become its largest number;
    without it, numbers that overflow a type without infinities become NaN."""
    x, target = layer.input(0), layer.attrs.to_type
    if x.dtype is target:
        return (identity(x),)
    if layer.attrs.bits:
        return (_same_bits(layer, x, target),)
    number = cast(x, wide(x.dtype))
    if layer.attrs.saturate and target in LARGEST:
        below = map_("min", number, scalar(LARGEST[target], number))
        return (converted(map_("max", below, scalar(-LARGEST[target], number)), target),)
    if layer.attrs.saturate or target not in BEYOND:
        return (converted(x, target),)
    fits = map_("lt", map_("abs", number), scalar(_beyond(target, numpy_dtype(number.dtype)), number))
    return (map_("select", fits, converted(x, target), const(np.full((1,) * x.type.rank, np.nan), target)),)


def _beyond(target: DataType, of: np.dtype[np.generic]) -> float:
    """The least number of type `of` that overflows `target`."""
    least = np.array(BEYOND[target], of)
    return float(np.nextafter(least, least + 1) if target is DataType.FP8 else least)


def _same_bits(layer: Layer[CastAttrs], x: Value, target: DataType) -> Value:
    """The bits as `target`, by way of signed integers of that width; casts between integers keep the bits."""
    if bits(x.dtype) != bits(target) or any(t not in EXACT for t in (x.dtype, target)):
        got = f"the bits of {short_name(x.dtype)} as {short_name(target)}"
        do = "cast to a type of the same width"
        raise DTypeError("AR206", layer.name, got, "bool or integers of 8 bits, or types of 16 to 64", do)
    whole = pattern(x, SIGNED[bits(target)]) if is_float(x.dtype) else cast(x, SIGNED[bits(target)])
    return pattern(whole, target) if is_float(target) else cast(whole, target)


def ref(attrs: CastAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Element by element with Python's numbers."""
    x, target = arrays[0], attrs.to_type
    if attrs.bits:
        stored = x.astype(f"f{bits(target) // 8}") if x.dtype.kind == "f" else x
        return (stored.view(numpy_dtype(target)),)
    if is_float(target):
        most = LARGEST.get(target, np.inf) if attrs.saturate else np.inf
        wide = np.clip(x.astype(np.float64), -most, most)
        if not attrs.saturate and target in BEYOND:
            wide = np.where(np.abs(wide) < _beyond(target, np.dtype(np.float64)), wide, np.nan)
        return (wide,)
    if target is DataType.BOOL:
        return (np.array([bool(v != 0) for v in x.reshape(-1)], bool).reshape(x.shape),)
    dtype = held_dtype(target)
    low, high = limits(target)
    if x.dtype.kind == "f":
        whole = [0 if np.isnan(v) else int(np.clip(v, -1e30, 1e30)) for v in x.reshape(-1)]
    else:
        whole = [int(v) for v in x.reshape(-1)]
    if x.dtype.kind == "f" and target is DataType.UINT8:
        numbers = [min(max(v, 0), 2**31 - 1) % 256 for v in whole]
    elif x.dtype.kind == "f":
        numbers = [min(max(v, low), high) for v in whole]
    else:
        numbers = [(v - low) % (high - low + 1) + low for v in whole]
    return (np.array(numbers, dtype).reshape(x.shape),)


def cases() -> tuple[Case[CastAttrs], ...]:
    """Every pair of types; overflow; ranks and empty tensors."""
    types = sorted(EVERY, key=int)
    special = np.array([0.0, -0.0, 0.9, -0.9, 127.5, -128.9, 300.0, 3e9, -3e9, 1e19, np.inf, -np.inf, np.nan])
    wide = np.array([0, -1, 127, 128, 255, 300, 65536, 2**31 - 1, -(2**31)])
    wider = np.array([300, -300, 2**31, -(2**31) - 1, 2**40 + 5, 2**63 - 1, -(2**63)])
    bytes_ = [(DataType.INT8, np.arange(-128, 128, 5)), (DataType.UINT8, np.arange(0, 256, 5))]
    some = {DataType.FLOAT, DataType.INT32, DataType.DOUBLE, DataType.UINT64}  # paired with AnyRT's own types
    beyond = np.array([-30.0, 250.9, 255.9, 256.0, 260.0, 290.0, 511.5, -0.9])
    pairs = [(a, b) for a in types for b in types if {a, b} <= THEIRS or {a, b} & some]
    out = [
        Case(CastAttrs(b), ((3, 17),), (a,), low=-100 if is_signed(a) and is_signed(b) else 0, high=100)
        for a, b in pairs
    ]
    out += [Case(CastAttrs(t), ((13,),), data=(special,)) for t in types]
    out += [Case(CastAttrs(t), ((9,),), (DataType.INT32,), (wide,)) for t in types]
    out += [Case(CastAttrs(t), ((7,),), (DataType.INT64,), (wider,)) for t in types]
    out += [Case(CastAttrs(t), ((52,),), (b,), (codes,)) for t in types for b, codes in bytes_]
    fine = np.array([1 / 3, 2.0**53 - 1, 2.0**63, 2.0**64, 1.8e19, -1.0, 4294967295.0, 4294967296.0, 1e300])
    out += [Case(CastAttrs(t), ((9,),), (DataType.DOUBLE,), (fine,), rtol=0.0, atol=0.0) for t in types]
    out += [Case(CastAttrs(DataType.UINT8), ((8,),), (t,), (beyond,)) for t in types if is_float(t)]
    real = np.array([-400.0, -300.0, 290.0, 300.0, 1.1811024, 3.5433073, 0.0, np.nan])
    out += [Case(CastAttrs(DataType.INT8), ((8,),), data=(real,), int8=((), 300 / 127))]
    large = np.array([1e6, -1e6, 448, 464, 464.1, 247.9, 248, 61439, -61440, np.inf, -np.inf, np.nan, 0.0])
    small = (*BEYOND, *LARGEST)
    out += [Case(CastAttrs(t, s), ((13,),), data=(large,)) for t in small for s in (False, True)]
    out += [Case(CastAttrs(t, False), ((9,),), (DataType.INT32,), (wide,)) for t in small]
    pairs = [(a, b) for a in EXACT for b in EXACT if bits(a) == bits(b) and b is not DataType.BOOL]
    out += [
        Case(CastAttrs(b, bits=True), ((3, 17),), (a,), low=-9 if is_signed(a) else 0, high=9)
        for a, b in sorted(pairs)
    ]
    out += [Case(CastAttrs(DataType.INT32), (s,)) for s in ((), (0, 3), (1, 2, 1, 2, 1, 3, 1, 2))]
    return tuple(out)


def mistakes() -> tuple[Mistake[CastAttrs], ...]:
    """Bits of a different width."""
    return (
        Mistake("AR206", "bits as a type of a different width", CastAttrs(DataType.INT8, bits=True), ((3,),)),
    )


OPS = (
    Op(
        layer=LayerType.CAST,
        cls="ICastLayer",
        methods=(
            Method("add_cast", ("input", "to_type"), example="layer = network.add_cast(x, trt.float16)"),
        ),
        inputs=(Input("input", EVERY),),
        attrs=CastAttrs,
        expand=expand,
        ref=ref,
        doc="Converts elements to another type. Floats become integers by truncation and saturation; NaN "
        "becomes 0. As uint8, floats wrap above 255, as on a GPU: -30, 250, 260 and 290 become 0, 250, 4 and "
        "34. From 2³¹ on they become 255; this and 0 for NaN are choices of AnyRT. Integers wrap, as in ONNX "
        "and NumPy: 300 becomes 44 as int8 and as uint8. bool is x ≠ 0. Floats become int8 without a scale, "
        "unless the output has a dynamic range. Then they are divided by range / 127, rounded half to even "
        "and saturated: -300 and 290 become -127 and 123 with (-300, 300). int8 codes are converted as "
        "integers. fp8, int4, fp4, e8m0 and the ONNX types that TensorRT lacks (float64, int16, uint16, "
        "uint32, uint64, uint4, int2, uint2, fp8e5m2, fp8e4m3fnuz, fp8e5m2fnuz) are an extension. 8-bit "
        "floats saturate. If `saturate` is off, numbers that overflow become infinite in fp8e5m2 and NaN in "
        "the others.",
        cases=cases,
        mistakes=mistakes,
        becomes_codes=lambda attrs: attrs.to_type is DataType.INT8 and not attrs.bits,
        onnx=("Cast", "CastLike"),
        source="operator page Cast",
    ),
)
