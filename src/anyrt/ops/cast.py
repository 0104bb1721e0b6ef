"""Cast: another element type.

add_cast(x, DataType.FLOAT)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.dtype import held_dtype, is_float, is_signed, short_name
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import DTypeError
from anyrt.ir.graph import Value
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS, INTS, OWN
from anyrt.prims._convert import limits
from anyrt.prims.build import cast, identity

THEIRS = FLOATS | INTS | {DataType.BOOL, DataType.INT8, DataType.UINT8}
TYPES = THEIRS | OWN


@dataclass(frozen=True, slots=True)
class CastAttrs(Attrs):
    """Attributes of Cast."""

    to_type: DataType = attr(Kind.ENUM, "the type of the output", enum=DataType)


def expand(layer: Layer[CastAttrs]) -> tuple[Value, ...]:
    """One `Map`."""
    x, target = layer.input(0), layer.attrs.to_type
    if target not in TYPES:
        names = ", ".join(short_name(t) for t in sorted(TYPES, key=int))
        do = "quantise to narrow types with add_quantize"
        raise DTypeError("AR206", layer.name, f"a cast to {short_name(target)}", f"one of {names}", do)
    return (identity(x) if x.dtype is target else cast(x, target),)


def ref(attrs: CastAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Element by element with Python's numbers."""
    x, target = arrays[0], attrs.to_type
    if is_float(target):
        return (x.astype(np.float64),)
    if target is DataType.BOOL:
        return (np.array([bool(v != 0) for v in x.reshape(-1)], bool).reshape(x.shape),)
    dtype = held_dtype(target)
    low, high = limits(target)
    if x.dtype.kind == "f":
        whole = [0 if np.isnan(v) else int(np.clip(v, -1e30, 1e30)) for v in x.reshape(-1)]
    else:
        whole = [int(v) for v in x.reshape(-1)]
    if x.dtype.kind == "f":
        numbers = [min(max(v, low), high) for v in whole]
    else:
        numbers = [(v - low) % (high - low + 1) + low for v in whole]
    return (np.array(numbers, dtype).reshape(x.shape),)


def cases() -> tuple[Case[CastAttrs], ...]:
    """Every pair of types; what does not fit; ranks and empty tensors."""
    types = sorted(TYPES, key=int)
    special = np.array([0.0, -0.0, 0.9, -0.9, 127.5, -128.9, 300.0, 3e9, -3e9, 1e19, np.inf, -np.inf, np.nan])
    wide = np.array([0, -1, 127, 128, 255, 300, 65536, 2**31 - 1, -(2**31)])
    wider = np.array([300, -300, 2**31, -(2**31) - 1, 2**40 + 5, 2**63 - 1, -(2**63)])
    bytes_ = [(DataType.INT8, np.arange(-128, 128, 5)), (DataType.UINT8, np.arange(0, 256, 5))]
    some = {DataType.FLOAT, DataType.INT32, DataType.DOUBLE, DataType.UINT64}  # for AnyRT's own to meet
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
    out += [Case(CastAttrs(DataType.INT32), (s,)) for s in ((), (0, 3), (1, 2, 1, 2, 1, 3, 1, 2))]
    return tuple(out)


def mistakes() -> tuple[Mistake[CastAttrs], ...]:
    """Types that only quantisation makes or reads."""
    narrow, wide = CastAttrs(DataType.FP8), CastAttrs(DataType.FLOAT)
    return (
        Mistake("AR206", "a target that needs quantisation", narrow, ((3,),)),
        Mistake("AR202", "an input that needs dequantisation", wide, ((3,),), (DataType.FP8,)),
    )  # fmt: skip


OPS = (
    Op(
        layer=LayerType.CAST,
        cls="ICastLayer",
        methods=(
            Method("add_cast", ("input", "to_type"), example="layer = network.add_cast(x, trt.float16)"),
        ),
        inputs=(Input("input", TYPES),),
        attrs=CastAttrs,
        expand=expand,
        ref=ref,
        doc="Another element type. Floats are truncated towards zero and saturate, NaN gives 0; integers "
        "wrap where they do not fit (300 is 44 as int8 and as uint8), as in ONNX and NumPy; bool is x ≠ 0. "
        "int8 codes are converted as integers, without a scale. Types that ONNX has and TensorRT has not "
        "(float64, int16, uint16, uint32, uint64, uint4, int2, uint2, fp8e5m2, fp8e4m3fnuz, fp8e5m2fnuz) are "
        "an extension; those of 8 bits saturate.",
        cases=cases,
        mistakes=mistakes,
        onnx=("Cast", "CastLike"),
        source="operator page Cast",
    ),
)
