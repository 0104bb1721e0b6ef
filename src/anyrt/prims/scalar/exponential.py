"""exp, log and related functions.

Polynomials were fitted by weighted least squares, reweighted towards the smallest maximum (Lawson), each
coefficient rounded to float32 before the next was fitted; the comment beside each states its relative error.
Those of float64 interpolate at Chebyshev's points, computed with 400 bits; the parts of ln 2 and the sum for
log are as in fdlibm (e_exp.c, e_log.c, Sun Microsystems 1993).
"""

from __future__ import annotations

import math

import numpy as np

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Expr, Op, alu, bitcast, const, fma, select
from anyrt.prims.scalar.table import (
    REALS,
    ScalarFn,
    absolute,
    at_least,
    at_most,
    bits_of,
    equal,
    fast_two_sum,
    nearest,
    number,
    pattern,
    poly,
    power_of_two,
)

LOG2_E = 1.44269504088896341
# ln 2 as a number, and as the sum of two; n × the first of these is subtracted exactly by an FMA.
LN2 = {Scalar.F32: 0.693147182464599609375, Scalar.F64: math.log(2)}
LN2_PAIR = {
    Scalar.F32: (LN2[Scalar.F32], -1.90465421212593358e-9),
    Scalar.F64: (0.6931471803691238, 1.9082149292705877e-10),
}
# (eʳ − 1 − r) / r² on |r| ≤ ln 2 / 2: 2⁻²⁶ of eʳ − 1. Of the neighbours of the best those for which
# the error of eʳ as it is computed, with that of r, is least: 0.897 ulp. Of float64: 2⁻⁵⁸.
EXP = {
    Scalar.F32: (0.00138375768, 0.00836796127, 0.0416675992, 0.166665316, 0.5),
    Scalar.F64: (
        2.0914898727175524e-09,
        2.5105513541847086e-08,
        2.755727313289604e-07,
        2.7557254685728803e-06,
        2.480158732595111e-05,
        0.0001984126987538548,
        0.0013888888888883633,
        0.008333333333325973,
        0.04166666666666667,
        0.1666666666666667,
        0.5,
    ),
}
# Below the first eˣ is 0 for certain, from the second on infinite.
ENDS = {Scalar.F32: (-104.0, 89.0), Scalar.F64: (-746.0, 710.0)}
NONE_LEFT = {Scalar.F32: -20.0, Scalar.F64: -40.0}  # below which eˣ − 1 is −1
# (log(1 + f) − f + f²/2) / f³ on √½ − 1 … √2 − 1: 2⁻³⁰ of the logarithm.
_LOG = (
    0.0674955621,
    -0.116701923,
    0.118834704,
    -0.124062076,
    0.142203629,
    -0.166679904,
    0.200020716,
    -0.250000089,
    0.333333135,
)
# (log(1 + f) − 2s) / s³ in s², s = f / (2 + f): 2⁻⁵⁴.
_LOG_DOUBLE = (
    0.13086642567884754,
    0.1326877156854111,
    0.15386239761443157,
    0.1818179563905501,
    0.22222222391724006,
    0.2857142857080357,
    0.4000000000000088,
    0.6666666666666666,
)
SQRT_HALF_BITS = {Scalar.F32: 0x3F3504F3, Scalar.F64: 0x3FE6A09E667F3BCD}


def exp_reduced(x: Expr) -> tuple[Expr, Expr, Expr]:
    """(p, n, bits) with eˣ = p × 2ⁿ, p in 0.7 … 1.42 and bits ≡ n modulo 2⁹ or 2¹², for |x| < 10⁵."""
    n, bits = nearest(x, LOG2_E)
    return poly(without(x, n), *EXP[x.type], 1.0, 1.0), n, bits


def without(x: Expr, n: Expr) -> Expr:
    """x − n ln 2; the first of the products is exact."""
    high, low = LN2_PAIR[x.type]
    return fma(n, -low, fma(n, -high, x))


def ldexp(p: Expr, n: Expr) -> Expr:
    """p × 2ⁿ for p around 1 and whole n in −252 … 254, of float64 in −2044 … 2046, rounded once."""
    return alu(Op.LDEXP, p, n)


def exp(x: Expr) -> Expr:
    """eˣ; the limits are where the result is 0 or infinite for certain. Denormal results take a processor
    20 times as long, so a result that is certainly 0, such as that of a masked score, is computed without
    them."""
    low, high = ENDS[x.type]
    none = x < low
    p, n, _ = exp_reduced(at_most(select(none, 0.0, x), high))
    return select(none, 0.0, ldexp(p, n))


def exp_normal(x: Expr) -> Expr:
    """eˣ for |x| ≤ 87, of float64 708, where it is a normal number, so that n is added to the exponent;
    undefined for NaN."""
    p, _, bits = exp_reduced(x)
    return bitcast(bits_of(p) + (bits << pattern(x).fraction), x.type)


