"""Long cumulative sums of few rows, split into parts."""

import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Symbol, apply
from anyrt.ir.interpret import interpret
from anyrt.ir.text import print_graph
from anyrt.passes.split_scans import split_scans
from anyrt.prims import build as b
from anyrt.prims.scan import Scan
from anyrt.prims.table import named_blobs, vocabulary
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import host

F, I32, HALF = DataType.FLOAT, DataType.INT32, DataType.HALF
OPEN = Sym("x.0", 0, 9)


def scan(shape, dtype=F, axis=-1, fn="sum", symbols=(), **how):
    x = b.param("x", shape, dtype)
    built = apply(Scan(fn, axis % len(shape), **how), x)
    return Graph((("x", x),), (("y", built),), {}, symbols)


def test_a_long_row_becomes_its_parts():
    split = split_scans(scan((32768,)))
    assert print_graph(split, vocabulary(named_blobs(split))).splitlines() == [
        'v0: FLOAT[32768] = Param(name="x", type=FLOAT[32768])()',
        "v1: FLOAT[64, 512] = Reshape(shape=(64, 512))(v0)",
        'v2: FLOAT[64, 1] = Reduce(fn="sum", axes=(1))(v1)',
        'v3: FLOAT[64, 1] = Scan(fn="sum", axis=0, reverse=False, exclusive=True)(v2)',
        'v4: FLOAT[64, 512] = Scan(fn="sum", axis=1)(v1, v3)',
        "v5: FLOAT[32768] = Reshape(shape=(32768))(v4)",
        'input "x" v0',
        'output "y" v5',
    ]


@pytest.mark.parametrize(
    "graph",
    [
        scan((64, 32768)), scan((1000,)), scan((20011,)), scan((32768,), HALF), scan((32768,), fn="max"),
        scan((32768, 3), axis=0), scan((OPEN.dim, 32768), symbols=(Symbol(OPEN, "x", 0),)), scan((0, 32768)),
    ],
    ids=["rows", "short", "a prime", "half", "max", "columns", "open", "none"],
)  # fmt: skip
def test_others_stay(graph):
    assert split_scans(graph) is graph


@pytest.mark.sampled(5)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(("shape", "dtype"), [((3, 20480), F), ((20480,), I32), ((17000, 1), F)])
def test_parts_add_up_to_the_same(shape, dtype, exclusive, reverse):
    graph = scan(shape, dtype, 0 if shape[-1] == 1 else -1, reverse=reverse, exclusive=exclusive)
    split = split_scans(graph)
    assert split is not graph
    lowered = native.lower(split, constant_offsets(split), Sizes())
    assert verify(lowered, host(), [{}]) == ()
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float32 if dtype is F else np.int32)
    a, b = (interpret(g, {"x": x})["y"] for g in (graph, split))
    assert np.array_equal(a, b)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_begin_with_the_second_operand(axis, reverse, exclusive):
    x, first = b.param("x", (5, 7), F), b.param("f", (1, 7) if axis == 0 else (5, 1), F)
    built = apply(Scan("sum", axis, reverse, exclusive), x, first)
    graph = Graph((("x", x), ("f", first)), (("y", built),), {}, ())
    values = np.arange(35.0, dtype=np.float32).reshape(5, 7)
    start = np.arange(100.0, 100 + first.shape[0] * first.shape[1], dtype=np.float32).reshape(first.shape)
    turned = np.flip(values, axis) if reverse else values
    expected = np.cumsum(turned, axis) + start - (turned if exclusive else 0)
    got = interpret(graph, {"x": values, "f": start})["y"]
    assert np.array_equal(got, np.flip(expected, axis) if reverse else expected)
    assert verify(native.lower(graph, constant_offsets(graph), Sizes()), host(), [{}]) == ()
