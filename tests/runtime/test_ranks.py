"""Exchanges between processes over shared memory: all operations and types, groups, and failing ranks."""

import os
import pickle
import subprocess
import sys
import time
import uuid
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from anyrt.core.enums import CollectiveOperation as C
from anyrt.core.enums import ReduceOperation as R
from anyrt.runtime.collective import Exchange

CODE = """
import pickle, sys
from anyrt.runtime.collective import exchange
from anyrt.runtime.ranks import SharedRanks
name, rank, size, seconds, chunk, calls = pickle.load(sys.stdin.buffer)
found = []
with SharedRanks(name, rank, size, seconds, chunk) as ranks:
    for call in calls:
        if isinstance(call, str):
            exec(call)
            continue
        try:
            found.append(exchange(ranks, *call))
        except Exception as error:
            found.append(error)
pickle.dump(found, sys.stdout.buffer)
"""


def start(name, rank, size, calls, seconds=20.0, chunk=256):
    child = subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdin.write(pickle.dumps((name, rank, size, seconds, chunk, calls)))
    child.stdin.close()
    return child


def all_ranks(every, **more):
    """The results of each rank's calls."""
    name = f"test-{uuid.uuid4().hex}"
    children = [start(name, rank, len(every), calls, **more) for rank, calls in enumerate(every)]
    results = []
    for child in children:
        with child:
            data = child.stdout.read()
        results.append(pickle.loads(data) if data else None)
    assert not list(Path("/dev/shm").glob(f"*{name}*"))
    return results


def values(size, shape=(8, 9), dtype=np.float32):
    random = np.random.default_rng(size)
    return [(random.integers(-4, 5, shape)).astype(dtype) for _ in range(size)]


def expected(op, fold, xs, rank, root):
    """The result by definition, in NumPy."""
    n, k = len(xs), xs[0].shape[0] // len(xs)
    stacked = np.stack([x.astype(np.float64) for x in xs])
    total = {R.SUM: stacked.sum(0), R.AVG: stacked.mean(0), R.PROD: stacked.prod(0)}
    total |= {R.MAX: stacked.max(0), R.MIN: stacked.min(0)}
    folded = total.get(fold)
    match op:
        case C.ALL_REDUCE:
            return folded
        case C.REDUCE:
            return folded if rank == root else xs[rank]
        case C.REDUCE_SCATTER:
            return folded[rank * k : (rank + 1) * k]
        case C.ALL_GATHER:
            return np.concatenate(xs)
        case C.GATHER:
            return np.concatenate(xs) if rank == root else xs[rank]
        case C.BROADCAST:
            return xs[root]
        case C.SCATTER:
            return xs[root][rank * k : (rank + 1) * k]
        case C.ALL_TO_ALL:
            return np.concatenate([x.reshape(n, k, -1)[rank] for x in xs])


def calls_of(size):
    ops = [(op, R.SUM if op in (C.ALL_REDUCE, C.REDUCE, C.REDUCE_SCATTER) else R.NONE) for op in C]
    return ops + [(C.ALL_REDUCE, fold) for fold in (R.PROD, R.MAX, R.MIN, R.AVG)]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_all_operations_over_several_chunks(size):
    xs, root, calls = values(size), size - 1, calls_of(size)
    actual = all_ranks([[(Exchange(op, fold, root), xs[r]) for op, fold in calls] for r in range(size)])
    for rank in range(size):
        for (op, fold), y in zip(calls, actual[rank], strict=True):
            np.testing.assert_allclose(
                y, expected(op, fold, xs, rank, root), rtol=1e-6, err_msg=f"{op} {fold}"
            )


