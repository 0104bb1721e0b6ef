"""Contractions and windows: labels, shapes, rejected arguments, and the numbers of their code."""

import numpy as np
import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.errors import AnyrtError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Graph, Symbol, Type, apply
from anyrt.ir.interpret import interpret
from anyrt.passes.simplify import simplify
from anyrt.prims import build as b
from anyrt.prims.contract import Contract
from anyrt.prims.pad import Pad
from anyrt.prims.view import Axis, View
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import host

F, H, I8, I32 = DataType.FLOAT, DataType.HALF, DataType.INT8, DataType.INT32
N, M = Sym("x.0", 0, 9), Sym("w.0", 0, 9)


def t(dtype, *shape):
    return Type(shape, dtype)


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        (Contract((0, 2), (2, 1), (0, 1), F), (t(F, 4, 6), t(F, 6, 5)), t(F, 4, 5)),
        (Contract((0, 2), (2, 1), (1, 0), F), (t(F, N.dim, 6), t(F, 6, 5)), t(F, 5, N.dim)),
        (Contract((0,), (0,), (), I32), (t(I8, 4), t(I8, 4)), t(I32)),
        (Contract((0,), (0,), (0,), F), (t(H, N.dim), t(H, 4)), t(F, 4)),
    ],
)
def test_sizes_are_those_of_the_labels_that_are_kept(op, args, expected):
    assert op.infer(args) == expected


@pytest.mark.parametrize(
    ("op", "args", "code"),
    [
        (Contract((0, 2), (2, 1), (0, 1), F), (t(F, 4, 6), t(F, 7, 5)), "AR112"),
        (Contract((0,), (2, 1), (0, 1), F), (t(F, 4, 6), t(F, 6, 5)), "AR108"),
        (Contract((0, 0), (0, 1), (1,), F), (t(F, 4, 4), t(F, 4, 5)), "AR305"),
        (Contract((0, 1), (1,), (2,), F), (t(F, 4, 4), t(F, 4)), "AR303"),
        (Contract((0, 1), (1,), (0,), F), (t(F, 4, 4), t(H, 4)), "AR203"),
        (Contract((0, 1), (1,), (0,), I8), (t(I8, 4, 4), t(I8, 4)), "AR203"),
        (Contract((0, 1), (1,), (0,), F), (t(DataType.BOOL, 4, 4), t(DataType.BOOL, 4)), "AR202"),
        (Contract((0,), (0,), (), F), (t(F, 4),), "AR406"),
        (View((4, 4), (Axis(0, 0, 1, ((1, 1),)),)), (t(F, 6),), "AR114"),
        (View((4, 4), (Axis(3, 0, 1, ((1, -2),)),)), (t(F, 9),), "AR114"),
    ],
)
def test_invalid_operands_are_rejected(op, args, code):
    with pytest.raises(AnyrtError, match=code):
        op.infer(args)


def test_open_sizes_of_equal_labels_must_be_equal():
    op = Contract((0, 1), (1,), (0,), F)
    (rule,) = op.requires((t(F, 4, N.dim), t(F, M.dim)), "there")
    assert (rule.left, rule.relation, rule.right) == (N.dim, Relation.EQ, M.dim)


def contracted(equation, left, right, dtype, sums):
    """The output of code, after verification against the interpreter."""
    x, w = b.param("x", left, dtype), b.param("w", right, dtype)
    symbols = (Symbol(N, "x", 0),) if N.dim in left else ()
    return Graph((("x", x), ("w", w)), (("y", b.contract(equation, x, w, sums)),), {}, symbols)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("mk,kn->mn", (5, 7), (7, 33)),
        ("mk,nk->nm", (5, 7), (33, 7)),
        ("bmk,bkn->bmn", (3, 5, 7), (3, 7, 4)),
        ("k,k->", (70,), (70,)),
        ("m,n->mn", (5,), (7,)),
        ("mk,kn->mn", (N.dim, 7), (7, 33)),
        ("km,kn->mn", (N.dim, 7), (N.dim, 33)),
        ("mij,n->n", (2, 3, 4), (5,)),
        ("mk,kn->mn", (5, 0), (0, 33)),
    ],
)
@pytest.mark.parametrize(("dtype", "sums"), [(F, F), (H, H), (H, F), (I8, I32), (I32, I32)])
def test_code_agrees_with_einsum(equation, left, right, dtype, sums):
    graph = contracted(equation, left, right, dtype, sums)
    sizes = [{N.name: n} for n in (0, 1, 9)] if graph.symbols else [{}]
    assert verify(native.lower(graph, {}, Sizes({N.name: 5})), host(), sizes) == ()


def windows(x):
    """Windows of 3 with stride 2 over the last axis, padded by 1, and their positions."""
    padded = apply(Pad((0, 1), (0, 1), 0.0), x)
    return b.windows(padded, [Axis(0, 0), Axis(0, 1, 2, ((2, 1),))], (2, 4, 3))


def test_windows_read_every_position_of_each():
    x = b.param("x", (2, 7), F)
    values = np.arange(14, dtype=np.float32).reshape(2, 7)
    (got,) = interpret(Graph((("x", x),), (("y", windows(x)),)), {"x": values}).values()
    padded = np.pad(values, ((0, 0), (1, 1)))
    assert np.array_equal(got, np.lib.stride_tricks.sliding_window_view(padded, 3, 1)[:, ::2])


def test_a_window_is_read_where_it_lies_while_its_padded_operand_is_stored():
    x, w = b.param("x", (2, 7), F), b.param("w", (5, 3), F)
    graph = Graph((("x", x), ("w", w)), (("y", b.contract("bpk,nk->bnp", windows(x), w)),))
    lowered = native.lower(graph, {}, Sizes({}))
    assert [k.name for k in lowered.module.kernels] == ["pad: border", "pad: copy", "contract"]
    assert verify(lowered, host(), [{}]) == ()


def test_views_of_windows_become_one_view():
    x = b.param("x", (2, 7), F)
    turned = b.transpose(b.slice_(windows(x), (0, 1, 0), (2, 2, 3), (1, 2, 1)), (2, 0, 1))
    simple = simplify(Graph((("x", x),), (("y", turned),)))
    (view,) = (v for _, v in simple.outputs)
    assert view.op == View((3, 2, 2), (Axis(0, 1), Axis(2, 2, 4, ((0, 1),))))
    assert isinstance(view.args[0].op, Pad)
