"""Rounding to narrow types inside float32: the effect of storing a value and loading it again."""

from __future__ import annotations

import numpy as np

from anyrt.core.dtype import cast as stored
from anyrt.core.enums import DataType
from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Alu, Expr, Op, bitcast, cast, const, select
from anyrt.prims.scalar.table import Array, ScalarFn, absolute, at_most, bits_of, equal, flip_sign, sign_of


def _through(x: Expr, narrow: Scalar) -> Expr:
    return cast(cast(x, narrow), Scalar.F32)


def _to_small(x: Expr, cut: int, normal: float, step: float, top: float) -> Expr:
    """`x` without `cut` bits of its mantissa, half to even; below `normal` in steps of `step`; at most `top`
    and no infinity."""
    size = absolute(x)
    bits = bits_of(size)
    even = (bits >> cut) & 1
    rounded = bitcast((bits + (even + ((1 << cut - 1) - 1))) & -(1 << cut), Scalar.F32)
    magic = step * 2.0**23  # whose last place is `step`
    limited = at_most(select(size < normal, (size + magic) - magic, rounded), top)
    return flip_sign(limited, sign_of(x))


def _to_fp8(x: Expr) -> Expr:
    return select(equal(x, x), _to_small(x, 20, 2.0**-6, 2.0**-9, 448.0), x)


def _to_fp4(x: Expr) -> Expr:
    return select(equal(x, x), _to_small(x, 22, 1.0, 0.5, 6.0), 6.0)


SMALL = {DataType.FP8: _to_fp8, DataType.FP4: _to_fp4}


def unrounded(dtype: DataType, x: Expr) -> Expr:
    """The operand that was rounded to `dtype`, a small float, if `x` is the result; else `x` itself."""
    match x:
        case Alu(op=Op.SELECT, args=(Alu(op=Op.EQ, args=(operand, same)), _, _)) if operand is same:
            return operand if dtype in SMALL and SMALL[dtype](operand) is x else x
    return x


def _to_e8m0(x: Expr) -> Expr:
    """In the bits: a mantissa that is not 0 carries into the exponent."""
    size = absolute(x)
    bits = bits_of(size)
    above = (bits + ((1 << 23) - 1)) & -(1 << 23)
    inside = at_most(bitcast(select(const(1 << 22, Scalar.I32) < bits, above, 1 << 22), Scalar.F32), 2.0**127)
    return select(equal(x, x), inside, x)


def _power_above(x: Array) -> Array:
    mantissa, exponent = np.frexp(np.abs(x.astype(np.float64)))
    power = np.ldexp(1.0, np.clip(exponent - (mantissa == 0.5), -127, 127))
    known = np.where(np.abs(x) <= 2.0**-127, 2.0**-127, np.where(np.isinf(x), 2.0**127, power))
    return np.where(np.isnan(x), x, known)


FUNCTIONS = (
    ScalarFn(
        "to_half",
        1,
        lambda x: _wide(x, DataType.HALF),
        lambda x: _through(x, Scalar.F16),
        note="the nearest float16",
    ),
    ScalarFn(
        "to_bf16",
        1,
        lambda x: _wide(x, DataType.BF16),
        lambda x: _through(x, Scalar.BF16),
        note="the nearest bfloat16",
    ),
    ScalarFn(
        "to_fp8",
        1,
        lambda x: _wide(x, DataType.FP8),
        _to_fp8,
        note="the nearest 8-bit float (E4M3), at most 448",
    ),
    ScalarFn(
        "to_fp4",
        1,
        lambda x: _wide(x, DataType.FP4),
        _to_fp4,
        note="the nearest 4-bit float (E2M1), at most 6, which NaN becomes, too",
    ),
    ScalarFn(
        "to_e8m0",
        1,
        _power_above,
        _to_e8m0,
        note="the least power of two from 2⁻¹²⁷ on that is not below the magnitude, at most 2¹²⁷",
    ),
)


def _wide(x: Array, narrow: DataType) -> Array:
    return stored(x, narrow).astype(np.float64)
