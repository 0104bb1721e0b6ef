"""Conditions on data-dependent sizes, which an inference tests as soon as it has computed the sizes.

Values with such sizes wait for the test (`Asserted`), since they may otherwise read outside a tensor.
"""

from __future__ import annotations

from dataclasses import replace

from anyrt.core.codes import CODES
from anyrt.core.dims import Dim, equal, maximum, minimum
from anyrt.core.enums import DataType
from anyrt.core.requirement import FINE, Assertion, Relation, Requirement
from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import in_regions
from anyrt.passes.requirements import later
from anyrt.prims.asserted import Asserted
from anyrt.prims.build import const, map_, reshape
from anyrt.prims.const import Shape


def with_conditions(graph: Graph, waits: str) -> Graph:
    """`graph` whose output `waits` depends on the conditions on data-dependent sizes; each region tests those
    of sizes that it computes itself."""
    return _judging(in_regions(graph, lambda region: _judging(region, region.outputs[0][0])), waits)


def _judging(graph: Graph, waits: str) -> Graph:
    value = dict(graph.outputs)[waits]
    names = dict(graph.names)
    for rule in later(graph):
        size = _judged_size(rule)
        names.setdefault(size, rule.where)
        judged = apply(Asserted(_assertion(rule)), value, size)
        names.setdefault(judged, graph.name(value))
        value = judged
    outputs = tuple((name, value if name == waits else v) for name, v in graph.outputs)
    return graph if outputs == graph.outputs else replace(graph, outputs=outputs, names=names)


def _holds(rule: Requirement) -> Dim:
    """1 if the condition is met, else 0."""
    a, b = rule.left, rule.right
    match rule.relation:
        case Relation.EQ:
            return equal(a, b)
        case Relation.LE:
            return equal(minimum(a, b), a)
        case Relation.BROADCAST:
            return maximum(equal(a, b), maximum(equal(a, 1), equal(b, 1)))


def _judged_size(rule: Requirement) -> Value:
    """The left side, or FINE if the condition is met."""
    holds, left = (reshape(apply(Shape((d,))), ()) for d in (_holds(rule), rule.left))
    return map_("select", map_("eq", holds, const(1, DataType.INT64)), const(FINE, DataType.INT64), left)


def _assertion(rule: Requirement) -> Assertion:
    title = CODES[rule.code].title
    match rule.relation:
        case Relation.EQ:
            wanted = f"{rule.right}"
        case Relation.LE:
            wanted = f"at most {rule.right}"
        case Relation.BROADCAST:
            wanted = f"{rule.right}, or 1"
    return Assertion(rule.code, rule.where, f"{{}} ({title})", wanted, rule.do)
