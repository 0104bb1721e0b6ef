"""How elements lie in memory and what kernels compute with: the conversions between both, as kernel
expressions.

Half types and 8-bit floats are computed in float32, integers narrower than 32 bits in int32, bool as one bit;
4-bit types lie two to a byte, the low nibble first. Each conversion to a float type rounds half to even; FP8
(E4M3) and FP4 (E2M1) saturate. E8M0 has powers of two and NaN, which everything else becomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from anyrt.core.dims import Dim, floordiv, mod
from anyrt.core.dtype import cast as round_to
from anyrt.core.enums import DataType
from anyrt.ir.buffer import COMPUTED, STORED, Buffer, Scalar
from anyrt.ir.kernel import Alu, Cast, Const, Expr, Load, Op, alu, bitcast, cast, const, index, load, select
from anyrt.prims.scalar.rounding import unrounded

PACKED = frozenset({DataType.INT4, DataType.FP4})


def read(buffer: Buffer, dtype: DataType, at: Dim) -> Expr:
    """Element `at` of `buffer` as its computed type."""
    if dtype in PACKED:
        return _decode(dtype, _nibble(buffer, at))
    return _decode(dtype, load(buffer, at))


def _nibble(buffer: Buffer, at: Dim) -> Expr:
    byte = cast(load(buffer, floordiv(at, 2)), Scalar.I32)
    shift = cast(index(mod(at, 2)), Scalar.I32) * 4
    return alu(Op.AND, alu(Op.LSHR, byte, shift), const(15, Scalar.I32))


def _decode(dtype: DataType, stored: Expr) -> Expr:
    match dtype:
        case DataType.BOOL:
            return cast(stored, Scalar.BOOL)
        case DataType.FP8:
            return _decode_fp8(cast(stored, Scalar.I32))
        case DataType.INT4:
            return (stored << 28) >> 28
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


def _magnitude(code: Expr, drop: int, bias: int, step: float) -> Expr:
    """A code without its sign: exponent and mantissa moved to where float32 has them, whose mantissa has
    `drop` bits more and whose exponent is greater by `bias`; below the least exponent, codes count steps.

    One product with 2^bias would do, but a processor takes a hundred cycles for an operand that is no normal
    number: 9 times as long was measured for codes of FP8."""
    normal = bitcast((code << drop) + (bias << 23), Scalar.F32)
    return select(code < (1 << 23 - drop), cast(code, Scalar.F32) * step, normal)


def _decode_power(code: Expr) -> Expr:
    """Codes are exponents of float32; but the first is 2⁻¹²⁷, half a step below them, and the last NaN."""
    least, nan = const(1 << 22, Scalar.I32), const(0x1FF << 22, Scalar.I32)
    bits = select(alu(Op.EQ, code, const(0, Scalar.I32)), least, code << 23)
    return bitcast(select(alu(Op.EQ, code, const(255, Scalar.I32)), nan, bits), Scalar.F32)


def _encode_power(x: Expr) -> Expr:
    """The exponent of the nearest power of two, the greater one where two are as near; NaN for what has
    none."""
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
        case DataType.FP8:
            return cast(
                _encode_small(value, SmallFloat(448.0, 20, 120, 2.0**14, 2.0**-6, 0x7F, 7, True)), Scalar.U8
            )
        case DataType.FP4:
            return cast(_encode_small(value, SmallFloat(6.0, 22, 126, 2.0**22, 1.0, 7, 3, False)), Scalar.U8)
        case DataType.E8M0:
            return cast(_encode_power(value), Scalar.U8)
        case DataType.INT4:
            return cast(value & 15, Scalar.U8)
        case DataType.INT8 | DataType.UINT8 | DataType.HALF | DataType.BF16:
            return cast(value, STORED[dtype])
        case _:
            return value


@dataclass(frozen=True, slots=True)
class SmallFloat:
    """Largest number, mantissa bits that float32 has more, exponent bias that float32 has more, a number
    whose last bit is the denormals' step, the least normal number, the bits of NaN (of the largest number
    where there is none), the sign's bit, whether there is a NaN of either sign."""

    top: float
    drop: int
    bias: int
    magic: float
    normal: float
    nan: int
    sign: int
    signed_nan: bool


def _encode_small(x: Expr, to: SmallFloat) -> Expr:
    """float32 → a small float: below the least normal number, adding `magic` rounds to the denormals' step;
    above it, the bits that do not fit are rounded half to even."""
    size = alu(Op.ABS, x)
    limited = select(size < to.top, size, to.top)
    # Not a product with 2^-bias, whose result may be no normal number, as in `_magnitude`.
    scaled = bitcast(limited, Scalar.I32) - (to.bias << 23)
    odd = alu(Op.LSHR, scaled, const(to.drop, Scalar.I32)) & 1
    rounded = alu(Op.LSHR, scaled + odd + ((1 << (to.drop - 1)) - 1), const(to.drop, Scalar.I32))
    denormal = bitcast(limited + to.magic, Scalar.I32) - bitcast(const(to.magic, Scalar.F32), Scalar.I32)
    bits = select(limited < to.normal, denormal, rounded)
    sign = alu(Op.LSHR, bitcast(x, Scalar.I32), const(31, Scalar.I32)) << to.sign
    # The sign of a NaN means nothing, but what is only moved keeps it.
    return select(alu(Op.NE, x, x), sign | to.nan if to.signed_nan else to.nan, bits | sign)


@lru_cache(maxsize=1 << 12)
def _moved(dtype: DataType, value: Expr) -> Expr | None:
    """The stored bits themselves when `value` was only loaded and chosen, never computed with: a move keeps
    every bit."""
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
            found = [s for s in map(_source, args) if s is not None]
            return found[0] if found and all(f is found[0] for f in found) else None
        case _:
            return None


def _stored(dtype: DataType) -> Scalar:
    return STORED[dtype]


def _literal(dtype: DataType, value: Const) -> Expr | None:
    """A constant as its stored type."""
    match dtype:
        case DataType.FLOAT | DataType.INT32 | DataType.INT64:
            return value
        case DataType.INT8 | DataType.UINT8 | DataType.BOOL:
            return const(int(value.value), _stored(dtype))
        case DataType.HALF | DataType.BF16:
            return cast(value, _stored(dtype))
        case DataType.FP8:
            code = round_to(np.array([value.value], np.float32), dtype).view(np.uint8)
            return const(int(code[0]), Scalar.U8)
        case _:
            return None
