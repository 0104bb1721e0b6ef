"""Loads at positions from tables, in vector loops."""

import numpy as np
import pytest

from anyrt.backends.cpu.processors import Level
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.dimvalues import evaluate
from anyrt.core.enums import DataType, ResizeRoundMode, SampleMode
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.interpret import interpret
from anyrt.ir.kerneltext import print_kernels
from anyrt.prims import build as b
from anyrt.prims.taps import Border, Cubic, Linear, Nearest
from anyrt.prims.view import Axis
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import load, verify
from tests.targets import choose, host

N = Sym("x.0", 1, 100)
M = Sym("m.0", 1, 100)
BILINEAR = Linear(Coordinate.HALF_PIXEL, Selector.FORMULA)
CORNERS = Linear(Coordinate.ALIGN_CORNERS, Selector.FORMULA)
NEAREST = Nearest(Coordinate.ASYMMETRIC, Selector.FORMULA, ResizeRoundMode.FLOOR)
CUBIC = Cubic(Coordinate.ALIGN_CORNERS, Selector.FORMULA, -0.75, exclude_outside=False)
OUTSIDE = Cubic(Coordinate.ASYMMETRIC, Selector.FORMULA, -0.5, exclude_outside=True)

PIXELS = (DataType.UINT8, DataType.HALF, DataType.FLOAT)
LEVELS = (None, Level.AVX2.value, Level.SSE2.value)


@pytest.mark.parametrize("mode", [SampleMode.REFLECT, SampleMode.WRAP, SampleMode.CLAMP])
def test_positions_that_descend_are_read_right(mode):
    x = b.param("x", (N.dim, 2, 4), DataType.UINT8)
    y = b.taps(x, 2, 3, Border(mode, 1, -1))
    graph = Graph((("x", x),), (("y", y),), {}, (Symbol(N, "x", 0),))
    sizes = [{N.name: n} for n in (1, 37)]
    assert verify(native.lower(graph, {}, Sizes(sizes[1])), host(), sizes) == ()


@pytest.mark.parametrize("dtype", [DataType.INT64, DataType.BOOL, DataType.INT8, DataType.HALF])
def test_a_kept_row_has_room_for_its_elements(dtype):
    """A row of 600 elements, computed once because the taps below it are expensive."""
    v = x = b.param("x", (2, 3, 2, 2, 600), dtype)
    for axis, size in enumerate((2, 3, 2, 2, 8)):
        v = b.taps(v, axis, size, Border(SampleMode.REFLECT, -2, -1))
    lowered = native.lower(Graph((("x", x),), (("y", v),)), {}, Sizes({}))
    assert " scratch 600 " in print_kernels(lowered.module.kernels)
    trial = Trial(load(lowered, host()), {})
    trial.run()
    assert trial.overrun() == ()
    assert verify(lowered, host(), [{}]) == ()


def test_a_kept_row_is_computed_of_tensors_whose_channels_lie_innermost():
    x = b.param("x", (2, 3, 6, 8), DataType.FLOAT)
    axes = [Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((4, 1),)), Axis(0, 3, 1, ((5, 1),))]
    under = b.windows(x, axes, (2, 3, 4, 6, 3, 3))
    kernels = np.random.default_rng(0).random((2, 24, 3, 3, 3))
    sums = (b.contract("nchwij,kcij->nkhw", under, b.const(k, DataType.FLOAT)) for k in kernels)
    tall = b.taps(b.map_("div", *sums), 2, 8, BILINEAR)
    graph = Graph((("x", x),), (("y", b.taps(tall, 3, 12, BILINEAR)),))
    lowered = native.lower(graph, constant_offsets(graph), Sizes({}))
    (schedule,) = lowered.schedules
    assert [v.order for v in schedule.layouts.values()] == [(0, 2, 3, 1)] * 2
    assert [x.kind for x in schedule.launches] == ["contraction", "contraction", "stencil"]
    assert verify(lowered, host(), [{}]) == ()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", [None, Level.AVX2.value])
