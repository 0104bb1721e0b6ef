"""Words: neighbouring terms of a sum of products side by side in 32 bits, as instructions for dots read them.

acc += x[k] · w[k, n],  k: 0 … 64    ->    acc += dot4(word of x[4k …], word of w[4k …, n]),  k: 0 … 16
"""

from __future__ import annotations

from functools import reduce

from anyrt.core.dims import Sym, add, mul
from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Cast, Expr, Load, Op, alu, bitcast, const
from anyrt.ir.visit import Rewrite

PARTS = {Op.DOT2: 2, Op.DOT4: 4, Op.DOT4U: 4}  # terms of a word
SUMS = {(Scalar.BF16, Scalar.F32), (Scalar.I8, Scalar.I32)}
UPPER = -65536  # the upper half of a word
OFFSET = -2139062144  # 0x80808080: makes unsigned bytes of signed ones


def narrow(x: Expr) -> Scalar | None:
    """The type in memory of a factor that is nothing but loaded, and made what dots give."""
    if not isinstance(x, Cast) or not isinstance(x.arg, Load):
        return None
    return x.arg.type if (x.arg.type, x.type) in SUMS else None


def word(x: Expr, term: Sym, number: Sym, op: Op, *, first: bool) -> Expr:
    """The word of a factor's terms from PARTS · `number` on, for the first or the second operand of `op`."""
    count = PARTS[op]
    terms = [Rewrite({term: add(mul(number.dim, count), k)}).expr(x) for k in range(count)]
    if op is Op.DOT2:
        low, high = (bitcast(t, Scalar.I32) for t in terms)
        return alu(Op.LSHR, low, const(16, Scalar.I32)) | (high & UPPER)
    joined = reduce(lambda a, b: a | b, ((t & 255) << (8 * k) for k, t in enumerate(terms)))
    return joined ^ OFFSET if op is Op.DOT4U and first else joined
