"""Scatters: whole-vector copies, and updates stored at data-dependent positions."""

import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Symbol, apply
from anyrt.ir.kerneltext import print_kernels
from anyrt.prims import build as b
from anyrt.prims.scatter import Scatter
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import choose

N, M = Sym("x.1", 0, 1 << 20), Sym("at.1", 0, 1 << 20)


def lowered(op, x, at, dtype=DataType.FLOAT, level=None, index=DataType.INT32):
    """A scatter whose updates and indices are inputs."""
    values = {"x": b.param("x", x, dtype), "at": b.param("at", at, index), "u": b.param("u", at, dtype)}
    graph = Graph(tuple(values.items()), (("y", apply(op, *values.values())),), {}, symbols(x, at))
    machine = choose(level).limited(REFERENCE)
    return native.lower(graph, constant_offsets(graph), Sizes({N.name: 9, M.name: 5}), machine=machine)


def symbols(x, at):
    named = ((N, "x", x), (M, "at", at))
    return tuple(Symbol(s, n, shape.index(s.dim)) for s, n, shape in named if s.dim in shape)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("level", [None, "avx2"])
@pytest.mark.parametrize("fn", ["last", "sum", "prod", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scatters_agree_with_the_interpreter(axis, fn, level):
    lowering = lowered(Scatter(axis, fn), (3, N.dim, 17), (3, M.dim, 17), level=level)
    points = [{N.name: n, M.name: m} for n, m in ((9, 5), (0, 0), (1, 1), (50, 3), (40, 40))]
    assert verify(lowering, choose(level), points) == ()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("index", [DataType.INT32, DataType.INT64])
@pytest.mark.parametrize(
    "dtype", [DataType.HALF, DataType.BF16, DataType.INT8, DataType.INT64, DataType.BOOL]
)
def test_every_type_is_moved_and_halves_are_rounded_each_time(dtype, index):
    fns = ["last"] if dtype is DataType.BOOL else ["last", "sum", "max"]
    for fn in fns:
        lowering = lowered(Scatter(0, fn), (N.dim, 40), (M.dim, 40), dtype, index=index)
        assert verify(lowering, choose(None), [{N.name: 9, M.name: 30}, {N.name: 2, M.name: 1}]) == ()


def rows(x, row, count):
    """Rows whose position is given by one index on all the other axes."""
    values = {"x": b.param("x", x, DataType.FLOAT), "at": b.param("at", (count,), DataType.INT32)}
    values["u"] = b.param("u", (count, *row), DataType.FLOAT)
    at = b.expand(b.reshape(values["at"], (count, *(1 for _ in row))), (count, *row))
    y = apply(Scatter(0, over=len(x) - len(row)), values["x"], at, values["u"])
    graph = Graph(tuple(values.items()), (("y", y),), {}, symbols(x, (count,)))
    machine = choose(None).limited(REFERENCE)
    return native.lower(graph, constant_offsets(graph), Sizes({N.name: 9, M.name: 5}), machine=machine)


def test_rows_on_several_axes_are_copied_and_stored_along_memory():
    result = rows((N.dim, 3, 5, 4), (5, 4), M.dim)
    text = print_kernels(result.module.kernels)
    assert "store out_y[20*v.0 + i9] = in_u[20*i8 + i9]" in text
    assert verify(result, choose(None), [{N.name: n, M.name: m} for n, m in ((9, 5), (0, 4), (3, 90))]) == ()


def test_threads_share_ranges_of_positions_of_long_operands():
    extents = [rows((4096, 64), (64,), m).module.kernels[0].var.extent for m in (100, 20000, 40000)]
    assert extents == [16, 3, 1]


def test_data_that_is_transposed_is_copied_as_it_is_read():
    def scattered(x, at, u):
        return apply(Scatter(0), b.transpose(x, (1, 0)), at, u)

    values = [b.param("x", (33, 9), DataType.FLOAT), b.param("at", (4, 33), DataType.INT32)]
    values.append(b.param("u", (4, 33), DataType.FLOAT))
    graph = Graph(tuple(zip(("x", "at", "u"), values, strict=True)), (("y", scattered(*values)),), {}, ())
    lowering = native.lower(graph, constant_offsets(graph), Sizes({}), machine=REFERENCE)
    assert [k.name for k in lowering.module.kernels] == ["scatter"]
    assert verify(lowering, choose(None), [{}]) == ()


def test_indices_that_the_rest_of_an_axis_lacks_leave_it_as_it_is():
    for axis in range(3):
        lowering = lowered(Scatter(axis), (3, N.dim, 17), (2, M.dim, 5))
        assert verify(lowering, choose(None), [{N.name: 9, M.name: 5}, {N.name: 9, M.name: 9}]) == ()


def test_one_update_is_combined_with_what_was_copied_before():
    lowering = lowered(Scatter(0, "sum"), (2000,), (1,), DataType.INT32)
    assert verify(lowering, choose(None), [{}]) == ()


def test_an_item_without_indices_reads_those_of_another_one():
    text = print_kernels(lowered(Scatter(1), (N.dim, 30), (4, 1)).module.kernels)
    assert "in_at[min(3, i1)]" in text
    text = print_kernels(lowered(Scatter(1), (9, 30), (M.dim, 1)).module.kernels)
    assert "if lt(index(i1), index(at.1))" in text


@pytest.mark.parametrize("count", [0, 1, 255, 700])
def test_single_elements_are_listed_before_those_of_a_range_are_stored(count):
    values = {"x": b.param("x", (40000,), DataType.FLOAT), "at": b.param("at", (count,), DataType.INT32)}
    values["u"] = b.param("u", (count,), DataType.FLOAT)
    graph = Graph(tuple(values.items()), (("y", apply(Scatter(0, "sum"), *values.values())),), {}, ())
    machine = choose(None).limited(REFERENCE)
    lowering = native.lower(graph, constant_offsets(graph), Sizes(), machine=machine)
    assert verify(lowering, choose(None), [{}]) == ()
