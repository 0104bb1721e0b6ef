"""The conditions on dynamic sizes of a graph, which are checked when shapes are set.

Conditions that always hold are dropped; those that never hold raise their error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from anyrt.core.counts import bounded_counts
from anyrt.core.dims import Sym, add, always_le, equal
from anyrt.core.requirement import Relation, Requirement, broken
from anyrt.ir.counted import computed_sizes
from anyrt.ir.graph import Graph, Value


def requirements(graph: Graph) -> tuple[Requirement, ...]:
    """The conditions that an inference must check before it begins, or where it pauses, each once; for the
    graph before all passes. Those of a branch are checked even if the branch is not taken."""
    return tuple(dict.fromkeys(rule for rule, _ in _required(graph) if not _counts(rule)))


def later(graph: Graph) -> tuple[Requirement, ...]:
    """Those of data-dependent sizes within bounds that the graph itself computes, not one around it or a
    region: an inference checks them when it knows these."""
    own = {sym for sym, _ in computed_sizes(graph)}
    rules = ((rule, _counts(rule), inside) for rule, inside in (_required(graph) if own else ()))
    return tuple(dict.fromkeys(rule for rule, sizes, inside in rules if sizes & own and not sizes & inside))


def _counts(rule: Requirement) -> frozenset[Sym]:
    return bounded_counts(rule.left) | bounded_counts(rule.right)


def _required(graph: Graph) -> Iterator[tuple[Requirement, frozenset[Sym]]]:
    """The conditions of a graph and its regions, with the sizes that regions around each condition
    compute."""
    todo = [(graph, frozenset[Sym]())]  # regions are deeper than Python recurses
    while todo:
        around, inside = todo.pop()
        values = around.values
        for rule in _asked(values, _names(around, values)):
            if never_holds(rule):
                raise broken(rule, str(rule.left), str(rule.right))
            if not always_holds(rule):
                yield rule, inside
        todo += reversed([(r, inside.union(sym for sym, _ in computed_sizes(r))) for r in _regions(values)])


def _regions(values: Iterable[Value]) -> Iterator[Graph]:
    return (r for node in dict.fromkeys(v.node for v in values) for r in node.op.regions)


def _asked(values: Sequence[Value], names: Mapping[Value, str]) -> Iterator[Requirement]:
    return (rule for v in values for rule in v.op.requires(tuple(a.type for a in v.args), names[v]))


def _names(graph: Graph, values: Sequence[Value]) -> dict[Value, str]:
    """The name of each value in messages: its own name, or that of the first value computed from it."""
    names: dict[Value, str] = {}
    for value in reversed(values):
        name = graph.names.get(value) or names.get(value) or graph.name(value)
        names |= dict.fromkeys((value, *value.args), name)
    return names


def always_holds(rule: Requirement) -> bool:
    """True when the condition is met at all sizes."""
    match rule.relation:
        case Relation.EQ:
            return rule.left == rule.right
        case Relation.LE:
            return always_le(rule.left, rule.right)
        case Relation.BROADCAST:
            return rule.left == rule.right or 1 in (rule.left, rule.right)


def never_holds(rule: Requirement) -> bool:
    """True when the condition is met at no size."""
    match rule.relation:
        case Relation.EQ:
            return equal(rule.left, rule.right) == 0
        case Relation.LE:
            return always_le(add(rule.right, 1), rule.left)
        case Relation.BROADCAST:
            pairs = ((rule.left, rule.right), (rule.left, 1), (rule.right, 1))
            return all(equal(a, b) == 0 for a, b in pairs)
