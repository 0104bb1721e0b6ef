"""The defining text of intrinsics, in instructions that every target has.

A word holds neighbouring terms of a sum in 32 bits, the first one in the lowest (loops/words.py).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from anyrt.ir.buffer import BITS, Scalar
from anyrt.ir.kernel import Alu, Expr, Intrinsic, Op, alu, bitcast, const

UPPER: Final = -65536  # the upper half of a word


@lru_cache(maxsize=1 << 12)
def text_of(x: Alu) -> Expr:
    """The sum of the products of the terms of two words: neighbours first."""
    assert isinstance(x.op, Intrinsic), f"{x.op.value} is an instruction of every target"
    a, b = x.args
    sums = [_term(a, k, x.op.first) * _term(b, k, x.op.second) for k in range(x.op.parts)]
    while len(sums) > 1:
        sums = [p + q for p, q in zip(sums[::2], sums[1::2], strict=True)]
    return sums[0]


def _term(word: Expr, number: int, type: Scalar) -> Expr:
    """A term of a word, in the type of the sum: a bfloat16 is the upper half of a float32."""
    if type is Scalar.BF16:
        return bitcast(word & UPPER if number else word << BITS[type], Scalar.F32)
    above = BITS[Scalar.I32] - BITS[type]
    shift = Op.LSHR if type is Scalar.U8 else Op.SHR
    return alu(shift, word << (above - BITS[type] * number), const(above, Scalar.I32))
