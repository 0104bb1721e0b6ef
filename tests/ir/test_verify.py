"""The verifiers accept valid graphs and kernels, and report each broken rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.errors import CompileError
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.graph import Graph, Node, Symbol, Type, Value
from anyrt.ir.kernel import (
    Alloc,
    Alu,
    Barrier,
    Fetch,
    Fold,
    For,
    If,
    Kernel,
    Let,
    Loop,
    MultiReduction,
    Op,
    Stmt,
    Store,
    alu,
    bitcast,
    bound,
    cast,
    const,
    index,
    load,
)
from anyrt.ir.kernelrules import kernel_faults
from anyrt.ir.verify import assert_graph, assert_kernel, graph_faults
from anyrt.prims import build as b
from anyrt.prims.const import Param

F, I32 = DataType.FLOAT, DataType.INT32
X = b.param("x", (4,), F)
Y = b.map_("exp", X)


def test_a_good_graph_has_no_faults():
    assert list(graph_faults(Graph((("x", X),), (("y", Y),)), Param)) == []


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (Graph((("x", X),), ()), "no outputs"),
        (Graph((("x", X), ("x", X)), (("y", Y),)), "2 inputs named 'x'"),
        (Graph((("x", X),), (("y", Y), ("y", X))), "2 outputs named 'y'"),
        (Graph((("x", X), ("z", Y)), (("y", Y),)), "is a result of Map"),
        (Graph((), (("y", Y),)), "is not an input"),
        (Graph((("x", X),), (("y", Y),), {}, (Symbol(Sym("n"), "q", 0),)), "'q', which is not an input"),
        (Graph((("x", X),), (("y", Value(Node(Y.op, (X,), (Type((5,), F),)))),)), "its rule infers float[4]"),
        (Graph((("x", X),), (("y", Value(Node(Y.op, (), (Type((5,), F),)))),)), "AR406"),
    ],
)
def test_broken_graphs(graph: Graph, said: str):
    faults = list(graph_faults(graph, Param))
    assert any(said in f for f in faults), faults
    with pytest.raises(CompileError, match=r"AR807.*fold"):
        assert_graph(graph, Param, "fold")


N, ROW = Sym("n", 1), Sym("i", extent=Sym("n", 1).dim)
COL = Sym("j", extent=8)
IN, OUT = Buffer("x", F, Space.INPUT, N * 8), Buffer("y", F, Space.OUTPUT, N * 8)
ACC = Buffer("acc", Scalar.F32, Space.REGISTER)
TILE = Buffer("tile", Scalar.F32, Space.REGISTER, 4)
FEW = Sym("k", extent=4)
AT = ROW * 8 + COL
ONE = const(1.0, Scalar.F32)


BEST, OTHER = ACC, Buffer("acc.o", Scalar.F32, Space.REGISTER)
SUM, MORE = (Buffer(n, Scalar.I64, Space.REGISTER) for n in ("sum", "sum.o"))
BEGIN = Alloc(BEST, ONE), Alloc(SUM, const(0, Scalar.I64))


def joint(**changes):
    """The greatest element, and its count."""
    whole = MultiReduction(
        (BEST, SUM),
        (alu(Op.MAX, load(BEST, 0), load(IN, AT)), load(SUM, 0) + 1),
        (ONE, const(0, Scalar.I64)),
        (OTHER, MORE),
        (alu(Op.MAX, load(BEST, 0), load(OTHER, 0)), load(SUM, 0) + load(MORE, 0)),
    )
    return replace(whole, **changes)


B, C, T = Sym("b", extent=2), Sym("c", 0, 9, extent=3), Sym("t", extent=4)
TEAM, MINE = (Buffer(n, Scalar.F32, s, 4) for n, s in (("team", Space.SHARED), ("mine", Space.SCRATCH)))


def block(*body, var=B):
    return For(var, Loop.BLOCK, body)


def thread(*body, var=T):
    return For(var, Loop.THREAD, body)


def kernel(*body: Stmt) -> Kernel:
    return Kernel("k", ROW, body)


def vector(*body: Stmt) -> For:
    return For(COL, Loop.VECTOR, body)


GOOD = [
    kernel(vector(Store(OUT, AT, load(IN, AT) + ONE))),
    kernel(vector(Store(OUT, AT, load(IN, AT) + ONE), Fetch(IN, AT + 99999))),
    kernel(Alloc(ACC, ONE), vector(Fold(ACC, Op.ADD, load(IN, AT))), Store(OUT, ROW * 8, load(ACC, 0))),
    kernel(Let(Sym("k", 0, 9), ROW + 1), Store(OUT, Sym("k", 0, 9).dim, ONE)),
    kernel(
        Alloc(TILE, ONE), For(FEW, Loop.UNROLL, (Store(TILE, FEW.dim, ONE), Fold(TILE, Op.MAX, ONE, FEW.dim)))
    ),
    kernel(vector(Alloc(ACC, ONE), Store(ACC, 0, ONE), Store(OUT, AT, load(ACC, 0)))),
    kernel(For(COL, Loop.VECTOR, (Store(OUT, AT, ONE),), 4)),
    kernel(*BEGIN, vector(joint())),
    kernel(block(thread(Store(TEAM, T.dim, ONE), Barrier(), Store(OUT, T.dim, load(TEAM, 3 - T.dim))))),
    kernel(block(block(thread(Barrier(), Alloc(ACC, ONE), Fold(ACC, Op.ADD, ONE)), var=C))),
    kernel(block(thread(vector(Store(OUT, AT, ONE))), Barrier(), thread(Store(OUT, T.dim, ONE)))),
    kernel(block(Let(C, B + 1), thread(If(index(C.dim) < 3, (Barrier(),))))),
    kernel(*BEGIN, vector(joint(), joint())),
    kernel(If(index(ROW.dim) < 3, (Store(OUT, ROW.dim, ONE),))),
    kernel(Store(OUT, bound(load(Buffer("t", I32, Space.TABLE, N.dim), ROW.dim), 0, 7), ONE)),
    kernel(Store(OUT, bound(load(Buffer("t", I32, Space.TABLE, N.dim), ROW.dim), 0, 7, "t", N.dim), ONE)),
]
BAD = [
    (kernel(Store(OUT, AT, ONE)), "index of y uses j outside its loop"),
    (kernel(Store(OUT, bound(cast(index(AT), Scalar.I32), 0, 7, "t", N.dim), ONE)), "an index uses j"),
    (kernel(Store(OUT, ROW.dim, load(IN, AT))), "index of x uses j outside its loop"),
    (kernel(Store(OUT, ROW.dim, cast(index(AT), Scalar.F32))), "an index uses j"),
    (kernel(Store(IN, ROW.dim, ONE)), "a write to x, which is in input"),
    (kernel(Store(OUT, ROW.dim, const(1, Scalar.I32))), "y holds f32 and receives i32"),
    (kernel(Fold(ACC, Op.ADD, ONE)), "acc is used before it is allocated"),
    (kernel(Store(OUT, ROW.dim, load(ACC, 0))), "acc is used before it is allocated"),
    (kernel(vector(Alloc(ACC, ONE)), Store(OUT, ROW.dim, load(ACC, 0))), "used before"),
    (kernel(Fold(OUT, Op.ADD, ONE)), "which is not a register"),
    (kernel(Alloc(OUT, ONE)), "which is not for registers"),
    (kernel(Alloc(Buffer("many", Scalar.F32, Space.REGISTER, N.dim), ONE)), "register many has n elements"),
    (kernel(Alloc(TILE, ONE), Store(TILE, 4, ONE)), "index 4 of register tile, which has 4 elements"),
    (kernel(Alloc(TILE, ONE), For(FEW, Loop.UNROLL, (Fold(TILE, Op.ADD, ONE, FEW + 1),))), "index 1 + k of"),
    (kernel(Alloc(TILE, ONE), For(FEW, Loop.SERIAL, (Store(TILE, FEW.dim, ONE),))), "tile moves with k"),
    (kernel(Alloc(TILE, ONE), vector(Store(OUT, AT, load(TILE, COL.dim)))), "tile moves with j"),
    (kernel(Alloc(ACC, ONE), vector(Store(ACC, 0, ONE))), "store into register acc, which they share"),
    (kernel(For(COL, Loop.SERIAL, (), 2)), "serial loop j over vectors of 2 registers"),
    (kernel(For(COL, Loop.VECTOR, (), 3)), "vector loop j over vectors of 3 registers"),
    (kernel(For(Sym("q", extent=N.dim), Loop.UNROLL, ())), "unrolled loop q has no fixed extent"),
    (kernel(thread()), "thread loop t is not allowed there"),
    (kernel(vector(block())), "block loop b is not allowed there"),
    (kernel(If(index(ROW.dim) < 3, (block(),))), "block loop b is not allowed there"),
    (kernel(block(thread(block(var=C)))), "block loop c is not allowed there"),
    (kernel(block(For(COL, Loop.SERIAL, (thread(),)))), "thread loop t is not allowed there"),
    (kernel(block(thread(), block(var=C))), "block loop b contains another one and other loops"),
    (kernel(block(thread(thread(var=Sym("u", extent=T + 1))))), "different extents for threads"),
    (kernel(Barrier()), "a barrier outside block loops"),
    (kernel(block(thread(vector(Barrier())))), "a barrier inside a vector loop"),
    (kernel(block(thread(If(index(T.dim) < 3, (Barrier(),))))), "some threads of a block may not reach"),
    (kernel(block(thread(Let(C, T + 1), If(index(C.dim) < 3, (Barrier(),))))), "may not reach"),
    (kernel(block(thread(If(load(IN, 0) < 3.0, (Barrier(),))))), "may not reach"),
    (kernel(block(thread(For(Sym("u", extent=T + 1), Loop.SERIAL, (Barrier(),))))), "or not as often"),
    (kernel(Store(TEAM, 0, ONE)), "team in shared memory is used outside thread loops"),
    (kernel(block(Alloc(ACC, load(TEAM, 0)))), "team in shared memory is used outside thread loops"),
    (kernel(block(thread(Store(MINE, 0, ONE)))), "mine in scratch is used inside block loops"),
    (kernel(block(Store(OUT, B.dim, ONE))), "a store to y by a block, outside thread loops"),
    (kernel(Alloc(ACC, ONE), block(thread(Fold(ACC, Op.ADD, ONE)))), "threads fold into register acc"),
    (kernel(block(Alloc(ACC, ONE), thread(Store(ACC, 0, ONE)))), "threads store into register acc"),
    (kernel(*BEGIN, block(thread(joint()))), "threads fold into register acc"),
    (Kernel("k", ROW, (), shared=COL.dim), "shared uses j"),
    (kernel(vector(joint())), "acc is used before it is allocated"),
    (kernel(*BEGIN, vector(joint(step=(ONE,)))), "other numbers of steps"),
    (kernel(*BEGIN, vector(joint(others=(BEST, MORE)))), "names one twice"),
    (kernel(*BEGIN, Alloc(OTHER, ONE), vector(joint())), "acc.o is not the name of another one"),
    (kernel(*BEGIN, vector(joint(others=(OUT, MORE)))), "y is not the name of another one"),
    (kernel(*BEGIN, vector(joint(neutral=(ONE, ONE)))), "sum holds one i64, and something else is not"),
    (kernel(*BEGIN, vector(joint(step=(load(OTHER, 0), load(SUM, 0))))), "acc.o is used before"),
    (
        kernel(*BEGIN, vector(joint(merge=(load(IN, ROW.dim), load(MORE, 0))))),
        "reads x where partial results",
    ),
    (kernel(*BEGIN, vector(joint(merge=(cast(index(AT), Scalar.F32), load(MORE, 0))))), "index uses"),
    (kernel(*BEGIN, vector(joint(neutral=(load(IN, 0), load(SUM, 0))))), "does not begin with literals"),
    (kernel(*BEGIN, vector(joint(), Store(OUT, AT, load(BEST, 0)))), "acc is read or folded in another way"),
    (kernel(*BEGIN, vector(joint(), Fold(BEST, Op.MAX, ONE))), "acc is read or folded in another way"),
    (kernel(*BEGIN, vector(Fold(ACC, Op.ADD, ONE), Fold(ACC, Op.MUL, ONE))), "acc is read or folded in"),
    (kernel(Fetch(IN, ROW.dim)), "a fetch of x outside a vector loop"),
    (kernel(Store(OUT, 0, bitcast(load(IN, 0, word=True), Scalar.F32))), "a word of x, which holds no bytes"),
    (kernel(vector(Fetch(IN, Sym("q", extent=3).dim))), "index of x uses q"),
    (kernel(For(COL, Loop.PARALLEL, ())), "parallel inside"),
    (kernel(For(ROW, Loop.SERIAL, ())), "inside a loop of the same variable"),
    (kernel(For(Sym("q"), Loop.SERIAL, ())), "q has no extent"),
    (kernel(vector(If(index(COL.dim) < 3, ()))), "an if inside a vector loop"),
    (kernel(If(index(ROW.dim), ())), "an if on"),
    (kernel(Store(OUT, ROW.dim, Alu(Op.ADD, (ONE, index(ROW.dim)), Scalar.F32))), "add of (f32, i64)"),
    (kernel(Store(OUT, ROW.dim, Alu(Op.ADD, (ONE,), Scalar.F32))), "add of (f32)"),
    (kernel(Store(OUT, ROW.dim, Alu(Op.XOR, (ONE, ONE), Scalar.F32))), "xor of (f32, f32)"),
    (
        kernel(Store(OUT, ROW.dim, cast(Alu(Op.ANGLE, (const(1.0, Scalar.F64),), Scalar.F64), Scalar.F32))),
        "angle of (f64)",
    ),
    (kernel(Store(OUT, ROW.dim, Alu(Op.SELECT, (ONE, ONE, ONE), Scalar.F32))), "select of"),
    (kernel(Store(OUT, ROW.dim, Alu(Op.LT, (ONE, ONE), Scalar.F32))), "gives f32"),
    (Kernel("k", Sym("p"), ()), "variable p has no extent"),
    (kernel(Let(Sym("k"), COL.dim)), "value of k uses j"),
    (Kernel("k", ROW, (), COL.dim), "work uses j"),
]


@pytest.mark.parametrize("good", GOOD)
def test_good_kernels_have_no_faults(good: Kernel):
    assert list(kernel_faults(good)) == []
    assert_kernel(good)


@pytest.mark.parametrize(("bad", "said"), BAD)
def test_broken_kernels(bad: Kernel, said: str):
    faults = list(kernel_faults(bad))
    assert any(said in f for f in faults), faults
    with pytest.raises(CompileError, match="AR807"):
        assert_kernel(bad)


WIDE = b.param("w", (4,), DataType.DOUBLE)


def in_less(narrowed):
    """An interval of a float64 that was `narrowed`, doubled, and widened again."""
    graph = Graph((("w", WIDE),), (("y", b.cast(b.map_("add", narrowed, narrowed), DataType.DOUBLE)),))
    return list(graph_faults(graph, Param))


def test_float64_that_is_computed_in_less_is_rejected():
    assert in_less(b.cast(WIDE, F)) == ["map is float64 and was computed in float32"]
    assert in_less(b.cast(b.cast(WIDE, DataType.HALF), F)) == ["map is float64 and was computed in float32"]


def test_float64_may_become_less_where_the_network_says_so():
    assert in_less(b.converted(WIDE, F)) == []
    graph = Graph((("w", WIDE),), (("y", b.cast(WIDE, F)),))
    assert list(graph_faults(graph, Param)) == []
