"""Contractions computed inside a later one: a depthwise convolution with the pointwise one behind it, an
attention with its projection, each one kernel."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from anyrt.backends import loader
from anyrt.backends.cpu.strategies.stages import gain
from anyrt.backends.interp.target import InterpTarget
from anyrt.compiler import native
from anyrt.compiler.trial import Trial, constant_offsets, job
from anyrt.compiler.verify import random_inputs
from anyrt.core.dims import Sym
from anyrt.core.dimvalues import evaluate
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.buffer import Space
from anyrt.ir.graph import Graph, Symbol, walk
from anyrt.ir.kerneltext import print_kernels
from anyrt.ir.statements import buffers_of
from anyrt.passes import PASSES, passes_for
from anyrt.prims import build as b
from anyrt.prims.map import Map
from anyrt.prims.view import Axis
from anyrt.schedule.cost import Sizes
from anyrt.schedule.step import AtItems, Shared
from tests.native import load, verify
from tests.targets import host

M, N = Sym("x.0", 1, 300), Sym("x.1", 1, 300)
F, HALF, BF16 = DataType.FLOAT, DataType.HALF, DataType.BF16
SMALL = replace(REFERENCE, l2_bytes=1 << 14)  # so that a few rows count as many


def weights(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape) / 4


def const(array, dtype):
    return b.const(array.astype(numpy_dtype(dtype)), dtype)


def separable(images, rows, dtype=F):
    """Depthwise, 3 × 3, of 20 channels, maximum with 0, pointwise to 12 channels, maximum with 0."""
    x = b.param("x", (images, 20, rows, 7), dtype)
    padded = b.pad(x, (0, 0, 1, 1), (0, 0, 1, 1), 0.0)
    axes = [Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((4, 1),)), Axis(0, 3, 1, ((5, 1),))]
    windows = b.windows(padded, axes, (images, 20, rows, 7, 3, 3))
    inner = b.contract("nchwij,cij->nchw", windows, const(weights(20, 3, 3), dtype))
    y = b.contract("nchw,oc->nohw", b.map_("max", inner, b.scalar(0.0, inner)), const(weights(12, 20), dtype))
    y = b.map_("max", y, b.scalar(0.0, y))
    return Graph((("x", x),), (("y", y),), {}, symbols(x))


def attention(rows, keys, dtype=F, batch=1, mask=False, seen=None):
    """softmax(q · kᵀ) · v of three heads, each of 8 elements, and the product of all heads with 24 · 20
    weights; row i sees the keys up to i + `seen`."""
    q, k, v = (b.param(n, (batch, 3, s, 8), dtype) for n, s in (("q", rows), ("k", keys), ("v", keys)))
    inputs = {"q": q, "k": k, "v": v}
    scores = b.contract("bhmd,bhnd->bhmn", q, k)
    if mask:
        inputs["mask"] = b.param("mask", (1, 1, rows, keys), DataType.BOOL)
        scores = b.map_("select", inputs["mask"], scores, b.scalar(-np.inf, scores))
    if seen is not None:
        last, key = (b.iota((1, 1, rows, 1), 2, DataType.INT64), b.iota((1, 1, 1, keys), 3, DataType.INT64))
        shown = b.map_("le", key, b.map_("add", last, b.const([[[[seen]]]], DataType.INT64)))
        scores = b.map_("select", shown, scores, b.scalar(-np.inf, scores))
    e = b.map_("exp", b.map_("sub", scores, b.reduce_("max", scores, (3,))))
    y = b.contract("bhmn,bhnd->bhmd", b.map_("div", e, b.reduce_("sum", e, (3,))), v)
    y = b.reshape(b.transpose(y, (0, 2, 1, 3)), (batch, rows, 24))
    y = b.contract("bse,ef->bsf", y, const(weights(24, 20), dtype))
    return Graph(tuple(inputs.items()), (("y", y),), {}, symbols(q, k))


def symbols(*values):
    result = ((s, v.op.name, k) for v in values for k, d in enumerate(v.shape) for s in (M, N) if d == s.dim)
    return tuple({s: Symbol(s, name, k) for s, name, k in reversed([*result])}.values())


def lowered(graph, machine=SMALL):
    for step in PASSES:
        graph = step.run(graph)
    sizes = Sizes({M.name: 190, N.name: 13})
    strategies = loader.target().strategies
    return native.lower(graph, constant_offsets(graph), sizes, machine=machine, strategies=strategies)


CASES = {
    "even": (separable(2, 24), [{}]),
    "odd": (separable(3, 17), [{}]),
    "open images": (separable(M.dim, 9), [{M.name: n} for n in (1, 5)]),
    "open rows": (separable(1, M.dim), [{M.name: n} for n in (1, 3, 40)]),
    "half": (separable(3, 24, HALF), [{}]),
    "rows": (attention(180, 11), [{}]),
    "odd rows": (attention(187, 7), [{}]),
    "batches": (attention(65, 9, F, 3), [{}]),
    "open tokens": (attention(M.dim, 9), [{M.name: n} for n in (1, 8, 197)]),
    "open keys": (attention(180, N.dim), [{N.name: n} for n in (1, 9, 40)]),
    "bfloat16": (attention(361, 7, BF16), [{}]),
    "causal": (attention(181, 29, seen=-1), [{}]),
    "mask": (attention(187, 29, mask=True), [{}]),
    "causal, open": (attention(M.dim, N.dim, seen=3), [{M.name: 1, N.name: 1}, {M.name: 197, N.name: 40}]),
}


@cache
def case(name):
    """One of these, as kernels receive it: several tests run it."""
    return lowered(CASES[name][0])


@pytest.mark.parametrize("name", CASES)
def test_each_is_one_kernel_that_agrees_with_the_interpreter(name):
    built, (_, sizes) = case(name), CASES[name]
    assert [x.kind for x in built.schedules[0].launches] == ["fused tile"]
    assert [(m.kernel, m.finding, m.sizes) for m in verify(built, host(), sizes)] == []


def separable_truth(x):
    padded = np.pad(np.float64(x), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    inner = np.einsum("nchwij,cij->nchw", windows, np.float32(weights(20, 3, 3)))
    return np.maximum(np.einsum("nchw,oc->nohw", np.maximum(inner, 0), np.float32(weights(12, 20))), 0)


def attention_truth(q, k, v, mask=None):
    scores = np.einsum("bhmd,bhnd->bhmn", np.float64(q), np.float64(k))
    e = np.exp(scores if mask is None else np.where(mask, scores, -np.inf))
    y = np.einsum("bhmn,bhnd->bmhd", e / e.sum(-1, keepdims=True), np.float64(v))
    return y.reshape(len(y), -1, 24) @ np.float32(weights(24, 20)).astype(np.float64)


TRUTH = {
    "odd": separable_truth,
    "open rows": separable_truth,
    "odd rows": attention_truth,
    "open tokens": attention_truth,
    "mask": attention_truth,
}


def by_native_code(built, sizes, inputs):
    trial = Trial(load(built, host()), sizes)
    for name, value in built.graph.inputs:
        trial.write(built.schedules[0].buffers[value], inputs[name], value.dtype)
    trial.run()
    ((_, y),) = built.graph.outputs
    shape = tuple(evaluate(d, sizes) for d in y.shape)
    return trial.read(built.schedules[0].buffers[y], y.dtype, shape)


def with_every_access_checked(built, sizes, inputs):
    return InterpTarget().run(job(built, sizes), inputs).outputs["y"]


@pytest.mark.parametrize("run", [by_native_code, with_every_access_checked])
@pytest.mark.parametrize("name", TRUTH)
def test_each_is_right_beside_float64(name, run):
    graph, (*_, sizes) = CASES[name]
    inputs = random_inputs(graph, sizes)
    if "mask" in inputs:
        inputs["mask"][..., 3] = True  # a row sees at least one key
    got, expected = run(case(name), sizes, inputs), TRUTH[name](**inputs)
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() < 2e-6 * np.abs(expected).max()


@pytest.mark.parametrize("sizes", [(2, 0, 4, 3), (0, 2, 4, 3), (2, 3, 0, 3)])
def test_contractions_without_rows_have_no_stages(sizes):
    batch, rows, terms, columns = sizes
    x = b.param("x", (batch, rows, terms), F)
    built = b.contract("bmk,kn->bmn", x, const(weights(terms, columns), F))
    graph = Graph((("x", x),), (("y", b.contract("bmn,np->bmp", built, const(weights(columns, 5), F))),))
    assert verify(lowered(graph), host(), [{}]) == ()


def test_intermediate_values_are_in_scratch():
    kernel = case("odd").schedules[0].launches[0].kernel
    spaces = {b.space for b in buffers_of(kernel.body)}
    assert Space.ARENA not in spaces


def test_parts_of_an_attention_in_an_item_have_separate_tiles():
    """A projection's rows, and in them for each head tiles of scores, whose mask is read first."""
    kernel = case("mask").schedules[0].launches[0].kernel
    text = print_kernels([kernel])
    assert kernel.var.name == "stage.item"
    assert text.index("for serial tile.item") < text.index("for serial tile.block")


