"""Collectives over MPI: the same results as over shared memory, groups, mismatches, dead ranks."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="mpi4py is not installed: pip install anyrt[mpi] mpich")
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
if MPIEXEC is None:
    pytest.skip("mpiexec is not here: pip install mpich", allow_module_level=True)

pytestmark = pytest.mark.programs
HEAD = """
import numpy as np, sys, time, os
from anyrt.core.enums import ReduceOperation as R
from anyrt.core.enums import CollectiveOperation as C
from anyrt.integrations.mpi import MpiRanks
from anyrt.runtime.collective import Exchange, exchange
ranks = MpiRanks(seconds=5.0, chunk=256)
n, me = ranks.size, ranks.rank
xs = [np.random.default_rng(r).integers(-4, 5, (8, 9)).astype(np.float32) for r in range(n)]
"""


def run(size, body):
    command = [MPIEXEC, "-n", str(size), sys.executable, "-c", HEAD + body]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("size", [2, 4])
def test_operations_agree_with_numpy(size):
    body = """
k = 8 // n
def is_(y, wanted): assert np.array_equal(y, wanted), (y, wanted)
total = sum(xs[1:], xs[0])
is_(exchange(ranks, Exchange(C.ALL_REDUCE, R.SUM), xs[me]), total)
is_(exchange(ranks, Exchange(C.ALL_REDUCE, R.MAX), xs[me]), np.max(xs, 0))
is_(exchange(ranks, Exchange(C.REDUCE, R.SUM, 1), xs[me]), total if me == 1 else xs[me])
is_(exchange(ranks, Exchange(C.REDUCE_SCATTER, R.SUM), xs[me]), total[me * k : (me + 1) * k])
is_(exchange(ranks, Exchange(C.ALL_GATHER), xs[me]), np.concatenate(xs))
is_(exchange(ranks, Exchange(C.GATHER, root=0), xs[me]), np.concatenate(xs) if me == 0 else xs[me])
is_(exchange(ranks, Exchange(C.BROADCAST, root=1), xs[me]), xs[1])
is_(exchange(ranks, Exchange(C.SCATTER, root=1), xs[me]), xs[1][me * k : (me + 1) * k])
is_(exchange(ranks, Exchange(C.ALL_TO_ALL), xs[me]), np.concatenate([x.reshape(n, k, 9)[me] for x in xs]))
group = (me % 2, me % 2 + 2) if n == 4 else (0, 1)
is_(exchange(ranks, Exchange(C.ALL_REDUCE, R.SUM, group=group), xs[me]), sum(xs[g] for g in group))
print("good")
"""
    done = run(size, body)
    assert done.stdout.count("good") == size, done.stderr


def test_all_types_and_folds():
    body = """
import ml_dtypes
types = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
types += [f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)]
folds = {R.SUM: np.add, R.PROD: np.multiply, R.MAX: np.maximum, R.MIN: np.minimum, R.AVG: np.add}
for kind in map(np.dtype, types):
    for count in (6, 3000):  # with their text, and behind it in several pieces
        pair = [np.random.default_rng(r).integers(0, 5, count).astype(kind) for r in range(2)]
        for fold, function in folds.items():
            wide = function(*(x.astype(np.float64) for x in pair)) / (2 if fold is R.AVG else 1)
            y = exchange(ranks, Exchange(C.ALL_REDUCE, fold), pair[me])
            wanted = (np.trunc(wide) if kind.kind in "iu" else wide).astype(kind)
            assert (y.dtype, y.tolist()) == (kind, wanted.tolist()), (kind, fold, count)
        joined = exchange(ranks, Exchange(C.ALL_GATHER), pair[me])
        assert joined.tobytes() == np.concatenate(pair).tobytes()
print("good")
"""
    done = run(2, body)
    assert done.stdout.count("good") == 2, done.stderr


@pytest.mark.parametrize("size", [2, 4])
def test_an_engine_exchanges(size):
    body = """
import anyrt as trt
builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
network = builder.create_network()
x = network.add_input("x", trt.float32, (8, 9))
layer = network.add_dist_collective(x, trt.CollectiveOperation.ALL_REDUCE, trt.ReduceOperation.SUM, -1, None)
layer.num_ranks = n
network.mark_output(layer.get_output(0))
engine = builder.build_engine_with_config(network, builder.create_builder_config())
context = engine.create_execution_context()
y = np.empty((8, 9), np.float32)
for name, array in zip(engine, (xs[me], y)):
    context.set_tensor_address(name, array)
assert context.set_communicator(ranks)
assert context.execute_async_v3(0)
print("good" if np.array_equal(y, sum(xs[1:], xs[0])) else "bad")
"""
    done = run(size, body)
    assert done.stdout.count("good") == size, done.stderr


def test_a_disagreement_is_an_error_on_all():
    body = """
try: exchange(ranks, Exchange(C.ALL_REDUCE, R.SUM), xs[me][: 8 - me])
except Exception as error: print(type(error).__name__)
"""
    assert run(2, body).stdout.split() == ["ArgumentError"] * 2


def test_a_missing_rank_is_reported():
    body = """
if me == 0:
    try: exchange(ranks, Exchange(C.ALL_REDUCE, R.SUM), xs[me])
    except Exception as error: print("no message" in str(error), flush=True)
else: time.sleep(7)
os._exit(0)
"""
    assert "True" in run(2, body).stdout


def test_a_rank_that_dies_ends_all():
    body = """
if me == 1: os.kill(os.getpid(), 9)
exchange(ranks, Exchange(C.ALL_REDUCE, R.SUM), xs[me])
time.sleep(60)
"""
    assert run(2, body).returncode != 0


def test_missing_or_differing_members_of_a_group_are_reported_within_the_limit():
    body = """
group = (0, 2) if me == 2 else (0, 1, 2)
try:
    if me in (1, 3): time.sleep(3)
    elif me == 0: exchange(MpiRanks(seconds=2.0), Exchange(C.ALL_REDUCE, R.SUM, group=group), xs[me])
    else: exchange(MpiRanks(seconds=4.0), Exchange(C.ALL_GATHER, group=group), xs[me])
except Exception as error: print(me, str(error)[:7], flush=True)
MpiRanks()._world.Barrier()
os._exit(0)
"""
    assert sorted(x for x in run(4, body).stdout.splitlines() if "AR" in x) == ["0 [AR811]", "2 [AR304]"]
