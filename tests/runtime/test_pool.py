"""The thread pool executes every chunk exactly once, with several callers, after fork, and at exit."""

import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from anyrt.backends.cpu import executor
from anyrt.backends.cpu.pool import compile_pool, pool_text
from anyrt.backends.cpu.processors import Arch, Level, forced, host
from anyrt.plan import abi
from anyrt.plan.pool import PoolWord
from anyrt.runtime.pool import Pool, default_threads

# run(args): parallel(count, items = args[8], grain = args[9]); count adds 1 to each of its items at args[10],
# and its thread's scratch counts the items that it executed.
COUNT = """
define internal void @count(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
e:
  %at = getelementptr i64, ptr %args, i64 10
  %base = load ptr, ptr %at
  br label %l
l:
  %i = phi i64 [%begin, %e], [%i1, %l]
  %p = getelementptr i64, ptr %base, i64 %i
  %v = load i64, ptr %p
  %v1 = add i64 %v, 1
  store i64 %v1, ptr %p
  %s = load i64, ptr %scratch
  %s1 = add i64 %s, 1
  store i64 %s1, ptr %scratch
  %i1 = add i64 %i, 1
  %c = icmp slt i64 %i1, %end
  br i1 %c, label %l, label %o
o:
  ret void
}
define i32 @run(ptr %args) {
  %pool = load ptr, ptr %args
  %f = load ptr, ptr %pool
  %ip = getelementptr i64, ptr %args, i64 8
  %items = load i64, ptr %ip
  %gp = getelementptr i64, ptr %args, i64 9
  %grain = load i64, ptr %gp
  call void %f(ptr %pool, ptr @count, ptr %args, i64 %items, i64 %grain)
  ret i32 0
}
define i32 @many(ptr %args, i64 %times) {
e:
  br label %l
l:
  %i = phi i64 [0, %e], [%i1, %l]
  %r = call i32 @run(ptr %args)
  %i1 = add i64 %i, 1
  %c = icmp ult i64 %i1, %times
  br i1 %c, label %l, label %o
o:
  ret i32 0
}
"""


class Caller:
    """The argument array of one context over `items` counters."""

    def __init__(self, pool, code, items, grain):
        self.counts = np.zeros(max(items, 1), np.int64)
        self.scratch = np.zeros((pool.threads, 16), np.int64)
        self.args = np.zeros(16, np.int64)
        self.args[abi.POOL] = pool.address
        self.args[abi.SCRATCH] = self.scratch.ctypes.data
        self.args[abi.SCRATCH_STRIDE] = self.scratch.strides[0]
        self.args[8:11] = items, grain, self.counts.ctypes.data
        self.address = self.args.ctypes.data
        self.run, self.many = code.function("run", 1), code.function("many", 2)


@pytest.fixture(scope="module")
def code(device, build):
    return device.load(build(COUNT))


@pytest.fixture(params=[1, 2, 3, 8])
def pool(request, device, pool_code):
    built = Pool(request.param, device.load(pool_code))
    built.ensure()
    yield built
    built.stop()


@pytest.mark.parametrize(("items", "grain"), [(0, 4), (1, 1), (7, 3), (64, 1), (1000, 7), (5, 100), (9, 0)])
def test_every_item_is_visited_once(pool, code, items, grain):
    caller = Caller(pool, code, items, grain)
    for _ in range(50):
        caller.run(caller.address)
    assert (caller.counts[:items] == 50).all()
    assert caller.scratch[:, 0].sum() == 50 * items


def test_thousands_of_hot_regions_lose_nothing(pool, code):
    caller = Caller(pool, code, 97, 3)
    caller.many(caller.address, 5000)
    assert (caller.counts == 5000).all()


def test_regions_between_sleeps_lose_nothing(pool, code):
    caller = Caller(pool, code, 97, 3)
    for _ in range(200):
        caller.run(caller.address)
        time.sleep(0.0002)
    assert (caller.counts == 200).all()


