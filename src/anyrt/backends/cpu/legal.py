"""Instructions that an old processor lacks, expressed by those it has.

Without F16C and SSE4.1, LLVM would call functions for half conversions and rounding that an image cannot
link.
"""

from __future__ import annotations

from functools import lru_cache

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Alu, Cast, Expr, Op, alu, bitcast, cast, const, neutral, select

ROUNDINGS = frozenset({Op.FLOOR, Op.CEIL, Op.RINT, Op.TRUNC})
# From here on every number is an integer; and integers of the same width.
INTEGRAL = {Scalar.F32: (2.0**23, Scalar.I32), Scalar.F64: (2.0**52, Scalar.I64)}


@lru_cache(maxsize=1 << 14)
def replacement(x: Expr) -> Expr | None:
    """`x` without half conversions and rounding instructions; None if it has none."""
    match x:
        case Cast(arg=arg, type=Scalar.F16):
            return _to_half(cast(arg, Scalar.F32))
        case Cast(arg=arg) if arg.type is Scalar.F16:
            return cast(_from_half(arg), x.type)
        case Alu(op=op, args=(arg,)) if op in ROUNDINGS and arg.type in INTEGRAL:
            return _rounded(op, arg)
        case _:
            return None


def _from_half(x: Expr) -> Expr:
    """Exponent and mantissa as a float32 that is 2^112 too small: the product is exact."""
    bits = cast(bitcast(x, Scalar.I16), Scalar.I32)
    magnitude = bitcast((bits & 0x7FFF) << 13, Scalar.F32) * 2.0**112
    special = alu(Op.EQ, bits & 0x7C00, const(0x7C00, Scalar.I32))
    wide = select(special, bitcast(magnitude, Scalar.I32) | 0x7F800000, bitcast(magnitude, Scalar.I32))
    return bitcast(wide | ((bits & 0x8000) << 16), Scalar.F32)


def _to_half(x: Expr) -> Expr:
    """Half to even; below 2^-14 adding 0.5 rounds to the step of the denormals; from 65520 on the result is
    infinite."""
    size = alu(Op.ABS, x)
    scaled = bitcast(size * 2.0**-112, Scalar.I32)
    odd = alu(Op.LSHR, scaled, const(13, Scalar.I32)) & 1
    normal = alu(Op.LSHR, scaled + odd + 0xFFF, const(13, Scalar.I32))
    denormal = bitcast(size + 0.5, Scalar.I32) - bitcast(const(0.5, Scalar.F32), Scalar.I32)
    finite = select(size < 2.0**-14, denormal, normal)
    bounded = select(size >= 65520.0, 0x7C00, finite)
    bits = select(alu(Op.NE, x, x), 0x7E00, bounded)
    sign = alu(Op.LSHR, bitcast(x, Scalar.I32), const(16, Scalar.I32)) & 0x8000
    return bitcast(cast(bits | sign, Scalar.I16), Scalar.F16)


def _rounded(op: Op, x: Expr) -> Expr:
    """Adding and subtracting 2^23 (or 2^52) rounds half to even; the other modes step from there; the sign
    stays, also of zero."""
    (integral, bits), size = INTEGRAL[x.type], alu(Op.ABS, x)
    nearest = (size + integral) - integral
    sign = bitcast(x, bits) & neutral(Op.MAX, bits)
    match op:
        case Op.RINT:
            result = nearest
        case Op.TRUNC:
            result = select(size < nearest, nearest - 1.0, nearest)
        case _:
            # Away from zero on one side of it, towards zero on the other.
            down = select(size < nearest, nearest - 1.0, nearest)
            up = select(nearest < size, nearest + 1.0, nearest)
            negative = bitcast(x, bits) < 0
            result = select(negative, up, down) if op is Op.FLOOR else select(negative, down, up)
    signed = bitcast(bitcast(result, bits) | sign, x.type)
    return select(size < integral, signed, x)
