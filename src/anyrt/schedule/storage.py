"""Stored and computed types of elements: the conversions between both, as kernel expressions.

Half types and 8-bit floats are computed in float32, integers narrower than 32 bits in int32, uint32 in int64,
bool as one bit. 4-bit types are packed two to a byte, 2-bit types four, the first in the lowest bits. Each
conversion to a float type rounds half to even; FP8 and FP4 (E2M1) saturate if they have no infinity. E8M0 has
powers of two, and NaN for everything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from anyrt.core.dims import Dim, floordiv, mod
from anyrt.core.dtype import bits, is_packed
from anyrt.core.dtype import cast as round_to
from anyrt.core.enums import DataType
from anyrt.ir.buffer import COMPUTED, STORED, Buffer, Scalar
from anyrt.ir.kernel import Alu, Cast, Const, Expr, Load, Op, alu, bitcast, cast, const, index, load, select
from anyrt.prims.scalar.rounding import unrounded

PACKED = frozenset(t for t in DataType if is_packed(t))


def read(buffer: Buffer, dtype: DataType, at: Dim) -> Expr:
    """Element `at` of `buffer` as its computed type."""
    if dtype in PACKED:
        return _decode(dtype, _code(buffer, bits(dtype), at))
    return _decode(dtype, load(buffer, at))


def _code(buffer: Buffer, width: int, at: Dim) -> Expr:
    """The bits of a packed element."""
    byte = cast(load(buffer, floordiv(at, 8 // width)), Scalar.I32)
    shift = cast(index(mod(at, 8 // width)), Scalar.I32) * width
    return alu(Op.AND, alu(Op.LSHR, byte, shift), const((1 << width) - 1, Scalar.I32))


def _decode(dtype: DataType, stored: Expr) -> Expr:
    match dtype:
        case DataType.BOOL:
            return cast(stored, Scalar.BOOL)
        case DataType.FP8:
            return _decode_fp8(cast(stored, Scalar.I32))
        case DataType.FP8E5M2:
            return _decode_e5m2(cast(stored, Scalar.I32))
        case DataType.FP8E4M3FNUZ:
            return _decode_fnuz(cast(stored, Scalar.I32), 20, 119, 2.0**-10)
        case DataType.FP8E5M2FNUZ:
            return _decode_fnuz(cast(stored, Scalar.I32), 21, 111, 2.0**-17)
        case DataType.INT4 | DataType.INT2:
            return (stored << 32 - bits(dtype)) >> 32 - bits(dtype)
        case DataType.UINT16 | DataType.UINT32:
            return cast(stored, COMPUTED[dtype]) & (1 << bits(dtype)) - 1
        case DataType.FP4:
            return _signed(_magnitude(stored & 7, 22, 126, 0.5), (stored & 8) << 28)
        case DataType.E8M0:
            return _decode_power(cast(stored, Scalar.I32))
        case _:
            return cast(stored, COMPUTED[dtype])


def _decode_fp8(bits: Expr) -> Expr:
    magnitude = _magnitude(bits & 0x7F, 20, 120, 2.0**-9)
    nan = alu(Op.EQ, bits & 0x7F, const(0x7F, Scalar.I32))
    return _signed(select(nan, float("nan"), magnitude), (bits & 0x80) << 24)


def _decode_e5m2(code: Expr) -> Expr:
    """Infinity and NaN follow the largest number, as in float16."""
    size = code & 0x7F
    endless = select(alu(Op.EQ, size, const(0x7C, Scalar.I32)), float("inf"), const(float("nan"), Scalar.F32))
    return _signed(select(size < 0x7C, _magnitude(size, 21, 112, 2.0**-16), endless), (code & 0x80) << 24)


def _decode_fnuz(code: Expr, drop: int, bias: int, step: float) -> Expr:
    """The code of -0 is the only NaN."""
    number = _signed(_magnitude(code & 0x7F, drop, bias, step), (code & 0x80) << 24)
    return select(alu(Op.EQ, code, const(0x80, Scalar.I32)), float("nan"), number)


def _magnitude(code: Expr, drop: int, bias: int, step: float) -> Expr:
    """A code without its sign: exponent and mantissa shifted to float32's fields; its mantissa has `drop`
    more bits and its exponent is greater by `bias`. Below the least exponent, codes are multiples of a step.

    One product with 2^bias would do, but a processor takes a hundred cycles for a denormal operand: 9 times
    as long was measured for codes of FP8."""
    normal = bitcast((code << drop) + (bias << 23), Scalar.F32)
    return select(code < (1 << 23 - drop), cast(code, Scalar.F32) * step, normal)


def _decode_power(code: Expr) -> Expr:
    """Codes are exponents of float32, except that the first is 2⁻¹²⁷, half a step below them, and the last is
    NaN."""
    least, nan = const(1 << 22, Scalar.I32), const(0x1FF << 22, Scalar.I32)
    bits = select(alu(Op.EQ, code, const(0, Scalar.I32)), least, code << 23)
    return bitcast(select(alu(Op.EQ, code, const(255, Scalar.I32)), nan, bits), Scalar.F32)


def _encode_power(x: Expr) -> Expr:
    """The exponent of the nearest power of two, the greater one at a tie; NaN if there is none."""
    bits, normal = bitcast(x, Scalar.I32), const(1 << 23, Scalar.I32)
    half = select(bits < normal, const(1 << 21, Scalar.I32), const(1 << 22, Scalar.I32))
    code = alu(Op.LSHR, bits + half, const(23, Scalar.I32))
    nan = const(255, Scalar.I32)
    return select(const(0, Scalar.I32) < bits, select(code < nan, code, nan), nan)


def _signed(magnitude: Expr, sign_bit: Expr) -> Expr:
    return bitcast(bitcast(magnitude, Scalar.I32) | sign_bit, Scalar.F32)


def encode(dtype: DataType, value: Expr) -> Expr:
    """A computed value as its stored type (a nibble in the low bits for 4-bit types)."""
    moved = _moved(dtype, value)
    if moved is not None:
        return moved
    value = unrounded(dtype, value)  # else it would be rounded twice
    match dtype:
        case DataType.BOOL:
            return cast(value, Scalar.U8)
        case _ if dtype in SMALL:
            return cast(_encode_small(value, SMALL[dtype]), Scalar.U8)
        case DataType.E8M0:
            return cast(_encode_power(value), Scalar.U8)
        case _ if dtype in PACKED:
            return cast(value & (1 << bits(dtype)) - 1, Scalar.U8)
        case _:
            return cast(value, STORED[dtype])


@dataclass(frozen=True, slots=True)
class SmallFloat:
    """The code of greater numbers (the largest number or infinity), mantissa bits that float32 has more,
    exponent bias that float32 has more, a number whose last bit is the denormals' step, the least normal
    number, the bits of NaN (of the largest number if there is none), the sign bit, whether there is a NaN of
    either sign, and a zero."""

    top: float
    drop: int
    bias: int
    magic: float
    normal: float
    nan: int
    sign: int
    signed_nan: bool
    signed_zero: bool = True


SMALL: Final = {
    DataType.FP8: SmallFloat(448.0, 20, 120, 2.0**14, 2.0**-6, 0x7F, 7, True),
    DataType.FP4: SmallFloat(6.0, 22, 126, 2.0**22, 1.0, 7, 3, False),
    DataType.FP8E5M2: SmallFloat(2.0**16, 21, 112, 2.0**7, 2.0**-14, 0x7E, 7, True),
    DataType.FP8E4M3FNUZ: SmallFloat(240.0, 20, 119, 2.0**13, 2.0**-7, 0x80, 7, False, False),
    DataType.FP8E5M2FNUZ: SmallFloat(57344.0, 21, 111, 2.0**6, 2.0**-15, 0x80, 7, False, False),
}


def _encode_small(x: Expr, to: SmallFloat) -> Expr:
    """float32 → a small float: below the least normal number, adding `magic` rounds to the denormals' step;
    above it, the bits that do not fit are rounded half to even."""
    size = alu(Op.ABS, x)
    limited = select(size < to.top, size, to.top)
    # Not a product with 2^-bias, whose result may be denormal, as in `_magnitude`.
    scaled = bitcast(limited, Scalar.I32) - (to.bias << 23)
    odd = alu(Op.LSHR, scaled, const(to.drop, Scalar.I32)) & 1
    rounded = alu(Op.LSHR, scaled + odd + ((1 << (to.drop - 1)) - 1), const(to.drop, Scalar.I32))
    denormal = bitcast(limited + to.magic, Scalar.I32) - bitcast(const(to.magic, Scalar.F32), Scalar.I32)
    bits = select(limited < to.normal, denormal, rounded)
    sign = alu(Op.LSHR, bitcast(x, Scalar.I32), const(31, Scalar.I32)) << to.sign
    if not to.signed_zero:
        return select(
            alu(Op.NE, x, x), to.nan, select(alu(Op.EQ, bits, const(0, Scalar.I32)), 0, bits | sign)
        )
    # The sign of a NaN has no meaning, but a move keeps it.
    return select(alu(Op.NE, x, x), sign | to.nan if to.signed_nan else to.nan, bits | sign)


@lru_cache(maxsize=1 << 12)
def _moved(dtype: DataType, value: Expr) -> Expr | None:
    """The stored bits themselves if `value` was only loaded and selected: a move keeps every bit."""
    if dtype in PACKED:
        return None
    match value:
        case Alu(op=Op.SELECT, args=(condition, a, b)):
            then, otherwise = _moved(dtype, a), _moved(dtype, b)
            return None if then is None or otherwise is None else select(condition, then, otherwise)
        case Const():
            return _literal(dtype, value)
        case _:
            source = _source(value)
            return (
                source
                if source is not None and _decode(dtype, source) is value and source.type is _stored(dtype)
                else None
            )


@lru_cache(maxsize=1 << 12)
def _source(value: Expr) -> Load | None:
    """The one load that a decoding reads."""
    match value:
        case Load():
            return value
        case Cast(arg=arg):
            return _source(arg)
        case Alu(args=args):
            loads = [s for s in map(_source, args) if s is not None]
            return loads[0] if loads and all(f is loads[0] for f in loads) else None
        case _:
            return None


def _stored(dtype: DataType) -> Scalar:
    return STORED[dtype]


def _literal(dtype: DataType, value: Const) -> Expr | None:
    """A constant as its stored type."""
    match dtype:
        case DataType.HALF | DataType.BF16:
            return cast(value, _stored(dtype))
        case _ if dtype in SMALL and dtype not in PACKED:
            code = round_to(np.array([value.value], np.float32), dtype).view(np.uint8)
            return const(int(code[0]), Scalar.U8)
        case DataType.E8M0:
            return None
        case DataType.UINT16 | DataType.UINT32:
            top = 1 << bits(dtype) - 1
            return const((int(value.value) + top) % (2 * top) - top, _stored(dtype))
        case _:
            return const(value.value, _stored(dtype))
