"""Exchanges of the same small arrays again and again, which native code performs."""

import os
import time

import numpy as np
import pytest

from anyrt.backends import meeting
from anyrt.backends.cpu.meet import meet_text
from anyrt.backends.cpu.processors import Level, forced
from anyrt.codegen.llvm import compile_text
from anyrt.core.enums import CollectiveOperation as C
from anyrt.core.enums import ReduceOperation as R
from anyrt.core.errors import ResourceError
from anyrt.runtime.collective import Exchange, Exchanger
from anyrt.runtime.ranks import SMALL, SharedRanks
from tests.runtime.test_ranks import all_ranks

START = """
import os, signal, time, warnings
import numpy as np
from anyrt.backends import meeting
from anyrt.core.enums import ReduceOperation as R
from anyrt.core.enums import CollectiveOperation as C
from anyrt.runtime.collective import Exchange, Exchanger, exchange
total = Exchanger(ranks, Exchange(C.ALL_REDUCE, R.SUM))
x, y = np.zeros(3, np.float32), np.empty(3, np.float32)
def again(count):
    for _ in range(count):
        total(x, y)
"""
TYPES = """
for dtype in ("f4", "f8", "i4", "i8", "f2", "u1", ">f4"):
    for size in (1, 7, 300, 3000):
        x, y = np.empty(size, dtype), np.empty(size, dtype)
        for turn in range(6):
            x[:] = np.arange(size) % 50 + ranks.rank + turn
            total(x, y)
            found.append(y.copy())
            if turn == 3:
                found.append(exchange(ranks, Exchange(C.ALL_GATHER), x[:1]))
"""


@pytest.mark.parametrize("size", [1, 2, 3])
def test_sums_of_all_types_and_sizes_follow_the_arrays(size):
    for results in all_ranks([[START, TYPES]] * size):
        found = iter(results)
        for dtype in ("f4", "f8", "i4", "i8", "f2", "u1", ">f4"):
            for n in (1, 7, 300, 3000):
                for turn in range(6):
                    wanted = size * (np.arange(n) % 50 + turn) + sum(range(size))
                    np.testing.assert_array_equal(next(found), wanted.astype(dtype), f"{dtype} {n} {turn}")
                    if turn == 3:
                        np.testing.assert_array_equal(next(found), np.arange(size) + 3)


OPERATIONS = """
for op, fold, root in calls:
    repeated = Exchanger(ranks, Exchange(op, fold, root))
    x = np.zeros(12)
    first = exchange(ranks, Exchange(op, fold, root), x)
    out = np.empty_like(first)
    for turn in range(4):
        x[:] = np.arange(12) * (ranks.rank + 1) + turn
        found.append((repeated(x, out).copy(), exchange(ranks, Exchange(op, fold, root), x)))
"""


def test_all_operations_agree_with_single_exchanges():
    reducing = (C.ALL_REDUCE, C.REDUCE, C.REDUCE_SCATTER)
    calls = [(op, fold, 1) for op in reducing for fold in (R.SUM, R.AVG, R.PROD, R.MAX, R.MIN)]
    calls += [(op, R.NONE, 1) for op in C if op not in reducing]
    text = ", ".join(f"(C.{op.name}, R.{fold.name}, {root})" for op, fold, root in calls)
    for results in all_ranks([[START, f"calls = [{text}]", OPERATIONS]] * 2):
        assert len(results) == 4 * len(calls)
        for repeated, single in results:
            np.testing.assert_array_equal(repeated, single)


def test_a_rank_without_native_code_takes_part():
    alone = "meeting.code = lambda: None"
    text = "for k in range(50):\n    x[:] = k\n    found.append(total(x, y)[0])"
    results = all_ranks([[START, text], [START, alone, text], [START, text]])
    assert results == [[3.0 * k for k in range(50)]] * 3


def test_order_of_addition_is_that_of_ranks():
    values = np.float32([1e8, 1, -1e8, 1])
    text = "x[:] = {}; again(5); found.append(y.tobytes())"
    results = all_ranks([[START, text.format(v)] for v in values])
    wanted = np.float32([((values[0] + values[1]) + values[2]) + values[3]] * 3).tobytes()
    assert results == [[wanted]] * 4