def test_several_callers_at_once_lose_nothing(pool, code):
    callers = [Caller(pool, code, 50, 1) for _ in range(4)]
    threads = [threading.Thread(target=c.many, args=(c.address, 2000)) for c in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((c.counts == 2000).all() for c in callers)
    assert all(c.scratch[:, 0].sum() == 2000 * 50 for c in callers)


# Appends to `log` the affinity mask of 64 processors that a thread requests and the processor on which it
# then runs, after the number of words.
RECORDING = """
define internal i64 @here() {{
  ret i64 {first}
}}
define internal i64 @allow(ptr %mask, i64 %bytes) noinline {{
  %log = inttoptr i64 {log} to ptr
  %part = getelementptr i64, ptr %mask, i64 {word}
  %wanted = load i64, ptr %part
  %granted = call i64 @allow.really(ptr %mask, i64 %bytes)
  %processor = call i64 @here.really()
  %n = load i64, ptr %log
  %n1 = add i64 %n, 1
  %n2 = add i64 %n, 2
  %first = getelementptr i64, ptr %log, i64 %n1
  store i64 %wanted, ptr %first
  %second = getelementptr i64, ptr %log, i64 %n2
  store i64 %processor, ptr %second
  store atomic i64 %n2, ptr %log seq_cst, align 8
  ret i64 %granted
}}
"""
moves = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or host().arch is not Arch.X86_64,
    reason="workers stay where they are",
)


@pytest.fixture
def two_free():
    """The processors that this process may use; the test is skipped unless there are two."""
    free = os.sched_getaffinity(0)
    if len(free) < 2:
        pytest.skip("there is one processor")
    return free


