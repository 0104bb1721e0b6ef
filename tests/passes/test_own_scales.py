"""Scales and zero points are separate constants, each with one reader."""

import numpy as np
import pytest

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, users
from anyrt.ir.interpret import interpret
from anyrt.ir.text import parse_graph, print_graph
from anyrt.ops._quantized import codes, numbers
from anyrt.passes.own_scales import own_scales
from anyrt.prims import build as b
from anyrt.prims.const import Const
from anyrt.prims.map import fn_of
from anyrt.prims.table import named_blobs, vocabulary

FLOAT = DataType.FLOAT
STEP = b.const(np.full((1, 1), 0.1), FLOAT)


def graph_of(make):
    x = b.param("x", (4, 8), FLOAT)
    return Graph((("x", x),), (("y", make(x)),))


def there_and_back(x):
    return b.map_("mul", numbers(codes(b.map_("div", x, STEP), DataType.INT8)), STEP)


def test_each_use_of_a_scale_is_a_constant_with_the_same_blob():
    after = own_scales(graph_of(there_and_back))
    read = {v: len(r) for v, r in users(after).items() if isinstance(v.op, Const) and v.op.use}
    assert [*read.values()] == [1, 1]
    assert {v.op.blob for v in read} == {STEP.op.blob}
    assert own_scales(after) is after


@pytest.mark.parametrize("zeros", [(3, 0), (0, 0), (3, -5)])
def test_codes_without_a_zero_point_get_one_if_others_have_one(zeros):
    """So that their layers differ in numbers only."""

    def pairs(x):
        y = x
        for zero in zeros:
            held = b.const(np.full((1, 1), zero), FLOAT)
            steps = numbers(codes(b.map_("div", y, STEP), DataType.INT8))
            y = b.map_("exp", b.map_("mul", b.map_("sub", steps, held) if zero else steps, STEP))
        return y

    before = graph_of(pairs)
    after = own_scales(before)
    subtracted = [v for v in after.values if fn_of(v) == "sub"]
    assert len(subtracted) == (2 if any(zeros) else 0)
    assert own_scales(after) is after
    x = np.linspace(-1, 1, 32).reshape(4, 8)
    np.testing.assert_array_equal(interpret(after, {"x": x})["y"], interpret(before, {"x": x})["y"])


def test_weights_without_a_zero_point_have_the_same_form_whatever_other_codes_have():
    held = b.const(np.full((1, 1), 3), FLOAT)
    weights = numbers(b.const(np.arange(32).reshape(4, 8), DataType.INT8))

    def product(x):
        steps = numbers(codes(b.map_("div", x, STEP), DataType.INT8))
        moved = b.map_("sub", steps, held)
        return b.map_("mul", moved, b.map_("mul", weights, STEP))

    after = own_scales(graph_of(product))
    assert weights in after.values
    assert [fn_of(v) for v in after.values].count("sub") == 1


def test_a_graph_without_codes_stays_as_it_is():
    graph = graph_of(lambda x: b.map_("div", b.map_("mul", x, STEP), STEP))
    assert own_scales(graph) is graph


def test_uses_stand_in_a_plan():
    after = own_scales(graph_of(there_and_back))
    words = vocabulary(named_blobs(after))
    assert parse_graph(print_graph(after, words), words, "plan") == after
