"""Numbers of 4 bits as float32, for processors without a lookup in registers."""

from __future__ import annotations

from functools import lru_cache

from anyrt.ir.buffer import BITS, Scalar
from anyrt.ir.kernel import Alu, Expr, Op, alu, cast, const

ABOVE = BITS[Scalar.I32] - 4


@lru_cache(maxsize=1 << 12)
def expanded(x: Alu) -> Expr:
    """Moved to the top of the word, so that the sign follows on the way down."""
    word, at = x.args
    return cast(alu(Op.SHL, word, const(ABOVE, Scalar.I32) - at) >> ABOVE, Scalar.F32)
