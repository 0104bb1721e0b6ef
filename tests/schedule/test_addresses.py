"""Loops that read ascending positions take the start addresses of vectors from tables, except near
the end."""

import ctypes
import mmap
import re
from dataclasses import replace

import numpy as np
import pytest

from anyrt.backends.cpu.processors import Level
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.dims import Dim, Sym
from anyrt.core.enums import DataType
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeRoundMode as Rounding
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.core.machine import REFERENCE, Machine
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.kernelread import parse_kernels
from anyrt.ir.kerneltext import print_kernels
from anyrt.plan import abi
from anyrt.prims import build as b
from anyrt.prims.taps import Cubic, Linear, Nearest
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import load, verify
from tests.targets import choose, host

LINEAR = Linear(Coordinate.HALF_PIXEL, Selector.FORMULA)
CUBIC = Cubic(Coordinate.HALF_PIXEL, Selector.FORMULA, -0.75, exclude_outside=False)
TYPES = (DataType.FLOAT, DataType.HALF, DataType.UINT8)
N = Sym("x.1", 1, 400)


def lowered(
    shape: tuple[Dim, ...],
    axis: int,
    out: int,
    dtype=DataType.FLOAT,
    rule=LINEAR,
    machine: Machine = REFERENCE,
) -> native.Lowered:
    x = b.param("x", shape, dtype)
    y = b.taps(b.cast(x, DataType.FLOAT), axis, out, rule)
    symbols = (Symbol(N, "x", 1),) if N.dim in shape else ()
    graph = Graph((("x", x),), (("y", y),), {}, symbols)
    return native.lower(graph, constant_offsets(graph), Sizes({N.name: 100}), machine=machine)


def branches(lowering: native.Lowered) -> list[str]:
    """The conditions of branches around vector loops that read tables of addresses, and of the others."""
    text = print_kernels(lowering.module.kernels)
    assert print_kernels(parse_kernels(text)) == text
    return re.findall(r"(?:e\d+ =|if) (.*?)(?: {)?$", text, re.MULTILINE)


def test_rows_near_the_end_find_out_by_themselves():
    lowering = lowered((40, 50), 1, 75)
    assert branches(lowering) == ["le(index(306 + 50*i1), 2000:i64)", "e0", "not(e0)"]
    assert [k.name for k in lowering.module.tables] == ["table0", "starts0", "offsets0"]


@pytest.mark.parametrize(
    ("shape", "axis", "out"),
    [((4, 60), 1, 90), ((40, 500), 1, 20), ((50, 40), 0, 75)],
    ids=["all is near the end", "positions far apart", "positions along rows"],
)
def test_other_loops_have_one_version(shape, axis, out):
    lowering = lowered(shape, axis, out)
    assert branches(lowering) == []
    assert [k.name for k in lowering.module.tables] == ["table0"]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("level", [0, 1], ids=["host", "avx2"])
@pytest.mark.parametrize("kind", range(3), ids=["float", "half", "uint8"])
@pytest.mark.parametrize("size", range(7))
def test_every_row_is_the_same(size, kind, level):
    """Each type occurs with each level, and both rules occur with each size, type and level."""
    width, out = ((50, 75), (50, 16), (50, 15), (33, 257), (300, 90), (17, 64), (64, 17))[size]
    dtype, rule = TYPES[kind], (LINEAR, CUBIC)[(size + kind + level) % 2]
    lowering = lowered((29, width), 1, out, dtype, rule)
    assert verify(lowering, choose((None, Level.AVX2.value)[level]), [{}]) == ()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rule", [LINEAR, CUBIC], ids=["linear", "cubic"])
def test_every_row_is_the_same_where_nothing_is_permuted(rule, dtype):
    lowering = lowered((29, 50), 1, 75, dtype, rule)
    assert verify(lowering, choose(Level.SSE2.value), [{}]) == ()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize(("width", "out"), [(50, 75), (50, 20), (31, 97)])
def test_photographs_begin_at_whole_pixels(channels, width, out):
    lowering = lowered((29, width, channels), 1, out, DataType.UINT8)
    assert verify(lowering, host(), [{}]) == ()


def test_sizes_that_are_open_decide_while_running():
    lowering = lowered((23, N.dim, 3), 1, 120, DataType.UINT8)
    assert verify(lowering, host(), [{N.name: n} for n in (1, 2, 8, 50, 121, 240, 241, 400)]) == ()


def test_vectors_that_begin_elsewhere_find_out_by_themselves():
    lowering = lowered((29, 300), 1, 1031, machine=replace(REFERENCE, last_bytes=4))
    assert " nontemporal" in print_kernels(lowering.module.kernels)
    assert verify(lowering, host(), [{}]) == ()


@pytest.mark.parametrize(("dtype", "expected"), [(DataType.UINT8, "starts0c"), (DataType.FLOAT, "starts0")])
def test_taps_of_bytes_count_from_the_first_of_them(dtype, expected):
    lowering = lowered((40, 50), 1, 75, dtype)
    assert [k.name for k in lowering.module.tables][1] == expected


def test_loops_shorter_than_a_vector_have_one_version():
    assert branches(lowered((40, 50), 1, 15)) == []


def test_a_table_that_one_operand_cannot_follow_safely_has_no_addresses():
    """The smaller operand has fewer elements than the registers that are read from its first row on."""
    large, small = b.param("large", (100, 60), DataType.FLOAT), b.param("small", (5, 60), DataType.FLOAT)
    part = b.slice_(large, (7, 0), (5, 60), (1, 1))
    y = b.map_("add", b.taps(part, 1, 75, LINEAR), b.taps(small, 1, 75, LINEAR))
    lowering = native.lower(Graph((("large", large), ("small", small)), (("y", y),)), {}, Sizes())
    assert len(lowering.module.kernels) == 1
    assert " addresses " not in print_kernels(lowering.module.kernels)
    assert verify(lowering, host(), [{}]) == ()


@pytest.mark.parametrize("each", [1, 2], ids=["in places", "in tiles"])
def test_elements_that_share_bytes_end_where_their_bytes_end(each):
    x = b.param("x", (31, 64, 2, 2), DataType.INT4)
    near = Nearest(Coordinate.ALIGN_CORNERS, Selector.FORMULA, Rounding.HALF_DOWN)
    some = b.slice_(b.cast(x, DataType.INT64), (0,) * 4, (31, 64, 2, each), (1,) * 4)
    graph = Graph((("x", x),), (("y", b.taps(some, 2, 40, near)),))
    lowering = native.lower(graph, {}, Sizes())
    tests = [text.split(", ")[1] for text in branches(lowering) if text.startswith("le(")]
    assert tests == (["3968:i64)"] if each == 1 else [])
    trial = Trial(load(lowering, host()), {})
    space, end = before_a_page_that_is_not_there()
    nbytes = 31 * 64 * 2 * 2 // 2
    ctypes.memset(end - nbytes, 0x31, nbytes)
    trial.args[abi.FIRST_BINDING] = end - nbytes
    trial.run()
    assert (trial.blocks["tensor y"].bytes[:-64].view(np.int64).reshape(-1, each) == (1, 3)[:each]).all()
    del space


def before_a_page_that_is_not_there():
    """(memory, the address of its last page, which is protected)."""
    space = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    last = ctypes.addressof(ctypes.c_char.from_buffer(space)) + mmap.PAGESIZE
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(last), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    return space, last
