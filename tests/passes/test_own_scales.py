"""Scales and zero points are separate constants, each with one reader."""

import numpy as np

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, users
from anyrt.ir.text import parse_graph, print_graph
from anyrt.ops._quantized import codes, numbers
from anyrt.passes.own_scales import own_scales
from anyrt.prims import build as b
from anyrt.prims.const import Const
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


def test_a_graph_without_codes_stays_as_it_is():
    graph = graph_of(lambda x: b.map_("div", b.map_("mul", x, STEP), STEP))
    assert own_scales(graph) is graph


def test_uses_stand_in_a_plan():
    after = own_scales(graph_of(there_and_back))
    words = vocabulary(named_blobs(after))
    assert parse_graph(print_graph(after, words), words, "plan") == after
