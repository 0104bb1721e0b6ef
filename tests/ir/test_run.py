"""Kernels run with NumPy: the semantics of statements, and an error for every invalid access."""

import numpy as np
import pytest

from anyrt.backends.cpu import widen
from anyrt.core.dims import Sym, maximum, minimum
from anyrt.core.enums import DataType
from anyrt.core.errors import CompileError
from anyrt.core.machine import REFERENCE
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.foldorder import CHAINS
from anyrt.ir.kernel import (
    Alloc,
    Fetch,
    Fold,
    For,
    If,
    Kernel,
    Let,
    Loop,
    MultiReduction,
    Op,
    Store,
    alu,
    bitcast,
    bound,
    cast,
    const,
    fma,
    index,
    load,
    select,
)
from anyrt.ir.run import run
from tests.messages import diagnostic

N = Sym("n", 0, 64)
P, I, J = Sym("p", extent=2), Sym("i", extent=4), Sym("j", extent=3)  # noqa: E741 - loop variables
X, Y = Buffer("x", Scalar.F32, Space.INPUT, 8), Buffer("y", Scalar.F32, Space.OUTPUT, 8)
ROW = Buffer("row", Scalar.F32, Space.SCRATCH, 4)
ACC = Buffer("acc", Scalar.F32, Space.REGISTER)
ZERO, ONE = const(0.0, Scalar.F32), const(1.0, Scalar.F32)
AT = P * 4 + I.dim


def ran(*body, x=range(8), scratch=16, sizes=None, **more):
    """The content of y, initially −1, after two items."""
    memory = {X: np.array(x, np.float32), Y: np.full(8, -1, np.float32), **more.get("memory", {})}
    run(Kernel("k", P, body, 1, scratch), memory, sizes or {}, more.get("lanes", 4))
    return memory[Y].tolist()


def vector(*body, var=I):
    return For(var, Loop.VECTOR, body)


def serial(*body, var=I):
    return For(var, Loop.SERIAL, body)


@pytest.mark.parametrize("kind", [Loop.SERIAL, Loop.UNROLL, Loop.VECTOR])
def test_a_map_stores_every_element(kind):
    assert ran(For(I, kind, (Store(Y, AT, load(X, AT) + 1.0),))) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_branch_runs_where_its_condition_holds():
    assert ran(serial(If(index(I.dim) < 2, (Store(Y, AT, ONE),)))) == [1, 1, -1, -1, 1, 1, -1, -1]


def test_loops_may_end_earlier_in_some_items():
    ragged = Sym("i", extent=minimum(4, P * 3 + 1))
    assert ran(serial(Store(Y, P * 4 + ragged.dim, ONE), var=ragged)) == [1, -1, -1, -1, 1, 1, 1, 1]


def test_a_let_names_an_index():
    k = Sym("k", 0, 7)
    assert ran(serial(Let(k, AT), Store(Y, k.dim, cast(index(k.dim), Scalar.F32)))) == [*range(8)]


def test_each_item_folds_into_its_own_register():
    assert ran(Alloc(ACC, ONE), vector(Fold(ACC, Op.ADD, load(X, AT))), Store(Y, P * 4, load(ACC, 0))) == [
        *(7, -1, -1, -1),
        *(23, -1, -1, -1),
    ]


def test_lanes_of_a_vector_loop_have_registers_of_their_own():
    twice = serial(Fold(ACC, Op.ADD, load(X, AT)), var=J)
    assert ran(vector(Alloc(ACC, ZERO), twice, Store(Y, AT, load(ACC, 0)))) == [3.0 * x for x in range(8)]


def test_a_fold_inside_two_loops_goes_over_both():
    inner = vector(Fold(ACC, Op.MAX, load(X, P * 4 + J.dim)), var=J)
    assert ran(Alloc(ACC, -ONE), serial(inner), Store(Y, P * 4, load(ACC, 0)))[::4] == [2, 6]