def test_a_stage_stores_the_codes_behind_a_clamp():
    """Both the comparison and the selection of a clamp read the sums."""
    graph = CASES["odd"][0]
    ((_, y),) = graph.outputs
    codes = b.map_("round", b.map_("mul", y, b.scalar(16.0, y)))
    most = b.scalar(127.0, y)
    codes = b.cast(b.map_("select", b.map_("lt", codes, most), codes, most), DataType.INT8)
    lowering = lowered(replace(graph, outputs=(("y", codes),)))
    assert [x.kind for x in lowering.schedules[0].launches] == ["fused tile"]
    assert verify(lowering, host(), [{}]) == ()


@pytest.mark.parametrize(("dtype", "kernels"), [(F, 1), (HALF, 2)])
def test_a_stage_saves_bytes(dtype, kernels):
    """A second cache holds these elements as two-byte types, but not as four-byte types."""
    x = b.param("x", (2, 301, 64), dtype)
    rows = b.contract("bmk,kn->bmn", x, const(weights(64, 64), dtype))
    y = b.contract("bmk,kn->bmn", rows, const(weights(64, 20), dtype))
    lowering = lowered(Graph((("x", x),), (("y", y),)), replace(REFERENCE, l2_bytes=3 * 2 * 301 * 64))
    assert len(lowering.schedules[0].launches) == kernels


