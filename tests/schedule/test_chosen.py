"""Products with data-selected matrices, one for each batch, are right in every form of a product."""

import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Symbol
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import choose

B, M = Sym("x.0", 0, 1 << 16), Sym("x.1", 0, 1 << 16)
POINTS = [{B.name: n, M.name: m} for n, m in ((5, 8), (0, 3), (1, 1), (3, 0), (7, 33))]
FORMS = ["bmk,bkn->bmn", "bmk,bnk->bmn", "bkn,bmk->bmn", "bmk,bkn->nbm", "bmk,bkn->bnm"]


def lowered(form, dtype=DataType.FLOAT, level=None, size=(33, 48)):
    """x times the matrices of `w` that `at` selects, and the positive part of the result."""
    k, n = size
    labels = form.split("->")[0].split(",")
    sizes = {"b": B.dim, "m": M.dim, "k": k, "n": n}
    of_x = next(i for i, part in enumerate(labels) if "m" in part)
    x = b.param("x", tuple(sizes[c] for c in labels[of_x]), dtype)
    rest = tuple(sizes[c] for c in labels[1 - of_x][1:])
    w, at = b.param("w", (4, *rest), dtype), b.param("at", (B.dim,), DataType.INT32)
    chosen = b.gather(w, b.expand(b.reshape(at, (B.dim, 1, 1)), (B.dim, *rest)), 0)
    sums = DataType.INT32 if dtype is DataType.INT8 else DataType.FLOAT
    pair = (x, chosen) if of_x == 0 else (chosen, x)
    y = b.contract(form, *pair, sums)
    y = b.map_("max", y, b.scalar(0, y))
    graph = Graph((("x", x), ("w", w), ("at", at)), (("y", y),), {}, (Symbol(B, "x", 0), Symbol(M, "x", 1)))
    machine = choose(level).limited(REFERENCE)
    return native.lower(graph, constant_offsets(graph), Sizes({B.name: 5, M.name: 8}), machine=machine)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("level", [None, "avx2", "sse2"])
@pytest.mark.parametrize("form", FORMS)
def test_chosen_matrices_agree_with_the_interpreter(form, level):
    assert verify(lowered(form, level=level), choose(level), POINTS) == ()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("form", FORMS[:2])
@pytest.mark.parametrize("dtype", [DataType.HALF, DataType.BF16, DataType.INT8])
def test_every_type_of_a_chosen_matrix_agrees(dtype, form):
    assert verify(lowered(form, dtype), choose(None), POINTS) == ()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [(1, 1), (7, 3), (100, 17), (64, 130), (0, 5)])
def test_every_size_of_a_chosen_matrix_agrees(size):
    assert verify(lowered(FORMS[0], size=size), choose(None), POINTS) == ()