@pytest.fixture
def moved(device, build, code, two_free):
    """A pool of two whose threads both believe that they run on the first processor, after a region, and the
    requests of its worker. The actual processors depend on the system and on other programs."""
    log, first = np.zeros(64, np.int64), min(two_free)
    text = re.sub(r"(define internal i64 @(here|allow))\(", r"\1.really(", pool_text(host()))
    reported = RECORDING.format(log=log.ctypes.data, word=first // 64, first=first)
    pool = Pool(2, device.load(build(text + reported)))
    pool.ensure()
    caller = Caller(pool, code, 1000, 1)
    caller.run(caller.address)
    end = time.monotonic() + 60
    while log[0] < 4 and time.monotonic() < end:
        time.sleep(0.001)
    yield pool, log
    pool.stop()


@moves
def test_a_worker_leaves_the_processor_of_the_caller(moved, two_free):
    """It moves to the other processors, and may then use all again."""
    pool, log = moved
    (worker,) = pool._workers
    first = min(two_free)
    there = sum(1 << p % 64 for p in two_free if p // 64 == first // 64)
    assert [int(asked) % 2**64 for asked in log[[1, 3]]] == [there - (1 << first % 64), there]
    assert log[2] in two_free - {first}
    assert os.sched_getaffinity(worker.native_id) == two_free


@moves
def test_a_caller_says_where_it_runs(device, pool_code, code, two_free):
    pool = Pool(2, device.load(pool_code))
    pool.ensure()
    caller, reported = Caller(pool, code, 1000, 1), {}

    def regions():
        for processor in two_free:
            os.sched_setaffinity(0, {processor})
            caller.run(caller.address)
            reported[processor] = pool._words[PoolWord.CALLER]

    thread = threading.Thread(target=regions)
    thread.start()
    thread.join()
    pool.stop()
    assert reported == {processor: processor for processor in two_free}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be moved here")
def test_where_there_is_one_processor_nobody_moves(tmp_path):
    program = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy as np, anyrt as trt
logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network()
x = network.add_input("x", trt.float32, (300000,))
network.mark_output(network.add_unary(x, trt.UnaryOperation.NEG).get_output(0))
config = builder.create_builder_config()
config.num_threads = 2
engine = trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
for _ in range(200):
    (y,) = engine.run(x=np.ones(300000, np.float32)).values()
assert (y == -1).all()
"""
    environment = {**os.environ, "ANYRT_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=environment)


def test_a_stopped_pool_runs_serially_and_starts_again(pool, code):
    caller = Caller(pool, code, 40, 1)
    pool.stop()
    caller.run(caller.address)
    assert caller.scratch[1:].sum() == 0
    pool.ensure()
    caller.many(caller.address, 100)
    assert (caller.counts == 101).all()


def test_idle_workers_use_no_processor_time(device, pool_code):
    pool = Pool(4, device.load(pool_code))
    pool.ensure()
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.2)
    spent = time.process_time() - before
    pool.stop()
    assert spent < 0.05


def test_a_cancelled_region_stops_claiming(pool, code):
    caller = Caller(pool, code, 10, 1)
    flag = np.ones(1, np.int64)
    caller.args[abi.CANCEL] = flag.ctypes.data
    caller.run(caller.address)
    assert caller.counts.sum() == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # threads exist: that is the point
def test_a_forked_child_starts_threads_of_its_own(device, pool_code, code):
    pool = Pool(2, device.load(pool_code))
    pool.ensure()
    caller = Caller(pool, code, 30, 1)
    caller.many(caller.address, 100)
    child = os.fork()
    if child == 0:
        pool.after_fork()
        caller.run(caller.address)
        pool.ensure()
        caller.many(caller.address, 100)
        os._exit(0 if (caller.counts == 201).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    caller.many(caller.address, 100)
    pool.stop()
    assert (caller.counts == 200).all()


def test_workers_sleep_in_python_where_they_cannot_natively(device, build, code):
    built = build(pool_text(forced(Level.GENERIC)))
    pool = Pool(3, device.load(built))
    pool.ensure()
    caller = Caller(pool, code, 97, 3)
    for _ in range(20):
        caller.many(caller.address, 50)
        time.sleep(0.002)
    pool.stop()
    assert (caller.counts == 1000).all()


def test_the_pool_compiles_for_arm():
    entries = dict(compile_pool(forced(Level.NEON)).program.entries)
    assert sorted(entries) == ["parallel", "stop", "worker"]


def plain_accesses(text):
    """Non-atomic loads and stores of a pool's memory in functions of LLVM text."""
    results = []
    for function in re.findall(r"^define.*?^}", text, re.M | re.S):
        shared = set(re.findall(r"%pool\d*\b", function))
        shared |= set(re.findall(r"(%[\w.]+) = getelementptr \w+, ptr %pool\d*,", function))
        accesses = re.findall(r"^\s*((?:%[\w.]+ = load|store) [^\n]*ptr (%[\w.]+)[^\n]*)$", function, re.M)
        results += [line for line, at in accesses if at in shared and " atomic " not in line]
    return results


@pytest.mark.parametrize("level", [Level.SSE2, Level.NEON, Level.GENERIC])
def test_no_access_to_the_memory_of_a_pool_is_plain(level):
    text = pool_text(forced(level)) + executor.text(forced(level))
    assert plain_accesses(text) == []
    assert len(re.findall(r"(?:load|store) atomic [^\n]*\.at\d+ ", text)) > 20
    for access in ("store atomic i64 %items", "load atomic ptr, ptr %pool"):
        assert plain_accesses(text.replace(access, access.replace(" atomic", "", 1))) != []


def test_a_job_is_published_and_left_in_order():
    """The words that order all other accesses have memory orders, which an emulator on x86-64 would not
    check."""
    text = pool_text(forced(Level.NEON))
    matches = re.findall(
        r"ptr %(state|lock|stop|sleepers)\.at\d+[, ].*?(acq_rel|seq_cst|acquire|release)", text
    )
    assert {word: [how for at, how in matches if at == word] for word in dict(matches)} == {
        "state": ["seq_cst", "acq_rel", "acquire", "acquire", "acq_rel", "release", "seq_cst"],
        "lock": ["acquire", "release"],
        "stop": ["acquire", "seq_cst"],
        "sleepers": ["seq_cst", "seq_cst", "seq_cst"],
    }


def test_the_environment_sets_the_number_of_threads(monkeypatch):
    monkeypatch.setenv("ANYRT_NUM_THREADS", "3")
    assert default_threads() == 3


def test_a_program_ends_while_workers_sleep():
    program = (
        "from anyrt.backends.cpu.device import CpuDevice; from anyrt.backends.cpu.processors import host\n"
        "from anyrt.backends.cpu.pool import compile_pool; from anyrt.runtime.pool import shared_pool\n"
        "pool = shared_pool(4, CpuDevice(), lambda: compile_pool(host())); pool.ensure(); print('done')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"done", b"")


def test_the_host_has_a_level_it_can_run():
    assert host().vector_bits >= 128
