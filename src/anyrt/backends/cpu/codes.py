"""Codes of real numbers without quotients and conversions.

    i32(min(max(rint(x / d) + zero, low), high))
        ->  q = x' · z + x' · rest,  bits(q + 1.5 · 2²³) + zero        x' = min(max(x, least), most)

z + rest is 1 / d to twice the digits. Both sides are steps that rise with x, each of which begins at one
float32. So they are equal everywhere where they are equal around these, at most 255 places, which are tried
(`_agree`); elsewhere the quotient stays. What is limited beforehand is finite, and NaN becomes the lowest
code. A float32 between 2²³ and 2²⁴ is a whole number, which its last bits are: a sum with 1.5 · 2²³ rounds
half to even, and no conversion is needed.
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
from anyrt.ir.kernel import Alu, Cast, Const, Expr, Op, bitcast, cast, const, fma, select

LARGEST: Final = 1 << 12  # steps and zero points: far less than those that the sum holds
MIDDLE: Final = 3 << 22  # as float32 it has a last bit of 1
BITS: Final = 0x4B400000  # its bits
DIVISORS: Final = (2.0**-60, 2.0**60)  # nothing is lost of products near a step
BESIDE: Final = 8  # numbers on each side of a step that are tried: both forms err by less than two of them


@dataclass(frozen=True, slots=True)
class Limited:
    """A number that lies between `low` and `high` steps, which is rounded; its code is `zero` more."""

    steps: Expr
    zero: int


@lru_cache(maxsize=1 << 14)
def replacement(x: Expr, has_fma: bool) -> Expr | None:
    """Codes, or floats that codes stand for, by sums alone; None for all else."""
    match x:
        case Cast(type=Scalar.I8, arg=Cast(type=Scalar.I32, arg=kept)):
            found = _limited(kept, has_fma)
            return None if found is None or not _is_byte(kept) else cast(_bits(found, 0), Scalar.I8)
        case Cast(type=Scalar.F32, arg=Cast(type=Scalar.I32, arg=kept)):
            found = _limited(kept, has_fma)
            return None if found is None else _number(found, 0)
        case Alu(
            op=Op.SUB, args=(Cast(type=Scalar.F32, arg=Cast(type=Scalar.I32, arg=kept)), Const(value=less))
        ):
            found = _limited(kept, has_fma) if _is_small(less) else None
            return None if found is None else _number(found, int(less))
        case Cast(type=Scalar.I32, arg=kept):
            found = _limited(kept, has_fma)
            return None if found is None else _bits(found, BITS)
    return None


def _bits(x: Limited, less: int) -> Expr:
    """The code in the last bits of an integer, from which a number is taken. A sum with an odd one would
    round the other half to even."""
    if x.zero % 2 == 0:
        whole = bitcast(x.steps + float(MIDDLE + x.zero), Scalar.I32)
        return whole - less if less else whole
    return bitcast(x.steps + float(MIDDLE), Scalar.I32) + (x.zero - less)


def _number(x: Limited, less: int) -> Expr:
    """The code less a number; no zero is negative."""
    return (x.steps + float(MIDDLE)) - float(MIDDLE - x.zero + less)


def _limited(kept: Expr, has_fma: bool) -> Limited | None:
    """What min(max(rint(…) + zero, low), high) rounds, limited before that."""
    match kept:
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
    if not all(map(_is_small, (low, high, zero))) or low >= high:
        return None
    match rounded:
        case Alu(op=Op.RINT, args=(steps,)):
            return Limited(_steps(steps, int(low - zero), int(high - zero), has_fma), int(zero))
    return None


def _shifted(x: Expr) -> tuple[Expr, float]:
    """What a constant is added to, and the constant."""
    match x:
        case Alu(op=Op.ADD, args=(a, Const(value=zero))) | Alu(op=Op.ADD, args=(Const(value=zero), a)):
            return a, zero
    return x, 0.0


def _is_small(x: float) -> bool:
    return x == x and abs(x) <= LARGEST and x == int(x)


def _is_byte(kept: Expr) -> bool:
    """True where both limits are int8's at most: others would not stay what they are."""
    known = interval(kept)
    return known is not None and known[0] >= -128 and known[1] <= 127


def _steps(x: Expr, low: int, high: int, has_fma: bool) -> Expr:
    """A number of steps between these two, which rounds as `x` does."""
    match x:
        case Alu(op=Op.DIV, args=(above, Const(value=below))) if has_fma:
            size = np.float32(below)
            parts = _parts(float(size), low, high)
            if parts is not None:
                inside = _kept(above, float(np.float32(low) * size), float(np.float32(high) * size))
                return fma(inside, parts[0], inside * parts[1])
    return _kept(x, float(low), float(high))


def _kept(x: Expr, low: float, high: float) -> Expr:
    """NaN becomes the lower one."""
    above = select(const(low, Scalar.F32) < x, x, low)
    return select(above < high, above, high)


@lru_cache(maxsize=1 << 12)
def _parts(d: float, low: int, high: int) -> tuple[float, float] | None:
    """1 / d in two parts whose products with numbers round as quotients by d do; None where some do not."""
    if not DIVISORS[0] <= d <= DIVISORS[1]:
        return None
    z = np.float32(1 / np.float64(d))
    rest = np.float32(float(1 / Fraction(d) - Fraction(float(z))))
    return (float(z), float(rest)) if _agree(np.float32(d), z, rest, low, high) else None


def _agree(d: np.float32, z: np.float32, rest: np.float32, low: int, high: int) -> bool:
    """Whether both forms round alike next to where a code becomes the next one, and are that code and the
    next one at the ends of what is tried. Quotients rise with the dividend, and so do these sums: from one
    float32 to the next the smaller product, rounded, moves by less than 2⁻²² of what the larger one does."""
    codes = np.arange(low, high, dtype=np.int32)[:, None]
    near = ((codes + 0.5) * np.float64(d)).astype(np.float32)
    beside = np.arange(-BESIDE, BESIDE + 1, dtype=np.int32)
    x: NDArray[np.float32] = (near.view(np.int32) + beside).view(np.float32)
    quotients, sums = np.rint(x / d), np.rint(fma_once(x, np.broadcast_to(z, x.shape), x * rest))
    ends = np.sort(quotients[:, [0, -1]], axis=1) == np.concatenate([codes, codes + 1], axis=1)
    limits = np.array([low, high], np.float32)
    return bool((quotients == sums).all() and ends.all() and (np.rint((limits * d) / d) == limits).all())
