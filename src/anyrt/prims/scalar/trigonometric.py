"""sin, cos, tan and their inverses.

Odd functions are computed on |x| and get the sign bit of x at the end, which also keeps −0.
"""

from __future__ import annotations

import numpy as np

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Expr, const, fma, select
from anyrt.prims.scalar.exponential import sqrt
from anyrt.prims.scalar.table import ScalarFn, absolute, flip_sign, nearest, poly, sign_of

# π/2 as the sum of three float32.
_HALF_PI = (1.57079637050628662109375, -4.37113882867379083e-8, -1.71512451000588187e-15)
# 416682 falls short of 66317 turns of 2π by only 1.6e-5 (208341 / 66317 is a convergent of π), so that whole
# turns come off a big argument by one exact FMA, and what is missing stays small: 5154 × 1.6e-5 for 2³¹.
_TURNS, _TURNS_REST = 416682.0, 1.62286360137e-05
_LARGEST = 2.0**31
# (sin r − r) / r³ and (cos r − 1 + r²/2) / r⁴ in r², |r| ≤ π/4: 2⁻²⁸ and 2⁻³³.
_SIN = (-0.000195078712, 0.00833210628, -0.166666538)
_COS = (2.44321072e-05, -0.00138873083, 0.0416666456)
# (asin x − x) / x³ in x², |x| ≤ ½: 2⁻²⁷·⁶.
_ASIN = (0.042157013, 0.0241855029, 0.0454690196, 0.0749531016, 0.166667521)
# (atan x − x) / x³ in x², |x| ≤ 1: 2⁻²⁸·⁵.
_ATAN = (
    -0.00178757648,
    0.0108874794,
    -0.0311271884,
    0.0579066873,
    -0.0840048045,
    0.109511755,
    -0.142640516,
    0.19998531,
    -0.333332986,
)


def _reduce(a: Expr) -> tuple[Expr, Expr]:
    """(r, bits) with a ≡ r + n π/2, |r| ≤ π/4, bits ≡ n modulo 4, for 0 ≤ a ≤ 2³¹.

    Below 208341 no turns come off and r is good to one unit in its last place; above, to 2⁻²⁴ absolute.
    Beyond 2³¹, where neighbouring float32 are dozens of turns apart, `a` is taken as 0; ∞ gives NaN.
    """
    a = select(a <= _LARGEST, a, a * 0.0)
    turns, _ = nearest(a, 1.0 / _TURNS)
    rest = fma(turns, -_TURNS, a)
    n, bits = nearest(fma(turns, -_TURNS_REST, rest), 2.0 / np.pi)
    r = fma(turns, -_TURNS_REST, fma(n, -_HALF_PI[0], rest))
    r = fma(n, -_HALF_PI[2], fma(n, -_HALF_PI[1], r))
    return r, bits


def _sin_cos(r: Expr) -> tuple[Expr, Expr]:
    square = r * r
    sine = fma(square * r, poly(square, *_SIN), r)
    cosine = fma(square * square, poly(square, *_COS), fma(square, const(-0.5, Scalar.F32), 1.0))
    return sine, cosine


def _odd(bits: Expr) -> Expr:
    return (bits & 1) > 0


def sin(x: Expr) -> Expr:
    """Quadrants 1 and 3 take the cosine, 2 and 3 the other sign."""
    r, bits = _reduce(absolute(x))
    sine, cosine = _sin_cos(r)
    return flip_sign(select(_odd(bits), cosine, sine), ((bits & 2) << 30) ^ sign_of(x))


def cos(x: Expr) -> Expr:
    """sin(x + π/2)."""
    r, bits = _reduce(absolute(x))
    sine, cosine = _sin_cos(r)
    return flip_sign(select(_odd(bits), sine, cosine), ((bits + 1) & 2) << 30)


def tan(x: Expr) -> Expr:
    """sin / cos, or −cos / sin in odd quadrants."""
    r, bits = _reduce(absolute(x))
    sine, cosine = _sin_cos(r)
    odd = _odd(bits)
    quotient = select(odd, cosine, sine) / select(odd, sine, cosine)
    return flip_sign(quotient, (bits << 31) ^ sign_of(x))


def _asin_core(a: Expr) -> tuple[Expr, Expr]:
    """(big, r) with asin a = r, or π/2 − 2r where `big` (a > ½, by the half-angle formula)."""
    big = a > 0.5
    z = select(big, fma(a, -0.5, 0.5), a * a)
    s = select(big, sqrt(z), a)
    return big, fma(s * z, poly(z, *_ASIN), s)


def _half_pi_less(x: Expr, times: float) -> Expr:
    """π/2 − times × x."""
    return fma(x, -times, _HALF_PI[1]) + _HALF_PI[0]


def asin(x: Expr) -> Expr:
    """NaN beyond ±1 comes from the square root."""
    big, r = _asin_core(absolute(x))
    return flip_sign(select(big, _half_pi_less(r, 2.0), r), sign_of(x))


def acos(x: Expr) -> Expr:
    """π/2 − asin x, without its cancellation near 1."""
    big, r = _asin_core(absolute(x))
    # π − 2r = 2 × (π/2 − r).
    far = select(x < 0.0, _half_pi_less(r, 1.0) * 2.0, r + r)
    return select(big, far, _half_pi_less(flip_sign(r, sign_of(x)), 1.0))


def atan(x: Expr) -> Expr:
    """π/2 − atan(1/x) beyond 1; a second range would cost more selects than the polynomial saves."""
    a = absolute(x)
    big = a > 1.0
    t = select(big, 1.0 / a, a)
    square = t * t
    r = fma(square * t, poly(square, *_ATAN), t)
    return flip_sign(select(big, _half_pi_less(r, 1.0), r), sign_of(x))


_TURN_NOTE = "for |x| in 208341 … 2³¹ absolute error below 2⁻²²; beyond 2³¹ taken for 0"
_WHOLE = (-208341.0, 208341.0)

FUNCTIONS = (
    ScalarFn("sin", 1, np.sin, sin, ulp=1.6, domain=_WHOLE, note=_TURN_NOTE),
    ScalarFn("cos", 1, np.cos, cos, ulp=1.6, domain=_WHOLE, note=_TURN_NOTE),
    ScalarFn(
        "tan",
        1,
        np.tan,
        tan,
        ulp=3.7,
        domain=_WHOLE,
        note="for |x| in 208341 … 2³¹ absolute error below 2⁻²² × (1 + tan²); beyond 2³¹ taken for 0",
    ),
    ScalarFn("asin", 1, np.arcsin, asin, ulp=2.4),
    ScalarFn("acos", 1, np.arccos, acos, ulp=1.2),
    ScalarFn("atan", 1, np.arctan, atan, ulp=1.4),
)
