"""Sums of products of integers become sums of products of the codes from which they were cast."""

import numpy as np
import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Symbol, walk
from anyrt.ir.interpret import interpret
from anyrt.passes.contract_integers import contract_integers
from anyrt.prims import build as b
from anyrt.prims.const import Param
from anyrt.prims.contract import Contract
from anyrt.prims.view import Axis

I8, U8, I32 = DataType.INT8, DataType.UINT8, DataType.INT32
N = Sym("x.0", 0, 9)


def whole(codes, zero=None):
    codes = b.cast(codes, I32)
    return codes if zero is None else b.map_("sub", codes, zero)


def x(*shape, dtype=I8):
    return b.param("x", shape, dtype)


def w(*shape, dtype=I8):
    return b.const((np.arange(np.prod(shape)) * 7 % 120).reshape(shape), dtype)


def data(*shape, dtype=I8):
    return b.cast(b.param("z", shape, dtype), I32)


def number(value):
    return b.const([[value]], I32)


def windows(codes):
    """(C, 7) codes with padding of one, in windows of three: (C, 7, 3)."""
    padded = b.pad(codes, (0, 1), (0, 1), 0.0)
    return b.windows(padded, (Axis(0, 0), Axis(0, 1, 1, ((2, 1),))), (codes.shape[0], 7, 3))


CODES = {
    "zeros of 0": b.contract("mk,kn->mn", whole(x(4, 6)), whole(w(6, 5))),
    "bytes": b.contract("mk,kn->mn", whole(x(4, 6, dtype=U8)), whole(w(6, 5, dtype=U8))),
    "one of each": b.contract("mk,kn->mn", whole(x(4, 6, dtype=U8)), whole(w(6, 5))),
    "a zero that is data": b.contract("mk,kn->mn", whole(x(4, 6), data(1, 1)), whole(w(6, 5))),
    "zeros of rows and columns": b.contract(
        "mk,nk->nm", whole(x(4, 6, dtype=U8), data(4, 1, dtype=U8)), whole(w(5, 6), b.cast(w(5, 1), I32))
    ),
    "rows that are open": b.contract(
        "mk,kn->mn", whole(x(N.dim, 6), number(3)), whole(w(6, 5, dtype=U8), data(1, 1, dtype=U8))
    ),
    "terms that are open": b.contract(
        "mk,mn->kn", whole(x(N.dim, 6), number(3)), whole(x(N.dim, 6), number(5))
    ),
    "a border": b.contract(
        "cpu,kcu->kp",
        windows(whole(x(3, 7, dtype=U8), number(130))),
        whole(w(5, 3, 3), b.const([[[4]]], I32)),
    ),
    "more terms than int32 holds": b.contract(
        "mk,kn->mn", whole(x(1, 150000), number(-120)), whole(b.expand(w(1, 2), (150000, 2)), number(-120))
    ),
}
WHOLE = {
    "a border of data": b.contract("cpu,kcu->kp", windows(whole(x(3, 7), data(1, 1))), whole(w(5, 3, 3))),
    "a zero for each term": b.contract("mk,kn->mn", whole(x(4, 6), data(1, 6)), whole(w(6, 5))),
    "a sum over one side": b.contract("mk,n->mn", whole(x(4, 6), number(3)), whole(w(5))),
    "no codes": b.contract("mk,kn->mn", x(4, 6, dtype=I32), whole(w(6, 5))),
}


def graph(y):
    inputs = {v.op.name: v for v in walk([y]) if isinstance(v.op, Param)}
    return Graph(tuple(inputs.items()), (("y", y),), symbols=(Symbol(N, "x", 0),))


def answer(g, rows):
    feeds = {}
    for name, v in g.inputs:
        shape = [d if isinstance(d, int) else rows for d in v.shape]
        codes = (np.arange(np.prod(shape)) * 37 % 255).reshape(shape)
        feeds[name] = codes.astype(np.uint8) if v.dtype is U8 else (codes - 127).astype(np.int8)
    return interpret(g, feeds, {N.name: rows})["y"]


def factors(g):
    return {v.args[0].dtype for v in walk(v for _, v in g.outputs) if isinstance(v.op, Contract)}


@pytest.mark.parametrize("name", CODES)
def test_codes_are_multiplied_and_numbers_stay_the_same_bit_for_bit(name):
    before = graph(CODES[name])
    after = contract_integers(before)
    assert factors(after) == {I8}
    for rows in (0, 1, 9):
        assert np.array_equal(answer(after, rows), answer(before, rows))


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_are_multiplied(name):
    before = graph(WHOLE[name])
    assert contract_integers(before) is before
