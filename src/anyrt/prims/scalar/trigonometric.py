"""sin, cos, tan and their inverses. `turns.py` reduces float64 by whole turns.

Odd functions are computed on |x| and get the sign bit of x at the end, which also keeps −0.
"""

from __future__ import annotations

import numpy as np

from anyrt.ir.buffer import BITS, Scalar
from anyrt.ir.kernel import Expr, Op, alu, const, fma, select
from anyrt.prims.scalar.exponential import sqrt
from anyrt.prims.scalar.table import (
    REALS,
    ScalarFn,
    absolute,
    by_type,
    fast_two_sum,
    flip_sign,
    nearest,
    poly,
    sign_of,
)
from anyrt.prims.scalar.turns import HALF_PI, angle

# π/2 as the sum of three float32.
_HALF_PI = (1.57079637050628662109375, -4.37113882867379083e-8, -1.71512451000588187e-15)
# 416682 falls short of 66317 turns of 2π by only 1.6e-5 (208341 / 66317 is a convergent of π), so one exact
# FMA subtracts whole turns from a big argument, with a small remainder: 5154 × 1.6e-5 for 2³¹.
_TURNS, _TURNS_REST = 416682.0, 1.62286360137e-05
# (sin r − r) / r³ and (cos r − 1 + r²/2) / r⁴ in r², |r| ≤ π/4: 2⁻²⁸ and 2⁻³³.
_SIN = (-0.000195078712, 0.00833210628, -0.166666538)
_COS = (2.44321072e-05, -0.00138873083, 0.0416666456)
# The same of float64: 2⁻⁵⁶ and 2⁻⁵⁸.
_SIN_DOUBLE = (
    -7.586543634101903e-13,
    1.6058529011960858e-10,
    -2.5052106215978872e-08,
    2.7557319219291695e-06,
    -0.00019841269841265003,
    0.008333333333333331,
    -0.16666666666666666,
)
_COS_DOUBLE = (
    4.7457865678652127e-14,
    -1.1470459438155826e-11,
    2.08767557819242e-09,
    -2.7557319221376434e-07,
    2.480158730158461e-05,
    -0.0013888888888888887,
    0.041666666666666664,
)
# (asin x − x) / x³ in x², |x| ≤ ½: 2⁻²⁷·⁶.
_ASIN = (0.042157013, 0.0241855029, 0.0454690196, 0.0749531016, 0.166667521)
# Of float64: 2⁻⁵⁵.
_ASIN_DOUBLE = (
    0.028757851367421566,
    -0.014851887071247204,
    0.01740087944269402,
    0.005457506718640358,
    0.01032281435018578,
    0.011479177415184906,
    0.013971212973552933,
    0.017352392720869973,
    0.02237217294214989,
    0.030381944138531247,
    0.04464285714635543,
    0.07499999999998433,
    0.16666666666666669,
)
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
# Of float64, |x| ≤ 0.66: 2⁻⁵⁵.
_ATAN_DOUBLE = (
    -0.0022319891352206526,
    0.009707111443534448,
    -0.021238750553036773,
    0.03243682581339053,
    -0.04078179705754501,
    0.0469055587314416,
    -0.052492302938732534,
    0.058803712056046245,
    -0.06666465331501162,
    0.07692293559129824,
    -0.09090908439563972,
    0.11111111092947706,
    -0.14285714285447954,
    0.19999999999998452,
    -0.3333333333333333,
)
# Between these an angle is π/4 + atan((x − 1) / (x + 1)), above π/2 − atan(1 / x) (Cephes, atan.c).
_EIGHTHS = (0.66, 2.414213562373095)
_TINY = 2.0**-900


def _reduce(a: Expr) -> tuple[Expr, Expr, Expr]:
    """(sin r, cos r, bits) with a ≡ r + n π/2, |r| ≤ π/4, bits ≡ n modulo 4, for a ≥ 0."""
    if a.type is Scalar.F64:
        *r, bits = angle(a)
        return *_sin_cos_double(*r), bits
    single, bits = _reduced(a)
    return *_sin_cos(single), bits


def _reduced(a: Expr) -> tuple[Expr, Expr]:
    """(r, bits) with a ≡ r + n π/2, |r| ≤ π/4, bits ≡ n modulo 4, for a ≥ 0; NaN of ∞.

    Below 208341 no turns are subtracted and r is accurate to one unit in its last place; above, to 2⁻²⁴
    absolute, and beyond 2³¹ to 2⁻²³.
    """
    a = alu(Op.ANGLE, a)
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


def tan_double(x: Expr) -> Expr:
    """The same with the rounding errors of both, and of the quotient."""
    *r, bits = angle(absolute(x))
    sine, cosine = _sin_cos_pairs(*r)
    odd = _odd(bits)
    a, a_lost, b, b_lost = (
        select(odd, p, q) for p, q in zip((*cosine, *sine), (*sine, *cosine), strict=True)
    )
    quotient = a / b
    rest = fma(-quotient, b, a) + fma(-quotient, b_lost, a_lost)
    # There is no correction for 0, for the smallest numbers, and for NaN.
    value = select(absolute(a) > _TINY, quotient + rest / b, quotient)
    return flip_sign(value, (bits << BITS[bits.type] - 1) ^ sign_of(x))


def _sin_cos_double(r: Expr, below: Expr) -> tuple[Expr, Expr]:
    sine, cosine = _sin_cos_pairs(r, below)
    return sine[0], cosine[0]


