"""Loops that follow a table of taps: a version for each class of tables that the dimensions permit."""

import re

import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Dim, Sym
from anyrt.core.enums import DataType
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeRoundMode as Rounding
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.kerneltext import print_kernels
from anyrt.prims import build as b
from anyrt.prims.taps import Linear, Nearest
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import host

ROWS, WIDTH = Sym("x.0", 1, 512), Sym("x.1", 1, 512)


def lowered(rows: Dim, width: Dim, out: int) -> native.Lowered:
    """Rows of `width` elements resized to `out`."""
    x = b.param("x", (rows, width), DataType.FLOAT)
    y = b.taps(x, 1, out, Linear(Coordinate.HALF_PIXEL, Selector.FORMULA))
    symbols = [Symbol(s, "x", k) for k, s in enumerate((ROWS, WIDTH)) if s.dim in (rows, width)]
    graph = Graph((("x", x),), (("y", y),), {}, tuple(symbols))
    return native.lower(graph, constant_offsets(graph), Sizes({ROWS.name: 9, WIDTH.name: 50}))


def classes(lowering: native.Lowered) -> list[int]:
    """The classes of tables that are read, 0 for the version that works with any."""
    text = print_kernels(lowering.module.kernels)
    tables = re.findall(r"buffer pos\d+(?:\.\d)? i32 .* offset \d+(.*)", text)
    return [int(x.partition("slope ")[2] or 0) for x in tables]


@pytest.mark.parametrize(
    ("rows", "width", "out", "expected"),
    [
        (9, 50, 75, [1]),
        (9, 50, 20, [3]),
        (9, 500, 20, [0]),
        (ROWS.dim, 50, 75, [0, 1]),
        (ROWS.dim, 50, 20, [0, 4]),
        (ROWS.dim, 500, 20, [0]),
        (9, WIDTH.dim, 75, [0, 1, 2, 4]),
        (ROWS.dim, WIDTH.dim, 75, [0, 1, 2, 4]),
    ],
)
def test_only_versions_that_may_run_are_written(rows, width, out, expected):
    lowering = lowered(rows, width, out)
    assert classes(lowering) == expected
    sizes = [{ROWS.name: m, WIDTH.name: n} for m, n in ((1, 1), (1, 75), (9, 150), (9, 300), (9, 512))]
    assert verify(lowering, host(), sizes) == ()


@pytest.mark.parametrize(("depth", "expected"), [(1, 0), (12, 0), (13, 1), (40, 1)])
def test_a_product_picks_repeated_lanes_from_registers_of_large_operands_only(depth, expected):
    x = b.param("x", (depth, 20), DataType.FLOAT)
    w = b.const(np.linspace(-1, 1, 3 * depth).reshape(depth, 3), DataType.FLOAT)
    product = b.contract("km,kn->mn", x, w)
    y = b.taps(product, 0, 33, Nearest(Coordinate.HALF_PIXEL, Selector.FORMULA, Rounding.HALF_UP))
    graph = Graph((("x", x),), (("y", y),), {})
    lowering = native.lower(graph, constant_offsets(graph), Sizes({}))
    assert classes(lowering) == [expected]
    assert verify(lowering, host(), [{}]) == ()


def test_tensors_that_are_always_empty_need_no_table():
    assert [bool(lowered(rows, 50, 75).module.tables) for rows in (9, ROWS.dim, 0)] == [True, True, False]
    assert verify(lowered(0, 50, 75), host(), [{}]) == ()
