"""Contractions of a softmax of another contraction: computed in tiles, without storing all rows."""

import math
from dataclasses import replace

import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym, bounds
from anyrt.core.dimvalues import evaluate
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.buffer import Space
from anyrt.ir.graph import Graph, Symbol, walk
from anyrt.ir.kernel import Loop
from anyrt.ir.kerneltext import print_kernels
from anyrt.ir.statements import loops
from anyrt.passes import PASSES
from anyrt.prims import build as b
from anyrt.prims.const import Param
from anyrt.prims.view import Axis
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import host, parsed

M, N = Sym("q.2", 0, 300), Sym("k.2", 0, 300)
SMALL = replace(REFERENCE, l2_bytes=1 << 15)  # so that a few rows count as many
F, BF16, HALF = DataType.FLOAT, DataType.BF16, DataType.HALF


def attention(rows, keys, dtype=F, mask=None, also=False, seen=None, machine=SMALL):
    """softmax(q · kᵀ / 4 + mask) · v of three heads, each of 16 elements, with heads side by side; row i sees
    the keys up to i + `seen`."""
    q, k, v = (b.param(n, (1, 3, size, 16), dtype) for n, size in (("q", rows), ("k", keys), ("v", keys)))
    inputs = {"q": q, "k": k, "v": v}
    scores = b.contract("bhmd,bhnd->bhmn", q, k)
    scores = b.map_("mul", scores, b.scalar(0.25, scores))
    if mask is not None:
        inputs["mask"] = b.param("mask", (1, 1, mask, keys), dtype)
        scores = b.map_("add", scores, inputs["mask"])
    if seen is not None:
        shape = (1, 1, rows, keys)
        at = (positions(shape, 3), b.map_("add", positions(shape, 2), b.const([[[[seen]]]], DataType.INT64)))
        scores = b.map_("select", b.map_("le", *at), scores, b.scalar(-math.inf, scores))
    e = b.map_("exp", b.map_("sub", scores, b.reduce_("max", scores, (3,))))
    weights = b.map_("div", e, b.reduce_("sum", e, (3,)))
    y = b.transpose(b.contract("bhmn,bhnd->bhmd", weights, v), (0, 2, 1, 3))
    outputs = (("y", b.reshape(y, (1, rows, 48))), *((("weights", weights),) if also else ()))
    open_sizes = ((M, "q", rows), (N, "k", keys))
    symbols = tuple(Symbol(s, name, 2) for s, name, size in open_sizes if size == s.dim)
    graph = Graph(tuple(inputs.items()), outputs, {}, symbols)
    for step in PASSES:
        graph = step.run(graph)
    return native.lower(graph, constant_offsets(graph), Sizes({M.name: 70, N.name: 90}), machine=machine)


def positions(shape, axis):
    """0, 1, 2, … along one axis."""
    return b.iota(tuple(size if k == axis else 1 for k, size in enumerate(shape)), axis, DataType.INT64)


