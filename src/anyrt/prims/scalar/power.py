"""xʸ = 2^(y · log2 |x|), with the logarithm and the product carried as sums of two float32.

log2 needs about 33 bits, because y · log2 |x| reaches 128 and its absolute error is the relative error of
the result. Mantissas far from 1 are multiplied by 13/16 or 5/4, exactly, so that the argument of the series
stays below 0.141 and its cubic part, which is rounded to float32, below 0.5 % of the logarithm; the atanh
series would do the same with a division, which costs more.

A small constant exponent needs less: it does not magnify the error of the logarithm's fraction, so only its
linear part and the product with the exponent are carried as sums. `power_double.py` describes float64.
"""

from __future__ import annotations

import math

import numpy as np

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Const, Expr, Op, alu, const, fma, select
from anyrt.prims.scalar.exponential import SQRT_HALF_BITS, ldexp, normal_split
from anyrt.prims.scalar.power_double import positive_power
from anyrt.prims.scalar.table import (
    REALS,
    ScalarFn,
    absolute,
    at_least,
    at_most,
    by_type,
    equal,
    flip_sign,
    nearest,
    number,
    poly,
    sign_of,
)

# 2 × (log(1 + f) − f + f²/2) / f³ on −0.141 … 0.117: 2⁻³⁶ of the logarithm.
_CUBIC = (0.233031467, -0.254991412, 0.285825342, -0.33329761, 0.399995744, -0.50000006, 0.666666687)
# (2ʳ − 1) / r on |r| ≤ ½: 2⁻²⁸.
_EXP2 = (0.0001532717, 0.0013391024, 0.0096185049, 0.0555035956, 0.240226477, 0.693147182)
# (log2(1 + f) − f · log2 e) / f² on √½ − 1 … √2 − 1: 2⁻²⁹, absolute.
_LOG2 = (
    -0.109741457,
    0.188470244,
    -0.192401007,
    0.204278782,
    -0.23938477,
    0.288579553,
    -0.36070925,
    0.480898142,
    -0.721347153,
)
SMALL = 3.0  # up to here, exponents do not magnify the error of the logarithm by much
LEAST_EXPONENT = 149.0  # of a subnormal float32
MOST_SCALE = 254.0  # the range of `scale`
_LOG2_E = (1.44269502162933350, 1.92596303350e-8)
# Mantissas are taken from 11/16 … 11/8, and folded towards 1 where they lie outside 0.888 … 1.105.
_LOWEST_BITS = 0x3F300000
_HIGH, _LOW = 13 / 16, 5 / 4
# −log2 of the two factors, each as a part of 14 bits (exact when added to the exponent) and the rest.
_LOG_HIGH = (0.299560546875, -2.65016097996e-7)
_LOG_LOW = (-0.3218994140625, -2.86808244709e-5)


def _log_pair(f: Expr) -> tuple[Expr, Expr]:
    """log2(1 + f) as a normalised sum of two."""
    half = f * 0.5
    square = half * f
    linear = f - square
    lost = ((f - linear) - square) - fma(half, f, -square)
    cubic = fma(f * square, poly(f, *_CUBIC), lost)
    head = linear + cubic
    rest = (linear - head) + cubic
    product = head * _LOG2_E[0]
    error = fma(head, _LOG2_E[0], -product)
    return product, fma(rest, _LOG2_E[0], fma(head, _LOG2_E[1], error))


def _log2_pair(x: Expr) -> tuple[Expr, Expr]:
    """log2 x for finite x > 0 as a sum of two, the second below 2⁻²² of the first."""
    k, m = normal_split(x, _LOWEST_BITS)
    high, low = m > 1.105, m < 0.888
    one, zero = const(1.0, Scalar.F32), const(0.0, Scalar.F32)
    factor = select(high, _HIGH, select(low, _LOW, one))
    head, rest = _log_pair(fma(m, factor, -1.0))
    whole = number(k) + select(high, _LOG_HIGH[0], select(low, _LOG_LOW[0], zero))
    total = whole + head
    rest = rest + select(high, _LOG_HIGH[1], select(low, _LOG_LOW[1], zero)) + ((whole - total) + head)
    return total, rest


def _positive_power(a: Expr, y: Expr) -> Expr:
    """aʸ for a ≥ 0 and y ≠ 0."""
    head, rest = _log2_pair(a)
    head = select(equal(a, 0.0), -math.inf, select(a < math.inf, head, a))
    # ∞ times log2 1 = 0 would be NaN; the largest finite exponent gives the same results.
    y = at_least(at_most(y, 3e38), -3e38)
    product = y * head
    error = fma(y, rest, fma(y, head, -product))
    error = select(absolute(product) < 160.0, error, 0.0)
    product = at_least(at_most(product, 160.0), -160.0)
    n, _ = nearest(product, 1.0)
    r = (product - n) + error
    return ldexp(poly(r, *_EXP2, 1.0), n)


def _small_power(a: Expr, y: float) -> Expr:
    """aʸ for a ≥ 0 and 0 < |y| ≤ 3."""
    k, m = normal_split(a, SQRT_HALF_BITS[a.type])
    exponent, f = number(k), m - 1.0
    head = f * _LOG2_E[0]
    tail = fma(f * f, poly(f, *_LOG2), fma(f, _LOG2_E[1], fma(f, _LOG2_E[0], -head)))
    whole, part = exponent * y, head * y
    rest = fma(tail, y, fma(head, y, -part)) + fma(exponent, y, -whole)
    total = whole + (part + rest)
    extreme = LEAST_EXPONENT * abs(y) > MOST_SCALE
    n, _ = nearest(at_least(at_most(total, MOST_SCALE), -MOST_SCALE) if extreme else total, 1.0)
    r = ((whole - n) + part) + rest
    if extreme:
        r = select(absolute(total) < MOST_SCALE, r, 0.0)
    value = ldexp(poly(r, *_EXP2, 1.0), n)
    if y > 0:
        return select(equal(a, 0.0), 0.0, select(a < math.inf, value, a))
    return select(
        equal(a, 0.0), math.inf, select(equal(a, math.inf), 0.0, select(alu(Op.NE, a, a), a, value))
    )


def _known_power(x: Expr, y: float) -> Expr:
    """xʸ for an exponent that is known."""
    value = _small_power(absolute(x), y)
    if y % 2 == 1:
        return flip_sign(value, sign_of(x))
    if y % 1 == 0:
        return value
    return select((x < 0.0) & (x > -math.inf), math.nan, value)


def power(x: Expr, y: Expr) -> Expr:
    """All special cases of IEEE 754-2019, section 9.2.1 (pow)."""
    if isinstance(y, Const) and 0.0 < abs(y.value) <= SMALL and y.type is Scalar.F32:
        return _known_power(x, float(y.value))
    value = by_type(_positive_power, positive_power)(absolute(x), y)
    whole = equal(alu(Op.FLOOR, y), y)
    half = y * 0.5
    odd = whole & alu(Op.NE, alu(Op.FLOOR, half), half)
    value = flip_sign(value, select(odd, sign_of(x), 0))
    undefined = (x < 0.0) & (x > -math.inf) & alu(Op.NOT, whole)
    value = select(undefined, math.nan, value)
    return select(equal(y, 0.0) | equal(x, 1.0), 1.0, value)


FUNCTIONS = (ScalarFn("pow", 2, np.float_power, power, REALS, ulp=1.5, double_ulp=1.7),)