def test_an_iteration_reads_what_the_previous_one_wrote():
    turn = Store(Y, P * 4 + I + 1, load(Y, AT) + load(X, AT))
    three = serial(Store(Y, P * 4 + J + 1, load(Y, P * 4 + J.dim) + 1.0), var=J)
    assert ran(Store(Y, P * 4, ZERO), three) == [0, 1, 2, 3, 0, 1, 2, 3]
    with pytest.raises(CompileError, match=diagnostic("AR810", "store y[", "p = 1", "i = 3", "y[8]")):
        ran(serial(turn))


@pytest.mark.parametrize(("lanes", "expected"), [(2, [-1, 0, 2, 2]), (4, [-1, 0, 1, 2])])
def test_lanes_read_what_the_vector_before_wrote(lanes, expected):
    before = vector(Store(Y, AT, load(Y, P * 4 + maximum(I - 1, 0)) + load(X, AT)))
    assert ran(before, lanes=lanes)[:4] == expected


def test_a_fold_over_a_serial_loop_goes_in_order_from_what_was_there():
    """In float32, 10⁸ + 3 is 10⁸, 10⁸ + 12 is not."""
    sums = (Alloc(ACC, const(1e8, Scalar.F32)), serial(Fold(ACC, Op.ADD, load(X, AT))))
    assert ran(*sums, Store(Y, P * 4, load(ACC, 0)), x=[3] * 8)[0] == 1e8


def test_half_types_round_and_integers_wrap():
    big = const(2**31 - 1, Scalar.I32) + 1
    half = cast(cast(const(2049.0, Scalar.F32), Scalar.F16), Scalar.F32)
    assert ran(Store(Y, P * 4, cast(big, Scalar.F32)), Store(Y, P * 4 + 1, half))[:2] == [-(2.0**31), 2048]


def test_a_word_has_its_first_element_in_the_lowest_bits():
    halves = Buffer("halves", Scalar.BF16, Space.INPUT, 8)
    word = load(halves, P * 4 + I * 2, word=True)
    bits = serial(Store(Y, AT, bitcast(word, Scalar.F32)), var=Sym("i", extent=2))
    memory = {halves: np.array([0x1234, 0x3F80, 0, 0x4000, 0, 0x4040, 0, 0x4080], np.uint16)}
    assert np.float32(ran(bits, memory=memory)).view(np.uint32).tolist()[:2] == [0x3F801234, 0x40000000]


def test_a_word_beyond_the_end_of_its_buffer_is_named():
    word = load(Buffer("bytes", Scalar.I8, Space.INPUT, 8), P * 5, word=True)
    memory = {word.buffer: np.zeros(8, np.int8)}
    with pytest.raises(CompileError, match=diagnostic("AR810", "p = 1", "bytes[8]")):
        ran(Store(Y, P * 4, cast(word, Scalar.F32)), memory=memory)


def test_scratch_holds_what_an_item_stored():
    row = serial(Store(ROW, I.dim, load(X, AT) * 2.0))
    assert ran(row, vector(Store(Y, AT, load(ROW, 3 - I.dim)))) == [6, 4, 2, 0, 14, 12, 10, 8]


def test_a_fetch_does_nothing_wherever_it_leads():
    assert ran(vector(Fetch(X, AT + 99999), Store(Y, AT, ONE))) == [1.0] * 8


def test_sizes_are_given_by_name():
    some = Sym("i", extent=N.dim)
    stored = Store(Y, P * 4 + some.dim, cast(index(N.dim), Scalar.F32))
    assert ran(serial(stored, var=some), sizes={"n": 2}) == [2, 2, -1, -1, 2, 2, -1, -1]


def test_element_0_of_an_empty_buffer_is_anything():
    none = Buffer("none", Scalar.F32, Space.INPUT, N.dim)
    memory = {none: np.zeros(0, np.float32)}
    result = ran(vector(Store(Y, AT, load(none, 0))), memory=memory, sizes={"n": 0})
    assert np.isnan(result).all()


POSITIONS = Buffer("pos", Scalar.I32, Space.TABLE, 4)
TAP = bound(load(POSITIONS, I.dim), 0, 7, "tap", N.dim)


OVER, ABSENT = Buffer("row", Scalar.F32, Space.SCRATCH, 5), Buffer("z", Scalar.F32, Space.INPUT, 3)
LONG = Buffer("y", Scalar.F32, Space.OUTPUT, 9)


