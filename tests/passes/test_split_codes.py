"""Few-bit weights: codes stay a constant, and the terms of a sum are split into blocks with one
scale each."""

import sys

import ml_dtypes
import numpy as np
import pytest

from anyrt.backends.cpu.processors import Level
from anyrt.compiler.trial import constant_offsets
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, walk
from anyrt.ir.interpret import interpret
from anyrt.passes import PASSES
from anyrt.passes.fold_constants import fold_constants
from anyrt.passes.split_codes import coded_bytes, split_codes
from anyrt.prims import build as b
from anyrt.prims.const import Const
from anyrt.prims.contract import Contract
from anyrt.prims.view import Axis
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import forced, host

F, I8, U8 = DataType.FLOAT, DataType.INT8, DataType.UINT8
NUMPY = {
    DataType.INT2: ml_dtypes.int2,
    DataType.UINT2: ml_dtypes.uint2,
    DataType.INT4: ml_dtypes.int4,
    DataType.UINT4: ml_dtypes.uint4,
    I8: np.int8,
    U8: np.uint8,
}
RANGE = {t: (-(1 << n - 1), 1 << n - 1) for t, n in ((DataType.INT2, 2), (DataType.INT4, 4), (I8, 8))}
RANGE |= {t: (0, 1 << n) for t, n in ((DataType.UINT2, 2), (DataType.UINT4, 4), (U8, 8))}
FORMS = ("mk,nk->mn", "mk,kn->mn", "nk,mk->mn", "kn,mk->nm")


@pytest.fixture(autouse=True)
def _codes_of_any_number(monkeypatch):
    """Keep codes for any number of weights; by default, few weights become numbers."""
    for name in ("fold_constants", "split_codes"):
        monkeypatch.setattr(sys.modules[f"anyrt.passes.{name}"], "SMALL", 1)


