"""Primitives that hold graphs: a conditional and a counted loop, printed, checked, run and rewritten."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
import pytest

from anyrt.compiler.bounds import Bounded, bounded
from anyrt.core.dims import Dim, Sym
from anyrt.core.dimvalues import substitute
from anyrt.core.enums import DataType
from anyrt.core.errors import PlanError, ShapeError
from anyrt.core.requirement import Relation, Requirement
from anyrt.ir.attributes import graph_with_sizes, open_sizes, with_regions
from anyrt.ir.graph import MAX_REGIONS, Graph, Node, Symbol, Type, Value, apply, apply_all, nested, walk
from anyrt.ir.interpret import interpret, run_region
from anyrt.ir.kernel import Expr
from anyrt.ir.prim import Array, Prim, Read
from anyrt.ir.text import Vocabulary, parse_graph, print_graph
from anyrt.ir.verify import graph_faults
from anyrt.passes import PASSES, requirements
from anyrt.passes.fold_constants import fold_constants
from anyrt.prims import build as b
from anyrt.prims.checked import Checked
from anyrt.prims.const import Param
from anyrt.prims.table import CLASSES, named_blobs
from tests.messages import diagnostic

F, BOOL = DataType.FLOAT, DataType.BOOL
N, M = Sym("n", 1, 64), Sym("m", 1, 64)


def types(ends: tuple[tuple[str, Value], ...]) -> tuple[Type, ...]:
    return tuple(v.type for _, v in ends)


@dataclass(frozen=True, slots=True)
class Branch(Prim):
    """The result of `then` for the operands after the first if that is true, else the result of
    `otherwise`."""

    then: Graph
    otherwise: Graph

    @property
    def regions(self) -> tuple[Graph, ...]:
        return self.then, self.otherwise

    def infer(self, args: tuple[Type, ...]) -> tuple[Type, ...]:
        for region in self.regions:
            if types(region.inputs) != args[1:] or types(region.outputs) != types(self.then.outputs):
                raise ShapeError("AR103", "branch", got=f"{types(region.inputs)}", wanted=f"{args[1:]}")
        return types(self.then.outputs)

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> tuple[Array, ...]:
        return run_region(self.then if args[0] else self.otherwise, args[1:])

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        raise AssertionError("nothing here is compiled")


@dataclass(frozen=True, slots=True)
class Repeat(Prim):
    """The operands after `count` applications of `body`."""

    count: Dim
    body: Graph

    @property
    def regions(self) -> tuple[Graph, ...]:
        return (self.body,)

    def infer(self, args: tuple[Type, ...]) -> tuple[Type, ...]:
        if types(self.body.inputs) != args or types(self.body.outputs) != args:
            raise ShapeError("AR103", "repeat", got=f"{types(self.body.inputs)}", wanted=f"{args}")
        return args

    def ref(self, args: tuple[Array, ...], out: tuple[int, ...]) -> tuple[Array, ...]:
        assert isinstance(self.count, int)
        for _ in range(self.count):
            args = run_region(self.body, args)
        return args

    def lower(self, out: Type, args: tuple[Read, ...], index: tuple[Dim, ...]) -> Expr:
        raise AssertionError("nothing here is compiled")


WORDS = Vocabulary({**CLASSES, "Branch": Branch, "Repeat": Repeat}, Param, {})
YES = b.param("yes", (), BOOL)
X = b.param("x", (N.dim,), F)
A = b.param("a", (N.dim,), F)
B = b.param("b", (N.dim,), F)


def region(*outputs: Value, inputs: tuple[Value, ...] = (A,)) -> Graph:
    return Graph(tuple((v.op.name, v) for v in inputs), tuple((f"o{k}", v) for k, v in enumerate(outputs)))


def graph(*outputs: Value) -> Graph:
    ends = tuple((f"y{k}", v) for k, v in enumerate(outputs))
    return Graph((("yes", YES), ("x", X)), ends, {}, (Symbol(N, "x", 0),))


EITHER = graph(apply(Branch(region(b.map_("neg", A)), region(b.map_("exp", A))), YES, X))
FIBONACCI = region(B, b.map_("add", A, B), inputs=(A, B))
FEEDS = {"yes": np.array(True), "x": np.float32([1, 2, 3])}


def test_regions_are_printed_before_what_holds_them():
    assert print_graph(EITHER, WORDS).splitlines() == [
        "symbol n 1..64",
        "region r1 {",
        '  v0: FLOAT[n] = Param(name="a", type=FLOAT[n])()',
        '  v1: FLOAT[n] = Map(fn="exp", dtype=FLOAT)(v0)',
        '  input "a" v0',
        '  output "o0" v1',
        "}",
        "region r0 {",
        '  v0: FLOAT[n] = Param(name="a", type=FLOAT[n])()',
        '  v1: FLOAT[n] = Map(fn="neg", dtype=FLOAT)(v0)',
        '  input "a" v0',
        '  output "o0" v1',
        "}",
        'v0: BOOL[] = Param(name="yes", type=BOOL[])()',
        'v1: FLOAT[n] = Param(name="x", type=FLOAT[n])()',
        "v2: FLOAT[n] = Branch(then=r0, otherwise=r1)(v0, v1)",
        'input "yes" v0',
        'input "x" v1',
        'output "y0" v2',
        'follow n "x" 0',
    ]


def twice(inner: Graph) -> Graph:
    """`inner`, which maps two vectors to two, repeated twice if the input says so."""
    repeated = apply_all(Repeat(2, inner), A, B)
    both = region(*repeated, inputs=(A, B)), region(A, B, inputs=(A, B))
    return graph(*apply_all(Branch(*both), YES, X, b.map_("neg", X)))


def test_parsed_regions_are_the_same_interned_nodes():
    for each in (
        EITHER,
        twice(FIBONACCI),
        twice(region(*apply_all(Repeat(N.dim, FIBONACCI), A, B), inputs=(A, B))),
    ):
        again = parse_graph(print_graph(each, WORDS), WORDS)
        assert again == each
        assert [v.node for _, v in again.outputs] == [v.node for _, v in each.outputs]


def test_names_in_regions_are_kept():
    neg = b.map_("neg", A)
    named = Graph((("a", A),), (("o", neg),), {neg: "minus"})
    (value,) = parse_graph(print_graph(graph(apply(Repeat(3, named), X)), WORDS), WORDS).outputs
    assert value[1].op.regions[0].names == {neg: "minus"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('fn="neg", dtype=FLOAT)(v0)', 'fn="neg", dtype=FLOAT)(v2)'),
        ('  input "a" v0\n', ""),
        ("region r0 {", "region r0"),
        ("region r0 {", "region r0 { region r2 {"),
        ("region r0 {", "region r1 {"),
        ("then=r0", "then=r2"),
        ("otherwise=r1", "otherwise=r0"),
        ("type=FLOAT[n])()\n  v1", "type=FLOAT[2])()\n  v1"),
        ('  output "o0" v1\n', '  output "o0" v1 output "o0" v1\n'),
        ('  output "o0" v1\n', '  output "o0" v1 follow n "a" 0\n'),
        ("then=r0", "then={}"),
    ],
)
def test_tampered_regions_are_rejected(old, new, golden_text):
    text = print_graph(EITHER, WORDS)
    assert old in text
    with pytest.raises(PlanError) as caught:
        parse_graph(text.replace(old, new, 1), WORDS)
    golden_text(caught.value)


def inside_one_another(depth):
    """The text of this many nested regions."""
    held = "v1: FLOAT[1] = Repeat(count=1, body=r{})(v0)"
    lines = ['v0: FLOAT[1] = Param(name="a", type=FLOAT[1])()', 'input "a" v0', 'output "o" v1']
    first = ["region r0 {", lines[0], 'v1: FLOAT[1] = Map(fn="neg", dtype=FLOAT)(v0)', *lines[1:], "}"]
    rest = [[f"region r{k} {{", lines[0], held.format(k - 1), *lines[1:], "}"] for k in range(1, depth)]
    return "\n".join([*first, *chain(*rest), lines[0], held.format(depth - 1), *lines[1:]])


def test_hundreds_of_regions_inside_one_another_are_read_and_printed():
    graph = parse_graph(inside_one_another(MAX_REGIONS), WORDS)
    text = print_graph(graph, WORDS)
    assert text.count("region r") == MAX_REGIONS
    assert parse_graph(text, WORDS) == graph


def test_text_and_its_making_grow_with_depth_and_no_faster():
    texts = [print_graph(parse_graph(inside_one_another(n), WORDS), WORDS) for n in (100, 200)]
    lines, more = (text.count("\n") for text in texts)
    assert more == 2 * lines - 4  # all but the text around regions


def test_regions_nested_too_deeply_are_rejected():
    with pytest.raises(PlanError, match=diagnostic("AR605", "graph", MAX_REGIONS)):
        parse_graph(inside_one_another(MAX_REGIONS + 1), WORDS)


def test_a_branch_runs_the_region_that_is_taken():
    assert interpret(EITHER, FEEDS)["y0"].tolist() == [-1, -2, -3]
    other = interpret(EITHER, {**FEEDS, "yes": np.array(False)})
    assert other["y0"].tolist() == np.exp([1.0, 2.0, 3.0]).astype(np.float32).tolist()


def test_a_loop_runs_as_often_as_a_size_says():
    first, second = apply_all(Repeat(N.dim, FIBONACCI), X, X)
    out = interpret(graph(first, second), FEEDS)
    assert (out["y0"].tolist(), out["y1"].tolist()) == ([3, 6, 9], [5, 10, 15])


def test_a_loop_in_a_branch_runs():
    out = interpret(twice(FIBONACCI), FEEDS)
    assert (out["y0"].tolist(), out["y1"].tolist()) == ([0, 0, 0], [-1, -2, -3])


def test_sizes_of_the_network_are_known_in_regions():
    counted = b.map_("add", A, b.iota((N.dim,), 0, F))
    assert interpret(graph(apply(Repeat(2, region(counted)), X)), FEEDS)["y0"].tolist() == [1, 4, 7]


def test_equal_regions_make_equal_nodes():
    one, two = (apply(Repeat(3, region(b.map_("neg", A))), X) for _ in range(2))
    assert one.node is two.node
    assert apply(Repeat(3, region(b.map_("abs", A))), X).node is not one.node


def test_walks_stay_outside_and_nested_graphs_are_found():
    each = twice(FIBONACCI)
    assert [type(v.op).__name__ for v in walk(v for _, v in each.outputs)] == [
        "Param",
        "Param",
        "Map",
        *["Branch"] * 2,
    ]
    assert [len(g.inputs) for g in nested(each)] == [2, 2, 2, 2]
    assert list(nested(each))[2] is FIBONACCI


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        (Graph((), (("o", b.map_("neg", A)),)), "region 0 of repeat: param (Param"),
        (Graph((("a", A),), (("o", A),), {}, (Symbol(N, "a", 0),)), "region 0 of repeat: n is read from"),
        (Graph((("a", A), ("a", A)), (("o", A), ("p", A))), "region 0 of repeat: 2 inputs named 'a'"),
    ],
)
def test_broken_regions_are_found(inner, said):
    held = Value(Node(Repeat(1, inner), (X,), (X.type,)))
    faults = list(graph_faults(graph(held), Param))
    assert any(f.startswith(said) for f in faults), faults


def test_a_region_that_does_not_fit_its_operands_is_rejected():
    with pytest.raises(ShapeError, match="AR103"):
        apply(Repeat(1, region(b.reshape(A, (1, N.dim)))), X)


def test_sizes_are_replaced_in_regions():
    inner = region(b.slice_(A, (0,), (N.dim,), (1,)), b.expand(b.scalar(1.0, A), (N.dim,)))
    assert set(open_sizes(Repeat(M.dim, inner))) == {N.dim, M.dim}
    first, second = graph_with_sizes(inner, lambda x: substitute(x, {N: M * 2})).outputs
    assert (first[1].type, second[1].type) == (Type((M * 2,), F), Type((M * 2,), F))
    assert graph_with_sizes(FIBONACCI, lambda x: x) is FIBONACCI


def test_regions_can_be_exchanged():
    branch = Branch(region(b.map_("neg", A)), region(A))
    assert with_regions(branch, lambda _: region(A)) == Branch(region(A), region(A))
    assert with_regions(branch, lambda r: r) is branch


@pytest.mark.parametrize("each", PASSES, ids=[p.name for p in PASSES])
def test_passes_keep_regions_in_which_there_is_nothing_to_do(each):
    assert each.run(EITHER) is EITHER


def test_passes_change_regions_at_any_depth():
    inner = region(b.map_("neg", b.map_("neg", b.map_("exp", A))))
    either = graph(apply(Branch(region(apply(Repeat(2, inner), A)), region(A)), YES, X))
    simple = next(p for p in PASSES if p.name == "simplify").run(either)
    assert [g.outputs[0][1] for g in nested(simple)][-2] == b.map_("exp", A)
    assert simple.outputs[0][1].type == either.outputs[0][1].type


def test_requirements_of_regions_on_sizes_are_checked_at_run_time():
    rule = Requirement(N.dim, Relation.LE, M.dim, "AR103", "layer", "")
    assert requirements(graph(apply(Repeat(1, region(apply(Checked((rule,)), A))), X))) == (rule,)


def test_constants_in_regions_are_named():
    ones, twos = (b.const([n, n], F) for n in (1.0, 2.0))
    inner = b.param("a", (2,), F)
    loop = apply(Repeat(3, region(b.map_("mul", inner, twos), inputs=(inner,))), ones)
    blobs = named_blobs(Graph((), (("y", loop),)))
    assert [blob.data.tolist() for blob in blobs.values()] == [[1, 1], [2, 2]]
    words = Vocabulary(WORDS.classes, Param, blobs)
    assert 'blob=@"const1"' in print_graph(Graph((), (("y", loop),)), words)


def test_a_loop_over_constants_is_folded():
    ones, inner = b.const([1.0, 3.0], F), b.param("a", (2,), F)
    doubled = region(b.map_("add", inner, inner), inputs=(inner,))
    (_, known), (_, open_) = (
        fold_constants(Graph((), (("y", apply(Repeat(n, doubled), ones)),))).outputs[0] for n in (3, N.dim)
    )
    assert known.op.blob.data.tolist() == [8, 24]
    assert isinstance(open_.op, Repeat)


def test_errors_are_bounded_through_regions():
    x = Bounded(np.array([1.0, 2.0]), np.array([0.5, 0.0]))
    loop = apply(Repeat(3, region(b.map_("add", A, A))), X)
    assert bounded(loop, (x,), {"n": 2}).error.tolist() == [4, 0]