def test_values_with_other_readers_are_no_stage():
    graph = CASES["odd"][0]
    ((_, y),) = graph.outputs
    inner = next(v for v in walk([y]) if v.op == Map("max", F))
    both = replace(graph, outputs=(("y", y), ("most", b.reduce_("max", inner, (3,)))))
    assert "fused tile" not in {x.kind for x in lowered(both).schedules[0].launches}


def test_values_that_all_items_need_are_computed_before():
    """The rows of x · w, but not the whole of u · w, with which each tile is multiplied."""
    x, u = b.param("x", (301, 24), F), b.param("u", (16, 24), F)
    rows, whole = (b.contract("mk,kn->mn", v, const(weights(24, n), F)) for v, n in ((x, 16), (u, 20)))
    lowering = lowered(Graph((("x", x), ("u", u)), (("y", b.contract("mk,kn->mn", rows, whole)),)))
    assert [x.kind for x in lowering.schedules[0].launches] == ["contraction", "fused tile"]
    assert verify(lowering, host(), [{}]) == ()


def test_rows_that_are_read_in_another_order_are_no_stage():
    x = b.param("x", (301, 24), F)
    rows = b.contract("mk,kn->mn", x, const(weights(24, 16), F))
    turned = b.slice_(rows, (300, 0), (301, 16), (-1, 1))
    graph = Graph((("x", x),), (("y", b.contract("mk,kn->mn", turned, const(weights(16, 20), F))),))
    assert [x.kind for x in lowered(graph).schedules[0].launches] == ["contraction", "contraction"]


FAR = 4 * REFERENCE.l2_bytes
NBYTES = 4 * 512 * 512
WEIGHTS = (Shared(NBYTES, 64),)


