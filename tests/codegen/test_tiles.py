"""Strips that are read across memory and transposed in registers."""

import pytest

from anyrt.backends.cpu.processors import Level
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Symbol, Value
from anyrt.ir.kerneltext import print_kernels
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import choose, host

N, M = Sym("x.0", 0, 200), Sym("x.1", 1, 200)


def differing(x: Value, y: Value) -> tuple[object, ...]:
    return verify(native.lower(Graph((("x", x),), (("y", y),)), {}, Sizes({})), host(), [{}])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.HALF, DataType.INT8, DataType.INT64])
def test_a_tile_whose_lanes_are_stored_apart_is_not_stored_in_a_run(dtype):
    x = b.param("x", (64, 33, 1), dtype)
    across = b.transpose(x, (1, 0, 2))
    assert differing(x, b.concat([across, b.map_("neg", across)], 2)) == ()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.HALF, DataType.INT8, DataType.INT64])
@pytest.mark.parametrize("shape", [(64, 48), (61, 37), (16, 15), (3, 200), (200, 3)])
def test_a_transpose_is_right_at_every_edge(shape, dtype):
    x = b.param("x", (2, *shape), dtype)
    assert differing(x, b.transpose(x, (0, 2, 1))) == ()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("level", [None, Level.AVX2.value, Level.SSE2.value])
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.BF16, DataType.UINT8, DataType.INT64])
def test_a_transpose_of_any_size_is_right(level, dtype):
    """Whole tiles, partial tiles, masked lanes; for each type, on some levels, computed values are stored
    before the transpose."""
    computed = (dtype in (DataType.FLOAT, DataType.UINT8)) == (level == Level.AVX2.value)
    x = b.param("x", (N.dim, M.dim), dtype)
    y = b.transpose(b.map_("add", x, x) if computed else x, (1, 0))
    graph = Graph((("x", x),), (("y", y),), {}, (Symbol(N, "x", 0), Symbol(M, "x", 1)))
    lowered = native.lower(graph, {}, Sizes({"x.0": 100, "x.1": 100}))
    assert "for tile" in print_kernels(lowered.module.kernels)
    sizes = [
        {"x.0": n, "x.1": m} for n, m in ((1, 1), (64, 64), (63, 65), (5, 130), (130, 5), (0, 7), (97, 33))
    ]
    assert verify(lowered, choose(level), sizes) == ()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("level", [None, Level.AVX2.value, Level.SSE2.value])
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.FP8, DataType.INT64])
@pytest.mark.parametrize("least", [0, 1])
def test_a_tile_of_at_most_one_iteration_is_no_vector_of_one_lane(level, dtype, least):
    n, m = Sym("x.0", 11, 13), Sym("x.1", least, 1)
    x = b.param("x", (n.dim, m.dim), dtype)
    graph = Graph((("x", x),), (("y", b.transpose(x, (1, 0))),), {}, (Symbol(n, "x", 0), Symbol(m, "x", 1)))
    lowered = native.lower(graph, {}, Sizes({"x.0": 12, "x.1": 1}))
    assert "for tile" in print_kernels(lowered.module.kernels)
    sizes = [{"x.0": rows, "x.1": columns} for rows in (11, 12, 13) for columns in range(least, 2)]
    assert verify(lowered, choose(level), sizes) == ()
