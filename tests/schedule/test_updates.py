"""Outputs that share the memory of inputs: unchanged elements are neither read nor stored."""

import numpy as np
import pytest

from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph
from anyrt.ir.interpret import interpret
from anyrt.ir.kernel import If
from anyrt.ir.statements import stores
from anyrt.ir.text import parse_graph, print_graph
from anyrt.ir.verify import graph_faults
from anyrt.ir.visit import statements
from anyrt.loops.nest import loads_of
from anyrt.passes import PASSES
from anyrt.prims import build as b
from anyrt.prims.const import Param
from anyrt.prims.table import vocabulary
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import load, verify
from tests.targets import host

BATCH, HEADS, PLACES, SIZE = 2, 3, 9, 5
TYPES = {DataType.FLOAT: np.float32, DataType.HALF: np.float16}


def written(dtype, updates=(("y", "x"),), terms=1):
    """Row `at` of each batch of x is replaced by that of n, or by the sum of several rows of n."""
    x = b.param("x", (BATCH, HEADS, PLACES, SIZE), dtype)
    n, at = b.param("n", (BATCH, HEADS, terms, SIZE), dtype), b.param("at", (BATCH,), DataType.INT32)
    new = n if terms == 1 else b.reduce_("sum", n, (2,))
    place = b.iota((1, 1, PLACES, 1), 2, DataType.INT32)
    here = b.map_("eq", place, b.reshape(at, (BATCH, 1, 1, 1)))
    y = b.map_("select", here, new, x)
    graph = Graph((("x", x), ("n", n), ("at", at)), (("y", y),), {}, (), {}, updates)
    for step in PASSES:
        graph = step.run(graph)
    return graph


def lowered(graph):
    return native.lower(graph, constant_offsets(graph), Sizes({}), machine=REFERENCE)


def feeds(kind):
    g = np.random.default_rng(3)
    x, n = (g.standard_normal((BATCH, HEADS, k, SIZE)).astype(kind) for k in (PLACES, 1))
    return {"x": x, "n": n, "at": np.int32([4, 0])}


@pytest.mark.parametrize("dtype", TYPES)
def test_an_update_is_written_where_its_input_lies(dtype):
    graph = written(dtype)
    low, inputs = lowered(graph), feeds(TYPES[dtype])
    trial, buffers = Trial(load(low, host()), {}), low.schedule.buffers
    for name, value in graph.inputs:
        trial.write(buffers[value], inputs[name], value.dtype)
    trial.run()
    (y,) = (v for _, v in graph.outputs)
    assert buffers[y] == buffers[graph.inputs[0][1]]
    assert (trial.read(buffers[y], dtype, y.shape) == interpret(graph, inputs)["y"]).all()
    assert verify(low, host(), [{}]) == ()


def test_only_new_elements_are_stored():
    low = lowered(written(DataType.FLOAT))
    (launch,) = low.schedule.launches
    assert launch.kind == "update"
    (guard,) = (s for s in statements(launch.kernel.body) if isinstance(s, If))
    (loop,) = guard.body
    assert {x.buffer.name for x in loads_of(stores([loop]))} == {"in_n"}


def test_new_elements_are_folded_once_and_not_for_each_element_that_stays():
    launches = lowered(written(DataType.FLOAT, terms=3)).schedule.launches
    assert [x.kind for x in launches] == ["reduction", "update"]


def test_tensors_with_separate_memory_are_copied():
    low = lowered(written(DataType.FLOAT, ()))
    (launch,) = low.schedule.launches
    assert launch.kind == "map"
    assert {x.name for x in launch.call.buffers} == {"in_at", "in_n", "in_x", "out_y"}


def test_updates_stand_in_the_text():
    graph = written(DataType.FLOAT)
    text = print_graph(graph, vocabulary({}))
    assert text.endswith('update "y" "x"\n')
    assert parse_graph(text, vocabulary({})).updates == (("y", "x"),)


@pytest.mark.parametrize("pair", [("y", "n"), ("y", "z"), ("x", "x")])
def test_an_output_lies_in_an_input_of_its_type(pair):
    assert len(list(graph_faults(written(DataType.FLOAT, (pair,)), Param))) == 1
