"""Reductions in registers that are wider than the type."""

import pytest

from anyrt.backends.cpu.processors import Level
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType, ResizeRoundMode
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.kerneltext import print_kernels
from anyrt.prims import build as b
from anyrt.prims.taps import Cubic, Linear, Nearest
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import choose, host

N = Sym("x.0", 0, 100)

LINEAR = Linear(Coordinate.HALF_PIXEL, Selector.FORMULA)
NEAREST = Nearest(Coordinate.ASYMMETRIC, Selector.FORMULA, ResizeRoundMode.FLOOR)


@pytest.mark.parametrize("dtype", [DataType.INT8, DataType.UINT8])
@pytest.mark.parametrize("fn", ["sum", "prod"])
def test_a_fused_fold_wraps_before_it_is_used(fn, dtype):
    x = b.param("x", (64, 62), dtype)
    folded = b.reduce_(fn, x, (1,))
    graph = Graph((("x", x),), (("y", b.map_("select", b.cast(folded, DataType.BOOL), folded, x)),))
    assert verify(native.lower(graph, {}, Sizes({})), host(), [{}]) == ()


@pytest.mark.parametrize("order", [1, -1], ids=["fold first", "window first"])
@pytest.mark.parametrize("place", ["around", "beside"])
def test_a_fold_around_or_beside_a_window_is_computed(place, order):
    """The operand of the taps is expensive to recompute, so a window would keep its rows."""
    x = b.param("x", (3, 32, 8), DataType.FLOAT)
    dear = b.map_("tanh", b.map_("add", x, b.reduce_("sum", x, (2,))))
    taps = b.taps(dear, 1, 48, Cubic(Coordinate.HALF_PIXEL, Selector.FORMULA, -0.75, False))
    z = b.param("z", (3, 48, 8), DataType.FLOAT)
    fold = b.reduce_("sum", taps if place == "around" else z, (2,))
    operands = [fold, z if place == "around" else taps][::order]
    graph = Graph((("x", x), ("z", z)), (("y", b.map_("add", *operands)),))
    assert verify(native.lower(graph, {}, Sizes({})), host(), [{}]) == ()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("level", [None, Level.AVX2.value, Level.SSE2.value])
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.BF16, DataType.INT32])
@pytest.mark.parametrize("rows", [(64,), (13, 5), (3, 5, 7), (N.dim, 3)])
@pytest.mark.parametrize(("length", "stores"), [(33, 1), (1100, 2)], ids=["batches", "two at a time"])
def test_rows_that_are_folded_together(length, stores, level, dtype, rows):
    x = b.param("x", (*rows, length), dtype)
    centred = b.map_("sub", x, b.reduce_("max", x, (len(rows),)))
    y = b.map_("add", centred, b.reduce_("sum", b.map_("mul", centred, centred), (len(rows),)))
    symbols = (Symbol(N, "x", 0),) if N.dim in rows else ()
    lowered = native.lower(Graph((("x", x),), (("y", y),), {}, symbols), {}, Sizes({N.name: 50}))
    assert "acc" in (text := print_kernels(lowered.module.kernels))
    assert text.count("  for vector") == 3
    assert ("for serial" in text, text.count("store out_y")) == (stores == 1, stores)
    sizes = [{N.name: n} for n in (0, 1, 21, 22)] if symbols else [{}]
    assert verify(lowered, choose(level), sizes) == ()


@pytest.mark.parametrize("rule", [LINEAR, NEAREST], ids=["linear", "nearest"])
def test_a_fold_in_versions_for_classes_of_tables_stays_with_its_register(rule):
    x = b.param("x", (70, N.dim), DataType.FLOAT)
    folded = b.reduce_("sum", b.taps(x, 1, 48, rule), (1,))
    graph = Graph((("x", x),), (("y", folded),), {}, (Symbol(N, "x", 1),))
    lowered = native.lower(graph, {}, Sizes({N.name: 20}))
    assert verify(lowered, host(), [{N.name: n} for n in (1, 5, 21, 22)]) == ()