@pytest.mark.parametrize(
    "body",
    [
        [vector(Store(Y, AT, load(X, AT + 1)))],
        [vector(Store(Y, AT - 2, ONE))],
        [Fold(ACC, Op.ADD, ONE)],
        [serial(Alloc(ACC, ONE)), Store(Y, P.dim, load(ACC, 0))],
        [Store(Y, P.dim, load(ROW, 1))],
        [If(index(P.dim) < 1, (Store(ROW, 0, ONE),)), Store(Y, 0, load(ROW, 0))],
        [Let(Sym("k", 0, 0), P.dim)],
        [vector(Store(Y, AT, load(X, TAP)))],
        [Store(OVER, 0, ONE)],
        [Store(Y, 0, load(ABSENT, 0))],
        [Store(LONG, 0, ONE)],
    ],
)
def test_wrong_accesses_are_named(body, golden_text):
    memory = {POSITIONS: np.array([0, 1, 9, 3], np.int32)}
    with pytest.raises(CompileError) as caught:
        ran(*body, memory=memory, sizes={"n": 5})
    assert caught.value.code == "AR810"
    golden_text(caught.value)


def test_an_uninitialised_element_may_be_read_if_it_is_discarded(golden_text):
    copied = Buffer("copy", Scalar.F32, Space.SCRATCH, 2, 16)
    sums = (Alloc(ACC, ONE), Fold(ACC, Op.ADD, load(ROW, 1)), Store(copied, 0, load(ACC, 0)))
    assert ran(*sums, Store(copied, 0, ONE), Store(Y, P * 4, load(copied, 0)), scratch=24)[::4] == [1, 1]
    for use in (Store(Y, 0, load(copied, 0)), If(load(copied, 0) < 1.0, ())):
        with pytest.raises(CompileError) as caught:
            ran(*sums, use, scratch=24)
        golden_text(caught.value)


def test_an_array_of_another_size_is_rejected():
    with pytest.raises(
        CompileError, match=diagnostic("AR810", "store y[0]", "float32[5]", "x", "float32[8]")
    ):
        ran(Store(Y, 0, load(X, 0)), x=range(5))


def test_items_that_run_together_have_scratch_of_their_own():
    mine = (Store(ROW, 0, cast(index(P.dim), Scalar.F32)), Store(Y, P * 4, load(ROW, 0)))
    assert ran(*mine)[::4] == [0, 1]


TILE = Buffer("tile", Scalar.F32, Space.REGISTER, 4)


def unrolled(*body):
    return For(I, Loop.UNROLL, body)


def test_elements_of_registers_are_stored_and_folded_apart():
    filled = unrolled(Store(TILE, I.dim, load(X, AT)), Fold(TILE, Op.MUL, load(X, AT), I.dim))
    out = unrolled(Store(Y, AT, load(TILE, 3 - I.dim)))
    assert ran(Alloc(TILE, ONE), filled, out) == [9, 4, 1, 0, 49, 36, 25, 16]


def test_each_element_of_a_register_begins_with_the_same_value():
    body = (
        Alloc(TILE, load(X, P * 4 + 2)),
        Fold(TILE, Op.ADD, ONE, 1),
        unrolled(Store(Y, AT, load(TILE, I.dim))),
    )
    assert ran(*body) == [2, 3, 2, 2, 6, 7, 6, 6]


@pytest.mark.parametrize("kind", [Loop.SERIAL, Loop.VECTOR])
def test_a_product_of_matrices_folds_into_an_array_of_registers(kind):
    """Row by row x(2, 4) times its columns."""
    fold = unrolled(Fold(TILE, Op.ADD, load(X, P * 4 + J.dim) * load(X, J * 2 + I.dim), I.dim))
    out = unrolled(Store(Y, AT, load(TILE, I.dim)))
    x = np.arange(8.0)
    expected = [sum(x[4 * p + j] * x[2 * j + i] for j in range(3)) for p in range(2) for i in range(4)]
    assert ran(Alloc(TILE, ZERO), For(J, kind, (fold,)), out) == expected


