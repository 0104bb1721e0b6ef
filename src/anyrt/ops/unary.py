"""Unary: one of 25 functions, applied to each element.

add_unary(x, UnaryOperation.SQRT)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anyrt.core.enums import DataType, LayerType, UnaryOperation
from anyrt.ir.graph import Value
from anyrt.ops._check import check_dtype
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import INTS, OWN_INTS, OWN_NUMBERS, REALS
from anyrt.prims.build import map_

U = UnaryOperation
BOOLS = frozenset({DataType.BOOL})
SIGNED = frozenset({U.ABS, U.NEG, U.SIGN})  # also for integers


@dataclass(frozen=True, slots=True)
class UnaryAttrs(Attrs):
    """Attributes of Unary."""

    op: UnaryOperation = attr(Kind.ENUM, "function to apply", enum=UnaryOperation)


def expand(layer: Layer[UnaryAttrs]) -> tuple[Value, ...]:
    """One `Map`; its scalar function has the name of the enum's member."""
    x, op = layer.input(0), layer.attrs.op
    check_dtype(layer.name, x.dtype, types_of(op), f"operation {op.name}")
    return (map_(op.name.lower(), x),)


def types_of(op: UnaryOperation) -> frozenset[DataType]:
    """The element types of one operation, apart from int8, which represents real numbers."""
    if op is U.NOT:
        return BOOLS
    if op in SIGNED:
        return REALS | INTS | OWN_NUMBERS
    return REALS


def ref(attrs: UnaryAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """NumPy's function of the same name; integers wrap around."""
    with np.errstate(all="ignore"):
        return (np.asarray(REFERENCES[attrs.op](arrays[0])),)


REFERENCES: dict[UnaryOperation, Callable[..., Array]] = {
    U.EXP: np.exp,
    U.LOG: np.log,
    U.SQRT: np.sqrt,
    U.RECIP: lambda x: 1.0 / x,
    U.ABS: np.abs,
    U.NEG: np.negative,
    U.SIN: np.sin,
    U.COS: np.cos,
    U.TAN: np.tan,
    U.SINH: np.sinh,
    U.COSH: np.cosh,
    U.ASIN: np.arcsin,
    U.ACOS: np.arccos,
    U.ATAN: np.arctan,
    U.ASINH: np.arcsinh,
    U.ACOSH: np.arccosh,
    U.ATANH: np.arctanh,
    U.CEIL: np.ceil,
    U.FLOOR: np.floor,
    U.ERF: np.vectorize(math.erf, otypes=[float]),
    U.NOT: np.logical_not,
    U.SIGN: np.sign,
    U.ROUND: np.rint,
    U.ISINF: np.isinf,
    U.ISNAN: np.isnan,
}
LOW_HIGH = {
    U.LOG: (0.01, 20.0),
    U.SQRT: (0.0, 9.0),
    U.RECIP: (0.1, 9.0),
    U.ASIN: (-1.0, 1.0),
    U.ACOS: (-1.0, 1.0),
    U.ACOSH: (1.0, 9.0),
    U.ATANH: (-0.9, 0.9),
    U.TAN: (-1.4, 1.4),
}


def cases() -> tuple[Case[UnaryAttrs], ...]:
    """Every operation in every supported type, and special values."""
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 0.5, 1.5, -2.5, 1.0, -1.0])
    out = [Case(UnaryAttrs(op), ((11,),), data=(special,)) for op in UnaryOperation if op is not U.NOT]
    for op in UnaryOperation:
        real, whole = LOW_HIGH.get(op, (-3.0, 3.0)), (-100.0, 100.0)
        for t in sorted(types_of(op), key=int):
            low, high = whole if t in INTS | OWN_INTS else real
            out.append(Case(UnaryAttrs(op), ((3, 17),), (t,), low=low, high=high))
    for t, lowest in ((DataType.INT32, -(2**31)), (DataType.INT64, -(2**63))):
        edges = np.array([lowest, lowest + 1, -1, 0, 1, -lowest - 1], object).astype(np.int64)
        out += [Case(UnaryAttrs(op), ((6,),), (t,), (edges,)) for op in (U.ABS, U.NEG, U.SIGN)]
    out += [
        Case(UnaryAttrs(op), ((15,),), (DataType.INT8,), low=-128, high=128, int8=((0.25,), 0.125))
        for op in (U.ABS, U.SIN, U.ROUND, U.NEG)
    ]
    codes = np.arange(-128, 128)
    out += [  # every second code is a tie, in the rounding of the function or of the result
        Case(UnaryAttrs(op), ((256,),), (DataType.INT8,), (codes,), int8=scales, rtol=0.0, atol=0.0)
        for op in (U.ABS, U.NEG, U.ROUND)
        for scales in (((0.5,), 1.0), ((0.5,), 0.25), ((1.0,), 2.0))
    ]
    out += [Case(UnaryAttrs(U.EXP), (shape,)) for shape in ((), (0,), (1, 2, 1, 2, 1, 3, 1, 2))]
    out.append(Case(UnaryAttrs(U.ABS), ((1,),), (DataType.INT8,), (np.array([-128]),)))
    return tuple(out)


def mistakes() -> tuple[Mistake[UnaryAttrs], ...]:
    """Unsupported element types."""
    x = ((3,),)
    return (
        Mistake("AR202", "integers for a function of floats", UnaryAttrs(U.EXP), x, (DataType.INT32,)),
        Mistake("AR202", "types other than bool for NOT", UnaryAttrs(U.NOT), x),
        Mistake("AR202", "bool for any other function", UnaryAttrs(U.ABS), x, (DataType.BOOL,)),
    )  # fmt: skip


OPS = (
    Op(
        layer=LayerType.UNARY,
        cls="IUnaryLayer",
        methods=(Method("add_unary", ("input", "op"),
                example="layer = network.add_unary(x, trt.UnaryOperation.SQRT)"),),
        inputs=(Input("input", REALS | INTS | BOOLS | OWN_NUMBERS | {DataType.INT8}),),
        attrs=UnaryAttrs,
        expand=expand,
        ref=ref,
        doc="Applies a function to each element. ROUND rounds half to even; SIGN of 0 is 0. int32 and int64 "
        "wrap around: ABS and NEG of the lowest integer return it. int8 represents real numbers and "
        "saturates: NEG of −128 is 127. ISINF, ISNAN and NOT return bool. float64, which is computed in "
        "float64, and integers other than int32 and int64 are extensions.",
        cases=cases,
        mistakes=mistakes,
        dla=lambda layer: None if layer.attrs.op is U.ABS else "DLA runs Unary for ABS only",
        onnx=("Exp", "Log", "Sqrt", "Reciprocal", "Abs", "Neg", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Asin",
              "Acos", "Atan", "Asinh", "Acosh", "Atanh", "Ceil", "Floor", "Erf", "Not", "Sign", "Round",
              "IsInf", "IsNaN"),
        real_int8=lambda attrs: True,
        source="operator page Unary; the TensorRT-RTX page for bfloat16",
    ),
)  # fmt: skip
