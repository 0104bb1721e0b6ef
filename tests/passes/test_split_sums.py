"""Long sums of products with small results, split into parts."""

from dataclasses import replace

import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Symbol, walk
from anyrt.ir.text import print_graph
from anyrt.passes import PASSES
from anyrt.passes.split_sums import split_sums
from anyrt.prims import build as b
from anyrt.prims.contract import Contract
from anyrt.prims.table import named_blobs, vocabulary
from anyrt.prims.view import Axis
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import host

F = DataType.FLOAT
OPEN = Sym("x.1", 1, 1 << 20)


def product(m, k, n, dtype=F, symbols=()):
    """x: (m, k) times y: (k, n)."""
    x, y = b.param("x", (m, k), dtype), b.param("y", (k, n), dtype)
    built = b.contract("mk,kn->mn", x, y, DataType.INT32 if dtype is DataType.INT8 else None)
    return Graph((("x", x), ("y", y)), (("z", built),), {}, symbols)


def test_a_long_sum_becomes_sums_of_its_parts():
    split = split_sums(product(1, 1 << 18, 4))
    assert print_graph(split, vocabulary(named_blobs(split))).splitlines() == [
        'v0: FLOAT[1, 262144] = Param(name="x", type=FLOAT[1, 262144])()',
        'v1: FLOAT[262144, 4] = Param(name="y", type=FLOAT[262144, 4])()',
        "v2: FLOAT[1, 16, 16384] = Reshape(shape=(1, 16, 16384))(v0)",
        "v3: FLOAT[16, 16384, 4] = Reshape(shape=(16, 16384, 4))(v1)",
        "v4: FLOAT[16, 1, 4] = Contract(left=(0, 3, 1), right=(3, 1, 2), out=(3, 0, 2), dtype=FLOAT)(v2, v3)",
        'v5: FLOAT[1, 1, 4] = Reduce(fn="sum", axes=(0))(v4)',
        "v6: FLOAT[1, 4] = Reshape(shape=(1, 4))(v5)",
        'input "x" v0',
        'input "y" v1',
        'output "z" v6',
    ]


@pytest.mark.parametrize(("registers", "parts"), [(32, 16), (16, 8)])
def test_lower_tiles_need_fewer_parts(registers, parts):
    split = split_sums(product(12, 1 << 18, 4), replace(REFERENCE, registers=registers))
    assert split.outputs[0][1].args[0].args[0].shape == (parts, 12, 4)


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (product(1, 1 << 16, 1), "reading its factors takes less time than another kernel"),
        (product(1, 4096, 4096), "it has many lanes"),
        (product(4, 4096, 256), "threads have eight panels of lanes to share"),
        (product(512, 2048, 512), "it has many rows and lanes"),
        (product(1, OPEN.dim, 1, symbols=(Symbol(OPEN, "x", 1),)), "nothing is known of its length"),
        (product(1, 0, 16), "there is nothing to sum"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_other_sums_stay_whole(graph, why):
    assert split_sums(graph) is graph


def test_sums_of_windows_stay_whole():
    x, w = b.param("x", (1 << 18,), F), b.param("w", (1 << 17,), F)
    seen = b.windows(x, (Axis(0, 0, 1, ((1, 1),)),), (3, 1 << 17))
    graph = Graph((("x", x), ("w", w)), (("z", b.contract("ok,k->o", seen, w)),))
    assert split_sums(graph) is graph


@pytest.mark.parametrize("dtype", [F, DataType.HALF, DataType.INT8])
def test_parts_and_what_they_leave_make_the_sum(dtype):
    graph = product(13, 10007, 17, dtype)
    for step in PASSES:
        graph = step.run(graph)
    lowered = native.lower(graph, constant_offsets(graph), Sizes({}))
    assert verify(lowered, host(), [{}]) == ()
    assert {v.type.shape for v in contractions(graph)} == {(16, 13, 17), (13, 17)}


def contractions(graph):
    """The contractions of a graph."""
    return [v for v in walk(v for _, v in graph.outputs) if isinstance(v.op, Contract)]


def test_parts_are_items_of_their_own():
    graph = split_sums(product(4, 1 << 17, 8))
    first, second = native.lower(graph, {}, Sizes({})).schedules[0].launches
    assert (first.kernel.var.extent, second.group.root.shape) == (16, (4, 8))


def test_parts_of_a_constant_are_the_constant():
    weights = np.arange(1 << 18, dtype=np.float32).reshape(-1, 4)
    x = b.param("x", (4, 1 << 16), F)
    graph = Graph((("x", x),), (("z", b.contract("mk,kn->mn", x, b.const(weights, F))),))
    for step in PASSES[:11]:
        graph = step.run(graph)
    (built,) = contractions(graph)
    assert np.shares_memory(built.args[1].op.blob.data, weights)


def test_parts_of_sums_of_float64_are_float64():
    x, y = b.param("x", (1, 1 << 20), DataType.DOUBLE), b.param("y", (1 << 20, 1), DataType.DOUBLE)
    whole = Graph((("x", x), ("y", y)), (("z", b.contract("mk,kn->mn", x, y)),))
    split = split_sums(whole)
    assert split != whole
    assert {v.dtype for v in walk(v for _, v in split.outputs)} == {DataType.DOUBLE}