def test_all_types():
    types = [
        np.float64,
        np.float16,
        ml_dtypes.bfloat16,
        *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)),
    ]
    pairs = [[np.abs(x) for x in values(2, dtype=np.dtype(t))] for t in types]
    folds = (R.SUM, R.MAX)
    calls = [[(Exchange(C.ALL_REDUCE, f), p[r]) for p in pairs for f in folds] for r in range(2)]
    for result in all_ranks(calls):
        at = iter(result)
        for a, b in pairs:
            for function in (np.add, np.maximum):
                y = next(at)
                assert y.dtype == a.dtype
                np.testing.assert_array_equal(y, function(a, b))


def test_half_sums_are_rounded_once():
    xs = [np.float16([v]) for v in (1, 2**-11, 2**-11, 0)]  # float16 would lose the small ones
    result = all_ranks([[(Exchange(C.ALL_REDUCE, R.SUM), x)] for x in xs])
    assert [f[0][0] for f in result] == [np.float16(1 + 2**-10)] * 4


OUT = """
import numpy as np
from anyrt.core.enums import ReduceOperation as R
from anyrt.core.enums import CollectiveOperation as C
from anyrt.runtime.collective import Exchange, Exchanger
total = Exchanger(ranks, Exchange(C.ALL_REDUCE, R.SUM))
x, out, other = np.arange(200.0), np.empty(200), np.empty((200,))
for turn, y in enumerate((out, out, other, out)):
    x += turn + ranks.rank
    assert total(x, y) is y
    found.append(y.copy())
assert total(x, x) is x
found.append(x)
gather = Exchanger(ranks, Exchange(C.GATHER, root=1))
found.append(gather(out[:4], np.zeros(8 if ranks.rank == 1 else 4)))
for wrong in (np.empty(100), np.empty(200, np.float32), np.empty(400)[::2], np.broadcast_to(0.0, 200)):
    try:
        total(x, wrong)
    except Exception as error:
        found.append(error)
try:
    gather(x, x)
except Exception as error:
    found.append(error)
"""


def test_results_are_written_into_the_array_of_the_caller():
    for rank, results in enumerate(all_ranks([[OUT]] * 2)):
        sums, (inplace, gathered), mistakes = results[:4], results[4:6], results[6:]
        offset = 0
        for turn, result in enumerate(sums):
            offset += 2 * turn + 1
            np.testing.assert_array_equal(result, 2 * np.arange(200.0) + offset)
        np.testing.assert_array_equal(inplace, sums[-1])
        np.testing.assert_array_equal(gathered, np.tile(sums[-1][:4], 1 + rank))
        assert [m.code for m in mistakes] == ["AR304"] * 5


def test_order_of_reduction_is_that_of_ranks():
    xs = [np.float32([v]) for v in (1e8, 1, -1e8, 1)]
    actual = all_ranks([[(Exchange(C.ALL_REDUCE, R.SUM), x)] * 3 for x in xs])
    reference = ((xs[0] + xs[1]) + xs[2]) + xs[3]
    assert all(y.tobytes() == reference.tobytes() for f in actual for y in f)


def test_groups_work_side_by_side_with_all():
    x = [np.full((4,), 10.0**r, np.float32) for r in range(4)]
    groups = [(0, 2), (1, 3), (0, 2), (1, 3)]
    calls = []
    for r in range(4):
        group = Exchange(C.ALL_REDUCE, R.SUM, group=groups[r])
        calls.append([(group, x[r]), (Exchange(C.ALL_REDUCE, R.SUM), x[r]), (group, x[r])] * 20)
    for r, result in enumerate(all_ranks(calls)):
        mine = 101 if r % 2 == 0 else 1010
        assert [int(y[0]) for y in result] == [mine, 1111, mine] * 20


@pytest.mark.parametrize("group", [None, (0, 1)])
def test_a_slow_reader_is_not_overtaken(group):
    """Rank 0 reads the shared numbers 0.2 s later, when rank 1 would have overwritten them, twice."""
    slow = "import time; share = ranks.share; ranks.share = lambda *a: (share(*a), time.sleep(0.2))[0]"
    what = Exchange(C.ALL_REDUCE, R.SUM, group=group)
    calls = [(what, np.full(5, v, np.float32)) for v in (1, 2, 3)]
    third = [np.zeros(5, np.float32)] if group else []
    result = all_ranks([[slow, *calls], calls, *[[] for _ in third]])
    assert [y[0] for y in result[0]] == [2, 4, 6]


