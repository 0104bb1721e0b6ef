"""The interpreter: names, sizes from the feeds, rounding at outputs only, errors for bad feeds."""

from __future__ import annotations

import numpy as np
import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.errors import BindingError
from anyrt.ir.graph import Graph, apply
from anyrt.ir.interpret import concrete, interpret
from anyrt.prims import build as b
from anyrt.prims.pad import Pad
from anyrt.prims.view import Axis, View

F, HALF, I8, I64 = DataType.FLOAT, DataType.HALF, DataType.INT8, DataType.INT64
N = Sym("n", 0, 64)


def test_a_row_is_normalised_by_its_sum():
    x = b.param("x", (N.dim, 2), F)
    graph = Graph((("x", x),), (("y", b.map_("div", x, b.reduce_("sum", x, (1,)))),))
    out = interpret(graph, {"x": np.array([[1, 3], [2, 2]], np.float32)})
    assert out["y"].tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert out["y"].dtype == np.float32


def test_half_rounds_at_the_output_only():
    x = b.param("x", (1,), HALF)
    sum_ = b.map_("sub", b.map_("add", x, b.const([2048], HALF)), b.const([2048], HALF))
    out = interpret(Graph((("x", x),), (("y", sum_),)), {"x": np.array([0.3], np.float16)})
    assert out["y"].tolist() == [np.float16(0.3)]


def test_int8_arithmetic_wraps():
    x = b.param("x", (2,), I8)
    out = interpret(Graph((("x", x),), (("y", b.map_("add", x, x)),)), {"x": np.array([100, -100], np.int8)})
    assert out["y"].tolist() == [-56, 56]


def test_values_of_a_shape_input_decide_a_size():
    count = Sym("k#0", 0, 9)
    x, k = b.param("x", (4,), F), b.param("k", (1,), I64, (count,))
    graph = Graph((("x", x), ("k", k)), (("y", b.slice_(x, (0,), (count.dim,), (1,))),))
    out = interpret(graph, {"x": np.arange(4, dtype=np.float32), "k": np.array([3])})
    assert out["y"].tolist() == [0, 1, 2]


def test_sizes_can_be_given():
    graph = Graph((), (("y", b.iota((N.dim,), 0, I64)),))
    assert interpret(graph, {}, {"n": 3})["y"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("feeds", "code"),
    [
        ({}, "AR701"),
        ({"x": np.zeros(3, np.float32)}, "AR704"),
        ({"x": np.zeros((2, 3), np.float32)}, "AR704"),
    ],
)
def test_bad_feeds_are_named(feeds: dict[str, np.ndarray], code: str):
    x = b.param("x", (N.dim, 2), F)
    with pytest.raises(BindingError, match=f"{code}.*x"):
        interpret(Graph((("x", x),), (("y", x),)), feeds)


def test_concrete_replaces_sizes_at_every_depth():
    view = View((N.dim,), (Axis(N - 1, 0, -1),))
    assert concrete(view, {"n": 5}) == View((5,), (Axis(4, 0, -1),))


def test_concrete_keeps_what_has_no_sizes():
    pad = Pad((1,), (2,), 0.0)
    assert concrete(pad, {"n": 5}) is pad


def test_equal_nodes_are_one_object():
    x = b.param("x", (2, 2), F)
    assert b.map_("add", x, b.scalar(1.0, x)).node is b.map_("add", x, b.scalar(1.0, x)).node
    assert apply(Pad((1, 0), (0, 0), 0.0), x).node is not apply(Pad((0, 1), (0, 0), 0.0), x).node


def test_builders_leave_out_what_changes_nothing():
    x = b.param("x", (2, 3), F)
    same = [
        b.cast(x, F),
        b.reshape(x, (2, 3)),
        b.transpose(x, (0, 1)),
        b.expand(x, (2, 3)),
        b.slice_(x, (0, 0), (2, 3), (1, 1)),
        b.pad(x, (0, 0), (0, 0), 1.0),
        b.concat((x,), 0),
        b.reduce_("sum", x, ()),
    ]
    assert same == [x] * len(same)


def test_builders_agree_with_numpy():
    data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = b.param("x", (2, 3, 4), F)
    built = {
        "transpose": (b.transpose(x, (2, 0, 1)), data.transpose(2, 0, 1)),
        "slice": (b.slice_(x, (1, 2, 0), (1, 2, 2), (1, -1, 2)), data[1:2, 2:0:-1, 0:4:2]),
        "squeeze": (b.squeeze(b.unsqueeze(x, (0, 4)), (4,)), data[None]),
        "expand": (
            b.expand(b.unsqueeze(x, (1,)), (5, 2, 7, 3, 4)),
            np.broadcast_to(data[:, None], (5, 2, 7, 3, 4)),
        ),
        "pad": (
            b.pad(x, (0, 1, 0), (0, 0, 2), -1),
            np.pad(data, ((0, 0), (1, 0), (0, 2)), constant_values=-1),
        ),
        "concat": (b.concat((x, x), 2), np.concatenate([data, data], 2)),
        "identity": (b.identity(x), data),
        "shape": (b.shape_of(x), np.array([2, 3, 4])),
        "iota": (b.iota((2, 3), 1, I64), np.array([[0, 1, 2]] * 2)),
    }
    got = interpret(Graph((("x", x),), tuple((k, v) for k, (v, _) in built.items())), {"x": data})
    for name, (_, expected) in built.items():
        np.testing.assert_array_equal(got[name], expected, err_msg=name)
