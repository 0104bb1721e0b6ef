"""exp, log and their neighbours.

Polynomials were fitted by weighted least squares, reweighted towards the smallest maximum (Lawson), each
coefficient rounded to float32 before the next was fitted; the comment beside each gives its relative error.
"""

from __future__ import annotations

import math

import numpy as np

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Expr, Op, alu, bitcast, cast, const, fma, select
from anyrt.prims.scalar.table import (
    REALS,
    ScalarFn,
    absolute,
    at_least,
    at_most,
    bits_of,
    equal,
    nearest,
    poly,
    power_of_two,
)

LOG2_E = 1.44269504088896341
# ln 2 as the sum of two float32; n × LN2_HI is subtracted exactly by an FMA.
LN2_HI, LN2_LO = 0.693147182464599609375, -1.90465421212593358e-9
# (eʳ − 1 − r) / r² on |r| ≤ ln 2 / 2: 2⁻²⁶ of eʳ − 1. Of the neighbours of the best those for which
# the error of eʳ as it is computed, with that of r, is least: 0.897 ulp.
EXP = (0.00138375768, 0.00836796127, 0.0416675992, 0.166665316, 0.5)
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
SQRT_HALF_BITS = 0x3F3504F3


def exp_reduced(x: Expr) -> tuple[Expr, Expr, Expr]:
    """(p, n, bits) with eˣ = p × 2ⁿ, p in 0.7 … 1.42 and bits ≡ n modulo 2⁹, for |x| < 10⁵."""
    n, bits = nearest(x, LOG2_E)
    # The first is exact.
    r = fma(n, -LN2_LO, fma(n, -LN2_HI, x))
    return poly(r, *EXP, 1.0, 1.0), n, bits


def ldexp(p: Expr, n: Expr) -> Expr:
    """p × 2ⁿ for p around 1 and whole n in −252 … 254, rounded once."""
    return alu(Op.LDEXP, p, n)


def exp(x: Expr) -> Expr:
    """eˣ; the limits are where the result is 0 or infinite for certain. What is no normal number takes a
    processor 20 times as long, so what is 0 for certain, as what a mask hides, is none of them."""
    none = x < -104.0
    p, n, _ = exp_reduced(at_most(select(none, 0.0, x), 89.0))
    return select(none, 0.0, ldexp(p, n))


def exp_normal(x: Expr) -> Expr:
    """eˣ for |x| ≤ 87, where it is a normal number, so that n is added to the exponent; anything of NaN."""
    p, _, bits = exp_reduced(x)
    return bitcast(bits_of(p) + (bits << 23), Scalar.F32)


def expm1(x: Expr) -> Expr:
    """2 × (s·r + s·r²·q + s − ½) with s = 2ⁿ⁻¹, finite where 2ⁿ is not; the sum carries its rounding."""
    limited = at_least(at_most(x, 89.0), -20.0)
    n, bits = nearest(limited, LOG2_E)
    r = fma(n, -LN2_LO, fma(n, -LN2_HI, limited))
    s = power_of_two(bits - 1)
    head = fma(s, r, s - 0.5)
    tail = fma(s, r, (s - 0.5) - head)
    value = head + fma(s, r * r * poly(r, *EXP), tail)
    # Halving lost the last bit of subnormals, and −0.
    return select(absolute(x) < 2.0**-25, x, value + value)


def split(x: Expr, lowest_bits: int) -> tuple[Expr, Expr]:
    """(k, m) with x = m × 2ᵏ, m from the float32 of these bits to its double; x normal and positive."""
    bits = bits_of(x)
    k = (bits - lowest_bits) >> 23
    return k, bitcast(bits - (k << 23), Scalar.F32)


def log_sum(k: Expr, f: Expr, lost: Expr | None = None) -> Expr:
    """k ln 2 + log(1 + f + lost), k as int32."""
    whole = f if lost is None else f + lost
    square = whole * whole
    tail = fma(square, const(-0.5, Scalar.F32), square * whole * poly(whole, *_LOG))
    n = cast(k, Scalar.F32)
    tail = fma(n, LN2_LO, tail if lost is None else tail + lost)
    return fma(n, LN2_HI, tail + f)


def log_edges(x: Expr, value: Expr) -> Expr:
    """`value`, but log's own answers where x is 0, negative, infinite or NaN."""
    edge = select(equal(x, 0.0), -math.inf, select(x < 0.0, math.nan, x))
    return select((x > 0.0) & (x < math.inf), value, edge)


def log(x: Expr) -> Expr:
    """Subnormals are scaled by 2²³ first."""
    tiny = x < 2.0**-126
    k, m = split(select(tiny, x * 2.0**23, x), SQRT_HALF_BITS)
    return log_edges(x, log_sum(k - select(tiny, const(23, Scalar.I32), 0), m - 1.0))


def log1p(x: Expr) -> Expr:
    """log of u = 1 + x, with what the sum lost (two-sum, exact) put back into the fraction."""
    u = x + 1.0
    back = u - 1.0
    lost = (1.0 - (u - back)) + (x - back)
    k, m = split(u, SQRT_HALF_BITS)
    # Beyond 2¹²⁶ the lost part is far below half a unit, whatever it is scaled with.
    scaled = lost * power_of_two(-alu(Op.MIN, k, const(126, Scalar.I32)))
    value = log_edges(u, log_sum(k, m - 1.0, scaled))
    return select(equal(x, 0.0), x, value)


def sqrt(x: Expr) -> Expr:
    """√x."""
    return alu(Op.SQRT, x)


FUNCTIONS = (
    ScalarFn("exp", 1, np.exp, exp, ulp=0.9),
    ScalarFn("expm1", 1, np.expm1, expm1, ulp=1.3),
    ScalarFn("log", 1, np.log, log, ulp=0.9),
    ScalarFn("log1p", 1, np.log1p, log1p, ulp=1.0),
    ScalarFn("sqrt", 1, np.sqrt, sqrt, REALS, ulp=0.5),
    ScalarFn("rsqrt", 1, lambda x: 1.0 / np.sqrt(x), lambda x: 1.0 / sqrt(x), REALS, ulp=1.5),
    ScalarFn("recip", 1, lambda x: 1.0 / x, lambda x: 1.0 / x, REALS, ulp=0.5),
)
