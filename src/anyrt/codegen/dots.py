"""Sums of products of the parts of words, for processors without an instruction for them."""

from __future__ import annotations

from functools import lru_cache

from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Alu, Expr, Op, alu, bitcast, const

UPPER = -65536  # the upper half of a word


@lru_cache(maxsize=1 << 12)
def expanded(x: Alu) -> Expr:
    """A dot by shifts, products and sums."""
    a, b = x.args
    if x.op is Op.DOT2:
        low = bitcast(a << 16, Scalar.F32) * bitcast(b << 16, Scalar.F32)
        return low + bitcast(a & UPPER, Scalar.F32) * bitcast(b & UPPER, Scalar.F32)
    unsigned = Op.LSHR if x.op is Op.DOT4U else Op.SHR
    terms = [_byte(a, k, unsigned) * _byte(b, k, Op.SHR) for k in range(4)]
    return (terms[0] + terms[1]) + (terms[2] + terms[3])


def _byte(word: Expr, number: int, shift: Op) -> Expr:
    return alu(shift, word << (24 - 8 * number), const(24, Scalar.I32))
