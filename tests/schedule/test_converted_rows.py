"""Rows of half types that several loops read are converted only by the first one."""

import re

import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph
from anyrt.ir.kerneltext import print_kernels
from anyrt.ops._math import mean
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from anyrt.schedule.pieces import pieces
from tests import native
from tests.native import verify
from tests.targets import host


def lowered(rows: int, length: int, dtype: DataType, around_mean: bool = True) -> native.Lowered:
    """Rows divided by their deviation: around the mean three loops read a row, around 0 two."""
    x = b.param("x", (rows, length), dtype)
    wide = b.cast(x, DataType.FLOAT)
    off = b.map_("sub", wide, mean(wide, (1,))) if around_mean else wide
    y = b.map_("mul", off, b.map_("rsqrt", mean(b.map_("square", off), (1,))))
    graph = Graph((("x", x),), (("y", b.cast(y, dtype)),))
    return native.lower(graph, constant_offsets(graph), Sizes({}))


def conversions(lowering: native.Lowered) -> int:
    """How often the kernel's text loads and converts the input."""
    return len(re.findall(r"f32\(in_x\[", print_kernels(lowering.module.kernels)))


@pytest.mark.parametrize("dtype", [DataType.HALF, DataType.BF16])
@pytest.mark.parametrize(
    ("rows", "length", "each"),
    [(3, 77, 1), (128, 77, 1), (128, 1100, 2)],
    ids=["one row", "a batch of rows", "two rows at a time"],
)
def test_a_row_is_converted_once_for_three_loops(rows, length, each, dtype):
    lowering = lowered(rows, length, dtype)
    assert conversions(lowering) == each
    assert verify(lowering, host(), [{}]) == ()


@pytest.mark.parametrize(
    ("length", "dtype", "around_mean", "expected"),
    [
        (77, DataType.BF16, False, 2),  # storing would cost as much as one more conversion
        (
            pieces(REFERENCE).cached + 1,
            DataType.BF16,
            True,
            3,
        ),  # the cache nearest the core would not hold it
        (77, DataType.FLOAT, True, 0),
    ],
    ids=["two loops", "a long row", "float32"],
)
def test_other_rows_are_converted_wherever_they_are_read(length, dtype, around_mean, expected):
    lowering = lowered(3, length, dtype, around_mean)
    assert conversions(lowering) == expected
    assert verify(lowering, host(), [{}]) == ()
