"""The semantics of a cast, for kernels and for NumPy, and the wrapping of narrow integers after arithmetic in
int32.

Float to integer truncates and saturates (NaN gives 0); integers wrap, two's complement, as in ONNX. Narrower
floats are not rounded here: stores round, and functions round the outputs of layers (passes/round_layers.py).
These receive float32, and a cast from float64 keeps the bits that decide between two narrow floats.

>>> convert_array(np.array([-200.7, 300.0, np.nan]), DataType.INT8)
array([-128,  127,    0], dtype=int8)
"""

from __future__ import annotations

import numpy as np

from anyrt.core.dtype import BEHIND, bits, cast, is_float, is_integer, is_signed
from anyrt.core.enums import DataType
from anyrt.ir import kernel
from anyrt.ir.buffer import BITS, COMPUTED, STORED, Scalar
from anyrt.ir.intervals import interval
from anyrt.ir.kernel import Expr, Op, alu, select
from anyrt.ir.prim import Array
from anyrt.ir.reference import reference_dtype

# Integers that are computed in more bits than they have.
NARROW = frozenset(t for t in DataType if is_integer(t) and bits(t) < BITS[COMPUTED[t]])
# Functions whose result may need more bits than narrow operands have.
OUTGROWS = frozenset(
    {"add", "sub", "mul", "div", "floordiv", "pow", "neg", "abs", "square", "fma", "not", "recip"}
    | {"shift_left", "shift_right"}
)


def limits(t: DataType) -> tuple[int, int]:
    """Least and greatest value of an integer type.

    >>> limits(DataType.INT4), limits(DataType.UINT8)
    ((-8, 7), (0, 255))
    """
    signed = is_signed(t)
    return -(1 << (bits(t) - 1)) if signed else 0, (1 << (bits(t) - signed)) - 1


def convert(x: Expr, source: DataType, target: DataType) -> Expr:
    """A computed value of `source` as a computed value of `target`."""
    if x.type is Scalar.F64 and COMPUTED[target] is Scalar.F32 and target is not DataType.FLOAT:
        return kernel.cast(_to_odd(x), Scalar.F32)
    if target is source or target not in NARROW or x.type is Scalar.BOOL:
        return kernel.cast(x, COMPUTED[target])
    low, high = limits(target)
    known = interval(x)
    if known is not None and low <= known[0] and known[1] <= high:
        return kernel.cast(x, COMPUTED[target])
    if x.type.is_float and bits(target) > 16:  # its limits are not representable in float32
        whole = kernel.cast(x, COMPUTED[target])
        return alu(Op.MAX, alu(Op.MIN, whole, kernel.const(high, whole.type)), kernel.const(low, whole.type))
    if x.type.is_float:
        # Clamped before the conversion, which then needs no checks; NaN fails the first comparison.
        least = select(kernel.const(low, x.type) < x, x, float(low))
        inside = select(least < float(high), least, float(high))
        number = inside if low == 0 else select(alu(Op.NE, x, x), 0.0, inside)
        return kernel.cast(number, COMPUTED[target])
    return _low_bits(x, target)


def _to_odd(x: Expr) -> Expr:
    """See `core.dtype.to_odd`."""
    bits = kernel.bitcast(x, Scalar.I64)
    return kernel.bitcast((bits | ((bits & BEHIND) + BEHIND)) & ~BEHIND, Scalar.F64)


def convert_array(x: Array, target: DataType) -> Array:
    """The same for arrays of the interpreter."""
    if target is DataType.BOOL:
        return np.asarray(x != np.zeros((), x.dtype))
    if is_float(target):
        return x.astype(np.float64)
    return cast(x, target).astype(reference_dtype(target))


def wrap(x: Expr, fn: str, t: DataType) -> Expr:
    """The result of `fn` on narrow integers wrapped to their range, two's complement."""
    if t not in NARROW or fn not in OUTGROWS:
        return x
    return _low_bits(x, t)


def _low_bits(x: Expr, t: DataType) -> Expr:
    kind = COMPUTED[t]
    if bits(t) == 8:
        return kernel.cast(kernel.cast(x, STORED[t]), kind)
    wide, unused = kernel.cast(x, kind), BITS[kind] - bits(t)
    return (wide << unused) >> unused if is_signed(t) else wide & limits(t)[1]


def wrap_array(x: Array, t: DataType) -> Array:
    """The same for arrays: the result of a wider computation as the interpreter holds `t`."""
    if bits(t) < 8 and not is_float(t):
        return cast(x, t).astype(reference_dtype(t))
    return x.astype(reference_dtype(t)) if not is_float(t) else x
