"""Nodes with several results are interned, printed, checked, run and rewritten like those with one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from anyrt.compiler.bounds import Bounded, bounded
from anyrt.core.dims import Dim, Sym
from anyrt.core.enums import DataType
from anyrt.core.errors import PlanError, ShapeError
from anyrt.ir.graph import Graph, Node, Type, Value, apply, apply_all, users, walk
from anyrt.ir.interpret import interpret
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read
from anyrt.ir.rewrite import Rule, op, result, rewrite, transformed
from anyrt.ir.symbolic import known
from anyrt.ir.text import Vocabulary, parse_graph, print_graph
from anyrt.ir.verify import graph_faults
from anyrt.passes import PASSES
from anyrt.passes.fold_constants import fold_constants
from anyrt.prims import build as b
from anyrt.prims.const import Const, Param
from anyrt.prims.table import CLASSES

F, I32 = DataType.FLOAT, DataType.INT32
N = Sym("n", 1, 64)


@dataclass(frozen=True, slots=True)
class Split(Prim):
    """The first `at` elements of a vector, and the others as int32."""

    at: Dim

    def infer(self, args: tuple[Type, ...]) -> tuple[Type, ...]:
        if len(args) != 1:
            raise ShapeError("AR103", "split", got=f"{len(args)} operands")
        return Type((self.at,), args[0].dtype), Type((args[0].shape[0] - self.at,), I32)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> tuple[Array, ...]:
        CALLS.append(out)
        (first,) = out
        return args[0][:first], args[0][first:].astype(np.int32)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        raise AssertionError("nothing here is compiled")


CALLS: list[tuple[int, ...]] = []
WORDS = Vocabulary({**CLASSES, "Split": Split}, Param, {})
X = b.param("x", (N.dim,), F)
LEFT, RIGHT = apply_all(Split(2), X)
BOTH = Graph((("x", X),), (("l", LEFT), ("r", b.map_("neg", RIGHT))), {RIGHT: "others"})


def test_equal_applications_give_equal_results():
    assert apply_all(Split(2), X) == (LEFT, RIGHT)
    assert LEFT.node is RIGHT.node
    assert LEFT != RIGHT
    assert (LEFT.type, RIGHT.type) == (Type((2,), F), Type((N - 2,), I32))


def test_apply_is_for_primitives_with_one_result():
    with pytest.raises(AssertionError, match="has 2 results"):
        apply(Split(2), X)


def test_results_are_printed_with_their_number():
    assert print_graph(BOTH, WORDS).splitlines() == [
        "symbol n 1..64",
        'v0: FLOAT[n] = Param(name="x", type=FLOAT[n])()',
        'v1: FLOAT[2], INT32[-2 + n] = Split(at=2)(v0) None, "others"',
        'v2: INT32[-2 + n] = Map(fn="neg", dtype=INT32)(v1.1)',
        'input "x" v0',
        'output "l" v1.0',
        'output "r" v2',
    ]


def test_parsed_results_are_the_same_interned_ones():
    again = parse_graph(print_graph(BOTH, WORDS), WORDS)
    assert again == BOTH
    assert again.names == BOTH.names


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(v1.1)", "(v1.2)"),
        ("(v1.1)", "(v1)"),
        ("FLOAT[2], INT32[-2 + n] =", "FLOAT[2] ="),
        ("INT32[-2 + n] = Split", "INT32[2] = Split"),
        ("v2: INT32[-2 + n] = Map", "v2: INT32[-2 + n], FLOAT[1] = Map"),
        ('None, "others"', '"others"'),
        ('None, "others"', 'None, "others", None'),
        ("v2: ", "v1.1: "),
    ],
)
def test_tampered_results_are_rejected(old, new, golden_text):
    text = print_graph(BOTH, WORDS)
    assert old in text
    with pytest.raises(PlanError) as caught:
        parse_graph(text.replace(old, new, 1), WORDS)
    golden_text(caught.value)


def test_a_node_runs_once_for_all_its_results():
    CALLS.clear()
    out = interpret(BOTH, {"x": np.float32([1, 2, 3, 4])})
    assert (out["l"].tolist(), out["r"].tolist()) == ([1, 2], [-3, -4])
    assert CALLS == [(2,)]


def test_results_that_nobody_needs_are_not_walked():
    assert list(walk([BOTH.outputs[1][1]])) == [X, RIGHT, BOTH.outputs[1][1]]
    assert users(BOTH)[X] == [LEFT, RIGHT]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Value(LEFT.node, 2), "is result 2 of 2"),
        (Value(Node(Split(2), (X,), (LEFT.type,))), "has type float[2], its rule infers float[2], int32"),
        (Value(Node(Split(2), (X,), (LEFT.type, LEFT.type)), 1), "has type float[2], float[2], its rule"),
    ],
)
def test_results_that_cannot_be_are_found(value, said):
    faults = list(graph_faults(Graph((("x", X),), (("y", value),)), Param))
    assert any(said in f for f in faults), faults


def test_a_change_of_operands_keeps_the_number_of_a_result():
    y = b.param("y", (N.dim,), F)
    graph = transformed(Graph((("y", y),), BOTH.outputs), lambda old, new: y if old == X else new)
    assert [v for _, v in graph.outputs] == [
        apply_all(Split(2), y)[0],
        b.map_("neg", apply_all(Split(2), y)[1]),
    ]


def test_a_rule_matches_the_result_that_it_names():
    rules = [
        Rule(
            "first", lambda x: op(Split, x), lambda x, out: b.slice_(x, (0,), out.shape, (1,)), lambda _: LEFT
        ),
        Rule("second", lambda x: result(1, op(Split, x)), lambda out: b.map_("abs", out), lambda _: RIGHT),
    ]
    assert rules[0].apply(LEFT) == b.slice_(X, (0,), (2,), (1,))
    assert rules[1].apply(RIGHT) == b.map_("abs", RIGHT)
    assert [r.apply(v).reason for r, v in zip(rules, (RIGHT, LEFT), strict=True)] == ["another pattern"] * 2
    assert rewrite(BOTH, rules[:1]).outputs == (("l", b.slice_(X, (0,), (2,), (1,))), BOTH.outputs[1])


def test_passes_keep_results_apart():
    for each in PASSES:
        assert each.run(BOTH) is BOTH


def test_each_result_of_constants_is_folded():
    left, right = apply_all(Split(1), b.const([5.0, 6.0, 7.0], F))
    graph = Graph((), (("l", left), ("r", right)))
    held = [v.op.blob.data.tolist() for _, v in fold_constants(graph).outputs if isinstance(v.op, Const)]
    assert held == [[5.0], [6, 7]]


def test_errors_are_bounded_for_each_result():
    x = Bounded(np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.25, 0.5]))
    results = [bounded(v, (x,), {"n": 3}) for v in (LEFT, RIGHT)]
    assert [(f.array.tolist(), f.error.tolist()) for f in results] == [([1, 2], [0, 0.25]), ([3], [1])]


def test_elements_of_several_results_are_not_followed():
    sizes = b.shape_of(b.param("x", (N.dim, 4, 5), F))
    assert known(apply_all(Split(1), sizes)[1]) is None