def expm1(x: Expr) -> Expr:
    """2 × (s·r + s·r²·q + s − ½) with s = 2ⁿ⁻¹, finite where 2ⁿ is not; the sum carries its rounding."""
    limited = at_least(at_most(x, ENDS[x.type][1]), NONE_LEFT[x.type])
    n, bits = nearest(limited, LOG2_E)
    r = without(limited, n)
    s = power_of_two(bits - 1)
    head = fma(s, r, s - 0.5)
    tail = fma(s, r, (s - 0.5) - head)
    value = head + fma(s, r * r * poly(r, *EXP[x.type]), tail)
    # Halving lost the last bit of subnormals, and −0.
    return select(absolute(x) < 2.0 ** (-pattern(x).fraction - 2), x, value + value)


def split(x: Expr, lowest_bits: int) -> tuple[Expr, Expr]:
    """(k, m) with x = m × 2ᵏ, m from the float of these bits to its double; x normal and positive."""
    bits, fraction = bits_of(x), pattern(x).fraction
    k = (bits - lowest_bits) >> fraction
    return k, bitcast(bits - (k << fraction), x.type)


def normal_split(x: Expr, lowest_bits: int) -> tuple[Expr, Expr]:
    """The same of any positive number; subnormals are scaled by 2²³ (or 2⁵²) first."""
    p = pattern(x)
    tiny = x < p.least
    k, m = split(select(tiny, x * 2.0**p.fraction, x), lowest_bits)
    return k - select(tiny, const(p.fraction, p.whole), 0), m


def log_sum(k: Expr, f: Expr, lost: Expr | None = None) -> Expr:
    """k ln 2 + log(1 + f + lost), k as an integer."""
    if f.type is Scalar.F64:
        return _log_sum_double(number(k), f, lost)
    whole = f if lost is None else f + lost
    square = whole * whole
    tail = fma(square, const(-0.5, Scalar.F32), square * whole * poly(whole, *_LOG))
    n, (high, low) = number(k), LN2_PAIR[f.type]
    tail = fma(n, low, tail if lost is None else tail + lost)
    return fma(n, high, tail + f)


def _log_sum_double(n: Expr, f: Expr, lost: Expr | None) -> Expr:
    """f − f²/2 + s × (f²/2 + s² × …), as the series in f has too many terms."""
    whole = f if lost is None else f + lost
    s, half = whole / (whole + 2.0), whole * whole * 0.5
    high, low = LN2_PAIR[f.type]
    rest = n * low if lost is None else fma(n, low, lost)
    tail = fma(s, fma(s * s, poly(s * s, *_LOG_DOUBLE), half), rest) - half
    total, rounded = fast_two_sum(n * high, f)  # the product is exact
    return total + (rounded + tail)


def log_edges(x: Expr, value: Expr) -> Expr:
    """`value`, with the special results of log for x that is 0, negative, infinite or NaN."""
    edge = select(equal(x, 0.0), -math.inf, select(x < 0.0, math.nan, x))
    return select((x > 0.0) & (x < math.inf), value, edge)


def log(x: Expr) -> Expr:
    """k ln 2 + log m."""
    k, m = normal_split(x, SQRT_HALF_BITS[x.type])
    return log_edges(x, log_sum(k, m - 1.0))


def log1p(x: Expr, below: Expr | None = None) -> Expr:
    """log of u = 1 + x + below, with what the sum lost (two-sum, exact) put back into the fraction."""
    p = pattern(x)
    u = x + 1.0
    back = u - 1.0
    lost = (1.0 - (u - back)) + (x - back)
    lost = lost if below is None else lost + below
    k, m = split(u, SQRT_HALF_BITS[x.type])
    # Beyond 2¹²⁶ (or 2¹⁰²²) the lost part is far below half a unit, whatever it is scaled with.
    scaled = lost * power_of_two(-alu(Op.MIN, k, const(p.bias - 1, p.whole)))
    value = log_edges(u, log_sum(k, m - 1.0, scaled))
    return select(equal(x, 0.0), x, value)


def sqrt(x: Expr) -> Expr:
    """√x."""
    return alu(Op.SQRT, x)


FUNCTIONS = (
    ScalarFn("exp", 1, np.exp, exp, REALS, ulp=0.9, double_ulp=0.9),
    ScalarFn("expm1", 1, np.expm1, expm1, REALS, ulp=1.3, double_ulp=1.5),
    ScalarFn("log", 1, np.log, log, REALS, ulp=0.9, double_ulp=0.9),
    ScalarFn("log1p", 1, np.log1p, log1p, REALS, ulp=1.0, double_ulp=0.9),
    ScalarFn("sqrt", 1, np.sqrt, sqrt, REALS, ulp=0.5),
    ScalarFn("rsqrt", 1, lambda x: 1.0 / np.sqrt(x), lambda x: 1.0 / sqrt(x), REALS, ulp=1.5),
    ScalarFn("recip", 1, lambda x: 1.0 / x, lambda x: 1.0 / x, REALS, ulp=0.5),
)
