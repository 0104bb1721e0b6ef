"""Values inside a network may have more axes than a tensor of the interface; the results stay the same."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.backends.cpu.processors import Level
from anyrt.compiler.request import BuildRequest
from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType, ResizeCoordinateTransformation, ResizeSelector
from anyrt.ir.graph import Graph, Symbol, Value
from anyrt.ir.interpret import interpret
from anyrt.prims import build as b
from anyrt.prims.taprules import Linear
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import build, verify
from tests.targets import choose

F = DataType.FLOAT
SPLIT = (1, 3, 2, 2, 3, 2, 2, 2, 2)  # nine axes of (3, 4, 6, 8), behind the batch
LINEAR = Linear(ResizeCoordinateTransformation.HALF_PIXEL, ResizeSelector.FORMULA)


def turned(x: Value) -> Value:
    """Blocks of every axis moved next to each other, and reshaped to five axes."""
    ten = b.transpose(b.reshape(x, (x.shape[0], *SPLIT)), (0, 1, 2, 3, 5, 7, 9, 4, 6, 8))
    return b.reshape(ten, (x.shape[0], 3, 4, 4, 12))


def pooled(x: Value) -> Value:
    """The maximum of each block, as in pooling, and the difference of every element from it."""
    ten = b.reshape(x, (x.shape[0], *SPLIT))
    return b.reshape(b.map_("sub", ten, b.reduce_("max", ten, (5, 7, 9))), x.shape)


def scaled(x: Value) -> Value:
    """A constant along some of ten axes, and sums that two kernels read."""
    ten = b.reshape(x, (x.shape[0], *SPLIT))
    factors = b.const(np.linspace(-1, 2, 36).reshape(1, 1, 3, 1, 2, 3, 1, 1, 1, 2), F)
    off = b.map_("mul", b.cast(ten, F), factors)
    sums = b.reduce_("sum", off, (3, 9))
    return b.reshape(b.map_("add", off, b.map_("add", sums, b.reduce_("sum", sums, (0, 6)))), x.shape)


def placed(x: Value) -> Value:
    """Padding, a concatenation, a count and taps along single axes of ten."""
    ten = b.cast(b.reshape(x, (x.shape[0], *SPLIT)), F)
    border = b.pad(ten, (0,) * 9 + (1,), (0,) * 4 + (1,) + (0,) * 5, 2.0)
    seam = b.concat([border, b.map_("neg", border)], 8)
    grown = b.taps(seam, 7, 5, LINEAR)
    return b.reshape(b.map_("add", grown, b.iota(grown.shape, 2, F)), (x.shape[0], 6480))


N = Sym("x.0", 0, 9)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("level", [None, Level.AVX2.value])
@pytest.mark.parametrize("dtype", [F, DataType.HALF, DataType.INT8, DataType.INT64])
@pytest.mark.parametrize("of", [turned, pooled, scaled, placed])
@pytest.mark.parametrize("batch", [2, N.dim], ids=str)
def test_ten_axes_are_computed_as_the_interpreter_does(batch, of, dtype, level):
    x = b.param("x", (batch, 3, 4, 6, 8), dtype)
    symbols = () if batch == 2 else (Symbol(N, "x", 0),)
    graph = Graph((("x", x),), (("y", of(x)),), {}, symbols)
    lowered = native.lower(graph, constant_offsets(graph), Sizes({"x.0": 4}))
    assert verify(lowered, choose(level), [{"x.0": n} for n in (0, 2, 5)] if symbols else [{}]) == ()


def test_ten_axes_pass_through_a_plan():
    x = b.param("x", (2, 3, 4, 6, 8), F)
    graph = Graph((("x", x),), (("y", scaled(x)),))
    plan = build(BuildRequest("net", graph))
    engine = trt.Runtime(trt.Logger(trt.Logger.WARNING)).deserialize_cuda_engine(plan)
    feeds = {"x": np.arange(1152, dtype=np.float32).reshape(2, 3, 4, 6, 8)}
    np.testing.assert_allclose(engine.run(**feeds)["y"], interpret(graph, feeds)["y"], rtol=1e-5)
