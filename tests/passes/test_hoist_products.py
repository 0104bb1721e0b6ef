"""Products of a loop's slices, computed for all slices before the loop."""

import numpy as np
import pytest

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, apply_all, walk
from anyrt.ir.interpret import interpret
from anyrt.passes.hoist_products import hoist_products
from anyrt.prims import build as b
from anyrt.prims.contract import Contract
from anyrt.prims.repeated import Repeated

F, INT, B = DataType.FLOAT, DataType.INT64, DataType.BOOL
ROWS, SUM = b.param("rows", (4, 2, 3), F), b.param("sum", (2, 5), F)
WEIGHTS, FEEDS = b.param("weights", (3, 5), F), np.random.default_rng(0)


def looped(step, count=4):
    """The sum of `step(turn, rows, weights, sum)` over all iterations."""
    go, turn, rows, weights, total = (
        b.param(name, shape, dtype)
        for name, shape, dtype in (
            ("go", (), B),
            ("turn", (), INT),
            ("rows", ROWS.shape, F),
            ("weights", WEIGHTS.shape, F),
            ("sum", SUM.shape, F),
        )
    )
    then = b.map_("add", turn, b.scalar(1, turn))
    new = b.map_("add", total, step(turn, rows, weights, total))
    body = Graph(
        (("go", go), ("turn", turn), ("sum", total), ("rows", rows), ("weights", weights)),
        (("go", b.map_("lt", then, b.scalar(count, then))), ("turn", then), ("sum", new)),
    )
    first = (b.const(True, B), b.scalar(0, turn), SUM)
    built = apply_all(Repeated(body), *first, ROWS, WEIGHTS)
    return Graph((("rows", ROWS), ("weights", WEIGHTS), ("sum", SUM)), (("y", built[2]),))


def row(turn, rows):
    at = b.expand(b.reshape(turn, (1, 1, 1)), (1, 2, 3))
    return b.reshape(b.gather(rows, at, 0), (2, 3))


def products(graph):
    return [v for v in walk(v for _, v in graph.outputs) if isinstance(v.op, Contract)]


def inside(graph):
    ((_, y),) = graph.outputs
    return products(y.op.body)


STEPS = {
    "of a slice": lambda turn, rows, weights, total: b.contract("mk,kn->mn", row(turn, rows), weights),
    "of what is made of a slice": lambda turn, rows, weights, total: b.contract(
        "km,kn->mn",
        b.transpose(b.map_("mul", row(turn, rows), b.const(np.float32([[1, 2, 3]]), F)), (1, 0)),
        weights,
    ),
    "of slices from the last one on": lambda turn, rows, weights, total: b.contract(
        "mk,kn->mn", row(b.map_("sub", b.scalar(3, turn), turn), rows), weights
    ),
    "and what is made of it": lambda turn, rows, weights, total: b.map_(
        "exp", b.contract("mk,kn->mn", row(turn, rows), weights)
    ),
}


def assert_same(graph, after):
    feeds = {name: FEEDS.standard_normal(v.shape).astype(np.float32) for name, v in graph.inputs}
    for (name, want), got in zip(
        interpret(graph, feeds).items(), interpret(after, feeds).values(), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_product_is_made_of_all_slices_at_once(step):
    graph = looped(step)
    after = hoist_products(graph)
    assert (len(inside(graph)), len(inside(after)), len(products(after))) == (1, 0, 1)
    assert products(after)[0].shape in [(4, 2, 5), (4, 1, 2, 5)]
    assert_same(graph, after)


LEFT = {
    "a factor is made of a state": lambda turn, rows, weights, total: b.contract(
        "mk,kn->mn", b.map_("mul", b.slice_(total, (0, 0), (2, 3), (1, 1)), row(turn, rows)), weights
    ),
    "the other factor is made of a state": lambda turn, rows, weights, total: b.contract(
        "mk,kn->mn", row(turn, rows), b.map_("add", weights, b.slice_(total, (0, 0), (1, 5), (1, 1)))
    ),
    "the slice is chosen by a state": lambda turn, rows, weights, total: b.contract(
        "mk,kn->mn", row(b.reshape(b.cast(b.slice_(total, (0, 0), (1, 1), (1, 1)), INT), ()), rows), weights
    ),
}


@pytest.mark.parametrize("step", LEFT.values(), ids=LEFT)
def test_values_that_depend_on_states_stay_inside(step):
    graph = looped(step)
    assert hoist_products(graph) is graph
