"""Products with powers of two, for processors without an instruction for them."""

from __future__ import annotations

from functools import lru_cache

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Alu, Expr, bitcast

ROUNDER = 1.5 * 2.0**23  # a whole number added to it stands in the low bits of the sum
BIAS = 127 << 23


@lru_cache(maxsize=1 << 12)
def expanded(x: Alu) -> Expr:
    """The exponent in halves, as 2ⁿ itself need not be a normal number: only the last product rounds."""
    factor, exponent = x.args
    bits = bitcast(exponent + ROUNDER, Scalar.I32)
    half = bits >> 1
    return factor * _power(half) * _power(bits - half)


def _power(n: Expr) -> Expr:
    return bitcast((n << 23) + BIAS, Scalar.F32)
