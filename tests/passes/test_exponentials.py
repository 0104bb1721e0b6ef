"""Quotients by sums of exponentials: which of them become products with a reciprocal."""

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph
from anyrt.passes.simplify import simplify
from anyrt.prims import build as b

X = b.param("x", (3, 4), DataType.FLOAT)


def functions(y):
    """The function of the result after simplifying."""
    ((_, value),) = simplify(Graph((("x", X),), (("y", y),))).outputs
    return value.op.fn


def powers(axis, most=None):
    return b.map_("exp", b.map_("sub", X, b.reduce_("max", X, (axis,)) if most is None else most))


def test_a_quotient_by_the_sum_of_a_rows_powers_is_a_product():
    assert functions(b.map_("div", powers(1), b.reduce_("sum", powers(1), (1,)))) == "mul"


def test_a_sum_that_is_made_one_at_least_has_a_reciprocal():
    most = b.map_("max", b.reduce_("max", X, (1,)), b.scalar(-1e30, X))
    total = b.reduce_("sum", powers(1, most), (1,))
    assert functions(b.map_("div", X, b.map_("max", total, b.scalar(1.0, X)))) == "mul"
    assert functions(b.map_("div", X, total)) == "div"


def test_sums_that_may_be_small_stay_divisors():
    by_column = b.reduce_("sum", powers(1), (0,))
    assert functions(b.map_("div", X, by_column)) == "div"
    other = b.reduce_("max", b.map_("neg", X), (1,))
    assert functions(b.map_("div", X, b.reduce_("sum", powers(1, other), (1,)))) == "div"


def test_a_part_of_a_larger_tensor_repeats_nothing():
    large = b.param("y", (3, 9), DataType.FLOAT)
    part = b.slice_(large, (0, 2), (3, 4), (1, 1))
    ((_, value),) = simplify(Graph((("x", X), ("y", large)), (("z", b.map_("div", X, part)),))).outputs
    assert value.op.fn == "div"
