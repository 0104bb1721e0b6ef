"""Rewriting: matches of patterns, names, and graphs without a match."""

import pytest

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import Bind, Fail, Hole, Rule, matches, op, rewrite
from anyrt.prims import build as b
from anyrt.prims.map import Map
from anyrt.prims.reduce import Reduce


def vector(name: str) -> Value:
    return b.param(name, (3,), DataType.FLOAT)


def rule(find, make, **more) -> Rule:
    return Rule("test", find, make, example=lambda draw: vector("x"), **more)


DOUBLE = rule(lambda x: op(Map, x, x, fn="add"), lambda x: b.map_("mul", x, b.scalar(2.0, x)))
NEGATION = rule(lambda x: op(Map, op(Map, x, fn="neg"), fn="neg"), lambda x: x)


def test_the_same_name_twice_means_the_same_value():
    x, y = vector("x"), vector("y")
    pattern = op(Map, Hole("a"), Hole("a"), fn="add")
    assert matches(pattern, b.map_("add", x, x)) == {"a": x}
    assert matches(pattern, b.map_("add", x, y)) is None


def test_attributes_are_compared_or_bound():
    total = b.reduce_("sum", vector("x"), (0,))
    assert matches(op(Reduce, Hole("x"), fn="max"), total) is None
    assert matches(op(Reduce, Hole("x"), fn="sum", axes=Bind("axes")), total) == {
        "x": vector("x"),
        "axes": (0,),
    }


def test_results_of_a_rule_are_rewritten_again_and_names_follow():
    x = vector("x")
    half = b.map_("neg", b.map_("neg", x))
    y = b.map_("exp", b.map_("add", half, b.map_("neg", b.map_("neg", half))))
    after = rewrite(Graph((("x", x),), (("y", y),), {y: "exp", y.args[0]: "sum"}), (DOUBLE, NEGATION))
    double = b.map_("mul", x, b.scalar(2.0, x))
    assert after.outputs == (("y", b.map_("exp", double)),)
    assert after.names == {b.map_("exp", double): "exp", double: "sum"}


def test_outputs_keep_their_layers_where_these_turn_out_to_change_nothing():
    x = vector("x")
    y = b.map_("exp", x)
    same, again = b.map_("neg", b.map_("neg", y)), b.map_("neg", b.map_("neg", x))
    names = {x: "x", y: "exp", same: "same", again: "again"}
    outputs = (("y", y), ("a", same), ("b", again), ("c", y))
    after = rewrite(Graph((("x", x),), outputs, names, (), {"c": "copy"}), (NEGATION,))
    assert [value for _, value in after.outputs] == [y, y, x, y]
    assert after.makers == {"a": "same", "b": "again", "c": "copy"}


def test_a_graph_that_no_rule_fits_is_the_same_object():
    graph = Graph((), (("y", b.map_("neg", vector("x"))),))
    assert rewrite(graph, (DOUBLE, NEGATION)) is graph


def test_a_guard_rejects_with_a_reason():
    refusing = rule(NEGATION.find, NEGATION.make, guard=lambda out: Fail(f"{out.dtype.name} stays"))
    value = b.map_("neg", b.map_("neg", vector("x")))
    assert refusing.apply(value) == Fail("FLOAT stays")
    assert rewrite(Graph((), (("y", value),)), (refusing,)).outputs == (("y", value),)


def test_a_long_chain_needs_no_recursion():
    value = x = vector("x")
    for _ in range(5000):
        value = apply(Map("neg", DataType.FLOAT), value)
    assert rewrite(Graph((), (("y", value),)), (NEGATION,)).outputs == (("y", x),)


def test_a_rule_that_changes_the_type_is_a_bug():
    wrong = rule(lambda x: op(Map, x, fn="neg"), lambda x: b.cast(x, DataType.HALF))
    with pytest.raises(AssertionError, match="became"):
        wrong.apply(b.map_("neg", vector("x")))
