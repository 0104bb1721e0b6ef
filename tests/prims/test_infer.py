"""Shape rules: their results, the arguments that they reject, and the checks that they leave to the
inference."""

from __future__ import annotations

import numpy as np
import pytest

from anyrt.core.dims import Dim, Sym, maximum
from anyrt.core.enums import (
    DataType,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    ResizeSelector,
    SampleMode,
)
from anyrt.core.errors import AnyrtError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Type
from anyrt.ir.prim import Prim
from anyrt.prims.concat import Concat
from anyrt.prims.const import Blob, Const, Iota, Param, Shape
from anyrt.prims.map import Map
from anyrt.prims.pad import Pad
from anyrt.prims.reduce import Reduce
from anyrt.prims.reshape import Reshape, axis_groups
from anyrt.prims.taps import Border, Linear, Nearest, Taps
from anyrt.prims.view import Axis, View

F, HALF, I8, I32, I64, BOOL = (
    DataType.FLOAT,
    DataType.HALF,
    DataType.INT8,
    DataType.INT32,
    DataType.INT64,
    DataType.BOOL,
)
N, M = Sym("n", 1, 99), Sym("m", 0, 99)
n, m = N.dim, M.dim
CLAMP = Border(SampleMode.CLAMP, 0, 1)
LINEAR = Linear(ResizeCoordinateTransformation.ASYMMETRIC, ResizeSelector.FORMULA)
FLOOR = Nearest(ResizeCoordinateTransformation.ASYMMETRIC, ResizeSelector.FORMULA, ResizeRoundMode.FLOOR)


def t(dtype: DataType, *shape: Dim) -> Type:
    return Type(shape, dtype)


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        (Const(Blob(np.zeros(6, np.float32), F), (2, 3)), (), t(F, 2, 3)),
        (Param("x", t(F, n, 3)), (), t(F, n, 3)),
        (Shape((n, 3)), (), t(I64, 2)),
        (Iota((n, 3), 1, I32), (), t(I32, n, 3)),
        (Map("add", F), (t(F, 2, 1), t(F, 1, 3)), t(F, 2, 3)),
        (Map("add", F), (t(F, n), t(F, 1)), t(F, n)),
        (Map("add", F), (t(F, n), t(F, 4)), t(F, 4)),
        (Map("add", F), (t(F, 0), t(F, 1)), t(F, 0)),
        (Map("eq", BOOL), (t(F, 2), t(F, 2)), t(BOOL, 2)),
        (Map("select", F), (t(BOOL, 2), t(F, 2), t(F, 1)), t(F, 2)),
        (Map("cast", I8), (t(F, 2),), t(I8, 2)),
        (Reduce("max", (0, 2)), (t(F, 2, n, 4),), t(F, 1, n, 1)),
        (Reduce("sum", ()), (t(F, 2),), t(F, 2)),
        (Reshape((n * 6,)), (t(F, 2, n, 3),), t(F, n * 6)),
        (View((n, 2), (Axis(0, 1), Axis(0, 0))), (t(F, 2, n),), t(F, n, 2)),
        (Pad((1, n), (0, 2), 0.0), (t(F, 3, m),), t(F, 4, n + m + 2)),
        (Concat(0), (t(F, n, 2), t(F, 3, 2)), t(F, n + 3, 2)),
        (Taps(1, m, LINEAR), (t(HALF, 2, n),), t(HALF, 2, m)),
        (Taps(0, 7, FLOOR), (t(I8, 3),), t(I8, 7)),
    ],
)
def test_types_of_results(op: Prim, args: tuple[Type, ...], expected: Type):
    assert op.infer(args) == expected
    assert op.requires(args, "layer") == () or any(isinstance(d, type(n)) for a in args for d in a.shape)