def test_empty_and_scalar_arrays():
    calls = [
        (Exchange(C.ALL_REDUCE, R.SUM), np.float32(3)),
        (Exchange(C.ALL_GATHER), np.zeros((0, 3), np.float32)),
    ]
    for result in all_ranks([calls, calls]):
        assert result[0] == 6
        assert result[1].shape == (0, 3)


def test_a_disagreement_is_an_error_on_all():
    good, bad = np.zeros(6, np.float32), np.zeros(5, np.float32)
    what = Exchange(C.ALL_REDUCE, R.SUM)
    result = all_ranks([[(what, good)], [(what, good)], [(what, bad)]], seconds=5.0)
    assert [type(f[0]).__name__ for f in result] == ["ArgumentError"] * 3
    assert "another exchange, shape or type on rank 2" in str(result[0][0])


@pytest.mark.parametrize("end", ["import os; os.kill(os.getpid(), 9)", "import os; os._exit(1)"])
def test_a_rank_that_dies_is_an_error_on_all_others_at_once(end):
    x, what = np.zeros(6, np.float32), Exchange(C.ALL_REDUCE, R.SUM)
    start_time = time.monotonic()
    result = all_ranks([[(what, x), (what, x)], [(what, x), end], [(what, x), (what, x)]], seconds=60.0)
    assert time.monotonic() - start_time < 20
    assert result[1] is None
    for rank in (0, 2):
        assert result[rank][0].tolist() == [0] * 6
        assert "rank 1" in str(result[rank][1]) or "gave up" in str(result[rank][1])


def test_a_rank_that_is_late_is_an_error_on_all():
    x, what = np.zeros(6, np.float32), Exchange(C.ALL_REDUCE, R.SUM)
    late = "import time; time.sleep(3)"
    result = all_ranks([[(what, x), (what, x)], [(what, x), late, (what, x)]], seconds=1.0)
    assert "no message from rank 1 in 1 s" in str(result[0][1])
    assert "rank 0 gave up" in str(result[1][1])


def test_missing_ranks_are_reported():
    name = f"test-{uuid.uuid4().hex}"
    with start(name, 0, 2, [], seconds=0.3) as child:
        child.stdout.read()
    assert child.returncode != 0
    assert not list(Path("/dev/shm").glob(f"*{name}*"))


def test_memory_of_ranks_that_crashed_before_all_were_there_is_taken_over():
    name = f"test-{uuid.uuid4().hex}"
    with start(name, 0, 2, [], seconds=60.0) as first:
        place = Path(f"/dev/shm/anyrt-{os.getuid()}-{name}")
        while not place.exists():
            time.sleep(0.01)
        time.sleep(0.3)
        assert place.stat().st_mode & 0o777 == 0o600
        first.kill()
    x, what = np.ones(3, np.float32), Exchange(C.ALL_REDUCE, R.SUM)
    children = [start(name, r, 2, [(what, x)]) for r in (1, 0)]
    for child in children:
        with child:
            assert pickle.loads(child.stdout.read())[0].tolist() == [2, 2, 2]
    assert not place.exists()


def test_mistakes_of_one_call_are_reported():
    x = np.zeros(3, np.float32)
    wrong = [
        Exchange(C.BROADCAST),
        Exchange(C.ALL_REDUCE),
        Exchange(C.ALL_GATHER, R.SUM),
        Exchange(C.ALL_REDUCE, R.SUM, group=(0, 0)),
    ]
    result = all_ranks([[(w, x) for w in [*wrong, Exchange(C.ALL_REDUCE, R.SUM, group=(1,))]]])
    assert [type(e).__name__ for e in result[0]] == ["ArgumentError"] * 5
