"""Operations on sizes beside arithmetic: selection by a flag, limits, common factors.

>>> from anyrt.core.dims import equal, minimum
>>> s = Sym("s").dim
>>> choose(equal(s, 1), minimum(s, 512), s)
s
"""

from __future__ import annotations

from anyrt.core.dims import (
    EQ,
    Dim,
    Expr,
    Fn,
    Sym,
    add,
    as_symbol,
    common_factor,
    maximum,
    minimum,
    mul,
    scale_down,
)
from anyrt.core.dimvalues import substitute


def choose(flag: Dim, then: Dim, otherwise: Dim) -> Dim:
    """`then` if `flag` is 1, `otherwise` if it is 0; one of both if they are equal."""
    held = _held(flag)
    if held and substitute(then, held) == substitute(otherwise, held):
        return otherwise
    return add(mul(flag, then), mul(add(1, mul(flag, -1)), otherwise))


def _held(flag: Dim) -> dict[Sym, Dim]:
    """The value of a symbol if the flag is 1, which may be known because it then equals a number."""
    match flag:
        case Expr(terms=(((Fn(op=op, args=(a, b)),), 1),)) if op == EQ:
            for x, k in ((a, b), (b, a)):
                sym = as_symbol(x)
                if sym is not None and isinstance(k, int):
                    return {sym: k}
    return {}


def clamp(x: Dim, lo: Dim, hi: Dim) -> Dim:
    """x limited to lo … hi."""
    return maximum(lo, minimum(x, hi))


def cancel(num: Dim, den: Dim) -> tuple[Dim, Dim]:
    """num / den, den > 0, without the common factors of all their terms.

    >>> n, o = Sym("n"), Sym("o")
    >>> cancel(2 * o * n - n, 4 * n)
    (-1 + 2*o, 4)
    """
    shared = common_factor(num, den)
    return scale_down(num, shared), scale_down(den, shared)
