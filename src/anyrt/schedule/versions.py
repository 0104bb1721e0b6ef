"""Versions of a graph for different values of symbolic sizes, each with its guard.

If two dynamic sizes meet in a broadcast, each may be 1 or both be equal. Code for all cases must multiply
indices by "is it 1?", which prevents vector loads. The sizes are nearly always equal, so one version assumes
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

from anyrt.core.counts import counts
from anyrt.core.dims import Dim, Expr, Sym, equal, minimum
from anyrt.core.dimvalues import evaluate, substitute
from anyrt.core.errors import AnyrtError
from anyrt.ir.attributes import graph_with_sizes
from anyrt.ir.compute import Elements
from anyrt.ir.graph import Graph, Value

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Version:
    """A graph that is correct if `guard` is not 0 (always, if it is 1)."""

    guard: Dim
    graph: Graph


def versions(graph: Graph) -> tuple[Version, ...]:
    """The versions to try in order; the last one always holds."""
    same: dict[Sym, Dim] = {}
    for value in graph.values:
        how = value.compute
        if isinstance(how, Elements) and how.same:
            for a, b in _meetings(value):
                _assume(substitute(a, same), substitute(b, same), same)
    general = Version(1, graph)
    if not same:
        return (general,)
    guard = reduce(minimum, (equal(sym.dim, size) for sym, size in same.items()))
    try:
        return (Version(guard, graph_with_sizes(graph, lambda size: substitute(size, same))), general)
    except AnyrtError:  # the graph's conditions on sizes exclude that these are equal
        return (general,)


def serving(guards: Iterable[Dim], sizes: Mapping[str, int]) -> int:
    """The number of the version that runs at these sizes."""
    return next(n for n, guard in enumerate(guards) if evaluate(guard, sizes))


def originals(graph: Graph, version: Graph) -> dict[Value, Value]:
    """For each value of a version and its regions the value of `graph` that it came from."""
    origins: dict[Value, Value] = {}
    todo = _ends(version, graph)
    while todo:
        new, old = todo.pop()
        if new not in origins:
            origins[new] = old
            todo += zip(new.args, old.args, strict=True)
            for pair in zip(new.op.regions, old.op.regions, strict=True):
                todo += _ends(*pair)
    return origins


def _ends(version: Graph, graph: Graph) -> list[tuple[Value, Value]]:
    return [(new, old) for (_, new), (_, old) in zip(version.outputs, graph.outputs, strict=True)]


def _meetings(value: Value) -> list[tuple[Dim, Dim]]:
    """Pairs of different symbolic sizes on one axis of the operands, except data-dependent ones, of which
    nothing is known when an inference begins."""
    # An operand of another rank only defines a size.
    first, *others = (a for a in value.args if len(a.shape) == len(value.shape))
    pairs = [(a, b) for other in others for a, b in zip(first.shape, other.shape, strict=True)]
    return [(a, b) for a, b in pairs if a != b and all(isinstance(d, Expr) and not counts(d) for d in (a, b))]


def _assume(a: Dim, b: Dim, same: dict[Sym, Dim]) -> None:
    """Add "a = b" as a substitution, if one of them is a plain symbol that the other does not contain, and
    some size is in the range of both."""
    if equal(a, b) == 0:
        return
    for sym, size in ((_symbol(a), b), (_symbol(b), a)):
        if a != b and sym is not None and substitute(size, {sym: 1}) == size:
            for known in same:
                same[known] = substitute(same[known], {sym: size})
            same[sym] = size
            return


def _symbol(x: Dim) -> Sym | None:
    """The symbol, if `x` is nothing else."""
    if isinstance(x, Expr) and len(x.terms) == 1:
        (monomial, coefficient), *_ = x.terms
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Sym):
            return monomial[0]
    return None
