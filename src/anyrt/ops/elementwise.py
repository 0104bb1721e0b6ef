"""ElementWise: binary functions, fourteen of TensorRT's and seven extensions, with broadcasting.

add_elementwise(a, b, ElementWiseOperation.SUM)      # a: (4, 1, 3), b: (1, 5, 3) → (4, 5, 3)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from anyrt.core.dtype import bits, is_float, is_signed
from anyrt.core.enums import DataType, ElementWiseOperation, LayerType
from anyrt.ir.graph import Value
from anyrt.ops._check import check_dtype, check_same_rank, is_constant
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS, INTS, OWN_INTS, OWN_NUMBERS, PACKED
from anyrt.prims._convert import limits
from anyrt.prims.build import map_, scalar
from anyrt.prims.const import Const

E = ElementWiseOperation
NUMBERS = FLOATS | INTS | OWN_NUMBERS
WHOLE = INTS | OWN_INTS
BOOLS = frozenset({DataType.BOOL})


@dataclass(frozen=True, slots=True)
class ElementWiseAttrs(Attrs):
    """Attributes of ElementWise."""

    op: ElementWiseOperation = attr(Kind.ENUM, "the binary function", enum=ElementWiseOperation)


# The scalar function and the element types of each operation.
TABLE: dict[ElementWiseOperation, tuple[str, frozenset[DataType]]] = {
    E.SUM: ("add", NUMBERS),
    E.PROD: ("mul", NUMBERS),
    E.MAX: ("max", NUMBERS),
    E.MIN: ("min", NUMBERS),
    E.SUB: ("sub", NUMBERS),
    E.DIV: ("div", NUMBERS),
    E.POW: ("pow", FLOATS | {DataType.DOUBLE}),
    E.FLOOR_DIV: ("floordiv", NUMBERS),
    E.AND: ("and", BOOLS),
    E.OR: ("or", BOOLS),
    E.XOR: ("xor", BOOLS),
    E.EQUAL: ("eq", NUMBERS),
    E.GREATER: ("gt", NUMBERS),
    E.LESS: ("lt", NUMBERS),
    E.BIT_AND: ("bit_and", WHOLE - PACKED),
    E.BIT_OR: ("bit_or", WHOLE - PACKED),
    E.BIT_XOR: ("bit_xor", WHOLE - PACKED),
    E.SHIFT_LEFT: ("shift_left", WHOLE - PACKED),
    E.SHIFT_RIGHT: ("shift_signed", WHOLE - PACKED),
    E.MOD: ("mod", NUMBERS),
    E.REMAINDER: ("fmod", NUMBERS),
}
COMPARISONS = frozenset({E.EQUAL, E.GREATER, E.LESS})


def expand(layer: Layer[ElementWiseAttrs]) -> tuple[Value, ...]:
    """One `Map`; shifts and integer remainders are compositions."""
    a, b = layer.input(0), layer.input(1)
    fn, allowed = TABLE[layer.attrs.op]
    check_dtype(layer.name, a.dtype, allowed, f"operation {layer.attrs.op.name}")
    check_same_rank(layer.name, (a, b))
    if layer.attrs.op is E.POW:
        _fix(b)
    return (COMPOSED[layer.attrs.op](a, b) if layer.attrs.op in COMPOSED else map_(fn, a, b),)


def _fix(exponent: Value) -> None:
    """Exclude a scalar constant exponent from refits: a square and a root are different functions."""
    while len(exponent.args) == 1:
        (exponent,) = exponent.args
    if isinstance(exponent.op, Const) and exponent.op.blob.size == 1:
        exponent.op.blob.fixed()


def _shifted_left(x: Value, n: Value) -> Value:
    return map_("select", _within(n), map_("shift_left", x, n), scalar(0, x))


def _shifted_right(x: Value, n: Value) -> Value:
    last = map_("select", _within(n), n, scalar(bits(n.dtype) - 1, n))
    y = map_("shift_signed", x, last)
    return y if is_signed(x.dtype) else map_("select", _within(n), y, scalar(0, x))


def _within(n: Value) -> Value:
    """Whether a shift count is below the width; the scalar functions take counts modulo the width."""
    below = map_("lt", n, scalar(bits(n.dtype), n))
    return map_("and", below, map_("ge", n, scalar(0, n))) if is_signed(n.dtype) else below


def _remainder(a: Value, b: Value) -> Value:
    """The remainder with the sign of the dividend; for integers, MOD minus the divisor where signs differ."""
    if is_float(a.dtype):
        return map_("fmod", a, b)
    zero, rest = scalar(0, a), map_("mod", a, b)
    apart = map_("xor", map_("lt", a, zero), map_("lt", b, zero))
    return map_("select", map_("and", apart, map_("ne", rest, zero)), map_("sub", rest, b), rest)


COMPOSED: dict[ElementWiseOperation, Callable[[Value, Value], Value]] = {
    E.SHIFT_LEFT: _shifted_left,
    E.SHIFT_RIGHT: _shifted_right,
    E.REMAINDER: _remainder,
}


def ref(attrs: ElementWiseAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """NumPy for real numbers and bools; Python integers, wrapped to the element type, for the others."""
    a, b = np.broadcast_arrays(*arrays)
    with np.errstate(all="ignore"):
        if a.dtype.kind in "iu":
            function = INTEGERS.get(attrs.op) or partial(SHIFTS[attrs.op], 8 * a.dtype.itemsize)
            exact = np.frompyfunc(function, 2, 1)(a.astype(object), b.astype(object))
            return (_wrapped(np.asarray(exact), np.dtype(bool) if attrs.op in COMPARISONS else a.dtype),)
        return (np.asarray(REALS[attrs.op](a, b)),)


def _wrapped(exact: Array, dtype: np.dtype[np.generic]) -> Array:
    bits = 8 * dtype.itemsize
    low = 0 if dtype.kind in "bu" else -(1 << bits - 1)
    return np.array([(int(v) - low) % (1 << bits) + low for v in exact.reshape(-1)], dtype).reshape(
        exact.shape
    )


def _truncated(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


INTEGERS: dict[ElementWiseOperation, Callable[[int, int], int]] = {
    E.SUM: operator.add,
    E.PROD: operator.mul,
    E.MAX: max,
    E.MIN: min,
    E.SUB: operator.sub,
    E.DIV: _truncated,
    E.FLOOR_DIV: lambda a, b: a // b if b else 0,
    E.EQUAL: operator.eq,
    E.GREATER: operator.gt,
    E.LESS: operator.lt,
    E.BIT_AND: operator.and_,
    E.BIT_OR: operator.or_,
    E.BIT_XOR: operator.xor,
    E.MOD: lambda a, b: a % b if b else 0,
    E.REMAINDER: lambda a, b: a - b * _truncated(a, b) if b else 0,
}
SHIFTS: dict[ElementWiseOperation, Callable[[int, int, int], int]] = {
    E.SHIFT_LEFT: lambda width, a, b: a << b if 0 <= b < width else 0,
    E.SHIFT_RIGHT: lambda width, a, b: a >> (b if 0 <= b < width else width),
}
REALS: dict[ElementWiseOperation, Callable[..., Array]] = {
    E.SUM: np.add,
    E.PROD: np.multiply,
    E.MAX: np.maximum,
    E.MIN: np.minimum,
    E.SUB: np.subtract,
    E.DIV: np.divide,
    E.POW: np.power,
    E.FLOOR_DIV: lambda a, b: np.floor(a / b),
    E.AND: np.logical_and,
    E.OR: np.logical_or,
    E.XOR: np.logical_xor,
    E.EQUAL: np.equal,
    E.GREATER: np.greater,
    E.LESS: np.less,
    E.MOD: np.mod,
    E.REMAINDER: np.fmod,
}

DLA_PLAIN = frozenset({E.SUM, E.SUB, E.PROD, E.MAX, E.MIN})


def dla(layer: Layer[ElementWiseAttrs]) -> str | None:
    """Four dimensions; division with at most one constant, a power with exactly one, int8 comparisons.

    DLA also requires a cast directly after a comparison, which a single layer cannot check."""
    op, values = layer.attrs.op, (layer.input(0), layer.input(1))
    constants = sum(map(is_constant, values))
    if any(v.type.rank != 4 for v in values):
        return "DLA runs ElementWise on 4 dimensions"
    if op in DLA_PLAIN:
        return None
    if op is E.DIV:
        return None if constants <= 1 else "DLA divides with at most one constant input"
    if op is E.POW:
        return None if constants == 1 else "DLA computes powers with exactly one constant input"
    if op in COMPARISONS:
        fits = all(v.dtype is DataType.INT8 and _dla_compares(v) for v in values)
        return (
            None
            if fits
            else "DLA compares int8 tensors of shapes (N, C, H, W), (N, C, 1, 1) and (N, 1, 1, 1)"
        )
    return f"DLA does not run the operation {op.name}"


def _dla_compares(value: Value) -> bool:
    height, width = value.shape[2:]
    return (height, width) == (1, 1) or 1 not in (height, width)


def cases() -> tuple[Case[ElementWiseAttrs], ...]:
    """Every operation with every supported type; broadcasting; extreme integers; special floats."""
    out = [
        Case(ElementWiseAttrs(op), ((3, 17), (3, 17)), (t,), low=low, high=100 if t in WHOLE else 2)
        for op, (_, types) in TABLE.items()
        for t in sorted(types, key=int)
        for low in (0.25 if op is E.POW else -100 if t in INTS else 0 if t in WHOLE else -2,)
    ]
    special = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.0, np.inf, -np.inf, np.nan])
    pair = special.reshape(9, 1), special.reshape(1, 9)
    out += [Case(ElementWiseAttrs(op), ((9, 1), (1, 9)), data=pair) for op in REALS if op not in LOGIC]
    for t in sorted(WHOLE, key=int):
        low, high = limits(t)
        edges = np.array([low, low + 1, -7, -1, 0, 1, 2, 7, high], object) % 2**64
        whole = edges.astype(np.uint64).view(np.int64)
        pair = whole.reshape(9, 1), whole.reshape(1, 9)
        ops = [op for op in (*INTEGERS, *SHIFTS) if t in TABLE[op][1]]
        out += [Case(ElementWiseAttrs(op), ((9, 1), (1, 9)), (t,), pair) for op in ops]
    wide = np.array([1 / 3, 1e300, 1 + 2.0**-50, -(2.0**70), 1e-300]).reshape(5, 1)
    out += [
        Case(ElementWiseAttrs(op), ((5, 1), (1, 5)), (DataType.DOUBLE,), (wide, wide.T), rtol=0.0, atol=0.0)
        for op in REALS
        if op not in (*LOGIC, E.POW)
    ]
    far = np.array([1e-45, -1e-38, 3.0, -7.3e8, 3.4e38], np.float32).reshape(5, 1)
    out += [Case(ElementWiseAttrs(op), ((5, 1), (1, 5)), data=(far, far.T)) for op in (E.MOD, E.REMAINDER)]
    shapes = (
        ((), ()),
        ((2, 0, 3), (1, 1, 3)),
        ((4, 1, 3), (1, 5, 3)),
        ((1, 2, 1, 2, 1, 3, 1, 2), (2, 1, 2, 1, 3, 1, 2, 1)),
    )
    out += [Case(ElementWiseAttrs(E.SUM), pair) for pair in shapes]
    out.append(Case(ElementWiseAttrs(E.SUM), ((), ()), (DataType.INT32,)))
    out += [
        Case(
            ElementWiseAttrs(op),
            ((3, 5), (3, 5)),
            (DataType.INT8,),
            low=-120,
            high=120,
            int8=((0.1, 0.2), 0.3),
        )
        for op in (E.SUM, E.PROD, E.MAX, E.SUB)
    ]
    out.append(
        Case(
            ElementWiseAttrs(E.SUM),
            ((3, 5), (3, 5)),
            (DataType.INT8,),
            low=-120,
            high=120,
            int8=((1.0, 1.0), 1.0),
        )
    )
    return tuple(out)


LOGIC = frozenset({E.AND, E.OR, E.XOR})


def mistakes() -> tuple[Mistake[ElementWiseAttrs], ...]:
    """Ranks, dimensions and types."""
    total, power, both = ElementWiseAttrs(E.SUM), ElementWiseAttrs(E.POW), ElementWiseAttrs(E.AND)
    same = ((3, 5), (3, 5))
    mixed = (DataType.FLOAT, DataType.HALF)
    return (
        Mistake("AR122", "operands of different ranks", total, ((3, 5), (5,))),
        Mistake("AR112", "dimensions that differ, neither of which is 1", total, ((3, 5), (3, 4))),
        Mistake("AR203", "operands of different types", total, same, mixed),
        Mistake("AR202", "bools for arithmetic", total, same, (DataType.BOOL,)),
        Mistake("AR202", "integers for POW", power, same, (DataType.INT32,)),
        Mistake("AR202", "numbers for AND, OR, XOR", both, same),
        Mistake("AR112", "dimensions that differ at run time", total, ((3, 5), (3, 4)), dynamic=True),
    )


OPS = (
    Op(
        layer=LayerType.ELEMENTWISE,
        cls="IElementWiseLayer",
        methods=(Method("add_elementwise", ("input1", "input2", "op"),
                example="layer = network.add_elementwise(a, b, trt.ElementWiseOperation.SUM)"),),
        inputs=(
            Input("input1", NUMBERS | BOOLS | {DataType.INT8}),
            Input("input2", NUMBERS | BOOLS | {DataType.INT8}, same_as=0),
        ),
        attrs=ElementWiseAttrs,
        expand=expand,
        ref=ref,
        doc="Applies a binary function to the elements of two tensors of the same type and rank. Two "
        "dimensions are equal, or one of them is 1 and broadcasts. Integers wrap on overflow. Their DIV "
        "truncates towards zero, FLOOR_DIV rounds down, and both return 0 for a zero divisor. int8 "
        "represents real numbers: results saturate and round half to even (100 + 100 is 127, 5 / 2 is 2, 1 "
        "/ 0 is 127). MAX and MIN return NaN if either operand is NaN. float64 is computed in float64, "
        "where FLOOR_DIV rounds the quotient first. float64 and integers other than int32 and int64 are "
        "extensions. BIT_AND, BIT_OR, BIT_XOR, SHIFT_LEFT, SHIFT_RIGHT, MOD and REMAINDER are extensions. "
        "The first three combine the bits of integers. SHIFT_RIGHT repeats the sign bit; a shift by a "
        "negative count, or by the width or more, drops all bits. MOD is the remainder with the sign of the "
        "divisor, REMAINDER with the sign of the dividend; both are 0 for a zero divisor of integers.",
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=("Add", "Mul", "Max", "Min", "Sub", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less",
              "TRT_FloorDiv", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift", "Mod"),
        real_int8=lambda attrs: True,
        source="operator page ElementWise",
    ),
)  # fmt: skip
