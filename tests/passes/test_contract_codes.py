"""Sums of products of dequantised codes become sums of products of the codes if the scales can be factored
out."""

import numpy as np
import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.graph import Graph, Symbol, apply, walk
from anyrt.ir.interpret import interpret
from anyrt.passes.contract_codes import contract_codes
from anyrt.passes.contract_integers import contract_integers
from anyrt.prims import build as b
from anyrt.prims.checked import Checked
from anyrt.prims.const import Param
from anyrt.prims.contract import Contract
from anyrt.prims.view import Axis

F, I8 = DataType.FLOAT, DataType.INT8
N = Sym("x.0", 0, 9)


def x(*shape, dtype=I8):
    return b.param("x", shape, dtype)


def w(*shape, dtype=I8):
    return b.const((np.arange(np.prod(shape)) * 7 % 15 - 7).reshape(shape), dtype)


def steps(*shape):
    return b.const(np.arange(1, np.prod(shape) + 1).reshape(shape) / 8, F)


def real(codes, scale, zero=None):
    codes = b.cast(codes, F)
    return b.map_("mul", codes if zero is None else b.map_("sub", codes, b.cast(zero, F)), scale)


def graph(y):
    inputs = {v.op.name: v for v in walk([y]) if isinstance(v.op, Param)}
    return Graph(tuple(inputs.items()), (("y", y),), symbols=(Symbol(N, "x", 0),))


def multiplied(g):
    """The types of the factors of its contraction."""
    return {v.args[0].dtype for v in walk(v for _, v in g.outputs) if isinstance(v.op, Contract)}


def answer(g, rows):
    """The interpreter's result for codes of the whole range, and scales."""
    feeds = {}
    for name, v in g.inputs:
        shape = [d if isinstance(d, int) else rows for d in v.shape]
        count = np.arange(np.prod(shape)) * 37 % 255
        feeds[name] = (count - 127).astype(np.int8) if v.dtype is I8 else np.float32(count / 64)
        feeds[name] = feeds[name].reshape(shape)
    return interpret(g, feeds, {N.name: rows})["y"]


def windows(codes):
    """(C, 7) codes with padding of one, in windows of three: (C, 7, 3)."""
    padded = b.pad(codes, (0, 1), (0, 1), 0.0)
    return b.windows(padded, (Axis(0, 0), Axis(0, 1, 1, ((2, 1),))), (codes.shape[0], 7, 3))


FEW = Checked((Requirement(N.dim, Relation.LE, 9, "AR114", "layer", ""),))
ONE = steps(1, 1)
CODED = {
    "one scale each": b.contract("mk,kn->mn", real(x(4, 6), ONE), real(w(6, 5), ONE)),
    "a scale for each column": b.contract("mk,kn->mn", real(x(4, 6), ONE), real(w(6, 5), steps(1, 5))),
    "scales for rows that are computed": b.contract(
        "mk,nk->mn", real(x(4, 6), b.param("s", (4, 1), F)), real(w(5, 6), steps(5, 1))
    ),
    "results in another order": b.contract(
        "amk,akn->nam", real(x(2, 4, 6), steps(2, 4, 1)), real(w(2, 6, 5), steps(1, 1, 5))
    ),
    "windows with a border": b.contract(
        "cpu,kcu->kp", windows(real(x(3, 7), ONE)), real(w(5, 3, 3), steps(5, 1, 1))
    ),
    "groups": b.contract(
        "gpk,gqk->gpq",
        b.reshape(real(x(6, 4), steps(6, 1)), (2, 3, 4)),
        b.reshape(real(w(4, 4), steps(4, 1)), (2, 2, 4)),
    ),
    "four bits": b.contract("mk,kn->mn", real(x(4, 6), ONE), real(w(6, 5, dtype=DataType.INT4), steps(1, 5))),
    "halves": b.contract(
        "mk,kn->mn",
        *(b.cast(real(v, ONE), DataType.HALF) for v in (x(4, 6), w(6, 5))),
    ),
    "conditions": b.contract("mk,kn->mn", apply(FEW, real(x(N.dim, 6), ONE)), real(w(6, 5), steps(1, 5))),
}
ZERO = b.const([[3]], I8)
CODED |= {
    "another zero than 0": b.contract("mk,kn->mn", real(x(4, 6), ONE, ZERO), real(w(6, 5), steps(1, 5))),
    "another zero of the second factor": b.contract(
        "km,nk->nm", real(w(6, 4), ONE), real(x(5, 6), ONE, ZERO)
    ),
    "two zeros that are not 0": b.contract("mk,kn->mn", real(x(4, 6), ONE, ZERO), real(w(6, 5), ONE, ZERO)),
    "a border of another zero": b.contract(
        "cpu,kcu->kp", windows(real(x(3, 7), ONE, ZERO)), real(w(5, 3, 3), steps(5, 1, 1))
    ),
}
REAL = {
    "zeros that differ": b.contract(
        "mk,kn->mn", real(x(4, 6), ONE), real(w(6, 5), ONE, b.const(np.arange(5)[None], I8))
    ),
    "a scale for each term": b.contract("mk,kn->mn", real(x(4, 6), ONE), real(w(6, 5), steps(6, 1))),
    "factors of one side that are numbers": b.contract(
        "mk,kn->mn", real(x(4, 6), ONE), b.param("s", (6, 5), F)
    ),
    "more terms than int32 holds": b.contract(
        "mk,kn->mn", real(x(1, 131072), ONE), real(b.expand(w(1, 1), (131072, 1)), ONE)
    ),
    "a border that is not 0": b.contract(
        "mk,kn->mn", b.pad(real(x(4, 5), ONE), (0, 1), (0, 0), 1.0), real(w(6, 5), ONE)
    ),
    "a border where scales differ": b.contract(
        "mk,kn->mn", b.pad(real(x(3, 6), steps(3, 1)), (1, 0), (0, 0), 0.0), real(w(6, 5), ONE)
    ),
    "rows of another scale in one": b.contract(
        "k,kn->n", b.reshape(real(x(2, 3), steps(2, 1)), (6,)), real(w(6, 5), ONE)
    ),
    "numbers rounded to fp8": b.contract(
        "mk,kn->mn", *(b.cast(b.cast(real(v, ONE), DataType.FP8), F) for v in (x(4, 6), w(6, 5)))
    ),
}


@pytest.mark.parametrize("name", CODED)
def test_codes_are_multiplied_with(name):
    before = graph(CODED[name])
    after = contract_integers(contract_codes(before))
    assert multiplied(after) == {I8}
    assert np.allclose(answer(after, 3), answer(before, 3), rtol=1e-6)


@pytest.mark.parametrize("name", REAL)
def test_codes_are_not_multiplied_with(name):
    before = graph(REAL[name])
    assert contract_codes(before) is before


def test_no_rows_are_multiplied():
    assert answer(contract_integers(contract_codes(graph(CODED["conditions"]))), 0).shape == (0, 5)
