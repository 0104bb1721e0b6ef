"""sinh, cosh, tanh and their inverses."""

from __future__ import annotations

import math

import numpy as np

from anyrt.ir.kernel import Expr, fma, select
from anyrt.prims.scalar.exponential import LN2_HI, exp_normal, exp_reduced, ldexp, log1p, sqrt
from anyrt.prims.scalar.table import ScalarFn, absolute, at_most, flip_sign, poly, sign_of

# (sinh x − x) / x³ in x², |x| ≤ 1: 2⁻³¹·⁶.
_SINH = (2.78221319e-06, 0.000198428956, 0.00833331048, 0.166666672)
# (tanh x − x) / x³ in x², |x| ≤ 0.6: 2⁻²⁸·⁴.
_TANH = (-0.00589796668, 0.0207986254, -0.0537847169, 0.133319363, -0.333332986)
# Beyond this, √(x² ± 1) is x, and squares would overflow later on.
_HUGE = 2.0**30


def _half_exp(a: Expr) -> Expr:
    """eᵃ / 2 for a ≥ 0, infinite only where that is."""
    p, n, _ = exp_reduced(at_most(a, 90.0))
    return ldexp(p, n - 1.0)


def sinh(x: Expr) -> Expr:
    """A polynomial below 1, (eᵃ − e⁻ᵃ) / 2 above."""
    a = absolute(x)
    square = a * a
    small = fma(square * a, poly(square, *_SINH), a)
    half = _half_exp(a)
    return flip_sign(select(a < 1.0, small, half - 0.25 / half), sign_of(x))


def cosh(x: Expr) -> Expr:
    """(eᵃ + e⁻ᵃ) / 2."""
    half = _half_exp(absolute(x))
    return half + 0.25 / half


def tanh(x: Expr) -> Expr:
    """A polynomial below 0.6, 1 − 2 / (e²ᵃ + 1) above; 1 from 9.1 on."""
    a = at_most(absolute(x), 9.1)
    square = a * a
    small = fma(square * a, poly(square, *_TANH), a)
    large = 1.0 - 2.0 / (exp_normal(a + a) + 1.0)
    return flip_sign(select(a >= 0.6, large, small), sign_of(x))


def asinh(x: Expr) -> Expr:
    """log1p(a + a² / (1 + √(1 + a²)))."""
    a = absolute(x)
    huge = a > _HUGE
    square = a * a
    argument = select(huge, a, a + square / (sqrt(square + 1.0) + 1.0))
    value = log1p(argument)
    return flip_sign(select(huge, value + LN2_HI, value), sign_of(x))


def acosh(x: Expr) -> Expr:
    """log1p(t + √(t² + 2t)) with t = x − 1."""
    t = x - 1.0
    huge = x > _HUGE
    value = log1p(select(huge, t, t + sqrt(fma(t, t, t + t))))
    return select(x < 1.0, math.nan, select(huge, value + LN2_HI, value))


def atanh(x: Expr) -> Expr:
    """½ log1p(2a / (1 − a))."""
    a = absolute(x)
    return flip_sign(log1p((a + a) / (1.0 - a)) * 0.5, sign_of(x))


FUNCTIONS = (
    ScalarFn("sinh", 1, np.sinh, sinh, ulp=1.7),
    ScalarFn("cosh", 1, np.cosh, cosh, ulp=1.4),
    ScalarFn("tanh", 1, np.tanh, tanh, ulp=1.4),
    ScalarFn("asinh", 1, np.arcsinh, asinh, ulp=1.8),
    ScalarFn("acosh", 1, np.arccosh, acosh, ulp=2.0),
    ScalarFn("atanh", 1, np.arctanh, atanh, ulp=2.1),
)
