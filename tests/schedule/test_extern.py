"""Kernels of statements that primitives write themselves."""

import re
from pathlib import Path

import numpy as np
import pytest

from anyrt import prims
from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.counted import counted
from anyrt.ir.graph import Graph, Symbol, apply
from anyrt.ir.kerneltext import print_kernels
from anyrt.ops._positions import positions
from anyrt.prims import build as b
from anyrt.prims.foremost import Foremost
from anyrt.prims.ranked import Ranked
from anyrt.prims.scan import Scan
from anyrt.prims.scatter import Scatter
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import choose

N = Sym("x.1", 0, 400)


def test_primitives_write_serial_loops():
    """Strategies choose vectors, registers and threads."""
    texts = [path.read_text() for path in Path(prims.__file__).parent.rglob("*.py")]
    assert {kind for text in texts for kind in re.findall(r"\bLoop\.(\w+)", text)} == {"SERIAL"}


def lowered(y, level=None):
    x = b.param("x", (3, N.dim, 17), DataType.FLOAT)
    graph = Graph((("x", x),), (("y", y(x)),), {}, (Symbol(N, "x", 1),))
    machine = choose(level).limited(REFERENCE)
    return native.lower(graph, constant_offsets(graph), Sizes({N.name: 9}), machine=machine)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("level", [None, "avx2"])
@pytest.mark.parametrize("fn", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scans_agree_with_the_interpreter(axis, fn, level):
    exclusive = fn in ("sum", "prod") and axis != 0
    lowering = lowered(lambda x: apply(Scan(fn, axis, axis == 1, exclusive), x), level)
    assert verify(lowering, choose(level), [{N.name: n} for n in (0, 1, 9, 50)]) == ()


def test_operands_of_statements_are_stored_unless_they_only_move():
    lowering = lowered(lambda x: b.map_("exp", apply(Scan("sum", 2), b.map_("neg", x))))
    assert [k.name for k in lowering.module.kernels] == ["map", "scan", "map#2"]
    moved = lowered(lambda x: apply(Scan("sum", 1), b.transpose(x, (0, 2, 1))))
    assert [k.name for k in moved.module.kernels] == ["scan"]


def test_along_an_outer_axis_all_elements_of_the_last_one_are_folded_side_by_side():
    listing = print_kernels(lowered(lambda x: apply(Scan("sum", 1), x)).module.kernels)
    assert "for serial i2 0.. < x.1 {\n    for vector i4 0.. < 17 {" in listing


@pytest.mark.sampled(9)
@pytest.mark.parametrize("level", [None, "avx2"])
@pytest.mark.parametrize(("axis", "count", "dtype"), [
    (0, 2, DataType.FLOAT), (0, 1, DataType.FLOAT), (1, 1, DataType.INT64), (2, 1, DataType.FLOAT),
    (1, 5, DataType.FLOAT), (1, 5, DataType.INT64), (1, 90, DataType.INT32),
    (1, 90, DataType.INT64), (2, 9, DataType.HALF),
])  # fmt: skip
def test_ranks_agree_with_the_interpreter(axis, count, dtype, level):
    lowering = lowered(lambda x: apply(Ranked(axis, count, axis == 1), b.cast(x, dtype)), level)
    sizes = (90, 91, 160, 400) if axis == 1 else (0, 1, 9)
    assert verify(lowering, choose(level), [{N.name: n} for n in sizes]) == ()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", [None, "avx2", "sse2"])
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.INT32])
@pytest.mark.parametrize(("axis", "largest"), [(0, True), (1, False)])
def test_the_foremost_agree_with_the_interpreter(axis, largest, dtype, level):
    lowering = lowered(lambda x: apply(Foremost(axis, largest), b.cast(x, dtype)), level)
    assert verify(lowering, choose(level), [{N.name: n} for n in (1, 9, 90)]) == ()


def test_nan_is_foremost_where_there_is_nothing_else_and_zeros_are_equal():
    x = np.array([[np.nan, np.nan, -0.0], [np.nan, -np.inf, 0.0], [np.nan, 1, np.nan]], np.float32)
    for largest in (True, False):
        code = Foremost(0, largest).ref((x,), (1, 3))
        assert (code & 0xFFFFFFFF).tolist() == [[0, 2 if largest else 1, 0]]
        assert (code >> 32).astype(np.int32).view(np.float32).view(np.uint32).tolist() == [
            [0x7FC00000, 0x3F800000 if largest else 0xFF800000, 0x80000000]
        ]