def _sin_cos_pairs(r: Expr, below: Expr) -> tuple[tuple[Expr, Expr], tuple[Expr, Expr]]:
    """Of r + below (fdlibm, k_sin.c and k_cos.c), as sums of two."""
    square = r * r
    half = square * 0.5
    whole, cube = 1.0 - half, square * r
    tail = poly(square, *_SIN_DOUBLE[:-1])
    sine = fma(square, fma(cube, tail, below * -0.5), below)
    sine = fma(cube, const(_SIN_DOUBLE[-1], r.type), sine)
    rest = fma(square, square * poly(square, *_COS_DOUBLE), -(r * below))
    return fast_two_sum(r, sine), fast_two_sum(whole, ((1.0 - whole) - half) + rest)


def _odd(bits: Expr) -> Expr:
    return (bits & 1) > 0


def _second(bits: Expr) -> Expr:
    """The second bit as a sign."""
    return (bits & 2) << BITS[bits.type] - 2


def sin(x: Expr) -> Expr:
    """Quadrants 1 and 3 take the cosine, 2 and 3 the other sign."""
    sine, cosine, bits = _reduce(absolute(x))
    return flip_sign(select(_odd(bits), cosine, sine), _second(bits) ^ sign_of(x))


def cos(x: Expr) -> Expr:
    """sin(x + π/2)."""
    sine, cosine, bits = _reduce(absolute(x))
    return flip_sign(select(_odd(bits), sine, cosine), _second(bits + 1))


def tan(x: Expr) -> Expr:
    """sin / cos, or −cos / sin in odd quadrants."""
    sine, cosine, bits = _reduce(absolute(x))
    odd = _odd(bits)
    quotient = select(odd, cosine, sine) / select(odd, sine, cosine)
    return flip_sign(quotient, (bits << BITS[bits.type] - 1) ^ sign_of(x))


def asin_double(x: Expr) -> Expr:
    """π/2 less the half-angle formula, with the rounding errors of its root and of π/2."""
    a = absolute(x)
    big, s, tail = _asin_parts(a)
    far = HALF_PI[0] - ((s + s) - fma(tail, -2.0, HALF_PI[1]))
    return flip_sign(select(big, far, s + tail), sign_of(x))


def acos_double(x: Expr) -> Expr:
    """π/2 − asin x, and twice the angle of the root near 1; π − that near −1."""
    big, s, tail = _asin_parts(absolute(x))
    low = fma(tail, -2.0, 2.0 * HALF_PI[1])
    near = select(x < 0.0, 2.0 * HALF_PI[0] - ((s + s) - low), (s + tail) * 2.0)
    signed, part = (flip_sign(v, sign_of(x)) for v in (s, tail))
    total, lost = fast_two_sum(const(HALF_PI[0], x.type), -signed)
    return select(big, near, total + (lost + (HALF_PI[1] - part)))


def _asin_parts(a: Expr) -> tuple[Expr, Expr, Expr]:
    """(big, s, tail) with asin a = s + tail, or π/2 − 2 (s + tail) where `big`; NaN beyond 1."""
    big = a > 0.5
    half = fma(a, -0.5, 0.5)  # exact in the relevant range
    root = sqrt(half)
    lost = select(root > 0.0, fma(-root, root, half) / (root + root), half)
    z, s = select(big, half, a * a), select(big, root, a)
    return big, s, fma(s * z, poly(z, *_ASIN_DOUBLE), select(big, lost, 0.0))


def atan_double(x: Expr) -> Expr:
    """An eighth or a quarter of a turn, and the remainder."""
    a, (low, high) = absolute(x), _EIGHTHS
    middle, far, one = a > low, a > high, const(1.0, x.type)
    top = select(far, -one, select(middle, a - 1.0, a))
    t = top / select(far, a, select(middle, a + 1.0, one))
    square, zero = t * t, const(0.0, x.type)
    part, rest = (select(far, p, select(middle, 0.5 * p, zero)) for p in HALF_PI)
    angle = part + (t + fma(square * t, poly(square, *_ATAN_DOUBLE), rest))
    return flip_sign(angle, sign_of(x))


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


_TURN_NOTE = "of float32 beyond 208341 absolute error below 2⁻²²"
_WHOLE = (-208341.0, 208341.0)

FUNCTIONS = (
    ScalarFn("sin", 1, np.sin, sin, REALS, ulp=1.6, double_ulp=0.8, domain=_WHOLE, note=_TURN_NOTE),
    ScalarFn("cos", 1, np.cos, cos, REALS, ulp=1.6, double_ulp=0.8, domain=_WHOLE, note=_TURN_NOTE),
    ScalarFn(
        "tan",
        1,
        np.tan,
        by_type(tan, tan_double),
        REALS,
        ulp=3.7,
        double_ulp=1.0,
        domain=_WHOLE,
        note="of float32 beyond 208341 absolute error below 2⁻²² × (1 + tan²)",
    ),
    ScalarFn("asin", 1, np.arcsin, by_type(asin, asin_double), REALS, ulp=2.4, double_ulp=1.2),
    ScalarFn("acos", 1, np.arccos, by_type(acos, acos_double), REALS, ulp=1.2, double_ulp=0.8),
    ScalarFn("atan", 1, np.arctan, by_type(atan, atan_double), REALS, ulp=1.4, double_ulp=0.9),
)
