"""Words: neighbouring terms of a sum of products packed in 32 bits, as dot instructions read them.

acc += x[k] · w[k, n],  k: 0 … 64    ->    acc += dot4(word of x[4k …], word of w[4k …, n]),  k: 0 … 16
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from anyrt.core.dims import Dim, Sym, add, linear, mul
from anyrt.ir.buffer import Scalar
from anyrt.ir.intrinsic import UPPER
from anyrt.ir.kernel import Cast, Expr, Load, Op, alu, bitcast, const, load
from anyrt.ir.visit import Rewrite

SUMS = {(Scalar.BF16, Scalar.F32), (Scalar.F16, Scalar.F32), (Scalar.I8, Scalar.I32)}
WORTH = 8  # rows from which words pay
OFFSET = -2139062144  # 0x80808080: converts signed bytes to unsigned ones


def narrow(x: Expr) -> Scalar | None:
    """The type in memory of a factor that is only loaded, and converted to the type of a dot."""
    if not isinstance(x, Cast) or not isinstance(x.arg, Load):
        return None
    return x.arg.type if (x.arg.type, x.type) in SUMS else None


def word(x: Expr, term: Sym, number: Sym, count: int) -> Expr:
    """The word of so many terms of a factor from `count` · `number` on."""
    terms = [Rewrite({term: add(mul(number.dim, count), k)}).expr(x) for k in range(count)]
    return _beside(terms) or _joined(terms)


def halves(x: Expr) -> tuple[Expr, tuple[Expr, Expr]]:
    """A float16 as the sum of two bfloat16: a word of both, and words of each twice. The dots of the first
    one with both of another number's give the product of the two. Infinities are not split."""
    bits = bitcast(x, Scalar.I32)
    high = bits & UPPER
    low = bitcast(x - bitcast(high, Scalar.F32), Scalar.I32)
    half = const(16, Scalar.I32)
    upper, lower = alu(Op.LSHR, high, half), alu(Op.LSHR, low, half)
    return upper | low, (upper | high, lower | low)


def counted(at: Dim, loops: Sequence[Sym], counter: Dim) -> Dim | None:
    """An index by one counter of all iterations of nested loops, and of further ones; None if it does not
    move evenly with it."""
    step: Dim | None = None
    turns: Dim = 1
    inner = linear(at, loops[-1]) if loops else None
    for var in reversed(loops):
        moved = linear(at, var)
        if moved is None:
            return None
        slope, at = moved
        if var.extent == 1:
            continue
        step = slope if step is None else step
        if slope != mul(step, turns):
            return None
        turns = mul(turns, var.extent or 0)
    if step is None and inner is not None:
        step = inner[0]  # one iteration, and the padding of a tile
    return add(at, mul(step or 0, counter))


def _beside(terms: Sequence[Expr]) -> Expr | None:
    """A term that is only loaded from contiguous positions, as one load."""
    loads = [t.arg for t in terms if isinstance(t, Cast) and isinstance(t.arg, Load)]
    first = loads[0] if len(loads) == len(terms) else None
    if first is None or any(x.index != add(first.index, k) for k, x in enumerate(loads)):
        return None
    return load(first.buffer, first.index, word=True)


def _joined(terms: Sequence[Expr]) -> Expr:
    """Terms that are not contiguous, by shifts."""
    if terms[0].type is Scalar.F32:
        low, high = (bitcast(t, Scalar.I32) for t in terms)
        return alu(Op.LSHR, low, const(16, Scalar.I32)) | (high & UPPER)
    return reduce(lambda a, b: a | b, ((t & 255) << (8 * k) for k, t in enumerate(terms)))