@pytest.mark.parametrize(
    ("asked", "saves"),
    [
        (AtItems((FAR,), (), 8, 0), True),
        (AtItems((FAR // 4,), (), 8, 0), False),  # it stays near without
        (AtItems((FAR,), (), 1, 0), False),  # a core would be idle
        (AtItems((FAR,), (), 8, FAR), False),  # windows read as much again
        (AtItems((FAR,), WEIGHTS, 8, 0), True),
        (AtItems((FAR,), WEIGHTS, 80, 0), False),  # all items read the weights from far away
        (AtItems((FAR,), (Shared(NBYTES, 640),), 80, 0), True),  # while rows are summed
    ],
)
def test_stages_are_for_items_that_save_more_moves_than_they_repeat(asked, saves):
    assert (gain(asked, REFERENCE) > 0) is saves


def depthwise(images, channels, size, maps):
    x = b.param("x", (images, channels, size, size), F)
    padded = b.pad(x, (0, 0, 1, 1), (0, 0, 1, 1), 0.0)
    axes = [Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((4, 1),)), Axis(0, 3, 1, ((5, 1),))]
    windows = b.windows(padded, axes, (*x.shape, 3, 3))
    inner = b.contract("nchwij,cij->nchw", windows, const(weights(channels, 3, 3), F))
    return Graph((("x", x),), (("y", b.contract("nchw,oc->nohw", inner, const(weights(maps, channels), F))),))


def projected(batch, heads, rows, keys, size):
    q, k, v = (b.param(n, (batch, heads, s, size), F) for n, s in (("q", rows), ("k", keys), ("v", keys)))
    scores = b.contract("bhmd,bhnd->bhmn", q, k)
    e = b.map_("exp", b.map_("sub", scores, b.reduce_("max", scores, (3,))))
    y = b.contract("bhmn,bhnd->bhmd", b.map_("div", e, b.reduce_("sum", e, (3,))), v)
    y = b.reshape(b.transpose(y, (0, 2, 1, 3)), (batch, rows, heads * size))
    y = b.contract("bse,ef->bsf", y, const(weights(heads * size, heads * size), F))
    return Graph((("q", q), ("k", k), ("v", v)), (("y", y),))


@pytest.mark.parametrize(
    ("graph", "kernels"),
    [
        (depthwise(8, 144, 56, 24), 1),
        (depthwise(1, 32, 112, 16), 1),
        (depthwise(1, 384, 14, 64), 2),
        (projected(8, 8, 1024, 77, 80), 1),
        (projected(1, 12, 512, 512, 64), 2),
    ],
)
def test_the_cost_model_selects_the_form_that_was_measured_to_be_faster(graph, kernels):
    assert len(lowered(graph, REFERENCE).schedules[0].launches) == kernels


def test_masked_elements_stay_hidden_in_an_item():
    """NaN among the values of keys that no row sees."""
    graph, (sizes,) = CASES["mask"]
    inputs = random_inputs(graph, sizes)
    inputs["mask"][...] = np.arange(29) % 5 != 3
    inputs["v"][:, :, 3::5] = np.nan
    got = by_native_code(lowered(graph), sizes, inputs)
    inputs["v"] = np.nan_to_num(inputs["v"])
    expected = attention_truth(**inputs)
    assert np.abs(got - expected).max() < 2e-6 * np.abs(expected).max()


def sliding(y):
    """Windows of 3 × 3 around each element of images."""
    padded = b.pad(y, (0, 0, 1, 1), (0, 0, 1, 1), 0.0)
    axes = [Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((4, 1),)), Axis(0, 3, 1, ((5, 1),))]
    return b.windows(padded, axes, (*y.shape, 3, 3))


def by_tiles_of_images(graph):
    """Kernels of a graph whose convolutions of 3 × 3 are computed in tiles wherever possible."""
    for step in passes_for(SMALL, (4,), True):
        graph = step.run(graph)
    strategies = loader.target().strategies
    return native.lower(graph, constant_offsets(graph), Sizes({}), machine=SMALL, strategies=strategies)


def test_recomputed_values_are_computed_as_a_whole():
    """Two convolutions of 3 × 3 in tiles, in sequence: NaN results are recomputed from windows."""
    x = y = b.param("x", (4, 32, 48, 48), F)
    for _ in range(2):
        y = b.contract("nchwij,kcij->nkhw", sliding(y), const(weights(32, 32, 3, 3), F))
    y = b.contract("nchw,oc->nohw", y, const(weights(16, 32), F))
    built = by_tiles_of_images(Graph((("x", x),), (("y", y),)))
    kinds = {x.kind for x in built.schedules[0].launches}
    assert "mend" in kinds
    assert "fused tile" not in kinds
    assert verify(built, host(), [{}]) == ()


def test_a_convolution_by_tiles_leaves_their_stages_to_others():
    """One of 3 × 3 in tiles, and behind it a depthwise and a pointwise one."""
    x = b.param("x", (4, 32, 48, 48), F)
    first = b.contract("nchwij,kcij->nkhw", sliding(x), const(weights(32, 32, 3, 3), F))
    inner = b.contract("nchwij,cij->nchw", sliding(first), const(weights(32, 3, 3), F))
    y = b.contract("nchw,oc->nohw", inner, const(weights(16, 32), F))
    built = by_tiles_of_images(Graph((("x", x),), (("y", y),)))
    kinds = [x.kind for x in built.schedules[0].launches]
    assert kinds.count("fused tile") == 1
    assert "mend" in kinds
    assert verify(built, host(), [{}]) == ()


def test_values_that_stay_in_the_second_cache_between_two_kernels_are_no_stage():
    lowering = lowered(CASES["odd"][0], machine=REFERENCE)
    assert [x.kind for x in lowering.schedules[0].launches] == ["window", "contraction"]
