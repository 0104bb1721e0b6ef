"""The dimensions that specialised code assumes to be equal."""

from dataclasses import dataclass, replace
from functools import reduce

from anyrt.core.dims import Dim, Sym
from anyrt.core.dimvalues import evaluate
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Symbol, Type, apply, apply_all
from anyrt.ir.interpret import run_region
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read
from anyrt.prims import build as b
from anyrt.prims.checked import Checked
from anyrt.schedule.versions import versions


def sums(first: Sym, second: Sym, shape: tuple[int, ...] | None = None) -> Graph:
    x, y = (b.param(s.name[0], (s.dim, 4), DataType.FLOAT) for s in (first, second))
    total = b.map_("add", x, y)
    symbols = tuple(Symbol(s, s.name[0], 0) for s in (first, second))
    return Graph(
        (("x", x), ("y", y)), (("z", total if shape is None else b.reshape(total, shape)),), {}, symbols
    )


def test_two_sizes_that_meet_may_be_equal():
    result = versions(sums(Sym("x.0", 1, 8), Sym("y.0", 1, 8)))
    assert [str(v.guard) for v in result] == ["eq(x.0, y.0)", "1"]


def test_many_sizes_that_meet_may_be_equal():
    names = [f"x{k}" for k in range(80)]
    sizes = [Sym(f"{name}.0", 1, 8) for name in names]
    inputs = [b.param(name, (s.dim, 4), DataType.FLOAT) for name, s in zip(names, sizes, strict=True)]
    symbols = tuple(Symbol(s, name, 0) for name, s in zip(names, sizes, strict=True))
    ends = tuple(zip(names, inputs, strict=True))
    total = reduce(lambda x, y: b.map_("add", x, y), inputs)
    equal, general = versions(Graph(ends, (("z", total),), {}, symbols))
    same = {s.name: 5 for s in sizes}
    assert [evaluate(equal.guard, at) for at in (same, same | {"x7.0": 1})] == [1, 0]
    assert general.guard == 1


def test_sizes_without_a_common_value_are_never_equal():
    assert [v.guard for v in versions(sums(Sym("x.0", 3, 8), Sym("y.0", 1, 2)))] == [1]


def test_an_operand_that_only_provides_a_size_meets_no_other():
    first, second = Sym("x.0", 1, 8), Sym("y.0", 1, 8)
    graph = sums(first, second)
    number = b.param("n", (), DataType.INT64)
    ((_, total),) = graph.outputs
    reported = apply(Checked(()), total, number)
    assert [str(v.guard) for v in versions(replace(graph, outputs=(("z", reported),)))] == [
        "eq(x.0, y.0)",
        "1",
    ]


def test_requirements_of_a_reshape_may_exclude_equal_sizes():
    assert [v.guard for v in versions(sums(Sym("x.0", 2, 8), Sym("y.0", 1, 2), (2, 6)))] == [1]


@dataclass(frozen=True, slots=True)
class Call(Prim):
    """The result of a region for the operands."""

    region: Graph

    @property
    def regions(self) -> tuple[Graph, ...]:
        return (self.region,)

    def infer(self, args: tuple[Type, ...]) -> tuple[Type, ...]:
        return tuple(v.type for _, v in self.region.outputs)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> tuple[Array, ...]:
        return run_region(self.region, args)

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        raise AssertionError("nothing here is compiled")


def test_sizes_are_assumed_equal_for_every_result_and_in_regions():
    n, m = Sym("x.0", 1, 8), Sym("y.0", 1, 8)
    x, y = b.param("x", (n.dim,), DataType.FLOAT), b.param("y", (m.dim,), DataType.FLOAT)
    total = b.map_("add", *apply_all(Call(Graph((("x", x), ("y", y)), (("p", x), ("q", y)))), x, y))
    equal, _ = versions(Graph((("x", x), ("y", y)), (("z", total),)))
    p, q = equal.graph.outputs[0][1].args
    assert [p.index, q.index] == [0, 1]
    assert {v.type for _, v in p.op.region.outputs} == {p.type} == {q.type}
