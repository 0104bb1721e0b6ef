"""Codes of 4 bits that one row is multiplied by: halves of blocks in the bytes that a vector takes apart."""

import ml_dtypes
import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, walk
from anyrt.ir.interpret import interpret
from anyrt.passes.split_codes import split_codes
from anyrt.prims import build as b
from anyrt.prims.contract import Contract
from anyrt.prims.view import Axis
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import host

F, INT4 = DataType.FLOAT, DataType.INT4


def product(terms, block, rows=1, form="mk,nk->mn", columns=5):
    """A row times weights of which a block of terms has a scale and a zero point, or with 0 a column."""
    rng = np.random.default_rng(terms + block)
    along = form.split(",")[1].index("k")
    x = b.param("x", (rows, terms), F)
    codes = rng.integers(-8, 8, (columns, terms)).astype(ml_dtypes.int4)
    codes = b.const(codes if along else np.ascontiguousarray(codes.T), INT4)

    def each(array, dtype):
        array = array if along else np.ascontiguousarray(array.T)
        if not block:  # of shape (columns, 1) or (1, columns)
            return b.const(array, dtype)
        places = [Axis(0, 0), Axis(0, 1), Axis(0, None)] if along else [Axis(0, 0), Axis(0, 2), Axis(0, None)]
        shape = (columns, terms // block, block) if along else (terms // block, block, columns)
        return b.reshape(b.windows(b.const(array[..., None], dtype), places, shape), codes.shape)

    scale = each(rng.uniform(0.1, 1, (columns, terms // (block or terms))).astype(np.float32), F)
    zero = each(rng.integers(-8, 8, (columns, terms // (block or terms))).astype(ml_dtypes.int4), INT4)
    weights = b.map_("mul", b.map_("sub", b.cast(codes, F), b.cast(zero, F)), scale)
    return Graph((("x", x),), (("y", b.contract(form, x, weights)),), {}, ())


def sum_of(graph):
    """The labels of a graph's product on both sides."""
    (value,) = (v for v in walk(v for _, v in graph.outputs) if isinstance(v.op, Contract))
    return value.op.left, value.op.right


SPLIT = [(64, 32), (64, 64), (96, 32), (64, 16), (512, 256), (64, 0), (32, 0)]


@pytest.mark.parametrize("form", ["mk,nk->mn", "mk,kn->mn"])
@pytest.mark.parametrize(("terms", "block"), SPLIT)
def test_a_row_is_multiplied_by_the_same_weights(terms, block, form):
    graph = product(terms, block, form=form)
    split = split_codes(graph)
    assert [len(labels) for labels in sum_of(split)] == [4, 4]
    x = {"x": np.random.default_rng(0).integers(-9, 9, (1, terms)).astype(np.float64)}
    before, now = (interpret(g, x)["y"] for g in (graph, split))
    np.testing.assert_allclose(now, before, rtol=1e-12)
    lowered = native.lower(split, constant_offsets(split), Sizes({}))
    assert len(lowered.module.kernels) == 1
    assert verify(lowered, host(), [{}]) == ()


@pytest.mark.parametrize(
    ("terms", "block", "rows"), [(64, 8, 1), (48, 16, 1), (40, 0, 1), (64, 32, 2)], ids=str
)
def test_others_stay(terms, block, rows):
    """Blocks that fill no vector, an odd number of short blocks, and weights that several rows are for."""
    graph = product(terms, block, rows)
    assert split_codes(graph) is graph or sum_of(split_codes(graph)) == sum_of(graph)
    lowered = native.lower(graph, constant_offsets(graph), Sizes({}))
    assert verify(lowered, host(), [{}]) == ()
