"""Graphs as text: parsing the printed text returns the same interned nodes; tampered text gives
clean errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrt.core.dims import Sym
from anyrt.core.enums import (
    DataType,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    ResizeSelector,
    SampleMode,
)
from anyrt.core.errors import PlanError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.graph import Graph, Symbol, Value, apply
from anyrt.ir.symbolic import known
from anyrt.ir.text import parse_graph, print_graph
from anyrt.prims import build as b
from anyrt.prims.checked import Checked
from anyrt.prims.const import Blob, Const
from anyrt.prims.table import CLASSES, PRIMITIVES, named_blobs, vocabulary
from anyrt.prims.taps import Border, Cubic, Linear, Nearest
from tests.messages import diagnostic

F, I32, I64 = DataType.FLOAT, DataType.INT32, DataType.INT64
HALF_PIXEL, FORMULA = ResizeCoordinateTransformation.HALF_PIXEL, ResizeSelector.FORMULA
N, M = Sym("n", 1, 64), Sym("batch size", 0)
X = b.param("x", (N.dim, M.dim, 4), F)


def round_trip(graph: Graph) -> Graph:
    words = vocabulary(named_blobs(graph))
    return parse_graph(print_graph(graph, words), words)


def graph_of(*outputs: Value) -> Graph:
    return Graph((("x", X),), tuple((f"y{k}", v) for k, v in enumerate(outputs)))


def test_the_text_of_a_small_graph():
    x = b.param("x", (N.dim, 4), F)
    total = b.reduce_("sum", b.map_("mul", x, b.scalar(2.0, x)), (1,))
    graph = Graph((("x", x),), (("y", total),), {total: "row sums"}, (Symbol(N, "x", 0),))
    assert print_graph(graph, vocabulary(named_blobs(graph))).splitlines() == [
        "symbol n 1..64",
        'v0: FLOAT[n, 4] = Param(name="x", type=FLOAT[n, 4])()',
        'v1: FLOAT[1, 1] = Const(blob=@"const0", shape=(1, 1))()',
        'v2: FLOAT[n, 4] = Map(fn="mul", dtype=FLOAT)(v0, v1)',
        'v3: FLOAT[n, 1] = Reduce(fn="sum", axes=(1))(v2) "row sums"',
        'input "x" v0',
        'output "y" v3',
        'follow n "x" 0',
    ]


def test_outputs_that_go_by_another_name_say_which_layer_makes_them():
    y = b.map_("neg", X)
    graph = Graph((("x", X),), (("a", y), ("b", y)), {y: "neg"}, (), {"b": "twice"})
    text = print_graph(graph, vocabulary({}))
    assert text.splitlines()[-2:] == ['output "a" v1', 'output "b" v1 "twice"']
    assert parse_graph(text, vocabulary({})).makers == {"b": "twice"}


RULES = [
    Nearest(HALF_PIXEL, FORMULA, ResizeRoundMode.CEIL),
    Linear(HALF_PIXEL, ResizeSelector.UPPER),
    Cubic(HALF_PIXEL, FORMULA, -0.75, True),
    Border(SampleMode.REFLECT, M * -1, 2),
]
ASKED = Requirement(N.dim, Relation.LE, M + 3, "AR103", 'layer "a"', "make it\nfit")


@st.composite
def values(draw: st.DrawFn) -> Value:
    """A chain of random primitives from `X`."""
    value = X
    for _ in range(draw(st.integers(0, 6))):
        other = b.const(np.full(value.type.rank * (1,), draw(st.sampled_from([0.5, -1.0, np.inf]))), F)
        value = draw(
            st.sampled_from(
                [
                    b.map_("add", value, other),
                    b.map_("max", value, value),
                    b.cast(b.cast(value, DataType.HALF), F),
                    b.transpose(value, tuple(reversed(range(value.type.rank)))),
                    b.concat((value, value), draw(st.integers(0, value.type.rank - 1))),
                    b.pad(value, (1,) * value.type.rank, (M.dim,) + (0,) * (value.type.rank - 1), -np.inf),
                    b.reshape(value, (b.volume(value),)),
                    b.reduce_("max", value, (0,)),
                    b.taps(value, 0, N * 2, draw(st.sampled_from(RULES))),
                    apply(Checked((ASKED,)), value),
                ]
            )
        )
    return value


@settings(max_examples=100)
@given(values(), values())
def test_parsed_graphs_are_the_same_interned_nodes(first: Value, second: Value):
    graph = Graph((("x", X),), (("y", first), ("z", second)), {first: 'a "name"'}, (Symbol(N, "x", 0),))
    again = round_trip(graph)
    assert again == graph
    assert again.names == graph.names
    assert [v.node for _, v in again.outputs] == [first.node, second.node]


def test_every_primitive_and_attribute_has_a_text():
    k = b.param("k", (2,), I64, (Sym("k#0"), Sym("k#1")))
    extra = (b.shape_of(X), b.iota((N.dim, 2), 1, I32), k, *(b.taps(X, 2, 7, rule) for rule in RULES))
    graph = Graph((("x", X), ("k", k)), tuple((f"y{i}", v) for i, v in enumerate(extra)))
    assert round_trip(graph) == graph
    assert set(PRIMITIVES) <= set(CLASSES.values())


def test_constants_keep_names_and_get_unique_ones():
    def blob(name: str) -> Value:
        return apply(Const(Blob(np.zeros(2, np.float32), F, name), (2,)))

    graph = graph_of(blob("w"), blob("w"), blob(""), blob("const1"))
    assert list(named_blobs(graph)) == ["w", "const1", "const2", "const3"]
    assert round_trip(graph) == graph


GOOD = print_graph(graph_of(b.reshape(X, (N * 4, M.dim))), vocabulary({}))


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("Reshape", "Reshuffle", "AR605", "a Prim"),
        ("Reshape", "Axis", "AR605", "a Prim"),
        ("shape=(4*n", "form=(4*n", "AR605", "'shape'"),
        ('shape=(4*n, "batch size")', "shape=(", "AR605", "')'"),
        ('shape=(4*n, "batch size")', "shape=(3)", "AR607", "type float["),
        ('shape=(4*n, "batch size")', "", "AR605", "without shape"),
        ("v1: FLOAT[4*n", "v1: FLOAT[5*n", "AR607", "type"),
        ("v1: FLOAT", "v0: FLOAT", "AR607", "a second v0"),
        ("(v0)", "(v1)", "AR607", "a value defined above"),
        ("(v0)", "()", "AR607", "AR406"),
        ("symbol n 1..64", "symbol n 64..1", "AR605", "the range"),
        ("symbol n 1..64", "symbol n 1..64 symbol n 1..2", "AR605", "a second symbol"),
        ("symbol n 1..64", "", "AR605", "a known symbol"),
        ('input "x" v0', 'input "x" v1', "AR607", "is a result of Reshape"),
        ('input "x" v0', "", "AR607", "is not an input"),
        ('output "y0" v1', "", "AR607", "no outputs"),
        ('output "y0" v1', 'output "y0" v1 output "y0" v0', "AR607", "2 outputs"),
        ('output "y0" v1', 'output "y0" v1 $', "AR605", "line"),
        ('name="x"', "name=3", "AR605", "a text in quotes"),
        ("4])()", "4], dynamic_values=(n, n))()", "AR607", "AR202"),
        ("type=FLOAT", "type=FLOATS", "AR605", "a member of DataType"),
        ("4])()", '4])() follow n "q" 0', "AR607", "'q', which is not an input"),
    ],
)
def test_tampered_text_is_rejected(old: str, new: str, code: str, said: str):
    assert old in GOOD
    with pytest.raises(PlanError) as caught:
        parse_graph(GOOD.replace(old, new, 1), vocabulary({}), "plan.graph")
    assert caught.value.code == code
    assert "plan.graph" in caught.value.where
    assert said in str(caught.value)


def test_a_constant_that_is_not_there_is_rejected():
    graph = graph_of(b.map_("add", X, b.scalar(1.0, X)))
    text = print_graph(graph, vocabulary(named_blobs(graph)))
    with pytest.raises(PlanError, match=r"AR607.*const0"):
        parse_graph(text, vocabulary({}))


RICH = print_graph(
    graph_of(
        *(b.taps(X, 2, 7, r) for r in RULES), b.pad(X, (0, 0, 1), (0, 0, 1), 0.5), apply(Checked((ASKED,)), X)
    ),
    vocabulary({}),
)


@settings(max_examples=300)
@given(st.data())
def test_mutated_text_parses_or_is_rejected(data: st.DataObject):
    at = data.draw(st.integers(0, len(RICH) - 1))
    length = data.draw(st.integers(0, 8))
    words = st.sampled_from(
        ["-1", "0", "n", "(", ")", "99999999999", '"x"', "v0", "None", "nan", ", ", "UPPER", "@"]
    )
    text = RICH[:at] + data.draw(words) + RICH[at + length :]
    try:
        graph = parse_graph(text, vocabulary({}))
    except PlanError:
        return
    assert round_trip(graph) == graph


def test_deep_nesting_is_rejected():
    with pytest.raises(PlanError, match=diagnostic("AR605", "graph, line 1", 64)):
        parse_graph("v0: FLOAT[" + "min(1, " * 70 + "1" + ")" * 70 + "] = ", vocabulary({}))


def test_sizes_whose_product_would_explode_are_rejected():
    names = [f"s{k}" for k in range(40)]
    symbols = "".join(f"symbol {name} 1..9\n" for name in names)
    shape = ", ".join([" + ".join(names)] * 8)
    with pytest.raises(PlanError, match=r"AR605.*terms"):
        parse_graph(
            f'{symbols}v0: FLOAT[{shape}] = Param(name="x", type=FLOAT[1])()',
            vocabulary({}),
        )


def test_empty_tensors_with_enormous_sizes_are_harmless():
    text = "v0: INT64[0, 4611686018427387904] = Iota(shape=(0, 4611686018427387904), axis=0, dtype=INT64)()"
    graph = parse_graph(f'{text}\noutput "y" v0', vocabulary({}))
    assert known(graph.outputs[0][1]) is None
