"""Quotients by a constant, as products with identical rounding: a division takes as long as thirty of these.

    x / d  ->  q = x · z + x · rest,  q + (x − q · d) · z         z = 1 / d rounded, rest = 1 / d − z rounded

`q` is less than one unit in its last place from the quotient, so the remainder of x is exact, and the sum is
the quotient rounded once (Markstein, "Computation of elementary functions on the IBM RISC System/6000
processor", theorem 8.1). That holds if nothing underflows and nothing is infinite, and zeros keep their sign
if there is no negative one: as for integers times a scale.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import copysign, inf
from typing import Final, TypeAlias

import numpy as np

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Alu, Cast, Const, Expr, Op, fma

Sizes: TypeAlias = tuple[float, float]
DIVISORS: Final = (2.0**-20, 2.0**20)
DIVIDENDS: Final = (
    2.0**-40,
    2.0**40,
)  # in range: quotients' last places times divisors' are at least 2^-128
INTEGERS: Final[Sizes] = (1.0, 2.0**63)


@lru_cache(maxsize=1 << 14)
def replacement(x: Expr) -> Expr | None:
    """A quotient by products; None if it is no quotient, or the result might differ."""
    match x:
        case Alu(op=Op.DIV, args=(above, Const(value=below)), type=Scalar.F32) if _within(below, DIVISORS):
            known = sizes(above)
            return None if known is None or not _lies(known, DIVIDENDS) else _quotient(above, float(below))
        case _:
            return None


def sizes(x: Expr) -> Sizes | None:
    """(least, greatest) absolute value of `x` where it is not zero, which then is never a negative zero; None
    if unknown."""
    match x:
        case Cast(arg=arg) if x.type is Scalar.F32 and not arg.type.is_float:
            return INTEGERS if arg.type is Scalar.I64 else (1.0, 2.0**31)
        case Const(value=value) if value < 0 or (value >= 0 and copysign(1.0, value) > 0):
            return (abs(float(value)), abs(float(value))) if value else (inf, 0.0)
        case Alu(op=Op.MUL, args=(a, Const(value=b))) | Alu(op=Op.MUL, args=(Const(value=b), a)) if b > 0:
            known = sizes(a)
            return None if known is None else (known[0] * b, known[1] * b)
        case Alu(op=Op.SELECT, args=(_, a, b)) | Alu(op=Op.MAX | Op.MIN, args=(a, b)):
            both = sizes(a), sizes(b)
            return None if both[0] is None or both[1] is None else _union(both[0], both[1])
        case _:
            return None


def _quotient(x: Expr, d: float) -> Expr:
    z = np.float32(1 / np.float64(d))
    rest = np.float32(float(1 / Fraction(d) - Fraction(float(z))))
    near = fma(x, float(z), x * float(rest))
    return fma(fma(near, -d, x), float(z), near)


def _union(a: Sizes, b: Sizes) -> Sizes:
    return min(a[0], b[0]), max(a[1], b[1])


def _within(value: float, bounds: Sizes) -> bool:
    return bounds[0] <= value <= bounds[1]


def _lies(inner: Sizes, outer: Sizes) -> bool:
    """True if everything is inside, also if there are only zeros."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]
