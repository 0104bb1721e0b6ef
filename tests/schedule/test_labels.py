"""The labels of kernels list their layers in one line and are unique."""

import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.core.lines import in_line
from anyrt.ir.graph import Graph, Symbol
from anyrt.prims import build as b
from anyrt.prims.taps import Linear
from anyrt.schedule.cost import Sizes
from anyrt.schedule.labels import _with_roles, distinct, joined
from tests import native

N, M = Sym("x.0", 1, 64), Sym("y.0", 1, 64)


def names(graph: Graph) -> list[str]:
    return [call.name for call in native.lower(graph, {}, Sizes({"x.0": 5, "y.0": 5})).module.calls]


def test_a_kernel_is_called_by_its_layers_in_the_order_of_the_graph():
    x = b.param("x", (4, 8), DataType.FLOAT)
    y = b.map_("neg", x)
    z = b.map_("abs", y)
    total = b.map_("add", y, z)
    assert names(Graph((("x", x),), (("out", total),), {y: "y", z: "z", total: "total"})) == ["y+z+total"]


def test_a_layer_that_two_kernels_compute_stands_in_both_names():
    x = b.param("x", (64, 512), DataType.FLOAT)
    share = b.map_("div", x, b.reduce_("sum", x, (0, 1)))
    y = b.map_("tanh", share)
    assert names(Graph((("x", x),), (("y", y),), {share: "share", y: "tanh"})) == ["share", "share+tanh"]


def test_kernels_of_the_same_layer_say_what_they_do():
    x = b.param("x", (64, 512), DataType.FLOAT)
    share = b.map_("div", x, b.reduce_("sum", x, (0, 1)))
    shown = names(Graph((("x", x),), (("y", share),), {share: "share"}))
    assert shown == ["share: sums", "share: elements"]


def test_pieces_of_a_concatenation_are_counted():
    x = b.param("x", (4, 8), DataType.FLOAT)
    y = b.map_("neg", x)
    both = b.concat([x, y], 0)
    result = names(Graph((("x", x),), (("out", both),), {x: "x", y: "y", both: "both"}))
    assert result == ["both[0]", "y+both[1]"]


def test_versions_for_sizes_have_different_names():
    x, y = (b.param(s.name[0], (s.dim, 8), DataType.FLOAT) for s in (N, M))
    total = b.map_("add", x, y)
    symbols = (Symbol(N, "x", 0), Symbol(M, "y", 0))
    graph = Graph((("x", x), ("y", y)), (("z", total),), {total: "total"}, symbols)
    assert names(graph) == ["total", "total (any sizes)"]


def test_a_layer_that_changes_nothing_names_the_copy_that_it_is():
    x = b.param("x", (4, 8), DataType.FLOAT)
    y = b.map_("neg", x)
    outputs = (("a", y), ("b", y), ("c", x), ("d", x))
    graph = Graph((("x", x),), outputs, {x: "x", y: "neg"}, (), {"b": "twice", "d": "pass"})
    assert names(graph) == ["neg", "twice", "x", "pass"]


def test_kernels_of_layers_without_names_are_called_by_a_primitive():
    x = b.param("x", (4, 8), DataType.FLOAT)
    y = b.map_("neg", x)
    assert names(Graph((("x", x),), (("y", y),))) == ["map"]
    assert names(Graph((("x", x),), (("y", y),), {y: " "})) == ["' '"]


def test_no_kernel_is_called_as_one_that_fills_tables():
    x = b.param("x", (1, 4, 32, 32), DataType.FLOAT)
    y = b.taps(x, 2, 64, Linear(Coordinate.HALF_PIXEL, Selector.FORMULA))
    assert names(Graph((("x", x),), (("y", y),), {y: "table0"})) == ["table0#2"]


@pytest.mark.parametrize(
    ("layers", "name"),
    [
        (["norm1", "gelu1", "add1"], "norm1+gelu1+add1"),
        ([f"layer{n}" for n in range(3000)], "layer0+(2998 more)+layer2999"),
        (["a" * 60, "b" * 60], "a" * 30 + "..." + "a" * 16 + "+" + "b" * 30 + "..." + "b" * 16),
        (["a" * 100], "a" * 100),
        (["a" * 60 + "b" * 60], "a" * 60 + "b" * 4 + "..." + "b" * 33),
    ],
    ids=["short", "many", "two long ones", "just short enough", "one long one"],
)
def test_long_names_are_cut_to_the_first_how_many_and_the_last(layers, name):
    assert (joined(layers), len(name) <= 100) == (name, True)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ('"a"+b', '"a"+b'),
        (" ", "' '"),
        ("a\nb", r"a\nb"),
        ("größe ☃", "größe ☃"),
        ("a\x1b[0mb\u2028", r"a\x1b[0mb\u2028"),
    ],
)
def test_names_stand_in_one_line(name, shown):
    assert in_line(name) == shown


def test_many_kernels_of_one_layer_are_numbered_in_one_pass():
    assert [*distinct(["a"] * 100_000)][-1] == "a#100000"


def test_names_differ_from_each_other_and_from_what_is_taken():
    assert [*distinct(["a", "a", "a#2", "b", "a"], ["b"])] == ["a", "a#2", "a#2#2", "b#2", "a#3"]


def test_kernels_of_one_layer_are_distinguished_by_their_roles():
    results = [
        ("conv", "border", ""),
        ("conv", "products", ""),
        ("cat", "elements", "[0]"),
        ("cat", "elements", "[1]"),
    ]
    assert [*_with_roles(results)] == ["conv: border", "conv: products", "cat[0]", "cat[1]"]
