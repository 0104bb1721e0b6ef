"""Adjacent elements at data-dependent positions: one gather reads both."""

import numpy as np
import pytest

from anyrt.backends.cpu.emit import emit
from anyrt.backends.cpu.pairs import pairs_of
from anyrt.backends.cpu.processors import Level
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir import kernel as k
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.graph import Graph
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import load
from tests.targets import choose

X, Y = (Buffer(n, Scalar.F32, s, 99) for n, s in (("x", Space.INPUT), ("y", Space.OUTPUT)))
V = Sym("v", 0, 90).dim


def differences(length, count, dtype):
    """Differences of neighbours, x[v] − 2 x[v + 1] + 4 x[v + 2], as a lowered graph."""
    x, at = b.param("x", (length,), dtype), b.param("at", (count,), DataType.INT32)
    parts = [b.gather(b.slice_(x, (s,), (length - 2,), (1,)), at, 0) for s in range(3)]
    scaled = [b.map_("mul", p, b.scalar(f, p)) for p, f in zip(parts, (1, -2, 4), strict=True)]
    y = b.map_("add", b.map_("add", scaled[0], scaled[1]), scaled[2])
    graph = Graph((("x", x), ("at", at)), (("y", y),))
    return native.lower(graph, constant_offsets(graph), Sizes({}))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("level", [None, Level.AVX2.value, Level.SSE2.value])
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.INT32, DataType.HALF, DataType.INT8])
@pytest.mark.parametrize("count", [1, 7, 16, 45])
def test_neighbours_of_every_type_and_number(count, dtype, level):
    built = differences(19, count, dtype)
    trial, random = Trial(load(built, choose(level)), {}), np.random.default_rng(count)
    buffers = {buffer.name: buffer for buffer in built.module.places}
    x, at = random.integers(-9, 9, 19), random.integers(0, 17, count).astype(np.int32)
    trial.write(buffers["in_x"], x.astype(numpy_dtype(dtype)), dtype)
    trial.write(buffers["in_at"], at, DataType.INT32)
    trial.run()
    got = trial.read(buffers["out_y"], dtype, (count,))
    assert got.astype(int).tolist() == (x[at] - 2 * x[at + 1] + 4 * x[at + 2]).tolist()


def test_two_of_three_neighbours_are_one_gather():
    kernels = [call.kernel for call in differences(19, 45, DataType.FLOAT).module.calls]
    texts = [emit(kernel, REFERENCE).text for kernel in kernels]
    # The whole vectors of 45 lanes, and the rest.
    assert [
        (t.count("call <16 x double>"), t.count("call <16 x float> @llvm.masked.gather")) for t in texts
    ] == [(2, 2)]


def test_pairs_begin_with_the_first_of_a_row():
    loads = [k.load(X, at) for at in (V + 3, V, V + 1, V + 2, V + 7, 5, 6)]
    result = pairs_of([k.Store(Y, i, x) for i, x in enumerate(loads)])
    places = {(x.index, first.index, which) for x, (first, which) in result.items()}
    assert places == {(V, V, 0), (V + 1, V, 1), (V + 2, V + 2, 0), (V + 3, V + 2, 1)}


def test_elements_that_an_inner_loop_reads_are_no_neighbours():
    inside = k.For(Sym("t", extent=3), k.Loop.SERIAL, (k.Store(Y, 1, k.load(X, V + 1)),))
    assert pairs_of([k.Store(Y, 0, k.load(X, V)), inside]) == {}
    assert len(pairs_of([k.Store(Y, 0, k.load(X, V)), *inside.body])) == 2