@pytest.mark.parametrize(
    ("op", "args", "code"),
    [
        (Const(Blob(np.zeros(6, np.float32), F), (2, 2)), (), "AR103"),
        (Param("x", t(I32, 3), (N,)), (), "AR103"),
        (Param("x", t(F, 1), (N,)), (), "AR202"),
        (Param("x", t(F, *[1] * 33)), (), "AR115"),
        (Param("x", t(F, -1)), (), "AR120"),
        (Iota((3,), 1, I32), (), "AR303"),
        (Iota((3,), 0, BOOL), (), "AR202"),
        (Map("add", F), (t(F, 2),), "AR406"),
        (Map("add", F), (t(F, 2), t(F, 3)), "AR112"),
        (Map("add", F), (t(F, 2), t(F, 1, 2)), "AR122"),
        (Map("add", F), (t(F, 2), t(I32, 2)), "AR203"),
        (Map("add", I32), (t(F, 2), t(F, 2)), "AR203"),
        (Map("lt", F), (t(F, 2), t(F, 2)), "AR203"),
        (Map("exp", I32), (t(I32, 2),), "AR202"),
        (Map("add", BOOL), (t(BOOL, 2), t(BOOL, 2)), "AR202"),
        (Map("select", F), (t(F, 2), t(F, 2), t(F, 2)), "AR202"),
        (Map("frobnicate", F), (t(F, 2),), "AR304"),
        (Reduce("sum", (1,)), (t(F, 2),), "AR303"),
        (Reduce("sum", (0, 0)), (t(F, 2),), "AR305"),
        (Reduce("mean", (0,)), (t(F, 2),), "AR304"),
        (Reduce("sum", (0,)), (t(BOOL, 2),), "AR202"),
        (Reshape((5,)), (t(F, 2, 3),), "AR103"),
        (Reshape((n + 1,)), (t(F, n),), "AR103"),
        (Reshape((1,) * 33), (t(F, 1),), "AR115"),
        (View((2,), ()), (t(F, 2),), "AR108"),
        (View((3,), (Axis(0, 0),)), (t(F, 2),), "AR114"),
        (View((2,), (Axis(-1, 0),)), (t(F, 2),), "AR114"),
        (View((2,), (Axis(0, 0, -1),)), (t(F, 2),), "AR114"),
        (View((1,), (Axis(2, None),)), (t(F, 2),), "AR114"),
        (View((2,), (Axis(0, 1),)), (t(F, 2),), "AR303"),
        (View((n + 1,), (Axis(0, 0),)), (t(F, n),), "AR114"),
        (Pad((-1,), (0,), 0.0), (t(F, 2),), "AR120"),
        (Pad((1,), (0,), 0.0), (t(F, 2, 2),), "AR108"),
        (Concat(0), (), "AR406"),
        (Concat(1), (t(F, 2, 2), t(F, 3, 2)), "AR113"),
        (Concat(0), (t(F, 2), t(F, 2, 2)), "AR122"),
        (Concat(0), (t(F, 2), t(HALF, 2)), "AR203"),
        (Concat(2), (t(F, 2),), "AR303"),
        (Taps(0, 2, CLAMP), (t(F, 0),), "AR110"),
        (Taps(0, 2, LINEAR), (t(I8, 3),), "AR202"),
        (Taps(1, 2, CLAMP), (t(F, 3),), "AR303"),
        (Taps(0, -2, CLAMP), (t(F, 3),), "AR120"),
    ],
)
def test_rules_reject_invalid_operands(op: Prim, args: tuple[Type, ...], code: str):
    with pytest.raises(AnyrtError) as caught:
        op.infer(args)
    assert caught.value.code == code
    assert caught.value.where
    assert caught.value.got


def test_border_modes_are_those_that_stay_inside():
    with pytest.raises(AnyrtError, match=r"AR304.*FILL"):
        Border(SampleMode.FILL, 0, 1)


def test_two_symbols_broadcast_to_the_larger():
    a = Sym("a", 1)
    assert Map("add", F).infer((t(F, a.dim), t(F, n))) == t(F, maximum(a.dim, n))


