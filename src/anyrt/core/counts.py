"""Data-dependent sizes: symbols whose values an inference computes, most of them with an upper bound.

Values that are needed before an inference, such as sizes of memory, are computed from the bound:

>>> n = Sym("n", 1, 8)
>>> found = count("found", n * 4)
>>> highest(found * 3 + n)
13*n
>>> highest(n * 4 - found.dim)
4*n
>>> sorted(s.name for s in counts(found * 3 + n))
['found']

A size without an upper bound is called open, and has no bound to replace it. The inference pauses when the
size is computed, and memory is allocated for its value (runtime/pauses.py).

>>> limit = open_count("limit")
>>> highest(found * 3 + limit)
limit + 12*n
>>> is_open(limit), is_open(found)
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from anyrt.core.dims import (
    EQ,
    FLOORDIV,
    INF,
    MAX,
    MIN,
    MOD,
    SCALE,
    TDIV,
    Atom,
    Dim,
    Expr,
    Fn,
    Sym,
    add,
    bounds,
    floordiv,
    maximum,
    minimum,
    product,
    scaled,
    symbols,
    total,
)
from anyrt.core.dimvalues import evaluate
from anyrt.core.errors import NotSupportedError

Range = tuple[Dim, Dim]
LIKELY: Final = 32  # the value assumed for an open size if only its magnitude matters


def count(name: str, most: Dim) -> Sym:
    """A data-dependent size of 0 to `most`."""
    return Sym(name, 0, max(bounds(most)[1], 0), most=most)


def open_count(name: str) -> Sym:
    """A data-dependent number without known bounds."""
    return Sym(name, -INF, INF, most=INF)


def is_open(sym: Sym) -> bool:
    """Whether the size is data-dependent and has no upper bound."""
    return sym.most == INF


def counts(x: Dim | Atom) -> frozenset[Sym]:
    """The data-dependent sizes in `x`."""
    return frozenset(s for s in symbols(x) if s.most is not None)


def bounded_counts(x: Dim | Atom) -> frozenset[Sym]:
    """Those of them that have upper bounds."""
    return frozenset(s for s in counts(x) if not is_open(s))


def at_most(sizes: Mapping[str, int], symbols: Iterable[Sym]) -> dict[str, int]:
    """`sizes` by name, with data-dependent sizes without a value at their upper bounds; open ones are LIKELY.

    >>> n = Sym("n", 1, 8)
    >>> at_most({"n": 3}, [n, count("found", n * 4)])
    {'n': 3, 'found': 12}
    """
    missing = [s for s in symbols if s.most is not None and s.name not in sizes]
    known = {**sizes, **{s.name: LIKELY for s in missing if is_open(s)}}
    bounded = ((s.name, highest(s.most or 0)) for s in missing if not is_open(s))
    return {**known, **{name: evaluate(size, known) for name, size in bounded}}


def named(x: Dim | Atom) -> frozenset[Sym]:
    """The symbols in `x` and in the upper bounds of those."""
    own = symbols(x)
    return own.union(*(named(s.most) for s in own if s.most is not None))


def highest(x: Dim) -> Dim:
    """An upper bound of `x`, in terms of sizes that do not depend on data, and of open ones."""
    return x if isinstance(x, int) or not bounded_counts(x) else _range(x)[1]


def _range(x: Dim) -> Range:
    """At least and at most."""
    if isinstance(x, int) or not bounded_counts(x):
        return x, x
    low, high = list[Dim](), list[Dim]()
    for monomial, factor in x.terms:
        ends = _product(_atom(atom) for atom in monomial)
        ends = ends if factor > 0 else (ends[1], ends[0])
        low.append(product((factor, ends[0])))
        high.append(product((factor, ends[1])))
    return total(low), total(high)


def _product(ranges: Iterable[Range]) -> Range:
    """The product of sizes; at most one factor may be negative."""
    low: Dim = 1
    high: Dim = 1
    signed: Range | None = None
    for least, greatest in ranges:
        if bounds(least)[0] >= 0 or least == greatest:
            low, high = product((low, least)), product((high, greatest))
        elif signed is None:
            signed = least, greatest
        else:
            raise _unbounded(least)
    if signed is None:
        return low, high
    return product((high, signed[0])), product((high, maximum(signed[1], 0)))


def _atom(atom: Atom) -> Range:
    if not bounded_counts(atom):
        own = Expr((((atom,), 1),))
        return own, own
    if isinstance(atom, Sym):
        return atom.lo, highest(0 if atom.most is None else atom.most)
    return _function(atom, [_range(a) for a in atom.args])


def _function(fn: Fn, args: list[Range]) -> Range:
    (low, high), second = args[0], args[-1]
    match fn.op:
        case op if op == MIN:
            return minimum(low, second[0]), minimum(high, second[1])
        case op if op == MAX:
            return maximum(low, second[0]), maximum(high, second[1])
        case op if op == EQ:
            return 0, 1
        case op if op == MOD:
            return 0, maximum(0, add(second[1], -1))
        case op if op == SCALE and fn.factor >= 0:
            return scaled(low, fn.factor), scaled(high, fn.factor)
        case op if op == FLOORDIV and isinstance(by := second[0], int) and by > 0 and by == second[1]:
            return floordiv(low, by), floordiv(high, by)
        case op if op in (FLOORDIV, TDIV) and bounds(low)[0] >= 0 and bounds(second[0])[0] >= 0:
            return 0, floordiv(high, maximum(1, second[0]))
    raise _unbounded(Expr((((fn,), 1),)))


def _unbounded(x: Dim) -> NotSupportedError:
    got, do = f"{x}, which depends on data and has no upper bound", "use dimensions with a bound"
    return NotSupportedError("AR901", "sizes", got=got, wanted="a bounded size", do=do)