def test_an_index_beyond_a_register_is_named():
    with pytest.raises(CompileError, match=diagnostic("AR810", "store tile[4]", "p = 0", "tile[4]", 0, 3)):
        ran(Alloc(TILE, ONE), Store(TILE, 4, ONE))


def test_a_register_keeps_the_value_that_an_iteration_stored():
    assert ran(Alloc(ACC, ZERO), serial(Store(ACC, 0, load(X, AT))), Store(Y, P.dim, load(ACC, 0)))[:2] == [
        3,
        7,
    ]


BEST, PLACE = ACC, Buffer("place", Scalar.I64, Space.REGISTER)
OTHER_BEST, OTHER_PLACE = (Buffer(f"{x.name}.o", x.type, Space.REGISTER) for x in (BEST, PLACE))
LEAST, NOWHERE = const(float("-inf"), Scalar.F32), const(99, Scalar.I64)


def larger(x, place):
    """The element that replaces the best so far."""
    best, at = load(BEST, 0), load(PLACE, 0)
    better = (best < x) | (alu(Op.EQ, best, x) & (place < at))
    return select(better, x, best), select(better, place, at)


def argmax(var, x):
    """The greatest element and its first position."""
    step = larger(x, index(var.dim))
    merge = larger(load(OTHER_BEST, 0), load(OTHER_PLACE, 0))
    return MultiReduction((BEST, PLACE), step, (LEAST, NOWHERE), (OTHER_BEST, OTHER_PLACE), merge)


@pytest.mark.parametrize("kind", [Loop.SERIAL, Loop.UNROLL, Loop.VECTOR])
def test_several_registers_fold_at_once(kind):
    body = [Alloc(BEST, LEAST), Alloc(PLACE, NOWHERE), For(I, kind, (argmax(I, load(X, AT)),))]
    out = Store(Y, P.dim, load(BEST, 0)), Store(Y, P + 2, cast(load(PLACE, 0), Scalar.F32))
    assert ran(*body, *out, x=[1, 7, 3, 7, -5, -9, -5, -7])[:4] == [7, -5, 1, 0]


@pytest.mark.parametrize("wide", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 5, 16, 64, 100, 300])
def test_the_first_greatest_element_is_found_across_lanes(count, wide):
    x = np.random.default_rng(count).integers(0, 9, count).astype(np.float32)
    some = Sym("i", extent=N.dim)
    source = Buffer("x", Scalar.F32, Space.INPUT, N.dim)
    fold = For(some, Loop.VECTOR, (argmax(some, load(source, some.dim)),), wide)
    body = Alloc(BEST, LEAST), Alloc(PLACE, NOWHERE), fold, Store(Y, 0, cast(load(PLACE, 0), Scalar.F32))
    memory = {source: x, Y: np.zeros(8, np.float32)}
    run(Kernel("k", Sym("p", extent=1), body), memory, {"n": count}, 8)
    assert memory[Y][0] == (x.argmax() if count else 99)


def test_a_running_maximum_and_sum_is_merged_across_lanes():
    """Σ exp(x − max x), each factor a power of two so that nothing is rounded."""
    total, more = (Buffer(n, Scalar.F32, Space.REGISTER) for n in ("sum", "sum.o"))

    def power(x):
        return bitcast((cast(x, Scalar.I32) + 127) << 23, Scalar.F32)

    def both(best, best2, total, total2):
        high = alu(Op.MAX, best, best2)
        return high, total * power(best - high) + total2 * power(best2 - high)

    step = both(load(ACC, 0), load(X, AT), load(total, 0), ONE)
    merge = both(load(ACC, 0), load(OTHER_BEST, 0), load(total, 0), load(more, 0))
    low = const(-99.0, Scalar.F32)
    fold = MultiReduction((ACC, total), step, (low, ZERO), (OTHER_BEST, more), merge)
    begin = Alloc(ACC, low), Alloc(total, ZERO)
    result = ran(*begin, vector(fold), Store(Y, P.dim, load(total, 0)), x=[1, 3, 2, 3, 5, 1, 5, 5], lanes=2)
    assert result[:2] == [2 + 2.0**-1 + 2.0**-2, 3 + 2.0**-4]


