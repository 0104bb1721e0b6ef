"""sinh, cosh, tanh and their inverses."""

from __future__ import annotations

import math

import numpy as np

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Expr, const, fma, select
from anyrt.prims.scalar.exponential import ENDS, LN2, exp_normal, exp_reduced, ldexp, log1p, sqrt
from anyrt.prims.scalar.table import (
    REALS,
    ScalarFn,
    absolute,
    at_most,
    by_type,
    fast_two_sum,
    flip_sign,
    poly,
    sign_of,
    two_sum,
)

# (sinh x − x) / x³ in x², |x| ≤ 1: 2⁻³¹·⁶, and 2⁻⁵⁶.
_SINH = {
    Scalar.F32: (2.78221319e-06, 0.000198428956, 0.00833331048, 0.166666672),
    Scalar.F64: (
        2.8445264169895285e-15,
        7.646625361656657e-13,
        1.6059048396350562e-10,
        2.505210836405804e-08,
        2.755731922404034e-06,
        0.00019841269841269773,
        0.008333333333333333,
        0.16666666666666666,
    ),
}
# (tanh x − x) / x³ in x², |x| ≤ 0.6: 2⁻²⁸·⁴, and 2⁻⁵³.
_TANH = {
    Scalar.F32: (-0.00589796668, 0.0207986254, -0.0537847169, 0.133319363, -0.333332986),
    Scalar.F64: (
        -1.833596211003942e-05,
        8.154737806525365e-05,
        -0.0002322510406793851,
        0.0005880541548418729,
        -0.001455464802800745,
        0.0035920831663434575,
        -0.008863232113541474,
        0.02186948838378093,
        -0.05396825396475762,
        0.13333333333330197,
        -0.33333333333333326,
    ),
}
_ONE_FROM = {Scalar.F32: 9.1, Scalar.F64: 19.1}  # where tanh is 1
# Beyond this, √(x² ± 1) is x, and squares would overflow later.
_HUGE = {Scalar.F32: 2.0**30, Scalar.F64: 2.0**60}


def _half_exp(a: Expr) -> Expr:
    """eᵃ / 2 for a ≥ 0, infinite only where that is."""
    p, n, _ = exp_reduced(at_most(a, ENDS[a.type][1] + 1.0))
    return ldexp(p, n - 1.0)


def sinh(x: Expr) -> Expr:
    """A polynomial below 1, (eᵃ − e⁻ᵃ) / 2 above."""
    a = absolute(x)
    square = a * a
    small = fma(square * a, poly(square, *_SINH[a.type]), a)
    half = _half_exp(a)
    return flip_sign(select(a < 1.0, small, half - 0.25 / half), sign_of(x))


def cosh(x: Expr) -> Expr:
    """(eᵃ + e⁻ᵃ) / 2."""
    half = _half_exp(absolute(x))
    return half + 0.25 / half


def tanh(x: Expr) -> Expr:
    """A polynomial below 0.6, 1 − 2 / (e²ᵃ + 1) above; 1 from 9.1 (or 19.1) on."""
    a = at_most(absolute(x), _ONE_FROM[x.type])
    square = a * a
    small = fma(square * a, poly(square, *_TANH[a.type]), a)
    large = 1.0 - 2.0 / (exp_normal(a + a) + 1.0)
    return flip_sign(select(a >= 0.6, large, small), sign_of(x))


def asinh(x: Expr) -> Expr:
    """log1p(a + a² / (1 + √(1 + a²)))."""
    a = absolute(x)
    huge = a > _HUGE[a.type]
    square = a * a
    argument = select(huge, a, a + square / (sqrt(square + 1.0) + 1.0))
    value = log1p(argument)
    return flip_sign(select(huge, value + LN2[a.type], value), sign_of(x))


def acosh(x: Expr) -> Expr:
    """log1p(t + √(t² + 2t)) with t = x − 1."""
    t = x - 1.0
    huge = x > _HUGE[x.type]
    value = log1p(select(huge, t, t + sqrt(fma(t, t, t + t))))
    return select(x < 1.0, math.nan, select(huge, value + LN2[x.type], value))


def acosh_double(x: Expr) -> Expr:
    """The same with the rounding errors of the square, its root and the sum."""
    t, huge = x - 1.0, x > _HUGE[x.type]
    square = fma(t, t, t + t)
    lost = fma(t, t, (t + t) - square)
    root = sqrt(square)
    rest = select(root > 0.0, (fma(-root, root, square) + lost) / (root + root), 0.0)
    total, below = two_sum(t, root)
    value = log1p(select(huge, t, total), select(huge, 0.0, below + rest))
    return select(x < 1.0, math.nan, select(huge, value + LN2[x.type], value))


def atanh(x: Expr) -> Expr:
    """½ log1p(2a / (1 − a))."""
    a = absolute(x)
    return flip_sign(log1p((a + a) / (1.0 - a)) * 0.5, sign_of(x))


def atanh_double(x: Expr) -> Expr:
    """The same with the rounding errors of the difference and the quotient."""
    a = absolute(x)
    whole, lost = fast_two_sum(const(1.0, a.type), -a)
    quotient = (a + a) / whole
    rest = fma(-quotient, whole, a + a) - quotient * lost
    below = select((a < 1.0) & (a > 0.0), rest / whole, 0.0)
    return flip_sign(log1p(quotient, below) * 0.5, sign_of(x))


FUNCTIONS = (
    ScalarFn("sinh", 1, np.sinh, sinh, REALS, ulp=1.7, double_ulp=1.7),
    ScalarFn("cosh", 1, np.cosh, cosh, REALS, ulp=1.4, double_ulp=1.4),
    ScalarFn("tanh", 1, np.tanh, tanh, REALS, ulp=1.4, double_ulp=1.5),
    ScalarFn("asinh", 1, np.arcsinh, asinh, REALS, ulp=1.8, double_ulp=1.8),
    ScalarFn("acosh", 1, np.arccosh, by_type(acosh, acosh_double), REALS, ulp=2.0, double_ulp=1.0),
    ScalarFn("atanh", 1, np.arctanh, by_type(atanh, atanh_double), REALS, ulp=2.1, double_ulp=1.0),
)