@pytest.mark.parametrize(
    ("op", "args", "meets", "breaks", "relation", "code"),
    [
        (Map("add", F), (t(F, n), t(F, m)), {"n": 1, "m": 5}, {"n": 2, "m": 5}, Relation.BROADCAST, "AR112"),
        (Reshape((m, 2)), (t(F, n),), {"n": 4, "m": 2}, {"n": 5, "m": 2}, Relation.EQ, "AR103"),
        (View((m,), (Axis(0, 0),)), (t(F, n),), {"n": 4, "m": 4}, {"n": 4, "m": 5}, Relation.LE, "AR114"),
        (View((1,), (Axis(m, None),)), (t(F, n),), {"n": 4, "m": 3}, {"n": 4, "m": 4}, Relation.LE, "AR114"),
        (View((m,), (Axis(9, 0),)), (t(F, n),), {"n": 4, "m": 0}, {"n": 4, "m": 1}, Relation.LE, "AR114"),
        (Pad((m - 2,), (0,), 0.0), (t(F, 3),), {"m": 2}, {"m": 1}, Relation.LE, "AR120"),
        (Concat(1), (t(F, n, 1), t(F, m, 1)), {"n": 2, "m": 2}, {"n": 2, "m": 3}, Relation.EQ, "AR113"),
        (Taps(0, n, CLAMP), (t(F, m),), {"n": 5, "m": 1}, {"n": 5, "m": 0}, Relation.LE, "AR110"),
        (Taps(0, m - 1, CLAMP), (t(F, n),), {"n": 5, "m": 1}, {"n": 5, "m": 0}, Relation.LE, "AR110"),
    ],
)
def test_open_conditions_are_left_to_the_run(
    op: Prim,
    args: tuple[Type, ...],
    meets: dict[str, int],
    breaks: dict[str, int],
    relation: Relation,
    code: str,
):
    op.infer(args)
    asked = op.requires(args, "conv1")
    assert {(r.relation, r.code, r.where) for r in asked} == {(relation, code, "conv1")}
    assert all(r.holds(meets) for r in asked)
    assert not all(r.holds(breaks) for r in asked)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((2, 3, 4), (6, 4), (((0, 1), (0,)), ((2,), (1,)))),
        ((n, 4, 6), (n, 24), (((0,), (0,)), ((1, 2), (1,)))),
        ((n, 1, 6), (6 * n,), (((0, 2), (0,)),)),
        ((4, 6), (6, 4), (((0, 1), (0, 1)),)),
        ((n, m), (m, n), (((0, 1), (0, 1)),)),
        ((1, 1), (), ()),
        ((n, 5), (m, 5), (((0, 1), (0, 1)),)),
    ],
)
def test_axes_of_reshapes_fall_into_groups_of_equal_volume(before, after, expected):
    assert axis_groups(before, after) == expected


def test_an_identity_reshape_passes_indices_through():
    seen: list[object] = []
    from_type = t(F, n, m, 3)
    index = tuple(Sym(f"i{k}", extent=d).dim for k, d in enumerate(from_type.shape))

    class Spy:
        type = from_type

        @staticmethod
        def at(at: object) -> object:
            seen.append(tuple(at))
            return at

    Reshape(from_type.shape).lower(from_type, (Spy,), index)
    assert seen == [index]


@pytest.mark.parametrize(
    ("fn", "dtype", "expected"),
    [("sum", F, 0), ("prod", I32, 1), ("max", I8, -128), ("min", I64, (1 << 63) - 1)],
)
def test_empty_reductions_give_the_identity(fn: str, dtype: DataType, expected: int):
    assert Reduce(fn, (0,)).fold(dtype)[1] == expected
    x = np.empty((0, 2), np.float64 if dtype is F else dtype.name.lower())
    assert Reduce(fn, (0,)).ref((x,), (1, 2)).tolist() == [[expected, expected]]


def test_empty_maximum_of_floats_is_minus_infinity():
    assert Reduce("max", (0,)).ref((np.empty((0,)),), (1,)).tolist() == [float("-inf")]
