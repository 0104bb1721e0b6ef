"""Doubles on processors with and without fused products."""

import numpy as np
import pytest

from anyrt.backends.cpu.processors import Level, choose
from anyrt.compiler import native
from anyrt.compiler.trial import Trial, load
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes

LARGE = np.random.default_rng(0).standard_normal(301) * np.float64(2.0) ** np.linspace(-20, 40, 301)
DIVISORS = np.random.default_rng(1).standard_normal(301)


@pytest.mark.parametrize("level", [None, Level.AVX2.value, Level.SSE2.value])
def test_remainders_of_doubles_are_exact_where_products_are_not_fused(level):
    x, y = (b.param(name, (301,), DataType.DOUBLE) for name in "xy")
    graph = Graph((("x", x), ("y", y)), (("z", b.map_("mod", x, y)),))
    trial = Trial(load(native.lower(graph, {}, Sizes()), choose(level)), {})
    buffers = {buffer.name: buffer for buffer in trial.loaded.lowered.module.places}
    for name, array in zip(("in_x", "in_y"), (LARGE, DIVISORS), strict=True):
        trial.write(buffers[name], array, DataType.DOUBLE)
    trial.run()
    found, sure = trial.read(buffers["out_z"], DataType.DOUBLE, (301,)), np.abs(LARGE / DIVISORS) < 2.0**47
    np.testing.assert_allclose(found[sure], np.mod(LARGE, DIVISORS)[sure], rtol=1e-15)
