"""Blocks of threads, their shared memory and their barriers."""

import numpy as np
import pytest

from anyrt.core.dims import Sym
from anyrt.core.errors import CompileError
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import (
    Alloc,
    Barrier,
    Fold,
    For,
    If,
    Kernel,
    Let,
    Loop,
    Op,
    Store,
    cast,
    const,
    index,
    load,
)
from anyrt.ir.kernelrules import kernel_faults
from anyrt.ir.run import run
from tests.messages import diagnostic

P, N = Sym("p", extent=1), Sym("n", 0, 64)
B, T = Sym("b", extent=2), Sym("t", extent=4)
X, Y = Buffer("x", Scalar.F32, Space.INPUT, 8), Buffer("y", Scalar.F32, Space.OUTPUT, 8)
S = Buffer("s", Scalar.F32, Space.SHARED, 4)
ACC = Buffer("acc", Scalar.F32, Space.REGISTER)
ONE = const(1.0, Scalar.F32)
AT = B * 4 + T


def blocks(*body, var=B):
    return For(var, Loop.BLOCK, body)


def threads(*body, var=T):
    return For(var, Loop.THREAD, body)


def ran(*body, x=range(8), sizes=None, shared=16, faults=()):
    """The final content of y, initially −1."""
    kernel = Kernel("k", P, body, 1, 0, shared)
    assert list(kernel_faults(kernel)) == list(faults)
    memory = {X: np.array(x, np.float32), Y: np.full(8, -1, np.float32)}
    run(kernel, memory, sizes or {})
    return memory[Y].tolist()


TURNED = Store(Y, AT, load(S, 3 - T.dim))
FILL = Store(S, T.dim, load(X, AT))


def test_each_block_shares_memory_of_its_own():
    assert ran(blocks(threads(FILL, Barrier(), TURNED))) == [3, 2, 1, 0, 7, 6, 5, 4]


def test_threads_meet_between_thread_loops_too():
    assert ran(blocks(threads(FILL), Barrier(), threads(TURNED))) == [3, 2, 1, 0, 7, 6, 5, 4]


def test_a_sum_over_the_threads_of_a_block():
    k = Sym("k", extent=2)
    both = Store(S, T.dim, load(S, T.dim) + load(S, T - k + 2))
    halves = For(k, Loop.SERIAL, (If(index(T.dim) < index(2 - k.dim), (both,)), Barrier()))
    out = If(index(T.dim) < 1, (Store(Y, B.dim, load(S, 0)),))
    assert ran(blocks(threads(FILL, Barrier(), halves, out)))[:2] == [6, 22]


def test_tiles_of_a_matrix_are_transposed_through_shared_memory():
    """A 4 × 2 matrix in tiles of 2 × 2: loops over both axes are nested."""
    b, c, i, j = (Sym(n, extent=e) for n, e in (("b", 2), ("c", 1), ("i", 2), ("j", 2)))
    fill = Store(S, i * 2 + j, load(X, b * 4 + c * 2 + i * 2 + j))
    out = Store(Y, c * 8 + i * 4 + b * 2 + j, load(S, j * 2 + i))
    inner = threads(threads(fill, Barrier(), out, var=j), var=i)
    assert ran(blocks(blocks(inner, var=c), var=b)) == [0, 2, 4, 6, 1, 3, 5, 7]


def test_threads_have_registers_of_their_own():
    k = Sym("k", extent=4)
    fold = For(k, Loop.SERIAL, (Fold(ACC, Op.ADD, load(S, k.dim) * cast(index(T.dim), Scalar.F32)),))
    body = FILL, Barrier(), Alloc(ACC, ONE), fold, Store(Y, AT, load(ACC, 0))
    assert ran(blocks(threads(*body))) == [1, 7, 13, 19, 1, 23, 45, 67]


def test_a_last_block_may_have_less_to_do():
    some = Sym("b", extent=(N + 3) // 4)
    one = If(index(some * 4 + T) < index(N.dim), (Store(Y, some * 4 + T, ONE),))
    assert ran(blocks(threads(one), var=some), sizes={"n": 6}) == [1, 1, 1, 1, 1, 1, -1, -1]


NEXT = load(S, T - T // 3 * 4 + 1)
SKIPPED = "a barrier that some threads of a block may not reach, or not as often"


@pytest.mark.parametrize(
    "body",
    [
        [FILL, TURNED],
        [FILL, Barrier(), TURNED, FILL],
        [FILL, Barrier(), Store(S, T.dim, NEXT)],
        [Store(S, 0, load(X, AT))],
        [FILL, Barrier(), Store(Y, AT, load(S, 1)), If(index(T.dim) >= 3, (Store(S, 1, ONE),))],
        [TURNED],
        [Store(S, T + 1, ONE)],
    ],
)
def test_threads_that_do_not_wait_are_found(body, golden_text):
    with pytest.raises(CompileError) as caught:
        ran(blocks(threads(*body)))
    golden_text(caught.value)


def test_threads_of_nested_loops_are_distinguished():
    i, j = Sym("i", extent=2), Sym("j", extent=2)
    body = Store(S, i * 2 + j, ONE), Store(Y, i * 2 + j, load(S, 2 - i * 2 + j))
    with pytest.raises(CompileError, match=diagnostic("AR810", "i = 0", "j = 0", "s[2]")):
        ran(blocks(threads(threads(*body, var=j), var=i)))


def test_a_barrier_that_some_threads_leave_out_is_found():
    with pytest.raises(CompileError, match=diagnostic("AR810", "barrier", "p = 0", "b = 0", "t = 0")):
        ran(blocks(threads(If(index(T.dim) < 2, (Barrier(),)))), faults=[SKIPPED])


def test_many_threads_may_read_what_was_there_before_the_barrier():
    assert ran(blocks(threads(FILL, Barrier(), Store(Y, AT, load(S, 1)), Barrier(), FILL)))[::4] == [1, 5]


def test_shared_memory_has_the_bytes_that_the_kernel_says():
    with pytest.raises(CompileError, match=diagnostic("AR810", "store s[t]", "s", 0, 16, 12)):
        ran(blocks(threads(FILL)), shared=12)


def test_threads_meet_once_in_each_iteration_of_a_loop():
    k = Sym("k", extent=2)
    loop = For(k, Loop.SERIAL, (Store(Y, AT, cast(index(k.dim), Scalar.F32)), Barrier()))
    assert ran(blocks(threads(loop))) == [1.0] * 8


def test_a_loop_with_a_barrier_runs_iteration_by_iteration():
    k, place = Sym("k", extent=2), Sym("m", 0, 3)
    turn = Store(S, T.dim, cast(index(k + T), Scalar.F32)), Barrier(), Store(Y, k * 4 + T, load(S, place.dim))
    loop = For(k, Loop.SERIAL, (Let(place, 3 - T.dim), *turn, Barrier()))
    assert ran(blocks(threads(loop), var=Sym("b", extent=1))) == [3, 2, 1, 0, 4, 3, 2, 1]
