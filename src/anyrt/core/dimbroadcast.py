"""The size to which sizes broadcast: each of them is that size, or 1.

It is the largest of them, but 0 if one is 0: max(a, b) · min(a, b, 1). Sizes that are broadcasts themselves
are decomposed first, so the result is as long as its operands, in any order.

>>> from anyrt.core.dims import Sym
>>> a, b, c = (Sym(name).dim for name in "abc")
>>> broadcast(a, b)
max(a, b)*min(b, min(1, a))
>>> broadcast(broadcast(a, b), broadcast(b, c)) == broadcast(broadcast(c, a), b)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from anyrt.core.dims import (
    FLAT,
    MAX,
    MIN,
    Dim,
    Expr,
    Fn,
    Monomial,
    always_le,
    as_symbol,
    balanced,
    compared,
    maximum,
    minimum,
    mul,
)


def broadcast(a: Dim, b: Dim) -> Dim:
    """The size that two sizes broadcast to."""
    return broadcast_all((*_sizes(a), *_sizes(b)))


def broadcast_all(sizes: Sequence[Dim]) -> Dim:
    """The size to which some sizes broadcast, none of which is a broadcast itself."""
    distinct = sorted(set(sizes), key=repr)
    if len(distinct) == 1:
        return distinct[0]
    one: Dim = 1
    if any(as_symbol(s) is None for s in distinct) or len(distinct) <= FLAT:
        return mul(reduce(maximum, distinct), reduce(minimum, distinct, one))
    maybe_zero = [s for s in distinct if not always_le(1, s)]
    return mul(balanced(MAX, distinct), balanced(MIN, [1, *maybe_zero]))


def _sizes(x: Dim) -> Sequence[Dim]:
    """The sizes that `x` was broadcast from."""
    if isinstance(x, Expr) and len(x.terms) == 1 and x.terms[0][1] == 1:
        sizes, others = broadcast_factor(x.terms[0][0])
        return sizes if sizes and not others else (x,)
    return (x,)


def broadcast_factor(product: Monomial) -> tuple[Sequence[Dim], Monomial]:
    """The sizes whose broadcast is a factor of a product (none if no factor is a broadcast), and the other
    factors."""
    flags = [a for a in product if isinstance(a, Fn) and a.op == MIN]
    for largest in (a for a in product if flags and isinstance(a, Fn) and a.op == MAX):
        sizes = compared(MAX, Expr((((largest,), 1),)))
        for flag in flags:
            operands = compared(MIN, Expr((((flag,), 1),)))
            never = set(sizes).difference(operands)  # at least 1, so the minimum omits them
            if set(operands) <= {1, *sizes} and 1 in operands and all(always_le(1, s) for s in never):
                others = list(product)
                others.remove(largest)
                others.remove(flag)
                return sizes, tuple(others)
    return (), product
