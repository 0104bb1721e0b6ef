"""Powers with constant exponents after all passes."""

import numpy as np
import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Value, walk
from anyrt.ops._math import mean
from anyrt.passes import PASSES
from anyrt.prims import build as b
from anyrt.prims.const import Param
from anyrt.prims.map import Map

F, H = DataType.FLOAT, DataType.HALF
N = Sym("n", 1, 100).dim
X, ROW = b.param("x", (4, 6), F), b.param("row", (4, 1), F)


def optimised(out: Value) -> Value:
    graph = Graph(tuple((v.op.name, v) for v in walk([out]) if isinstance(v.op, Param)), (("y", out),))
    for step in PASSES:
        graph = step.run(graph)
    return graph.outputs[0][1]


def functions(out: Value) -> list[str]:
    return [v.op.fn for v in walk([optimised(out)]) if isinstance(v.op, Map)]


def powered(x: Value, *exponents: float) -> Value:
    return b.map_("pow", x, b.const(np.reshape(exponents, (1, -1)), x.dtype))


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [
        (2, ["square"]),
        (3, ["square", "mul"]),
        (0.5, ["eq", "add", "sqrt", "select"]),
        (-0.5, ["eq", "add", "sqrt", "select", "recip"]),
        (-1, ["recip"]),
        (1, []),
        (0, []),
        (4, ["pow"]),
    ],
)
def test_a_power_becomes(exponent, expected):
    assert functions(powered(X, exponent)) == expected


def test_a_power_of_a_nonnegative_value_is_a_root():
    variance = b.map_("add", mean(b.map_("mul", X, X), (1,)), b.scalar(1e-5, X))
    assert functions(powered(variance, 0.5)) == ["square", "div", "add", "sqrt"]
    assert functions(powered(b.map_("add", b.map_("abs", X), ROW), 0.5))[-1] == "select"
    assert functions(powered(b.map_("max", X, b.scalar(0.0, X)), 0.5))[-1] == "select"  # of 0 and −0


@pytest.mark.parametrize(
    "exponents",
    [
        b.const(np.full((4, 6), 2.0), F),
        b.expand(b.const([[2.0]], F), (4, 6)),
        b.reshape(b.const(np.full(24, 2.0), F), (4, 6)),
        b.cast(b.const([[2.0]], H), F),
    ],
    ids=["all", "repeated", "reshaped", "cast"],
)
def test_equal_exponents_are_one_wherever_they_come_from(exponents):
    assert functions(b.map_("pow", X, exponents)) == ["square"]


def test_exponents_that_differ_stay():
    assert functions(powered(X, 2, 2, 2, 2, 2, 3)) == ["pow"]
    assert functions(b.map_("pow", X, ROW)) == ["pow"]


def test_exponents_of_more_elements_than_bases_repeat_the_result():
    y = optimised(b.map_("pow", ROW, b.expand(b.const([[2.0]], F), (4, N))))
    assert y.shape == (4, N)
    assert functions(y) == ["square"]


def test_open_sizes_that_may_meet_in_two_ways_keep_the_power():
    exponents = b.expand(b.const([[2.0]], F), (Sym("m", 1, 100).dim, 6))
    assert functions(b.map_("pow", b.param("x", (N, 6), F), exponents)) == ["pow"]


@pytest.mark.parametrize(
    ("divisors", "expected"),
    [
        ([0.5, 4, -2], ["mul"]),
        ([2.0**126, 2.0**-126, 1], ["mul"]),
        ([0.5, 3, 2], ["div"]),
        ([2.0**127, 1, 1], ["div"]),
        ([2, 0, 1], ["div"]),
        ([2, np.inf, 1], ["div"]),
        ([4], ["div"]),
    ],
)
def test_a_quotient_by_powers_of_two_is_a_product(divisors, expected):
    column = b.const(np.reshape(divisors, (-1, 1)), F)
    assert functions(b.map_("div", b.param("x", (len(divisors), 6), F), column)) == expected
