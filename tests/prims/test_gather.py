"""Elements at data-dependent positions: shapes, rejected arguments, and the numbers of their code."""

import numpy as np
import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.errors import AnyrtError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Graph, Symbol, Type
from anyrt.ir.interpret import interpret
from anyrt.ir.kerneltext import print_kernels
from anyrt.prims import build as b
from anyrt.prims.gather import Gather
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import host

F, H, I8, I32, I64 = DataType.FLOAT, DataType.HALF, DataType.INT8, DataType.INT32, DataType.INT64
N, M = Sym("x.0", 0, 40), Sym("at.0", 0, 40)


def t(dtype, *shape):
    return Type(shape, dtype)


def test_the_result_has_the_shape_of_the_indices():
    assert Gather(1).infer((t(H, 2, 9, N.dim), t(I64, 2, 4, N.dim))) == t(H, 2, 4, N.dim)


@pytest.mark.parametrize(
    ("axis", "x", "at", "code"),
    [
        (2, t(F, 4, 6), t(I32, 4, 3), "AR303"),
        (1, t(F, 4, 6), t(I32, 3), "AR122"),
        (1, t(F, 4, 6), t(I32, 5, 3), "AR112"),
        (1, t(F, 4, 6), t(F, 4, 3), "AR202"),
        (1, t(F, 4, 0), t(I32, 4, 3), "AR114"),
    ],
)
def test_invalid_operands_are_rejected(axis, x, at, code):
    with pytest.raises(AnyrtError, match=code):
        Gather(axis).infer((x, at))


def test_open_sizes_are_equal_beside_the_axis_and_not_empty_along_it():
    other, along = Gather(1).requires((t(F, 3, N.dim), t(I32, M.dim, 2)), "there")
    assert (other.left, other.relation, other.right) == (3, Relation.EQ, M.dim)
    assert (along.left, along.relation, along.right) == (1, Relation.LE, N.dim)


def test_positions_outside_are_the_nearest_inside():
    x, at = b.param("x", (3,), F), b.param("at", (6,), I64)
    inputs = {"x": np.float32([1, 2, 3]), "at": np.array([0, 2, 3, -1, 2**62, -(2**62)])}
    (got,) = interpret(Graph((("x", x), ("at", at)), (("y", b.gather(x, at, 0)),)), inputs).values()
    assert got.tolist() == [1, 3, 3, 1, 3, 1]


def test_positions_that_are_folded_are_stored_before():
    x, y = b.param("x", (5, 33), F), b.param("y", (4, 1), I32)
    last = b.reduce_("sum", b.cast(b.map_("lt", x, b.scalar(0.0, x)), I32), (1,))
    summed = b.contract("ik,jk->ij", b.cast(y, I32), b.const([[1]], I32))
    one = b.gather(x, last, 1)
    two = b.gather(b.slice_(x, (0, 0), (4, 9), (1, 1)), summed, 1)
    graph = Graph((("x", x), ("y", y)), (("one", one), ("two", two)))
    lowered = native.lower(graph, {}, Sizes({}))
    assert sorted(k.name for k in lowered.module.kernels) == ["contract", "gather", "gather#2", "reduce"]
    assert verify(lowered, host(), [{}]) == ()


def gathered(shape, indices, axis, dtype, kind):
    x, at = b.param("x", shape, dtype), b.param("at", indices, kind)
    symbols = tuple(Symbol(s, n, 0) for s, n in ((N, "x"), (M, "at")) if s.dim in shape + indices)
    y = b.map_("add", b.gather(x, at, axis), b.gather(x, at, axis))
    return Graph((("x", x), ("at", at)), (("y", y),), {}, symbols)


@pytest.mark.parametrize(
    ("shape", "indices", "axis"),
    [
        ((37,), (70,), 0),
        ((N.dim,), (M.dim,), 0),
        ((N.dim, 5), (33, 5), 0),
        ((3, 17), (3, 40), 1),
        ((3, 1), (3, 40), 1),
        ((2, 0, 3), (2, 0, 3), 1),
    ],
)
@pytest.mark.parametrize(("dtype", "kind"), [(F, I32), (H, I64), (I8, I64)])
def test_code_agrees_with_the_interpreter(shape, indices, axis, dtype, kind):
    graph = gathered(shape, indices, axis, dtype, kind)
    sizes = [{N.name: n, M.name: m} for n, m in ((1, 40), (40, 7), (5, 0))] if graph.symbols else [{}]
    assert verify(native.lower(graph, {}, Sizes({N.name: 5, M.name: 9})), host(), sizes) == ()


@pytest.mark.parametrize(("length", "limited"), [(256, False), (255, True)])
def test_positions_that_are_known_to_lie_inside_are_not_limited_again(length, limited):
    x, at = b.param("x", (length,), F), b.param("at", (40,), DataType.UINT8)
    y = b.gather(x, b.cast(at, I32), 0)
    lowered = native.lower(Graph((("x", x), ("at", at)), (("y", y),)), {}, Sizes({}))
    assert ("min(" in print_kernels(lowered.module.kernels)) == limited
    assert verify(lowered, host(), [{}]) == ()