@pytest.mark.parametrize(
    ("dtype", "channels", "rule"),  # every pair of them occurs
    [
        *zip(PIXELS, (2, 3, 4), (BILINEAR, CORNERS, NEAREST), strict=True),
        *zip(PIXELS, (3, 4, 2), (NEAREST, BILINEAR, CORNERS), strict=True),
        *zip(PIXELS, (4, 2, 3), (CORNERS, NEAREST, BILINEAR), strict=True),
    ],
)
def test_pixels_of_a_few_channels_are_read_as_one_row(level, dtype, channels, rule):
    """Widths from far below to four times the result's 48, and beyond the capacity of registers."""
    x = b.param("x", (5, N.dim, channels), dtype)
    v = x if rule is NEAREST else b.cast(x, DataType.FLOAT)
    graph = Graph((("x", x),), (("y", b.taps(v, 1, 48, rule)),), {}, (Symbol(N, "x", 1),))
    lowered = native.lower(graph, {}, Sizes({N.name: 96}))
    assert f"group {channels}" in print_kernels(lowered.module.kernels)
    sizes = [{N.name: n} for n in (1, 13, 47, 48, 49, 95, 100)]
    assert verify(lowered, choose(level), sizes) == ()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width", [3, 16, 24, 33, 41, 64, 91, 192, 200])
def test_pixels_of_fixed_width_are_read_as_one_row(width):
    x = b.param("x", (3, width, 3), DataType.UINT8)
    y = b.taps(b.cast(x, DataType.FLOAT), 1, 48, BILINEAR)
    assert verify(native.lower(Graph((("x", x),), (("y", y),)), {}, Sizes()), host(), [{}]) == ()


def natively(graph, feeds, sizes, level=None):
    """The output y."""
    loaded = load(native.lower(graph, {}, Sizes(sizes)), choose(level))
    trial, buffers = Trial(loaded, sizes), loaded.lowered.schedule.buffers
    for name, value in graph.inputs:
        if name in feeds:
            trial.write(buffers[value], feeds[name], value.dtype)
    trial.run()
    ((_, y),) = graph.outputs
    return trial.read(buffers[y], y.dtype, tuple(evaluate(d, sizes) for d in y.shape))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("kind", range(3), ids=["linear", "cubic", "outside"])
def test_an_element_that_weighs_nothing_is_not_read(kind, place):
    """Every second result lies exactly on an element; some elements are NaN or infinite.

    Each rule, axis and kind of length occurs at each level."""
    rule, level = (CORNERS, CUBIC, OUTSIDE)[kind], LEVELS[(kind + place) % 3]
    axis, length = place % 2, (33, N.dim)[place // 2]
    shape = tuple(length if k == axis else 33 for k in (0, 1))
    x = b.param("x", shape, DataType.FLOAT)
    symbols = tuple(Symbol(N, "x", axis) for d in shape if d == N.dim)
    graph = Graph((("x", x),), (("y", b.taps(x, axis, 65 + (rule is OUTSIDE), rule)),), symbols=symbols)
    held, sizes = np.random.default_rng(0).standard_normal((33, 33)).astype(np.float32), {N.name: 33}
    held[::5, ::7], held[3::11, 2::9], held[7::8, 5::6] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        (want,) = interpret(graph, {"x": held}, sizes).values()
    np.testing.assert_allclose(natively(graph, {"x": held}, sizes, level), want, rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("level", [None, Level.AVX2.value, Level.SSE2.value])
@pytest.mark.parametrize("rule", [BILINEAR, CORNERS, CUBIC, OUTSIDE, NEAREST])
def test_taps_to_the_same_size_keep_every_bit(rule, level):
    """Zeros of both signs, odd subnormals, the largest number, and values beyond it."""
    x, m = b.param("x", (N.dim,), DataType.FLOAT), b.param("m", (M.dim,), DataType.FLOAT)
    symbols = (Symbol(N, "x", 0), Symbol(M, "m", 0))
    graph = Graph((("x", x), ("m", m)), (("y", b.taps(x, 0, M.dim, rule)),), symbols=symbols)
    held = np.resize(np.float32([0.0, -0.0, 1e-45, -4.2e-45, 1.5, 3.4028235e38, np.inf, -np.inf, np.nan]), 40)
    got = natively(graph, {"x": held}, {N.name: 40, M.name: 40}, level)
    assert got.view(np.int32).tolist() == held.view(np.int32).tolist()


@pytest.mark.parametrize(
    ("dtype", "size", "selections"),
    [(DataType.FLOAT, 99, 1), (DataType.FLOAT, 66, 0), (DataType.UINT8, 99, 0)],
    ids=["on elements", "between elements", "integers"],
)
def test_weights_are_compared_only_where_they_may_be_0(dtype, size, selections):
    x, rule = b.param("x", (33, 40), dtype), Cubic(Coordinate.HALF_PIXEL, Selector.FORMULA, -0.75, False)
    y = b.taps(b.cast(x, DataType.FLOAT), 0, size, rule)
    lowered = native.lower(Graph((("x", x),), (("y", y),)), {}, Sizes())
    assert print_kernels(lowered.module.kernels).count("select(eq(wgt") == selections
