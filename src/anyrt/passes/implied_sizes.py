"""Sizes that a graph's conditions imply, substituted for their symbols before all passes.

A product of x[m, k] and weights w[15, 8] is valid only for k = 15, so k is 15 in the whole graph. The
conditions stay in the plan, and each inference tests its sizes.

>>> from anyrt.core.dims import Sym
>>> m, k, n = Sym("m", 1, 64), Sym("k", 0, 64), Sym("n", 0, 64)
>>> def same(a, b): return Requirement(a, Relation.EQ, b, "AR112", "sum", "")
>>> implied([same(m * k, m * n), same(n * 2, 30)], [m, k, n])
{k: 15, n: 15}
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from anyrt.core.dims import (
    Dim,
    Sym,
    add,
    as_symbol,
    bounds,
    common_factor,
    divmod_dim,
    equal,
    linear,
    mul,
    polynomial,
    scale_down,
)
from anyrt.core.dimvalues import substitute
from anyrt.core.requirement import Relation, Requirement, broken
from anyrt.ir.attributes import graph_with_sizes
from anyrt.ir.graph import Graph


def with_implied(graph: Graph, sizes: Mapping[Sym, Dim]) -> Graph:
    """`graph` with these substituted for its symbols; the symbols still name the source of sizes."""
    return graph_with_sizes(graph, lambda size: substitute(size, sizes)) if sizes else graph


def implied(rules: Iterable[Requirement], symbols: Collection[Sym]) -> dict[Sym, Dim]:
    """The values of symbols that the conditions imply: numbers, or other symbols; raises the error of a
    condition that cannot hold together with the others.

    Data-dependent sizes are left out: nothing is known of them before an inference."""
    symbols = [sym for sym in symbols if sym.most is None]
    known: dict[Sym, Dim] = {}
    todo = [rule for rule in rules if symbols and rule.relation is not Relation.LE]
    while todo:
        left = [rule for rule in todo if not _used(rule, symbols, known)]
        if len(left) == len(todo):
            break
        todo = left
    return {sym: known[sym] for sym in symbols if sym in known}


def _used(rule: Requirement, symbols: Collection[Sym], known: dict[Sym, Dim]) -> bool:
    """True if a condition implies nothing more; its implication is in `known` then."""
    a, b = (substitute(side, known) for side in (rule.left, rule.right))
    if rule.relation is Relation.BROADCAST and not equal(a, 1) == equal(b, 1) == 0:
        return False  # either may be 1
    if equal(a, b) == 0:
        raise broken(rule, str(a), str(b))
    solution = _solved(add(a, mul(b, -1)), symbols)
    if solution is None:
        return a == b
    sym, size = solution
    known |= {other: substitute(x, {sym: size}) for other, x in known.items()}
    known[sym] = size
    return True


def _solved(zero: Dim, symbols: Collection[Sym]) -> tuple[Sym, Dim] | None:
    """The symbol that must be a number, or another symbol, for a sum to be 0."""
    if isinstance(zero, int):
        return None
    atoms, number = common_factor(zero, 0)
    never_zero = tuple(a for a in atoms if bounds(polynomial({(a,): 1}))[0] >= 1)
    zero = scale_down(zero, (never_zero, number))
    for sym in symbols:
        factor, rest = linear(zero, sym) or (0, 0)
        if not isinstance(factor, int) or not factor:
            continue
        size, remains = divmod_dim(mul(rest, -factor // abs(factor)), abs(factor))
        if remains == 0 and _may_be(sym, size, symbols):
            return sym, size
    return None


def _may_be(sym: Sym, size: Dim, symbols: Collection[Sym]) -> bool:
    """True for a number in the range of a symbol, and for another one: the remaining symbol gets the range of
    both."""
    if isinstance(size, int):
        return sym.lo <= size <= sym.hi
    other = as_symbol(size)
    return other is not None and other in symbols and sym.lo <= other.lo and other.hi <= sym.hi