def test_written_values_are_copied_to_other_outputs_and_between_pieces():
    def joined(x):
        y = apply(Scan("sum", 2), x)
        return b.concat([y, x, y], 1)

    lowering = lowered(joined)
    assert [k.name for k in lowering.module.kernels].count("scan") == 1
    assert "kept" not in print_kernels(lowering.module.kernels[1:])
    assert verify(lowering, choose(None), [{N.name: n} for n in (0, 1, 9)]) == ()


@pytest.mark.parametrize(("count", "size"), [(64, 256), (9, 36), (9, 100), (100, 401)])
def test_lists_have_room_for_all_of_an_axis_or_for_a_block_more_than_is_enough(count, size):
    def rows(x):  # all elements of a row are equal
        return b.expand(b.slice_(x, [0] * 3, (3, N.dim, 1), [1] * 3), (3, N.dim, size))

    lowering = lowered(lambda x: apply(Ranked(2, count, count == 9), rows(x)))
    assert verify(lowering, choose(None), [{N.name: n} for n in (1, 2)]) == ()


@pytest.mark.parametrize("fn", ["last", "sum"])
def test_threads_take_parts_of_rows_where_each_column_has_indices_of_its_own(fn):
    at = np.random.default_rng(3).integers(-45, 45, (5, 810)).astype(np.int32)
    updates = b.param("u", (5, 810), DataType.FLOAT)
    values = b.const(np.ones((40, 900)), DataType.FLOAT), b.const(at, DataType.INT32)
    graph = Graph((("u", updates),), (("y", apply(Scatter(0, fn), *values, updates)),), {}, ())
    machine = choose(None).limited(REFERENCE)
    lowering = native.lower(graph, constant_offsets(graph), Sizes(), machine=machine)
    assert lowering.module.kernels[0].var.extent == 2
    assert verify(lowering, choose(None), [{}]) == ()


def test_rows_that_wait_for_sums_of_floats_are_folded_four_at_a_time():
    def extents(dtype, length):
        x = b.param("x", (101, length), dtype)
        graph = Graph((("x", x),), (("y", apply(Scan("sum", 1), x)),), {}, ())
        machine = choose(None).limited(REFERENCE)
        lowering = native.lower(graph, constant_offsets(graph), Sizes(), machine=machine)
        assert verify(lowering, choose(None), [{}]) == ()
        return lowering.module.kernels[0].var.extent

    assert extents(DataType.FLOAT, 300) == 26
    assert (extents(DataType.INT32, 300), extents(DataType.FLOAT, 64)) == (101, 101)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("level", [None, "avx2", "sse2"])
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.INT64, DataType.BOOL])
def test_elements_that_are_not_zero_are_found_as_by_the_interpreter(dtype, level):
    x = b.param("x", (3, N.dim, 17), dtype)
    at, _ = positions("found", x, DataType.INT32)
    graph = counted(Graph((("x", x),), (("y", b.map_("add", at, at)),), {}, (Symbol(N, "x", 1),)))
    machine = choose(level).limited(REFERENCE)
    lowering = native.lower(graph, constant_offsets(graph), Sizes({N.name: 9}), machine=machine)
    assert verify(lowering, choose(level), [{N.name: n} for n in (0, 1, 9, 200)]) == ()


def test_values_that_an_output_only_reshapes_are_written_there():
    x = b.param("x", (4, 60), DataType.FLOAT)
    built = apply(Scan("sum", 1), x)
    flat = Graph((("x", x),), (("y", b.reshape(built, (2, 120))),), {}, ())
    turned = Graph((("x", x),), (("y", b.transpose(built, (1, 0))),), {}, ())
    both = Graph((("x", x),), (("y", b.reshape(built, (240,))), ("z", b.map_("exp", built))), {}, ())
    results = [native.lower(g, {}, Sizes()) for g in (flat, turned, both)]
    assert [len(f.module.kernels) for f in results] == [1, 2, 3]
    assert all(verify(f, choose(None), [{}]) == () for f in results)
