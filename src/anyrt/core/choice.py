"""One of two sizes, as a flag says.

>>> from anyrt.core.dims import equal, minimum
>>> s = Sym("s").dim
>>> choose(equal(s, 1), minimum(s, 512), s)
s
"""

from __future__ import annotations

from anyrt.core.dims import EQ, Dim, Expr, Fn, Sym, add, as_symbol, mul, substitute


def choose(flag: Dim, then: Dim, otherwise: Dim) -> Dim:
    """`then` where `flag` is 1, `otherwise` where it is 0; one of both where that comes to the same."""
    held = _held(flag)
    if held and substitute(then, held) == substitute(otherwise, held):
        return otherwise
    return add(mul(flag, then), mul(add(1, mul(flag, -1)), otherwise))


def _held(flag: Dim) -> dict[Sym, Dim]:
    """What is known of a symbol where the flag is 1, as it is where that equals a number."""
    match flag:
        case Expr(terms=(((Fn(op=op, args=(a, b)),), 1),)) if op == EQ:
            for x, k in ((a, b), (b, a)):
                sym = as_symbol(x)
                if sym is not None and isinstance(k, int):
                    return {sym: k}
    return {}
