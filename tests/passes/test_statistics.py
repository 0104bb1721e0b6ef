"""Means, variances and quotients by roots in every spelling, after all passes."""

from functools import partial

import numpy as np
import pytest

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Value, walk
from anyrt.ir.text import print_graph
from anyrt.ops import OPS
from anyrt.ops._expand import expand_layer
from anyrt.ops._math import mean
from anyrt.ops._record import Layer
from anyrt.ops.normalization import NormalizationAttrs
from anyrt.passes import PASSES
from anyrt.prims import build as b
from anyrt.prims.const import Param
from anyrt.prims.map import Map
from anyrt.prims.table import named_blobs, vocabulary

F, H = DataType.FLOAT, DataType.HALF
X, ROW = b.param("x", (4, 6), F), b.param("row", (4, 1), F)
ROWS = b.param("x", (2, 5, 24), F)
EPSILON = 1e-5


def optimised(out: Value) -> Value:
    graph = Graph(tuple((v.op.name, v) for v in walk([out]) if isinstance(v.op, Param)), (("y", out),))
    for step in PASSES:
        graph = step.run(graph)
    return graph.outputs[0][1]


def functions(out: Value) -> list[str]:
    return [v.op.fn for v in walk([optimised(out)]) if isinstance(v.op, Map)]


def text(out: Value) -> str:
    graph = Graph((), (("y", optimised(out)),))
    return print_graph(graph, vocabulary(named_blobs(graph)))


def layer(x: Value, gamma: Value, beta: Value) -> Value:
    op = next(op for op in OPS.values() if op.cls == "INormalizationLayer")
    return expand_layer(op, Layer("n", NormalizationAttrs(0b100, EPSILON), (x, gamma, beta)))[0]


MEANS = {
    "average": lambda x: mean(x, (2,)),
    "sum by reciprocal": lambda x: b.map_("mul", b.reduce_("sum", x, (2,)), b.scalar(1 / 24, x)),
    "reciprocal by sum": lambda x: b.map_("mul", b.scalar(1 / 24, x), b.reduce_("sum", x, (2,))),
}
SQUARES = {"power": lambda d: b.map_("pow", d, b.scalar(2.0, d)), "product": lambda d: b.map_("mul", d, d)}
ROOT = {
    "sqrt": lambda v: b.map_("sqrt", v),
    "power 0.5": lambda v: b.map_("pow", v, b.scalar(0.5, v)),
    "expanded": lambda v: b.expand(b.map_("sqrt", v), (2, 5, 24)),
}
INVERSE = {
    "power -0.5": lambda v: b.map_("pow", v, b.scalar(-0.5, v)),
    "recip": lambda v: b.map_("recip", b.map_("sqrt", v)),
    "1 / sqrt": lambda v: b.map_("div", b.scalar(1.0, v), b.map_("sqrt", v)),
    "power -1": lambda v: b.map_("pow", b.map_("sqrt", v), b.scalar(-1.0, v)),
}
QUOTIENTS = {
    **{n: partial(lambda f, d, v, g: b.map_("mul", b.map_("div", d, f(v)), g), f) for n, f in ROOT.items()},
    **{
        n: partial(lambda f, d, v, g: b.map_("mul", g, b.map_("mul", d, f(v))), f) for n, f in INVERSE.items()
    },
    "gamma / root": lambda d, v, g: b.map_("mul", d, b.map_("div", g, b.map_("sqrt", v))),
    "scaled / root": lambda d, v, g: b.map_("div", b.map_("mul", d, g), b.map_("sqrt", v)),
    "inverse first": lambda d, v, g: b.map_("mul", b.map_("mul", b.map_("recip", b.map_("sqrt", v)), d), g),
}


@pytest.mark.parametrize("quotient", QUOTIENTS.values(), ids=QUOTIENTS)
@pytest.mark.parametrize("square", SQUARES.values(), ids=SQUARES)
@pytest.mark.parametrize("average", MEANS.values(), ids=MEANS)
def test_a_normalisation_by_hand_is_the_graph_of_the_layer(average, square, quotient):
    gamma, beta = (b.const(np.linspace(low, 1.5, 24).reshape(1, 1, 24), F) for low in (0.5, -1))
    d = b.map_("sub", ROWS, average(ROWS))
    variance = b.map_("add", average(square(d)), b.scalar(EPSILON, d))
    y = b.map_("add", quotient(d, variance, gamma), beta)
    assert text(y) == text(layer(ROWS, gamma, beta))


def test_a_sum_that_the_reciprocal_of_its_length_repeats_stays_a_product():
    y = b.map_("mul", b.reduce_("sum", X, (0,)), b.const(np.full((3, 6), 0.25), F))
    assert (optimised(y).shape, functions(y)) == ((3, 6), ["mul"])


def test_a_variance_from_squares_is_not_taken_for_one_around_the_mean():
    variance = b.map_("sub", mean(b.map_("square", X), (1,)), b.map_("square", mean(X, (1,))))
    assert functions(variance) == ["square", "div", "div", "square", "sub"]


def test_a_half_type_is_scaled_and_shifted_in_float32():
    x = b.param("x", (2, 8), H)
    r = b.map_("recip", b.map_("sqrt", b.param("v", (2, 1), H)))
    c = b.const([np.arange(8.0)], H)
    y = optimised(b.map_("add", b.map_("mul", b.map_("mul", x, r), c), c))
    (last,) = y.args
    assert (y.dtype, last.op, [a.dtype for a in last.args]) == (H, Map("fma", F), [F, F, F])


ROOTS = b.map_("sqrt", ROW)


def shifted(fn: str, number: float) -> Value:
    return b.map_(fn, ROOTS, b.scalar(number, X))


@pytest.mark.parametrize(
    ("divisor", "expected"),
    [
        (ROOTS, ["sqrt", "recip", "mul"]),
        (ROW, ["div"]),  # the reciprocal of a small number overflows
        (b.map_("sqrt", X), ["sqrt", "div"]),  # there is one for each element
        (shifted("max", 1e-12), ["sqrt", "max", "recip", "mul"]),
        (shifted("add", 1e-6), ["sqrt", "add", "recip", "mul"]),
        (shifted("add", -1.0), ["sqrt", "add", "div"]),
    ],
    ids=["root", "number", "root each", "least root", "root and more", "root less 1"],
)
def test_a_quotient_is_a_product_where_its_divisors_are_shared_roots(divisor, expected):
    assert functions(b.map_("div", X, divisor)) == expected


@pytest.mark.parametrize(("factor", "shape"), [(3.0, (4, 1)), (0.0, (4, 1)), (1e30, (4, 6)), (1e-30, (4, 6))])
def test_a_factor_is_applied_to_the_reciprocal_unless_that_may_leave_the_range(factor, shape):
    y = b.map_("mul", b.map_("mul", X, b.map_("recip", ROOTS)), b.scalar(factor, X))
    products = [v for v in walk([optimised(y)]) if isinstance(v.op, Map) and v.op.fn == "mul"]
    assert products[0].shape == shape


@pytest.mark.parametrize("dtype", [DataType.INT32, DataType.DOUBLE])
def test_types_without_multiply_add_keep_the_product_and_the_sum(dtype):
    x = b.param("x", (2, 3), dtype)
    assert functions(b.map_("add", b.map_("mul", x, b.scalar(3, x)), b.scalar(4, x))) == ["mul", "add"]
