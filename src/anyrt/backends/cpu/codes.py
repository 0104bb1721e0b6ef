"""Quantization of real numbers without divisions and conversions.

    i32(min(max(rint(x / d) + zero, low), high))
        ->  q = x' · z + x' · rest,  bits(q + 1.5 · 2²³) + zero        x' = min(max(x, least), most)

z + rest is 1 / d with twice the digits. Both sides are step functions that rise with x, and each step begins
at one float32. They are therefore equal everywhere if they are equal around these, at most 255 places, which
are tested (`_agree`); otherwise the quotient stays. Numbers are clamped first, so they are finite, and NaN
becomes the lowest code. A float32 between 2²³ and 2²⁴ is an integer in its last bits: a sum with 1.5 · 2²³
rounds half to even, and no conversion is needed.

d and zero may be numbers that a kernel loads, so that one serves several layers (schedule/scales.py): the
parts of 1 / d and the limits are then computed before all loops, with the same roundings.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from anyrt.ir.buffer import Scalar
from anyrt.ir.evaluate import fma_once
from anyrt.ir.intervals import interval
from anyrt.ir.kernel import Alu, Cast, Const, Expr, Load, Op, bitcast, cast, const, fma, select

LARGEST: Final = 1 << 12  # scales and zero points: far less than those that the sum represents
MIDDLE: Final = 3 << 22  # as a float32 its last bit is 1
BITS: Final = 0x4B400000  # its bits
DIVISORS: Final = (2.0**-60, 2.0**60)  # products near a step lose nothing
WIDEST: Final = 1 << 9  # codes minus a zero point that a kernel loads
BESIDE: Final = 8  # numbers on each side of a step that are tried: both forms err by less than two of them


@dataclass(frozen=True, slots=True)
class Limited:
    """A number that lies between `low` and `high` steps, which is rounded; its code is `zero` more."""

    steps: Expr
    zero: int | Expr


@lru_cache(maxsize=1 << 14)
def replacement(x: Expr, has_fma: bool) -> Expr | None:
    """Codes, or floats that represent codes, by sums alone; None for all other expressions."""
    match x:
        case Cast(type=Scalar.I8, arg=Cast(type=Scalar.I32, arg=clamped)):
            limited = _limited(clamped, has_fma)
            return None if limited is None or not _is_byte(clamped) else cast(_bits(limited, 0), Scalar.I8)
        case Cast(type=Scalar.F32, arg=Cast(type=Scalar.I32, arg=clamped)):
            limited = _limited(clamped, has_fma)
            return None if limited is None else _number(limited, 0)
        case Alu(op=Op.SUB, args=(Cast(type=Scalar.F32, arg=Cast(type=Scalar.I32, arg=clamped)), below)):
            less = _whole(below)
            limited = None if less is None else _limited(clamped, has_fma)
            return None if limited is None or less is None else _number(limited, less)
        case Cast(type=Scalar.I32, arg=clamped):
            limited = _limited(clamped, has_fma)
            return None if limited is None else _bits(limited, BITS)
    return None


def _bits(x: Limited, less: int) -> Expr:
    """The code in the last bits of an integer, from which a number is subtracted. A sum with an odd number
    would round the other half to even."""
    if isinstance(x.zero, Expr):
        return bitcast(x.steps + float(MIDDLE), Scalar.I32) + (cast(x.zero, Scalar.I32) - less)
    if x.zero % 2 == 0:
        whole = bitcast(x.steps + float(MIDDLE + x.zero), Scalar.I32)
        return whole - less if less else whole
    return bitcast(x.steps + float(MIDDLE), Scalar.I32) + (x.zero - less)


def _number(x: Limited, less: int | Expr) -> Expr:
    """The code minus a number; no zero is negative."""
    if isinstance(x.zero, int) and isinstance(less, int):
        return (x.steps + float(MIDDLE)) - float(MIDDLE - x.zero + less)
    return (x.steps + float(MIDDLE)) - ((float(MIDDLE) - _float(x.zero)) + _float(less))


def _limited(clamped: Expr, has_fma: bool) -> Limited | None:
    """The operand of min(max(rint(…) + zero, low), high), clamped before it is rounded."""
    match clamped:
        case Alu(
            op=Op.SELECT,
            args=(Alu(op=Op.LT, args=(a, Const(value=high))), b, Const(value=most)),
            type=Scalar.F32,
        ) if a is b and high == most:
            pass
        case _:
            return None
    match a:
        case Alu(op=Op.SELECT, args=(Alu(op=Op.LT, args=(Const(value=low), c)), d, Const(value=least))) if (
            c is d and low == least
        ):
            pass
        case _:
            return None
    rounded, zero = _shifted(c)
    if zero is None or not _is_small(low) or not _is_small(high) or low >= high:
        return None
    match rounded:
        case Alu(op=Op.RINT, args=(steps,)):
            return Limited(_steps(steps, _less(low, zero), _less(high, zero), has_fma), zero)
    return None


def _shifted(x: Expr) -> tuple[Expr, int | Expr | None]:
    """The operand of a sum with an integer, and the integer; None for another sum."""
    match x:
        case Alu(op=Op.ADD, args=(a, Const() as b)) | Alu(op=Op.ADD, args=(Const() as b, a)):
            return a, _whole(b)
        case Alu(op=Op.ADD, args=(Alu(op=Op.RINT) as a, b)) | Alu(op=Op.ADD, args=(b, Alu(op=Op.RINT) as a)):
            return a, _whole(b)
    return x, 0


def _whole(x: Expr) -> int | Expr | None:
    """A small whole number, as it is or loaded."""
    match x:
        case Const(value=value) if _is_small(value):
            return int(value)
        case Load(buffer=buffer, type=Scalar.F32) if buffer.coded:
            return x
    return None


def _less(limit: float, zero: int | Expr) -> int | Expr:
    return int(limit) - zero if isinstance(zero, int) else float(limit) - zero


def _float(x: int | Expr) -> Expr:
    return x if isinstance(x, Expr) else const(float(x), Scalar.F32)


def _times(steps: int | Expr, size: Expr) -> Expr:
    if isinstance(steps, int) and isinstance(size, Const):
        return const(float(np.float32(steps) * np.float32(size.value)), Scalar.F32)
    return _float(steps) * size


def _is_small(x: float) -> bool:
    return x == x and abs(x) <= LARGEST and x == int(x)


def _is_byte(clamped: Expr) -> bool:
    """True if both limits are within int8: the limits of other codes would change."""
    known = interval(clamped)
    return known is not None and known[0] >= -128 and known[1] <= 127


def _steps(x: Expr, low: int | Expr, high: int | Expr, has_fma: bool) -> Expr:
    """A number of steps between these two, rounded like `x`."""
    match x:
        case Alu(op=Op.DIV, args=(above, below)) if has_fma:
            inverse = _inverse(below, low, high)
            if inverse is not None:
                size, z, rest = inverse
                inside = _clamped(above, _times(low, size), _times(high, size))
                return fma(inside, z, inside * rest)
    return _clamped(x, _float(low), _float(high))


def _inverse(d: Expr, low: int | Expr, high: int | Expr) -> tuple[Expr, Expr, Expr] | None:
    """A divisor, and its inverse in two parts (`_parts`), which are computed at run time for a loaded
    divisor."""
    match d:
        case Const(value=value):
            known = isinstance(low, int) and isinstance(high, int)
            parts = _parts(float(np.float32(value)), *((low, high) if known else (-WIDEST, WIDEST)))
            one = const(float(np.float32(value)), Scalar.F32)
            return parts and (one, const(parts[0], Scalar.F32), const(parts[1], Scalar.F32))
        case Load(buffer=buffer) if buffer.coded:
            z = const(1.0, Scalar.F32) / d
            return d, z, fma(-z, d, 1.0) / d
    return None


def _clamped(x: Expr, low: Expr, high: Expr) -> Expr:
    """NaN becomes the lower one."""
    above = select(low < x, x, low)
    return select(above < high, above, high)


def is_step(d: float) -> bool:
    """Whether quotients by this float32 round like the products for all codes, so that a kernel may load
    it."""
    return _parts(d, -WIDEST, WIDEST) is not None


@lru_cache(maxsize=1 << 12)
def _parts(d: float, low: int, high: int) -> tuple[float, float] | None:
    """1 / d in two parts whose products with numbers round as quotients by d do; None if some do not."""
    if not DIVISORS[0] <= d <= DIVISORS[1]:
        return None
    z = np.float32(1 / np.float64(d))
    rest = np.float32(float(1 / Fraction(d) - Fraction(float(z))))
    return (float(z), float(rest)) if _agree(np.float32(d), z, rest, low, high) else None


def _agree(d: np.float32, z: np.float32, rest: np.float32, low: int, high: int) -> bool:
    """Whether both forms round alike around each change of the code, and are that code and the next one at
    the ends of the tested range. Quotients rise with the dividend, and so do these sums: from one float32 to
    the next the smaller product, rounded, moves by less than 2⁻²² of the larger one."""
    codes = np.arange(low, high, dtype=np.int32)[:, None]
    near = ((codes + 0.5) * np.float64(d)).astype(np.float32)
    beside = np.arange(-BESIDE, BESIDE + 1, dtype=np.int32)
    x: NDArray[np.float32] = (near.view(np.int32) + beside).view(np.float32)
    quotients, sums = np.rint(x / d), np.rint(fma_once(x, np.broadcast_to(z, x.shape), x * rest))
    ends = np.sort(quotients[:, [0, -1]], axis=1) == np.concatenate([codes, codes + 1], axis=1)
    limits = np.array([low, high], np.float32)
    return bool((quotients == sums).all() and ends.all() and (np.rint((limits * d) / d) == limits).all())
