"""Reduce: sum, product, maximum, minimum or average over axes.

add_reduce(x, ReduceOperation.AVG, axes=1 << 2 | 1 << 3, keep_dims=True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anyrt.core.dtype import is_integer, is_signed
from anyrt.core.enums import DataType, LayerType, ReduceOperation
from anyrt.core.errors import ArgumentError, ShapeError
from anyrt.ir.graph import Value
from anyrt.ops._check import axes_of
from anyrt.ops._math import mean
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS, INTS, OWN_NUMBERS, PACKED
from anyrt.prims.build import cast, reduce_, squeeze

R = ReduceOperation
TYPES = FLOATS | INTS | (OWN_NUMBERS - PACKED)
# The accumulators of averages, where they are not float32.
WIDE = {t: DataType.INT64 for t in TYPES if is_integer(t)} | {
    t: t for t in (DataType.UINT64, DataType.DOUBLE)
}
FOLDS = {R.SUM: "sum", R.PROD: "prod", R.MAX: "max", R.MIN: "min"}


@dataclass(frozen=True, slots=True)
class ReduceAttrs(Attrs):
    """Attributes of Reduce."""

    op: ReduceOperation = attr(Kind.ENUM, "reduction operation", enum=ReduceOperation)
    axes: int = attr(Kind.AXES, "axes to reduce")
    keep_dims: bool = attr(Kind.BOOL, "keep reduced axes with size 1")


def expand(layer: Layer[ReduceAttrs]) -> tuple[Value, ...]:
    """One `Reduce`; averages accumulate in float32 or int64."""
    x, attrs = layer.input(0), layer.attrs
    if x.type.rank == 0:
        raise ShapeError("AR101", layer.name, "rank 0", "rank >= 1", "add a dimension of size 1")
    axes = axes_of(layer.name, attrs.axes, x.type.rank)
    if attrs.op is R.NONE:
        do = "use NONE in add_dist_collective only"
        raise ArgumentError("AR304", layer.name, "operation NONE", "SUM, PROD, MAX, MIN or AVG", do)
    if attrs.op is R.AVG:
        wide = WIDE.get(x.dtype, DataType.FLOAT)
        y = cast(mean(cast(x, wide), axes), x.dtype)
    else:
        y = reduce_(FOLDS[attrs.op], x, axes)
    return (y if attrs.keep_dims else squeeze(y, axes),)


def ref(attrs: ReduceAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """NumPy's reductions, with the documented results for empty axes."""
    x = arrays[0]
    axes = tuple(i for i in range(x.ndim) if attrs.axes >> i & 1)
    with np.errstate(all="ignore"):
        y = np.asarray(REFERENCES[attrs.op](x, axes))
    return (y if attrs.keep_dims else np.squeeze(y, axes),)


def _average(x: Array, axes: tuple[int, ...]) -> Array:
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    if x.dtype.kind == "f":
        return np.asarray(np.sum(x, axis=axes, keepdims=True) / np.float64(count))
    wide = np.uint64 if x.dtype == np.uint64 else np.int64
    total = np.sum(x, axis=axes, keepdims=True, dtype=wide)
    return np.asarray(np.sign(total) * (np.abs(total) // wide(max(count, 1)))).astype(x.dtype)


def _least(x: Array) -> float | int:
    return -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype.name).min


def _greatest(x: Array) -> float | int:
    return np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype.name).max


REFERENCES: dict[ReduceOperation, Callable[[Array, tuple[int, ...]], Array]] = {
    R.SUM: lambda x, axes: np.add.reduce(x, axis=axes, keepdims=True, dtype=x.dtype),
    R.PROD: lambda x, axes: np.multiply.reduce(x, axis=axes, keepdims=True, dtype=x.dtype),
    R.MAX: lambda x, axes: np.max(x, axis=axes, keepdims=True, initial=_least(x)),
    R.MIN: lambda x, axes: np.min(x, axis=axes, keepdims=True, initial=_greatest(x)),
    R.AVG: _average,
}


def dla(layer: Layer[ReduceAttrs]) -> str | None:
    """None for MAX over channels, height and width of a 4-dimensional input."""
    if layer.attrs.op is not R.MAX:
        return "DLA reduces by MAX only"
    fits = layer.input(0).type.rank == 4 and layer.attrs.axes & ~0b1110 == 0
    return None if fits else "DLA reduces over channels, height and width of 4 dimensions"


