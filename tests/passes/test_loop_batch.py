"""A batch that exceeds the caches, computed by a loop over its images."""

from dataclasses import replace

import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.core.machine import REFERENCE, Costs
from anyrt.ir.graph import Graph, Symbol, walk
from anyrt.ir.interpret import interpret
from anyrt.passes.loop_batch import loop_batch
from anyrt.prims import build as b
from anyrt.prims.contract import Contract
from anyrt.prims.repeated import Repeated
from anyrt.prims.taprules import Linear
from anyrt.prims.view import Axis
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import host

F = DataType.FLOAT
FEEDS = np.random.default_rng(0)
WEIGHTS, BIAS = (
    FEEDS.standard_normal((5, 3)).astype(np.float32),
    FEEDS.standard_normal((1, 5)).astype(np.float32),
)
# Waking takes no time, and a cache holds two images of 4 × 5 results.
SMALL = replace(REFERENCE, last_bytes=2 * 2 * 4 * 5 * 4, costs=Costs(wake=1))


def rows(x):
    """Four rows of 5 sums for each image of 4 rows of 3."""
    return b.contract("nmk,ok->nmo", x, b.const(WEIGHTS, F))


def graph_of(make, shape=(8, 4, 3)):
    x = b.param("x", shape, F)
    return Graph((("x", x),), (("y", make(x)),))


def loops(graph):
    return list(
        dict.fromkeys(v.node for v in walk(v for _, v in graph.outputs) if isinstance(v.op, Repeated))
    )


def sums(graph):
    return [v for v in walk(v for _, v in graph.outputs) if isinstance(v.op, Contract)]


def windows(x):
    """Sums over windows of two rows, with padding."""
    padded = b.pad(x, (0, 1, 0), (0, 0, 0), 0.0)
    seen = b.windows(padded, [Axis(0, 0), Axis(0, 1, 1, ((2, 1),)), Axis(0, 3)], (x.shape[0], 4, 2, 3))
    return b.contract("nmtk,ok->nmo", seen, b.const(WEIGHTS, F))


def attention(x):
    scores = b.contract("nmk,nok->nmo", rows(x), rows(x))
    weights = b.map_("exp", b.map_("sub", scores, b.reduce_("max", scores, (2,))))
    return b.contract("nmo,nok->nmk", weights, rows(x))


def turned(x):
    """The batch is temporarily the second axis."""
    y = b.transpose(rows(x), (1, 0, 2))
    return b.transpose(b.map_("exp", b.reduce_("sum", y, (2,))), (1, 0, 2))


def split(x):
    """The batch follows an axis that was split off from another one."""
    y = b.transpose(b.reshape(rows(x), (x.shape[0], 2, 2, 5)), (1, 0, 2, 3))
    return b.transpose(b.reshape(y, (2, x.shape[0], 10)), (1, 0, 2))


INDEPENDENT = {
    "a product": rows,
    "a product and what is made of it": lambda x: b.map_("add", rows(x), b.const(BIAS[None], F)),
    "windows with a border": windows,
    "attention": attention,
    "transposed": turned,
    "split and transposed": split,
    "side by side": lambda x: b.concat([rows(x), b.map_("neg", rows(x))], 2),
    "resized": lambda x: b.taps(rows(x), 1, 8, Linear(Coordinate.HALF_PIXEL, Selector.FORMULA)),
}


@pytest.mark.parametrize("make", INDEPENDENT.values(), ids=INDEPENDENT)
def test_images_are_computed_one_after_the_other(make):
    graph = graph_of(make)
    after = loop_batch(graph, SMALL)
    ((loop,),) = [loops(after)]
    assert [v.shape[0] for v in sums(loop.op.body)] == [1] * len(sums(graph))
    x = FEEDS.standard_normal((8, 4, 3)).astype(np.float32)
    np.testing.assert_array_equal(interpret(after, {"x": x})["y"], interpret(graph, {"x": x})["y"])
    lowered = native.lower(after, constant_offsets(after), Sizes({}))
    assert verify(lowered, host(), [{}]) == ()


