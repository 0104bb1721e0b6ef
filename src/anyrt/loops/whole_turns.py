"""Whole turns: if a sum of products only uses the quotient and remainder of a loop's counter, the loop
becomes two loops.

    for i: 0 … n                              for a: 0 … ⌈n / 4⌉
      acc = Σ w[k, i mod 4] · x[k, i // 4]       for b: 0 … 4
      y[i] = acc                        ->         at = min(b, n − 1 − 4a)
                                                   acc = Σ w[k, at] · x[k, a]
                                                   y[4a + at] = acc

One factor then is the same for a whole iteration of the outer loop, whose sums are rows of a tile. The excess
of the last iteration repeats the last element, which the same thread stores anyway.
"""

from __future__ import annotations

from dataclasses import replace

from anyrt.core.dims import Dim, Expr, Fn, Sym, add, ceildiv, depends, minimum, mul
from anyrt.ir.kernel import Kernel
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import dims_of
from anyrt.ir.visit import Rewrite, substituted
from anyrt.loops.nest import Names, around, moves, serial
from anyrt.loops.product import Product, product_of

MOST = 8  # elements of an iteration of the outer loop


def whole_turns(kernel: Kernel, names: Names) -> Kernel | Fail:
    """The kernel with two loops for each loop whose quotient moves one factor and whose remainder moves the
    other."""
    product = product_of(kernel)
    if isinstance(product, Fail):
        return product
    vars, body = around(kernel)
    order: list[Sym] = []
    inner: list[Sym] = []
    for var in vars:
        length = turn_length(product, var) if var in product.batch else None
        if length is None:
            order.append(var)
            continue
        count = var.extent or 0
        turn, within = names.var(ceildiv(count, length), "t"), names.var(length, "b")
        start = mul(turn.dim, length)
        last = add(add(count, -1), mul(start, -1))
        divided = substituted(body, {var: add(start, within.dim)})
        body = substituted(divided, {within: minimum(within.dim, last)})
        order.append(turn)
        inner.append(within)
    if not inner:
        return Fail("no factor is the same for several contiguous elements")
    # The rows of a tile are then neighbours of the last loop, along which results are contiguous.
    return replace(kernel, body=serial([*order, *reversed(inner)], body))


def turn_length(p: Product, var: Sym) -> int | None:
    """The divisor: one factor moves only with the quotient, the other only with the remainder."""
    lengths = {n for at in (*dims_of(p.first), *dims_of(p.second)) for n in _parts(at, var)}
    length = next(iter(lengths)) if len(lengths) == 1 else 0
    if not 1 < length <= MOST:
        return None
    turn, within = Sym("turn", extent=ceildiv(var.extent or 0, length)), Sym("within", extent=length)
    at = Rewrite({var: add(mul(turn.dim, length), within.dim)})
    reads = [dims_of(at.expr(x)) for x in (p.first, p.second)]
    moved = sorted((moves(dims, turn), moves(dims, within)) for dims in reads)
    return length if moved == [(False, True), (True, False)] else None


def _parts(x: Dim, var: Sym) -> set[int]:
    """The divisors of a counter in an index."""
    divisors = set[int]()
    for monomial, _ in x.terms if isinstance(x, Expr) else ():
        for atom in monomial:
            if isinstance(atom, Fn) and depends(atom, var):
                whole, *rest = atom.args
                divisors |= {n for n in rest if isinstance(n, int)} if whole == var.dim else {0}
    return divisors