def cases() -> tuple[Case[ReduceAttrs], ...]:
    """Every operation in every type; single, several and all axes; empty axes; ranks to 8."""
    real = (R.SUM, R.PROD, R.MAX, R.MIN, R.AVG)
    out = []
    for op in real:
        for t in sorted(TYPES, key=int):
            low, high = (-3 if is_signed(t) else 0, 4) if is_integer(t) else (0.5, 1.5)
            out.append(Case(ReduceAttrs(op, 0b10, True), ((3, 17),), (t,), low=low, high=high))
            out.append(Case(ReduceAttrs(op, 0b10, False), ((3, 0),), (t,)))
        out.append(Case(ReduceAttrs(op, 0b101, False), ((3, 2, 5),)))
        out.append(Case(ReduceAttrs(op, 0b0110, True), ((2, 3, 1, 5),)))
        out.append(Case(ReduceAttrs(op, 0b1, False), ((31,),)))
        out.append(Case(ReduceAttrs(op, 0b10, True), ((3, 0),), (DataType.INT8,)))
        out.append(
            Case(
                ReduceAttrs(op, 0b10, True), ((3, 5),), (DataType.INT8,), low=-3, high=4, int8=((0.5,), 0.25)
            )
        )
    eight = (1, 2, 1, 2, 1, 3, 1, 2)
    out += [
        Case(ReduceAttrs(R.SUM, mask, keep), (eight,))
        for mask, keep in ((0xFF, True), (0xFF, False), (0xAA, False))
    ]
    edges = np.array([[2**31 - 1, 2**31 - 1, -5], [-(2**31), -(2**31), 0]])
    out += [Case(ReduceAttrs(op, 0b10, False), ((2, 3),), (DataType.INT32,), (edges,)) for op in real]
    wide = np.array([[2**63 - 1, 2**63 - 1, -5], [-(2**63), -(2**63), 0]])
    out += [Case(ReduceAttrs(op, 0b10, False), ((2, 3),), (DataType.INT64,), (wide,)) for op in real]
    codes = np.array([[100, 100, 3], [-100, -100, -3]])
    out += [Case(ReduceAttrs(op, 0b10, False), ((2, 3),), (DataType.INT8,), (codes,)) for op in real]
    special = np.array([[np.inf, -np.inf, 1.0], [np.nan, 1.0, 2.0], [-0.0, -0.0, -0.0]])
    out += [Case(ReduceAttrs(op, 0b10, False), ((3, 3),), data=(special,)) for op in real]
    out.append(Case(ReduceAttrs(R.AVG, 0b1, False), ((0, 3),)))
    return tuple(out)


def mistakes() -> tuple[Mistake[ReduceAttrs], ...]:
    """Wrong ranks, masks, operations and types."""
    total, bools = ReduceAttrs(R.SUM, 1, True), (DataType.BOOL,)
    return (
        Mistake("AR101", "an input of rank 0", total, ((),)),
        Mistake("AR302", "a mask of 0", ReduceAttrs(R.SUM, 0, True), ((3,),)),
        Mistake("AR302", "a mask with bits beyond the rank", ReduceAttrs(R.SUM, 2, True), ((3,),)),
        Mistake("AR304", "the operation NONE", ReduceAttrs(R.NONE, 1, True), ((3,),)),
        Mistake("AR202", "an unsupported element type", total, ((3,),), bools),
    )


OPS = (
    Op(
        layer=LayerType.REDUCE,
        cls="IReduceLayer",
        methods=(
            Method(
                "add_reduce",
                ("input", "op", "axes", "keep_dims"),
                example="layer = network.add_reduce(x, trt.ReduceOperation.AVG, 1 << 2 | 1 << 3, True)",
            ),
        ),
        inputs=(Input("input", TYPES | {DataType.INT8}),),
        attrs=ReduceAttrs,
        expand=expand,
        ref=ref,
        doc="Reduces axes to one element. Floats accumulate in float32, float64 in float64; "
        "results are rounded once. Sums and products of integers wrap around. Averages of integers "
        "accumulate in 64 bits and truncate towards zero. int8 represents real numbers: results saturate, "
        "and averages round half to even (100, 100, 3: SUM 127, AVG 68). MAX and MIN return NaN if an "
        "element is NaN. Over an empty axis, SUM is 0, PROD 1, MAX the lowest and MIN the highest number of "
        "the type, and AVG NaN (0 for integers, −128 for int8). float64 and integers other than int32 and "
        "int64 are extensions.",
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=(
            "ReduceSum",
            "ReduceProd",
            "ReduceMax",
            "ReduceMin",
            "ReduceMean",
            "GlobalAveragePool",
            "GlobalMaxPool",
        ),
        real_int8=lambda attrs: True,
        source="operator page Reduce",
    ),
)