JOINING = {
    "a sum over the batch": lambda x: b.map_("add", rows(x), b.reduce_("sum", rows(x), (0,))),
    "a product over the batch": lambda x: b.contract("nmo,nmk->ok", rows(x), rows(x)),
    "a neighbour": lambda x: b.map_(
        "add", rows(x), b.windows(rows(x), [Axis(7, 0, -1), Axis(0, 1), Axis(0, 2)], (8, 4, 5))
    ),
    "a constant for each image": lambda x: b.map_("mul", rows(x), b.const(np.ones((8, 1, 1), np.float32), F)),
    "a factor for each image": lambda x: b.contract(
        "nmo,no->nm", rows(x), b.const(np.ones((8, 5), np.float32), F)
    ),
    "a shape that joins images": lambda x: b.reshape(b.reshape(rows(x), (4, 8, 5)), (8, 4, 5)),
    "the batch between others": lambda x: b.pad(rows(x), (1, 0, 0), (0, 0, 0), 0.0),
    "images in a row": lambda x: b.concat([rows(x)] * 2, 0),
    "an order": lambda x: b.map_("mul", rows(x), b.cast(b.iota((8, 1, 1), 0, DataType.INT64), F)),
}


@pytest.mark.parametrize("make", JOINING.values(), ids=JOINING)
def test_images_that_depend_on_each_other_are_computed_at_once(make):
    graph = graph_of(make)
    assert loop_batch(graph, SMALL) is graph


def test_batches_that_fit_into_caches_are_computed_at_once():
    graph = graph_of(rows)
    assert loop_batch(graph, replace(SMALL, last_bytes=8 * 2 * 4 * 5 * 4)) is graph
    assert loop_batch(graph, replace(SMALL, last_bytes=8 * 2 * 4 * 5 * 4 - 1)) is not graph


@pytest.mark.parametrize(("wake", "part"), [(1, 1), (8, 2), (16, None)])
def test_an_iteration_has_work_for_all_cores_and_fits(wake, part):
    """An image has 60 products, and an iteration shall have 4 × cores × wake."""
    after = loop_batch(graph_of(rows), replace(SMALL, costs=Costs(wake=wake)))
    assert [v.shape[0] for loop in loops(after) for v in sums(loop.op.body)] == [part] * (part is not None)
    x = FEEDS.standard_normal((8, 4, 3)).astype(np.float32)
    np.testing.assert_array_equal(interpret(after, {"x": x})["y"], interpret(graph_of(rows), {"x": x})["y"])


@pytest.mark.parametrize(("rows", "looped"), [(1, False), (15, False), (16, True)])
def test_weights_that_few_rows_meet_are_read_once(rows, looped):
    """Two images, weights of 64 × 64: the loop saves 2 × 2 × rows × 256 bytes, and reads 16384 again."""
    x = b.param("x", (2, rows, 64), F)
    graph = Graph((("x", x),), (("y", b.contract("nmk,ok->nmo", x, b.const(np.ones((64, 64)), F))),))
    machine = replace(SMALL, last_bytes=2 * 2 * rows * 256 - 1)
    assert (loop_batch(graph, machine) is not graph) == looped


def test_open_batches_are_computed_at_once():
    n = Sym("x.0", 1, 64)
    graph = replace(graph_of(rows, (n.dim, 4, 3)), symbols=(Symbol(n, "x", 0),))
    assert loop_batch(graph, SMALL) is graph


def test_several_inputs_and_outputs_are_parts_of_the_same_images():
    x, y = b.param("x", (6, 4, 3), F), b.param("y", (6, 4, 5), F)
    both = b.map_("add", rows(x), y)
    graph = Graph((("x", x), ("y", y)), (("sum", both), ("rows", b.map_("exp", both))))
    after = loop_batch(graph, SMALL)
    assert len(loops(after)) == 1
    feeds = {name: FEEDS.standard_normal(v.shape).astype(np.float32) for name, v in graph.inputs}
    expected = interpret(graph, feeds)
    for name, got in interpret(after, feeds).items():
        np.testing.assert_array_equal(got, expected[name], name)


def test_an_input_without_a_batch_leaves_the_graph():
    x, w = b.param("x", (8, 4, 3), F), b.param("w", (5, 3), F)
    graph = Graph((("x", x), ("w", w)), (("y", b.contract("nmk,ok->nmo", x, w)),))
    assert loop_batch(graph, SMALL) is graph
