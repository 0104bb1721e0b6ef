"""Symbolic evaluation of shape arithmetic: elements of integer values as dimensions, and unknown ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from anyrt.core.dims import Dim, Sym
from anyrt.core.dimvalues import evaluate
from anyrt.core.enums import DataType, SampleMode
from anyrt.ir.graph import Graph, Value
from anyrt.ir.interpret import interpret
from anyrt.ir.symbolic import known
from anyrt.prims import build as b
from anyrt.prims.taps import Border

F, I32, I64, BOOL = DataType.FLOAT, DataType.INT32, DataType.INT64, DataType.BOOL
N, M = Sym("n", 1, 50), Sym("m", 1, 50)
X = b.param("x", (N.dim, 3, M.dim), F)
S = b.shape_of(X)
V = b.param("v", (2,), I64, (Sym("v#0"), Sym("v#1")))


def ints(*values: int) -> Value:
    return b.const(np.array(values), I64)


def part(v: Value, start: int, count: int) -> Value:
    return b.slice_(v, (start,), (count,), (1,))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (S, [N.dim, 3, M.dim]),
        (ints(4, 5), [4, 5]),
        (V, [Sym("v#0").dim, Sym("v#1").dim]),
        (b.map_("add", S, ints(1, 2, 3)), [N + 1, 5, M + 3]),
        (b.map_("sub", S, ints(1)), [N - 1, 2, M - 1]),
        (b.map_("mul", S, S), [N * N.dim, 9, M * M.dim]),
        (b.map_("floordiv", S, ints(2)), [N // 2, 1, M // 2]),
        (b.map_("div", S, ints(2)), [N // 2, 1, M // 2]),
        (b.map_("mod", S, ints(2)), [N % 2, 1, M % 2]),
        (b.map_("max", S, ints(0)), [N.dim, 3, M.dim]),
        (b.map_("min", S, ints(0)), [0, 0, 0]),
        (b.map_("neg", S), [-N.dim, -3, -M.dim]),
        (b.cast(S, I32), [N.dim, 3, M.dim]),
        (b.cast(b.map_("eq", S, ints(3)), I64), None),
        (b.reduce_("prod", S, (0,)), [3 * N * M.dim]),
        (b.reduce_("sum", S, (0,)), [N + M.dim + 3]),
        (b.reduce_("max", ints(4, 9, 2), (0,)), [9]),
        (b.concat((part(S, 0, 1), ints(7), part(S, 2, 1)), 0), [N.dim, 7, M.dim]),
        (b.slice_(S, (2,), (3,), (-1,)), [M.dim, 3, N.dim]),
        (b.pad(ints(4), (1,), (2,), 9), [9, 4, 9, 9]),
        (b.iota((4,), 0, I32), [0, 1, 2, 3]),
        (b.reduce_("prod", b.const(np.zeros(0), I64), (0,)), [1]),
    ],
)
def test_elements_of_shape_arithmetic(value: Value, expected: list[Dim] | None):
    actual = known(value)
    assert actual is not None
    assert actual.shape == value.shape
    if expected is not None:
        assert actual.tolist() == expected


@pytest.mark.parametrize("fn", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_comparisons_are_ones_and_zeros(fn: str, n: int):
    result = known(b.map_(fn, part(S, 0, 1), ints(3)))
    graph = Graph((("x", X),), (("y", b.map_(fn, part(S, 0, 1), ints(3))),))
    assert result is not None
    got = [evaluate(d, {"n": n, "m": 1}) for d in result]
    assert got == interpret(graph, {"x": np.zeros((n, 3, 1), np.float32)})["y"].astype(int).tolist()


@pytest.mark.parametrize("n", [2, 5])
def test_select_chooses_between_sizes(n: int):
    larger = b.map_("gt", part(S, 0, 1), ints(3))
    result = known(b.map_("select", larger, ints(100), part(S, 0, 1)))
    assert result is not None
    assert evaluate(result[0], {"n": n}) == (100 if n > 3 else n)


@pytest.mark.parametrize(
    "make",
    [
        lambda: b.cast(X, I64),
        lambda: b.cast(S, F),
        lambda: b.param("w", (2,), I64),
        lambda: b.const(np.arange(65), I64),
        lambda: b.map_("mul", ints(1 << 62), ints(4)),
        lambda: b.map_("pow", b.cast(S, F), b.const([2.0], F)),
        lambda: b.taps(ints(1, 2), 0, 5, Border(SampleMode.WRAP, 0, 1)),
        lambda: b.iota((N.dim,), 0, I64),
    ],
)
def test_unsupported_operations_give_unknown_values(make: Callable[[], Value]):
    assert known(make()) is None


def test_a_long_chain_is_followed_without_recursion():
    value = S
    for _ in range(3000):
        value = b.map_("add", value, ints(1))
    result = known(value)
    assert result is not None
    assert result[1] == 3003