CASES = {
    "even": ((42, 100), [{}]),
    "odd": ((37, 101, F, 37), [{}]),
    "mask of columns": ((40, 100, F, 1), [{}]),
    "bfloat16": ((64, 96, BF16), [{}]),
    "half": ((40, 90, HALF, 1), [{}]),
    "causal": ((64, 96, F, None, False, 0), [{}]),
    "causal, odd": ((45, 37, F, 1, False, 3), [{}]),
    "causal, open": (
        (M.dim, N.dim, F, None, False, 0),
        [{M.name: m, N.name: n} for m, n in ((5, 1), (70, 40), (30, 200))],
    ),
    "open rows": ((M.dim, 100), [{M.name: n, N.name: 0} for n in (0, 1, 13, 70)]),
    "open keys": ((33, N.dim, F, 1), [{M.name: 0, N.name: n} for n in (0, 1, 17, 200)]),
    "both open": ((M.dim, N.dim, F, M.dim), [{M.name: m, N.name: n} for m, n in ((5, 0), (1, 1), (70, 40))]),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_tiles_agree_with_the_interpreter(name):
    arguments, sizes = CASES[name]
    lowered = attention(*arguments)
    assert [x.kind for x in lowered.schedules[0].launches] == ["fused tile", "map"]
    result = verify(lowered, host(), sizes)
    assert [(m.kernel, m.finding, m.sizes) for m in result] == []


def test_scores_lie_in_scratch():
    schedule = attention(42, 100).schedules[0]
    tensors = {b.size for b in schedule.buffers.values() if b.space is Space.ARENA}
    assert tensors == {3 * 42 * 16}
    (kernel,) = {x.kernel for x in schedule.launches if x.kind == "fused tile"}
    assert kernel.var.extent == 3 * 2


def test_scores_that_no_cache_holds_are_made_in_tiles_all_the_same():
    schedule = attention(42, 1 << 20).schedules[0]
    assert [x.kind for x in schedule.launches] == ["fused tile", "map"]
    assert max(b.size for b in schedule.buffers.values() if b.space is Space.ARENA) == 3 * 42 * 16


def test_the_memory_bound_of_dynamic_rows_is_about_the_memory_used():
    taken = native.scratch_bytes(attention(M.dim, 100))
    assert bounds(taken)[1] < 3 * evaluate(taken, {M.name: bounds(M.dim)[1]})


def test_tiles_of_an_open_number_of_rows_are_whole_tiles_about_as_high_as_one_another():
    """Tiles of 28 rows, because that is enough for each thread."""
    kernel = attention(M.dim, 100).schedules[0].launches[0].kernel
    items = [evaluate(kernel.var.extent, {M.name: rows}) for rows in (0, 1, 28, 29, 56)]
    assert items == [0, 3 * 1, 3 * 1, 3 * 2, 3 * 2]


def test_columns_that_no_row_of_a_tile_sees_are_left_out():
    whole, causal = (attention(56, 96, seen=seen).schedules[0].launches[0].kernel for seen in (None, 0))
    extents = [{str(s.var.extent) for s in loops(k.body) if s.kind is Loop.SERIAL} for k in (whole, causal)]
    assert "96" in extents[0]  # of the sum over keys
    assert "96" not in extents[1]
    assert any("tile.row" in extent for extent in extents[1])


@pytest.mark.parametrize("rows", [120, 113])
def test_keys_are_copied_once_for_all_tiles_of_a_batch(rows):
    lowered = attention(rows, 90, seen=0, machine=replace(SMALL, cores=1))
    text = print_kernels([lowered.schedules[0].launches[0].kernel])
    assert text.count("store tile.panels") == 1
    assert text.index("store tile.panels") < text.index("for serial tile.row")
    assert [(m.kernel, m.finding) for m in verify(lowered, host(), [{}])] == []


def test_other_readers_of_the_weights_keep_them_in_memory():
    assert "fused tile" not in {x.kind for x in attention(42, 100, also=True).schedules[0].launches}


def test_results_of_tiles_for_another_kernel_are_in_memory_at_any_size():
    machine = replace(SMALL, last_bytes=1 << 12)
    assert verify(attention(42, 100, machine=machine), host(), [{}]) == ()


def test_as_many_keys_as_elements_of_values_are_not_identified_by_their_number():
    """Rows of scores are padded in scratch; the values derived from them have rows of the same length."""
    q, k = b.param("q", (8, 37, 31), F), b.param("k", (8, 31, 31), F)
    scores = b.contract("bmd,bnd->bmn", q, k)
    e = b.map_("exp", b.map_("sub", scores, b.reduce_("max", scores, (2,))))
    y = b.contract("bmn,bnd->bmd", b.map_("div", e, b.reduce_("sum", e, (2,))), k)
    graph = Graph((("q", q), ("k", k)), (("y", b.map_("div", y, b.reduce_("max", y, (1,)))),))
    lowered = native.lower(graph, {}, Sizes({}), machine=SMALL)
    assert "fused tile" in [x.kind for x in lowered.schedules[0].launches]
    assert verify(lowered, host(), [{}]) == ()


def test_tiles_of_more_and_more_columns_have_one_place_for_each_buffer():
    m, n = Sym("v.1", 0, 64), Sym("v.2", 0, 64)
    q, k, v = b.param("q", (9, 37, 1), F), b.param("k", (9, 37, 1), F), b.param("v", (9, m.dim, n.dim), F)
    scores = b.contract("bmd,bnd->bmn", q, k)
    seen = b.map_("le", positions(scores.shape, 2), positions(scores.shape, 1))
    scores = b.map_("select", seen, scores, b.scalar(-np.inf, scores))
    e = b.map_("exp", b.map_("sub", scores, b.reduce_("max", scores, (2,))))
    y = b.contract("bmn,bnd->bmd", b.map_("div", e, b.reduce_("sum", e, (2,))), v)
    graph = Graph((("q", q), ("k", k), ("v", v)), (("y", y),), {}, (Symbol(m, "v", 1), Symbol(n, "v", 2)))
    for step in PASSES:
        graph = step.run(graph)
    machine = replace(SMALL, vector_bits=256, registers=16)
    lowered = native.lower(graph, constant_offsets(graph), Sizes({m.name: 37, n.name: 1}), machine=machine)
    assert verify(lowered, host(), [{m.name: 37, n.name: size} for size in (0, 1, 20)]) == ()


def test_a_product_with_a_single_number_has_no_tiles():
    x, one = b.param("x", (300, 300), F), b.param("one", (), F)
    graph = Graph((("x", x), ("one", one)), (("y", b.contract("mn,->mn", x, one)),))
    lowered = native.lower(graph, constant_offsets(graph), Sizes({}), machine=SMALL)
    assert verify(lowered, host(), [{}]) == ()


def test_heads_side_by_side_are_read_where_products_left_them():
    """The kernel reads the tensors in the layout of the products; keys and values come from one
    product each."""
    x = b.param("x", (1, 40, 48), F)
    built = (b.contract("btk,kn->btn", x, b.const(np.eye(48) * k, F)) for k in (1, 2, 3))
    q, k, v = (b.transpose(b.reshape(m, (1, 40, 3, 16)), (0, 2, 1, 3)) for m in built)
    scores = b.contract("bhmd,bhnd->bhmn", q, k)
    e = b.map_("exp", b.map_("sub", scores, b.reduce_("max", scores, (3,))))
    y = b.contract("bhmn,bhnd->bhmd", b.map_("div", e, b.reduce_("sum", e, (3,))), v)
    graph = Graph((("x", x),), (("y", y),))
    lowered = native.lower(graph, constant_offsets(graph), Sizes({}), machine=SMALL)
    assert [x.kind for x in lowered.schedules[0].launches] == [*["contraction"] * 3, "fused tile"]
    assert [(m.kernel, m.finding) for m in verify(lowered, host(), [{}])] == []


def test_products_without_a_fold_between_them_are_not_made_in_tiles():
    x, w = b.param("x", (200, 64), F), b.param("w", (64, 64), F)
    y = b.contract("mk,kn->mn", b.map_("tanh", b.contract("mk,kn->mn", x, w)), w)
    lowered = native.lower(Graph((("x", x), ("w", w)), (("y", y),)), {}, Sizes({}), machine=SMALL)
    tiles = [x.group.tile for x in lowered.schedules[0].launches]
    assert [tile for tile in tiles if tile is not None and tile.scores is not None] == []


@pytest.mark.parametrize("keys", [96, 101])
def test_scores_of_batches_are_made_in_tiles_without_a_fold_between(keys):
    q, k, v = (b.param(n, (3, rows, 16), F) for n, rows in (("q", 60), ("k", keys), ("v", keys)))
    scores = b.contract("bmd,bnd->bmn", q, k)
    y = b.contract("bmn,bnd->bmd", b.map_("max", scores, b.scalar(0.0, scores)), v)
    lowered = native.lower(Graph((("q", q), ("k", k), ("v", v)), (("y", y),)), {}, Sizes({}), machine=SMALL)
    assert [x.kind for x in lowered.schedules[0].launches] == ["fused tile"]
    assert verify(lowered, host(), [{}]) == ()


def test_products_of_one_batch_with_weights_are_not_made_in_tiles():
    x, w = b.param("x", (1, 60, 64), F), b.param("w", (1, 64, 64), F)
    y = b.contract("bmk,bkn->bmn", b.map_("tanh", b.contract("bmk,bkn->bmn", x, w)), w)
    lowered = native.lower(Graph((("x", x), ("w", w)), (("y", y),)), {}, Sizes({}), machine=SMALL)
    assert "fused tile" not in {x.kind for x in lowered.schedules[0].launches}


def test_results_of_tiles_keep_the_layout_of_their_operands():
    """Rows of a grouped sum over windows have their channels innermost, and so has the result of
    the softmax."""
    x = b.pad(b.param("x", (2, 4, 17, 3), F), (0, 0, 1, 0), (0, 0, 1, 1), 0.0)
    axes = (Axis(0, 0), Axis(0, 1, 2, ((2, 1),)), Axis(0, 3, 1, ((5, 1),)), Axis(0, 4, 1, ((6, 1),)))
    windows = b.windows(x, axes, (2, 2, 2, 17, 3, 3, 2))
    random = np.random.default_rng(0)
    kernel = b.const(random.uniform(-0.3, 0.3, (2, 2, 17, 3, 2)).astype(np.float32), F)
    keys = b.const(random.uniform(-1, 1, (2, 2, 17, 3)).astype(np.float32), F)
    queries = b.contract("ngchwkl,gcokl->ngohw", windows, kernel)
    scores = b.contract("ngohw,ngtw->ngoht", queries, keys)
    powers = b.map_("exp", b.map_("sub", scores, b.reduce_("max", scores, (4,))))
    weights = b.map_("div", powers, b.reduce_("sum", powers, (4,)))
    y = b.contract("ngoht,ngtv->ngohv", weights, b.param("v", (2, 2, 17, 3), F))
    inputs = tuple((v.op.name, v) for v in walk([y]) if isinstance(v.op, Param))
    graph = Graph(inputs, (("y", b.reshape(y, (2, 34, 17, 3))),))
    for step in PASSES:
        graph = step.run(graph)
    lowered = native.lower(graph, constant_offsets(graph), Sizes({}))
    assert any(x.group.tile is not None for x in lowered.schedule.launches)
    assert verify(lowered, host(), [{}]) == ()


@pytest.mark.parametrize("name", CASES)
def test_kernels_that_were_joined_print_to_text_that_gives_them_back(name):
    for kernel in attention(*CASES[name][0]).module.distinct:
        assert parsed(print_kernels([kernel])) == (kernel,)


def test_scores_go_through_long_chains():
    """Quantizing and dequantizing between two products takes hundreds of elementwise functions."""
    q, k, v = (b.param(name, (2, 16, 8), F) for name in "qkv")
    scores = b.contract("bmd,bnd->bmn", q, k)
    for turn in range(1500):
        scores = b.map_("neg" if turn % 2 else "abs", scores)
    out = b.contract("bmn,bnd->bmd", scores, v)
    graph = Graph((("q", q), ("k", k), ("v", v)), (("y", out),), {}, ())
    assert native.lower(graph, constant_offsets(graph), Sizes({})).module.kernels
