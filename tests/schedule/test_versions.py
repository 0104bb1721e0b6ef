"""Which sizes code of its own assumes to be equal."""

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Symbol
from anyrt.prims import build as b
from anyrt.schedule.versions import versions


def sums(first: Sym, second: Sym, shape: tuple[int, ...] | None = None) -> Graph:
    x, y = (b.param(s.name[0], (s.dim, 4), DataType.FLOAT) for s in (first, second))
    total = b.map_("add", x, y)
    symbols = tuple(Symbol(s, s.name[0], 0) for s in (first, second))
    return Graph(
        (("x", x), ("y", y)), (("z", total if shape is None else b.reshape(total, shape)),), {}, symbols
    )


def test_two_sizes_that_meet_may_be_equal():
    found = versions(sums(Sym("x.0", 1, 8), Sym("y.0", 1, 8)))
    assert [str(v.guard) for v in found] == ["eq(x.0, y.0)", "1"]


def test_sizes_without_a_common_value_are_never_equal():
    assert [v.guard for v in versions(sums(Sym("x.0", 3, 8), Sym("y.0", 1, 2)))] == [1]


def test_what_a_reshape_asks_for_may_exclude_that_sizes_are_equal():
    assert [v.guard for v in versions(sums(Sym("x.0", 2, 8), Sym("y.0", 1, 2), (2, 6)))] == [1]
