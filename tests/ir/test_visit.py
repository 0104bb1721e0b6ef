"""The common traversal and the common rewrite of kernels."""

from anyrt.core.dims import Sym
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import (
    Alloc,
    Alu,
    Barrier,
    Fetch,
    Fold,
    For,
    If,
    Let,
    Load,
    Loop,
    MultiReduction,
    Op,
    Store,
    bitcast,
    bound,
    const,
    fma,
    index,
    load,
)
from anyrt.ir.visit import Rewrite, held, parts, statements, substituted, written

N = Sym("n", 1, 64)
I, J, K = Sym("i", extent=N.dim), Sym("j", extent=8), Sym("k", 0, 9)  # noqa: E741 - loop variables
X, Y, Z = (Buffer(n, Scalar.F32, Space.ARENA, N * 8) for n in "xyz")
POS, ACC = Buffer("pos", Scalar.I32, Space.TABLE, 8), Buffer("acc", Scalar.F32, Space.REGISTER)
TAP = bound(load(POS, J.dim), 0, 7, "tap")
TAPPED = load(X, I * 8 + TAP)
BODY = (
    Let(K, I + 1),
    Alloc(ACC, const(0.0, Scalar.F32)),
    For(J, Loop.VECTOR, (Fold(ACC, Op.ADD, TAPPED), Fetch(X, I * 8 + J))),
    If(index(K.dim) < 3, (Store(Y, K.dim, load(ACC, 0)),)),
)


def test_statements_come_before_those_that_they_hold():
    kinds = [type(s).__name__ for s in statements(BODY)]
    assert kinds == ["Let", "Alloc", "For", "Fold", "Fetch", "If", "Store"]


def test_parts_that_statements_hold_themselves():
    results = [str(list(held(s))) for s in statements(BODY)]
    assert results == [
        "[1 + i]",
        "[0.0]",
        "[8]",
        "[x[8*i + tap{pos[j]}]]",
        "[8*i + j]",
        "[lt(index(k), 3)]",
        "[k, acc[0]]",
    ]


def test_each_part_comes_once_and_in_the_same_order():
    x, y = load(X, 0), load(Y, 0)
    assert parts([x * y + x, y]) == [y, x * y + x, x, x * y]


def test_parts_behind_bound_symbols_are_visited_on_request():
    assert parts([TAPPED]) == [TAPPED, load(POS, J.dim)]
    assert parts([TAPPED], bound=False) == [TAPPED]


def test_symbols_are_replaced_in_indices_and_behind_bound_symbols():
    (loop,) = substituted([For(J, Loop.VECTOR, (Store(Y, I.dim, TAPPED),))], {I: N - 1})
    assert repr(loop.body[0]) == repr(Store(Y, N - 1, load(X, N * 8 - 8 + TAP)))
    assert repr(Rewrite({J: I.dim}).expr(TAPPED)) == "x[8*i + tap{pos[i]}]"


def test_a_loop_whose_extent_changes_gets_another_variable():
    short = Sym("m", extent=I + 1)
    (loop,) = substituted([For(short, Loop.SERIAL, (Store(Y, short.dim, load(X, short.dim)),))], {I: 3})
    assert loop.var == Sym("m", extent=4)
    assert loop.body == (Store(Y, loop.var.dim, load(X, loop.var.dim)),)


def test_buffers_are_replaced_wherever_they_stand():
    twin = Buffer("twin", Scalar.F32, Space.REGISTER)
    changed = substituted(BODY, {}, {X: Z, Y: X, ACC: twin})
    touched = [s.buffer.name for s in statements(changed) if not isinstance(s, For | If | Let)]
    read = [x.buffer.name for s in statements(changed) for x in parts(held(s)) if isinstance(x, Load)]
    assert (touched, read) == (["twin", "twin", "z", "x"], ["z", "pos", "twin"])


def test_an_access_may_move():
    moved = Rewrite(access=lambda b, at: (Z, at + N) if b == X else (b, at))
    store, read = moved.stmt(Store(X, I.dim, load(X, J.dim))), load(Z, N + J.dim)
    assert store == Store(Z, N + I.dim, read)


def test_a_rule_comes_before_operands_and_leaves_the_rest():
    x, one = load(X, I.dim), const(1.0, Scalar.F32)
    rewrite = Rewrite(rule={x * x: one}.get)
    assert rewrite.expr(x * x + x) == one + x
    assert rewrite.expr(x) is x


def test_indices_stay_unless_requested():
    apart = Rewrite({J: 0, I: 0}, rule={load(POS, J.dim): load(POS, 0)}.get, bound=False)
    assert apart.expr(TAPPED) is TAPPED


def test_deep_expressions_are_rewritten_and_shared_ones_once():
    x = load(X, I.dim)
    for step in range(5000):
        x = fma(x, x, float(step))
    asked: list[Alu] = []
    new = Rewrite({I: 0}, rule=lambda e: asked.append(e) if isinstance(e, Alu) else None).expr(x)
    assert len(parts([new])) == len(parts([x]))
    assert len(asked) <= 2 * 5000


def test_bits_keep_their_type():
    flipped = bitcast(load(POS, I.dim), Scalar.F32)
    assert Rewrite({I: 0}).expr(flipped) is bitcast(load(POS, 0), Scalar.F32)


def test_other_fields_of_loops_and_folds_stay():
    other = Buffer("acc.o", Scalar.F32, Space.REGISTER)
    joint = MultiReduction((ACC,), (load(X, I.dim),), (const(0.0, Scalar.F32),), (other,), (load(other, 0),))
    tile = Buffer("tile", Scalar.F32, Space.REGISTER, 4)
    body = For(J, Loop.VECTOR, (joint, Fold(tile, Op.MAX, load(X, I.dim), 3), Barrier()), 2)
    twin, twin2 = Buffer("a", Scalar.F32, Space.REGISTER), Buffer("b", Scalar.F32, Space.REGISTER)
    assert substituted([body], {I: 7}, {ACC: twin, other: twin2}) == (
        For(
            J,
            Loop.VECTOR,
            (
                MultiReduction(
                    (twin,), (load(X, 7),), (const(0.0, Scalar.F32),), (twin2,), (load(twin2, 0),)
                ),
                Fold(tile, Op.MAX, load(X, 7), 3),
                Barrier(),
            ),
            2,
        ),
    )


def test_buffers_that_statements_change():
    results = [[b.name for b in written(s)] for s in statements(BODY)]
    assert results == [[], ["acc"], [], ["acc"], [], [], ["y"]]
