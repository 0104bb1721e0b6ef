"""Doubles on processors with and without fused products."""

import numpy as np
import pytest

from anyrt.backends.cpu.processors import Level
from anyrt.compiler import native
from anyrt.compiler.trial import Trial, constant_offsets, load
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph
from anyrt.prims import build as b
from anyrt.prims.scalar import SCALARS, Kind
from anyrt.schedule.cost import Sizes
from tests.targets import choose

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


FUNCTIONS = [f for f in SCALARS.values() if Kind.DOUBLE in f.kinds and f.double_ulp is not None]


@pytest.mark.parametrize("level", [None, Level.AVX2.value, Level.SSE2.value])
def test_functions_of_doubles_are_right_within_their_ulp(level):
    random = np.random.default_rng(2)
    patterns = random.integers(-(2**63), 2**63 - 1, (2, 999)).view(np.float64)
    args = np.concatenate([patterns, random.uniform(-1, 1, (2, 999)), random.uniform(-800, 800, (2, 999))], 1)
    values = {f: b.map_(f.name, *(b.const(x, DataType.DOUBLE) for x in args[: f.arity])) for f in FUNCTIONS}
    graph = Graph((), tuple((f.name, value) for f, value in values.items()))
    trial = Trial(load(native.lower(graph, constant_offsets(graph), Sizes()), choose(level)), {})
    trial.run()
    buffers = trial.loaded.lowered.schedule.buffers
    for f, (_, value) in zip(values, trial.loaded.lowered.graph.outputs, strict=True):
        got = trial.read(buffers[value], DataType.DOUBLE, (2997,))
        with np.errstate(all="ignore"):
            exact = f.ref(*args[: f.arity])  # NumPy's own are right within a unit
            error = np.abs(np.where(got == exact, 0.0, got / exact - 1)) / 2.0**-52
        normal = np.abs(exact) > 2.0**-1022
        assert np.array_equal(np.isnan(got), np.isnan(exact))
        assert np.nanmax(error[normal]) <= f.double_ulp + 1, f.name
