"""Constants in any memory layout: every part of them, their checksums and the plan that holds them."""

import itertools
import threading
import weakref

import numpy as np
import pytest

from anyrt.api.run.host_memory import IHostMemory
from anyrt.api.run.source import mixer
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, apply, walk
from anyrt.passes.pack_constants import pack_constants
from anyrt.plan.checksum import checksums
from anyrt.plan.content import copy, lent, parts, write
from anyrt.plan.crew import share
from anyrt.plan.file import plan_parts, read_plan
from anyrt.plan.plan import Plan, lay_out
from anyrt.prims import build
from anyrt.prims.const import Blob, Const

SHAPES = [(6,), (5, 3), (2, 3, 4), (1, 4, 1, 3), (3, 1), (0, 3), ()]


def turned(shape, dtype=np.uint16, seed=0):
    """An array of this shape whose axes are in reverse order in memory."""
    return np.random.default_rng(seed).integers(0, 200, shape[::-1]).astype(dtype).T


@pytest.mark.parametrize("shape", SHAPES)
def test_every_part_is_that_of_the_elements_in_their_order(shape):
    array = turned(shape)
    flat = array.tobytes()
    for start, stop in itertools.combinations_with_replacement(range(0, len(flat) + 1, 2), 2):
        out = np.zeros(stop - start, np.uint8)
        copy(array, start, out)
        assert out.tobytes() == flat[start:stop]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("most", [2, 6, 1 << 20])
def test_parts_are_the_whole(shape, most):
    array = turned(shape)
    assert b"".join(parts(array, most)) == array.tobytes()
    assert b"".join(parts(memoryview(b"abcdefg"), most)) == b"abcdefg"


@pytest.mark.parametrize("threads", ["1", "3"])
def test_threads_write_contents_one_behind_the_other(monkeypatch, threads):
    monkeypatch.setenv("ANYRT_NUM_THREADS", threads)
    contents = [memoryview(b"abc"), turned((900, 1500), np.uint64), memoryview(b""), turned((4000, 700))]
    memory = np.zeros(sum(x.nbytes for x in contents), np.uint8)
    write(contents, memory)
    assert memory.tobytes() == b"".join(x.tobytes() for x in contents)


@pytest.mark.parametrize("rows", [3, 1000, 12345])
def test_a_turned_constant_has_the_checksum_of_its_elements(rows):
    array = turned((rows, 130), np.uint32, rows)
    assert checksums([array, array], mixer) == checksums([memoryview(array.tobytes())] * 2)


def test_a_plan_of_turned_constants_holds_their_elements():
    contents = [turned((300, 500), np.uint32), memoryview(b"12345678")]
    plan = Plan("net", "graph", lay_out([("a", DataType.FLOAT, 150_000), ("b", DataType.INT8, 8)]))
    whole = plan_parts(plan, contents)
    assert bytes(IHostMemory(whole)) == b"".join(whole.chunks(1 << 10))
    file = read_plan(IHostMemory(whole))
    assert file.weights[:600_000] == contents[0].tobytes()


def test_packing_moves_no_weights_that_fill_their_panels():
    weights = np.random.default_rng(0).standard_normal((70, 96), np.float32)
    held = apply(Const(Blob(weights.reshape(-1), DataType.FLOAT), weights.shape))
    product = build.contract("mk,kn->mn", build.param("x", (3, 70), DataType.FLOAT), held)
    graph = pack_constants(Graph((), (("y", product),)))
    (packed,) = (v.op.blob for v in walk([graph.outputs[0][1]]) if isinstance(v.op, Const))
    assert np.shares_memory(packed.stored, weights)
    assert packed.data.reshape(3, 70, 32)[2, 5].tolist() == weights[5, 64:].tolist()


class Owner:
    memory = None


def test_memory_that_was_lent_is_held_as_long_as_somebody_looks_at_it():
    owner = Owner()
    owner.memory = np.arange(9, dtype=np.uint8)
    view, held = lent(owner.memory.ctypes.data, 9, owner)[2:5].view(np.uint8), weakref.ref(owner)
    del owner
    assert (held() is not None, view.tolist()) == (True, [2, 3, 4])
    del view
    assert held() is None


def test_threads_that_an_interrupt_leaves_behind_end_with_the_piece_that_they_have(monkeypatch):
    monkeypatch.setattr("anyrt.plan.crew.default_threads", lambda: 2)
    begun, go, done = threading.Event(), threading.Event(), []

    def work(i):
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(10)
            raise KeyboardInterrupt
        begun.set()
        go.wait(0.05)
        done.append(i)

    with pytest.raises(KeyboardInterrupt):
        share(400, work, "tests")
    assert 1 <= len(done) < 400
