"""Operands with strided terms, transposed for long sums that are split into parts."""

import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Symbol
from anyrt.passes.turn_operands import turn_operands
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native

F = DataType.FLOAT
OPEN = Sym("x.1", 1, 64)


def product(equation, left, right, symbols=(), dtype=F, constant=True):
    x = b.param("x", left, dtype)
    w = b.const(np.ones(right, np.float32), dtype) if constant else b.param("w", right, dtype)
    inputs = (("x", x),) if constant else (("x", x), ("w", w))
    return Graph(inputs, (("y", b.contract(equation, x, w)),), {}, symbols)


LONG = product("chw,ckab->khawb", (512, 4, 16), (512, 128, 2, 2))


def test_a_long_sum_of_parted_results_reads_its_terms_side_by_side():
    ((_, y),) = turn_operands(LONG).outputs
    assert [a.shape for a in y.args] == [(4, 16, 512), (512, 128, 2, 2)]
    assert (y.op.left, y.shape) == ((1, 2, 0), (128, 4, 2, 16, 2))


def test_operands_transposed_for_a_long_sum_are_stored():
    graph = turn_operands(LONG)
    lowered = native.lower(graph, constant_offsets(graph), Sizes({}), machine=REFERENCE)
    assert [x.kind for x in lowered.schedules[0].launches] == ["map", "contraction"]


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (product("chw,ckab->khawb", (256, 4, 16), (256, 128, 2, 2)), "the sum is short"),
        (product("chw,ckab->khawb", (512, 4, 16), (512, 64, 2, 2)), "it has few results"),
        (product("chw,ck->khw", (512, 4, 16), (512, 512)), "its results lie side by side"),
        (product("hwc,ckab->khawb", (4, 16, 512), (512, 128, 2, 2)), "its terms lie side by side"),
        (product("chw,ckab->khawb", (512, 4, 16), (512, 128, 2, 2), constant=False), "both factors are open"),
        (
            product("chw,ckab->khawb", (512, OPEN.dim, 16), (512, 128, 2, 2), (Symbol(OPEN, "x", 1),)),
            "a size is open",
        ),
        (product("chw,ckab->khawb", (512, 4, 16), (512, 128, 2, 2), dtype=DataType.HALF), "words are copied"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_others_stay_as_they_are(graph, why):
    assert turn_operands(graph) is graph