def weights(terms, block, kind=DataType.INT4, columns=37, along=1, zeros=True):
    """Codes minus zero points, times scales: one of each for a block of terms, or (block 0) for a column."""
    rng = np.random.default_rng(terms + block)

    def drawn(shape):
        return rng.integers(*RANGE[kind], shape).astype(NUMPY[kind])

    def laid(array):
        return array if along else np.ascontiguousarray(array.T)

    def each(array, dtype):
        array = laid(array)
        if not block:  # of shape (columns, 1) or (1, columns)
            return b.const(array, dtype)
        places = [Axis(0, 0), Axis(0, 1), Axis(0, None)] if along else [Axis(0, 0), Axis(0, 2), Axis(0, None)]
        shape = (columns, terms // block, block) if along else (terms // block, block, columns)
        return b.reshape(b.windows(b.const(array[..., None], dtype), places, shape), laid(whole).shape)

    whole, few = drawn((columns, terms)), (columns, terms // (block or terms))
    steps = b.cast(b.const(laid(whole), kind), F)
    if zeros:
        steps = b.map_("sub", steps, b.cast(each(drawn(few), kind), F))
    return b.map_("mul", steps, each(rng.uniform(0.1, 1, few).astype(np.float32), F))


def product(terms, block, rows=1, form=FORMS[0], **more):
    """Rows times weights; operands are in the order of the form."""
    sides = form.split("->")[0].split(",")
    x = b.param("x", tuple({"m": rows, "k": terms}[k] for k in sides["m" in sides[1]]), F)
    coded = weights(terms, block, along=int(sides["n" in sides[1]] == "nk"), **more)
    args = (coded, x) if "n" in sides[0] else (x, coded)
    return Graph((("x", x),), (("y", b.contract(form, *args)),), {}, ())


def sum_of(graph):
    """The contraction of a graph."""
    (value,) = (v for v in walk(v for _, v in graph.outputs) if isinstance(v.op, Contract))
    return value


def held(graph):
    """The constants of a graph: their types and numbers of elements."""
    consts = (v for v in walk(v for _, v in graph.outputs) if isinstance(v.op, Const))
    return sorted((v.dtype.name, v.op.blob.size) for v in consts)


def compiled(graph):
    """The graph as kernels receive it."""
    for p in PASSES:
        graph = p.run(graph)
    return graph


def agree(graph, other, terms, rows):
    shape = graph.inputs[0][1].shape
    x = {"x": np.random.default_rng(0).integers(-9, 9, shape).astype(np.float64)}
    before, now = (interpret(g, x)["y"] for g in (graph, other))
    np.testing.assert_allclose(now, before, rtol=1e-12, atol=1e-9)


def is_one_kernel(graph, target=None):
    """Whether it compiles to one kernel that agrees with the interpreter."""
    last = compiled(graph)
    lowered = native.lower(last, constant_offsets(last), Sizes({}))
    assert verify(lowered, target or host(), [{}]) == ()
    return len(lowered.module.kernels) == 1


SPLIT = [(64, 8), (64, 16), (96, 32), (64, 64), (512, 256), (64, 0), (40, 0), (24, 24)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [1, 2, 6, 7, 16, 33])
@pytest.mark.parametrize(("terms", "block"), SPLIT)
def test_terms_are_cut_in_blocks(terms, block, rows, form):
    graph = product(terms, block, rows, form)
    split = split_codes(graph)
    op = sum_of(split).op
    assert [len(labels) for labels in (op.left, op.right)] == [3, 3]
    size = block or terms
    assert ("INT4", 37 * terms) in held(split)
    assert held(split).count(("FLOAT", 37 * terms // size)) == 1  # scales
    assert held(split).count(("INT8", 37 * terms // size)) == 1  # zero points, as bytes
    agree(graph, split, terms, rows)
    assert is_one_kernel(graph)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("kind", NUMPY, ids=lambda t: t.name)
@pytest.mark.parametrize("rows", [1, 5, 33])
def test_codes_of_all_types_are_kept(kind, rows, zeros):
    graph = product(64, 32, rows, kind=kind, zeros=zeros)
    assert (kind.name, 64 * 64) in held(compiled(graph))  # panels are padded to 32 lanes
    assert is_one_kernel(graph)


@pytest.mark.sampled(3)
@pytest.mark.here
@pytest.mark.parametrize("kind", [DataType.INT4, DataType.UINT4, I8], ids=lambda t: t.name)
@pytest.mark.parametrize("rows", [1, 33])
@pytest.mark.parametrize("level", [Level.AVX2, Level.SSE2])
def test_codes_are_read_on_smaller_processors(level, rows, kind):
    target = forced(level)
    last = compiled(product(64, 32, rows, kind=kind))
    lowered = native.lower(last, constant_offsets(last), Sizes({}), strategies=target.strategies)
    assert verify(lowered, target, [{}]) == ()


def test_weights_that_are_transposed_are_read_as_they_lie():
    x, w = b.param("x", (3, 64), F), weights(64, 32)
    graph = Graph((("x", x),), (("y", b.contract("mk,kn->mn", x, b.transpose(w, (1, 0)))),), {}, ())
    plain = product(64, 32, 3)
    assert split_codes(graph).outputs[0][1].op == split_codes(plain).outputs[0][1].op
    agree(graph, split_codes(graph), 64, 3)


def test_a_scale_of_all_is_no_block():
    codes = np.arange(-8, 8).repeat(32).reshape(8, 64).astype(ml_dtypes.int4)
    w = b.map_("mul", b.cast(b.const(codes, DataType.INT4), F), b.const(np.full((1, 1), 0.5, np.float32), F))
    x = b.param("x", (3, 64), F)
    graph = Graph((("x", x),), (("y", b.contract("mk,nk->mn", x, w)),), {}, ())
    agree(graph, split_codes(graph), 64, 3)
    is_one_kernel(graph)  # or one before that multiplies rows by the scale


@pytest.mark.parametrize(("terms", "block"), [(60, 12), (12, 4), (33, 0)], ids=str)
def test_blocks_that_fill_no_words_stay(terms, block):
    graph = product(terms, block)
    assert sum_of(split_codes(graph)).op == sum_of(graph).op
    last = compiled(graph)
    lowered = native.lower(last, constant_offsets(last), Sizes({}))
    assert verify(lowered, host(), [{}]) == ()


def test_half_types_stay():
    w = b.cast(weights(64, 32), DataType.HALF)
    x = b.param("x", (3, 64), DataType.HALF)
    graph = Graph((("x", x),), (("y", b.contract("mk,nk->mn", x, w)),), {}, ())
    assert split_codes(graph) is graph


def test_windows_stay():
    """A convolution's weights, which have several summed axes."""
    x = b.param("x", (1, 8, 3, 3), F)
    w = b.reshape(weights(72, 0), (37, 8, 3, 3))
    graph = Graph((("x", x),), (("y", b.contract("bcij,ncij->bn", x, w)),), {}, ())
    assert split_codes(graph) is graph


# ---- codes of 8 bits ------------------------------------------------------------------------------


def folded(graph):
    """Whether codes of 8 bits were folded to numbers."""
    return ("INT8", 37 * graph.inputs[0][1].shape[1]) not in held(fold_constants(graph))


def test_bytes_stay_codes_for_products_alone():
    graph = product(64, 32, kind=I8)
    assert len(coded_bytes(graph)) == 1
    assert not folded(graph)


def test_bytes_that_others_read_too_become_numbers():
    x, w = b.param("x", (3, 64), F), weights(64, 32, kind=I8)
    y = b.contract("mk,nk->mn", x, w)
    shown = Graph((("x", x),), (("y", y), ("w", w)), {}, ())
    added = Graph((("x", x),), (("y", y), ("z", b.map_("add", w, b.param("u", (37, 64), F)))), {}, ())
    assert folded(shown)
    assert folded(added)


def test_bytes_of_convolutions_become_numbers():
    x = b.param("x", (1, 8, 5, 5), F)
    places = [Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((4, 1),)), Axis(0, 3, 1, ((5, 1),))]
    seen = b.windows(x, places, (1, 8, 3, 3, 3, 3))
    w = b.reshape(weights(72, 0, kind=I8), (37, 8, 3, 3))
    graph = Graph((("x", x),), (("y", b.contract("bcuvij,ncij->bnuv", seen, w)),), {}, ())
    assert ("INT8", 37 * 72) not in held(fold_constants(graph))


def test_few_bytes_become_numbers(monkeypatch):
    monkeypatch.setattr(sys.modules["anyrt.passes.split_codes"], "SMALL", 37 * 64)
    assert folded(product(64, 32, kind=I8))


def test_bytes_that_fill_no_words_become_numbers_at_last():
    graph = fold_constants(product(63, 3, kind=I8))
    assert ("INT8", 37 * 63) in held(graph)
    assert held(split_codes(graph)) == [("FLOAT", 37 * 63)]
