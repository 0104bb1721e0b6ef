"""Short forms are used only for results that become half types."""

import pytest

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, walk
from anyrt.passes.shorten import shorten
from anyrt.prims import build as b
from anyrt.prims.map import Map

X = b.param("x", (4, 64), DataType.FLOAT)
ROW = b.param("row", (4, 1), DataType.FLOAT)
HALF = b.param("half", (4, 64), DataType.HALF)


def functions(y):
    graph = Graph((("x", X), ("row", ROW), ("half", HALF)), (("y", y),), {}, ())
    return {v.op.fn for v in walk(v for _, v in shorten(graph).outputs) if isinstance(v.op, Map)}


def halved(y):
    return b.cast(y, DataType.HALF)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (b.map_("sigmoid", X), {"sigmoid"}),
        (b.map_("sigmoid", HALF), {"sigmoid_short"}),
        (halved(b.map_("sigmoid", X)), {"sigmoid_short", "cast"}),
        (b.cast(b.map_("sigmoid", X), DataType.INT32), {"sigmoid", "cast"}),
        (halved(b.map_("mul", X, b.map_("sigmoid", X))), {"mul", "sigmoid_short", "cast"}),
        (halved(b.map_("add", X, b.map_("sigmoid", X))), {"add", "sigmoid", "cast"}),
        (halved(b.reduce_("sum", b.map_("sigmoid", X), [1])), {"sigmoid", "cast"}),
        (halved(b.transpose(b.reshape(b.map_("sigmoid", X), (8, 32)), (1, 0))), {"sigmoid_short", "cast"}),
        (b.map_("div", X, ROW), {"div"}),
        (halved(b.map_("div", X, ROW)), {"div_short", "cast"}),
        (halved(b.map_("div", ROW, X)), {"div", "cast"}),
        (halved(b.map_("div", X, X)), {"div", "cast"}),
        (halved(b.map_("div", ROW, ROW)), {"div", "cast"}),
        (b.map_("div", HALF, halved(ROW)), {"div_short", "cast"}),
    ],
)
def test_short_forms(y, expected):
    assert functions(y) == expected


def test_a_result_that_is_an_output_too_keeps_its_form():
    y = b.map_("sigmoid", X)
    graph = Graph((("x", X),), (("y", y), ("half", halved(y))), {}, ())
    assert shorten(graph) is graph


def test_one_user_that_adds_is_enough_to_keep_it():
    y = b.map_("sigmoid", X)
    both = b.map_("mul", y, b.cast(halved(b.map_("add", y, X)), DataType.FLOAT))
    assert functions(halved(both)) == {"sigmoid", "mul", "add", "cast"}


def test_a_float32_that_a_layer_gives_keeps_its_form():
    y = b.map_("sigmoid", X)
    graph = Graph((("x", X),), (("half", halved(y)),), {y: "layer"}, ())
    assert shorten(graph) is graph