def test_sums_that_are_not_finite_are_warned_of_as_by_numpy():
    text = """
for value in (1, 3e38, np.inf, np.nan, 2):
    x[:] = value
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        again(2)
    found.append((y[0], [str(w.message) for w in caught]))
"""
    for results in all_ranks([[START, "again(2)", text]] * 2):
        assert [str(value) for value, _ in results] == ["2.0", "inf", "inf", "nan", "4.0"]
        assert [len(texts) for _, texts in results] == [0, 2, 0, 0, 0]
        assert "overflow" in results[1][1][0]


CATCH = "\ntry:\n    {}\nexcept BaseException as error:\n    found.append(error)\n"


def test_a_disagreement_is_an_error_on_all_repeating_ranks():
    other = CATCH.format("again(4); exchange(ranks, Exchange(C.ALL_REDUCE, R.SUM), x[:2])")
    results = all_ranks([[START, CATCH.format("again(9)")], [START, other]], seconds=5.0)
    for rank, (error,) in enumerate(results):
        assert error.code == "AR304"
        assert f"another exchange, shape or type on rank {1 - rank}" in str(error)


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(1)", "ranks.close()"])
def test_a_rank_that_ends_is_an_error_on_repeating_ranks_at_once(end):
    start = time.monotonic()
    results = all_ranks([[START, CATCH.format("again(9)")], [START, f"again(4); {end}"]], seconds=60.0)
    assert time.monotonic() - start < 20
    assert results[0][0].code == "AR811"
    assert "rank 1 has ended" in str(results[0][0])


def test_a_rank_that_is_late_is_an_error_on_all_repeating_ranks():
    late = CATCH.format("again(4); time.sleep(3); again(1)")
    results = all_ranks([[START, CATCH.format("again(9)")], [START, late]], seconds=1.0)
    assert "no message from rank 1 in 1 s" in str(results[0][0])
    assert "rank 0 gave up" in str(results[1][0])


def test_a_signal_ends_the_wait_of_a_repeating_rank():
    waiting = """
signal.signal(signal.SIGALRM, signal.default_int_handler)
again(4)
signal.setitimer(signal.ITIMER_REAL, 0.3)
begin = time.monotonic()
"""
    results = all_ranks(
        [[START, waiting, CATCH.format("again(9)"), "found.append(time.monotonic() - begin)"],
         [START, "again(4); time.sleep(2)"]],
        seconds=20.0,
    )  # fmt: skip
    assert isinstance(results[0][0], KeyboardInterrupt)
    assert 0.25 < results[0][1] < 1.5


def test_native_code_exchanges_small_arrays_of_all_ranks():
    with SharedRanks(f"test-{os.getpid()}", 0, 1) as ranks:
        for nbytes, is_native in ((0, False), (1, True), (SMALL, True), (SMALL + 1, False)):
            run = ranks.repeat(bytes(32), np.empty(nbytes, np.uint8), (0,), None, lambda pieces: None)
            assert (run is not None) is is_native


@pytest.mark.parametrize("error", [ImportError("no LLVM"), ResourceError("AR802", "compiler")])
def test_ranks_exchange_without_native_code_where_there_can_be_none(error, monkeypatch, tmp_path):
    def fail(*args):
        raise error

    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(meeting, "require_room", fail)
    monkeypatch.setattr(meeting, "code", meeting.code.__wrapped__)
    assert meeting.code() is None
    with SharedRanks(f"test-{os.getpid()}", 0, 1) as ranks:
        total, x, y = Exchanger(ranks, Exchange(C.ALL_REDUCE, R.SUM)), np.ones(2), np.zeros(2)
        for _ in range(3):
            total(x, y)
    assert y.tolist() == [1, 1]


def test_a_closed_communicator_is_not_used():
    with SharedRanks(f"test-{os.getpid()}", 0, 1) as ranks:
        total, x, y = Exchanger(ranks, Exchange(C.ALL_REDUCE, R.SUM)), np.ones(2), np.empty(2)
        for _ in range(3):
            total(x, y)
    with pytest.raises(AttributeError):
        total(x, y)


def test_code_is_written_for_other_processors():
    assert compile_text(meet_text(forced(Level.NEON)), forced(Level.NEON))
