"""Powers of float64: y log a as a sum of two, to the precision that eˣ needs.

Its absolute error is the relative error of the result, and it reaches 745, so that the logarithm needs 64
bits: with s = f / (2 + f) it is 2s + ⅔ s³, as sums of two, and the rest of the series, which is below 2⁻¹² of
it.
"""

from __future__ import annotations

import math
from typing import Final

from anyrt.ir.kernel import Expr, const, fma, select
from anyrt.prims.scalar.exponential import (
    ENDS,
    EXP,
    LN2_PAIR,
    LOG2_E,
    SQRT_HALF_BITS,
    ldexp,
    normal_split,
    without,
)
from anyrt.prims.scalar.table import (
    absolute,
    at_least,
    at_most,
    equal,
    fast_two_sum,
    nearest,
    number,
    poly,
    two_product,
)

_TWO_THIRDS: Final = (0.6666666666666666, 3.700743415417188e-17)
# (log(1 + f) − 2s − ⅔ s³) / s⁵ in s²: 2⁻⁵⁵.
_FIFTH: Final = (
    0.11723065901709288,
    0.11706247118686182,
    0.13334804291331692,
    0.1538459496991909,
    0.1818181833532354,
    0.2222222222165619,
    0.28571428571429364,
    0.4,
)
_MOST: Final = 1e100  # a greater exponent gives the same result


def positive_power(a: Expr, y: Expr) -> Expr:
    """aʸ for a ≥ 0 and y ≠ 0."""
    head, rest = _log_pair(a)
    head = select(equal(a, 0.0), -math.inf, select(a < math.inf, head, a))
    y = at_least(at_most(y, _MOST), -_MOST)  # ∞ would meet log 1 = 0
    product, rounded = two_product(y, head)
    low, high = ENDS[a.type]
    inside = absolute(product) < -low
    below = select(inside, fma(y, rest, rounded), 0.0)
    product = at_least(at_most(product, high), low)
    n, _ = nearest(product, LOG2_E)
    r = without(product, n)
    whole, lost = fast_two_sum(const(1.0, a.type), r)
    tail = r * r * poly(r, *EXP[a.type])
    return ldexp(whole + (lost + fma(below, whole + tail, tail)), n)


def _log_pair(a: Expr) -> tuple[Expr, Expr]:
    """log a for finite a > 0 as a sum of two."""
    k, m = normal_split(a, SQRT_HALF_BITS[a.type])
    head, rest = _log_of(m - 1.0)
    n, (high, low) = number(k), LN2_PAIR[a.type]
    total, lost = fast_two_sum(n * high, head)  # the product is exact
    return fast_two_sum(total, lost + fma(n, low, rest))


def _log_of(f: Expr) -> tuple[Expr, Expr]:
    """log(1 + f)."""
    whole, lost = fast_two_sum(const(2.0, f.type), f)
    inverse = 1.0 / whole
    s = f * inverse
    s_rest = (fma(-s, whole, f) - s * lost) * inverse
    z, z_lost = two_product(s, s)
    cube, cube_lost = two_product(z, s)
    cube_rest = fma(z, s_rest, fma(fma(s, s_rest + s_rest, z_lost), s, cube_lost))
    third, third_lost = two_product(cube, const(_TWO_THIRDS[0], f.type))
    third_rest = fma(cube, _TWO_THIRDS[1], fma(cube_rest, _TWO_THIRDS[0], third_lost))
    head, rest = fast_two_sum(s + s, third)
    return head, rest + (third_rest + fma(cube * z, poly(z, *_FIFTH), s_rest + s_rest))
