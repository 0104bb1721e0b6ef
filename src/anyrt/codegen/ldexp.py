"""Products with powers of two, for processors without an instruction for them."""

from __future__ import annotations

from functools import lru_cache

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Alu, Expr, bitcast

# The integer type of equal width, the bits of the fraction, and the bias of the exponent.
PARTS = {Scalar.F32: (Scalar.I32, 23, 127), Scalar.F64: (Scalar.I64, 52, 1023)}


@lru_cache(maxsize=1 << 12)
def expanded(x: Alu) -> Expr:
    """The exponent in halves, as 2ⁿ itself need not be a normal number: only the last product rounds."""
    factor, exponent = x.args
    whole, fraction, bias = PARTS[x.type]
    # The sum of this and an integer has the integer in its low bits.
    bits = bitcast(exponent + 1.5 * 2.0**fraction, whole)
    half = bits >> 1

    def power(n: Expr) -> Expr:
        return bitcast((n << fraction) + (bias << fraction), x.type)

    return factor * power(half) * power(bits - half)