def test_lanes_may_fold_several_registers_of_their_own():
    """The greatest of x[i], x[i + 1] and its position, for every lane."""
    two = Sym("t", extent=2)
    inner = serial(argmax(two, load(X, minimum(AT + two, 7))), var=two)
    out = Store(Y, AT, cast(load(PLACE, 0), Scalar.F32))
    lanes = vector(Alloc(BEST, LEAST), Alloc(PLACE, NOWHERE), inner, out)
    assert ran(lanes, x=[1, 5, 5, 2, 3, 4, 0, 0]) == [1, 0, 0, 1, 1, 0, 0, 0]


def test_initial_values_of_registers_are_merged_with_results_of_lanes():
    body = (
        Alloc(BEST, const(5.0, Scalar.F32)),
        Alloc(PLACE, const(42, Scalar.I64)),
        vector(argmax(I, load(X, AT))),
    )
    assert ran(*body, Store(Y, P.dim, cast(load(PLACE, 0), Scalar.F32)))[:2] == [42, 3]


def test_joint_folds_of_loops_of_different_lengths_do_not_mix():
    some = Sym("i", extent=P * 3 + 1)
    body = (
        Alloc(BEST, LEAST),
        Alloc(PLACE, NOWHERE),
        vector(argmax(some, load(X, P * 4 + some.dim)), var=some),
    )
    assert ran(*body, Store(Y, P.dim, load(BEST, 0)), lanes=2)[:2] == [0, 7]


def in_order_of_lanes(values, width, chains):
    """The sum in the order of generated code, one lane at a time."""
    sums = np.full((chains, width), -0.0, np.float32)
    done = 0
    for step, used in ((width * chains, chains), (width, 1), (1, 0)):
        while done + step <= len(values):
            if used:
                sums[:used] += values[done : done + step].reshape(used, width)
                done += step
            else:
                for lane, value in enumerate(values[done:]):
                    sums[0, lane] += value
                done = len(values) + 1
    while len(sums) > 1:
        sums = sums[::2] + sums[1::2]
    total = sums[0]
    while len(total) > 1:
        total = total[: len(total) // 2] + total[len(total) // 2 :]
    return np.float32(1) + total[0]


@pytest.mark.parametrize(
    ("count", "wide", "width", "chains"),
    [
        *((5, 1, 8, 1), (31, 1, 8, 2), (100, 1, 8, 4), (263, 1, 8, 4), (3, 1, 4, 1)),
        *((5, 2, 8, 1), (100, 2, 8, 2), (263, 8, 8, 8)),
    ],
)
def test_a_sum_across_a_vector_loop_goes_lane_by_lane(count, wide, width, chains):
    x = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    some = Sym("i", extent=count)
    source = Buffer("x", Scalar.F32, Space.INPUT, count)
    body = (
        Alloc(ACC, ONE),
        For(some, Loop.VECTOR, (Fold(ACC, Op.ADD, load(source, some.dim)),), wide),
        Store(Y, 0, load(ACC, 0)),
    )
    memory = {source: x, Y: np.zeros(8, np.float32)}
    run(Kernel("k", Sym("p", extent=1), body), memory, {}, 8)
    assert memory[Y][0] == in_order_of_lanes(x, width, chains)


def test_generated_code_has_as_many_accumulators():
    assert widen.most_chains(REFERENCE) == CHAINS


def test_elements_of_stored_types_need_not_be_machine_types():
    """A bool takes a byte in memory."""
    flags = Buffer("f", DataType.BOOL, Space.INPUT, 4)
    memory = {flags: np.array([True, False, True, True])}
    taken = vector(Store(Y, AT, cast(load(flags, I.dim), Scalar.F32)))
    assert ran(taken, memory=memory)[:4] == [1, 0, 1, 1]


def test_fused_products_are_rounded_once():
    x = np.float32(1 + 2**-12)
    result = ran(Store(Y, 0, fma(load(X, 0), load(X, 0), load(X, 1))), x=[x, -1, *[0] * 6])[0]
    assert result == np.float32(2**-11 + 2**-24)
