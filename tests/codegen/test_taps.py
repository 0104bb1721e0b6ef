"""Reading at positions from tables, in vector loops."""

import pytest

from anyrt.codegen.llvm import Level, choose, host
from anyrt.compiler import native
from anyrt.compiler.trial import Trial, load
from anyrt.compiler.verify import verify
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType, ResizeRoundMode, SampleMode
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.kerneltext import print_kernels
from anyrt.prims import build as b
from anyrt.prims.taps import Border, Linear, Nearest
from anyrt.schedule.cost import Sizes

N = Sym("x.0", 1, 100)
BILINEAR = Linear(Coordinate.HALF_PIXEL, Selector.FORMULA)
CORNERS = Linear(Coordinate.ALIGN_CORNERS, Selector.FORMULA)
NEAREST = Nearest(Coordinate.ASYMMETRIC, Selector.FORMULA, ResizeRoundMode.FLOOR)


@pytest.mark.parametrize("mode", [SampleMode.REFLECT, SampleMode.WRAP, SampleMode.CLAMP])
def test_positions_that_descend_are_read_right(mode):
    x = b.param("x", (N.dim, 2, 4), DataType.UINT8)
    y = b.taps(x, 2, 3, Border(mode, 1, -1))
    graph = Graph((("x", x),), (("y", y),), {}, (Symbol(N, "x", 0),))
    sizes = [{N.name: n} for n in (1, 37)]
    assert verify(native.lower(graph, {}, Sizes(sizes[1])), host(), sizes) == ()


@pytest.mark.parametrize("dtype", [DataType.INT64, DataType.BOOL, DataType.INT8, DataType.HALF])
def test_a_kept_row_has_room_for_its_elements(dtype):
    """A row of 600 elements, computed once because the taps below it are dear."""
    x = b.param("x", (4, 3, 8), dtype)
    v = b.reshape(b.taps(x, 2, 8, Border(SampleMode.WRAP, -2, 2)), (96,))
    v = b.taps(
        b.taps(v, 0, 600, Border(SampleMode.REFLECT, -2, -1)), 0, 8, Border(SampleMode.REFLECT, -2, -1)
    )
    lowered = native.lower(Graph((("x", x),), (("y", v),)), {}, Sizes({}))
    assert "row" in print_kernels(lowered.module.kernels)
    trial = Trial(load(lowered, host()), {})
    trial.run()
    assert trial.overrun() == ()
    assert verify(lowered, host(), [{}]) == ()


@pytest.mark.parametrize("level", [None, Level.AVX2.value])
@pytest.mark.parametrize("dtype", [DataType.UINT8, DataType.HALF, DataType.FLOAT])
@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("rule", [BILINEAR, CORNERS, NEAREST])
def test_pixels_of_a_few_channels_are_read_as_one_row(level, dtype, channels, rule):
    """Widths from far below to four times the result's 48, and beyond what registers hold."""
    x = b.param("x", (5, N.dim, channels), dtype)
    v = x if rule is NEAREST else b.cast(x, DataType.FLOAT)
    graph = Graph((("x", x),), (("y", b.taps(v, 1, 48, rule)),), {}, (Symbol(N, "x", 1),))
    lowered = native.lower(graph, {}, Sizes({N.name: 96}))
    assert f"group {channels}" in print_kernels(lowered.module.kernels)
    sizes = [{N.name: n} for n in (1, 13, 47, 48, 49, 95, 100)]
    assert verify(lowered, choose(level), sizes) == ()


@pytest.mark.parametrize("width", [3, 16, 24, 33, 41, 64, 91, 192, 200])
def test_pixels_of_fixed_width_are_read_as_one_row(width):
    x = b.param("x", (3, width, 3), DataType.UINT8)
    y = b.taps(b.cast(x, DataType.FLOAT), 1, 48, BILINEAR)
    assert verify(native.lower(Graph((("x", x),), (("y", y),)), {}, Sizes()), host(), [{}]) == ()
