"""float64 on processors with and without fused multiply-add."""

import numpy as np
import pytest

from anyrt.backends.cpu.processors import Level
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.dtype import numpy_dtype
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph
from anyrt.prims import build as b
from anyrt.prims.scalar import SCALARS, Kind
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import load
from tests.targets import choose

LARGE = np.random.default_rng(0).standard_normal(301) * np.float64(2.0) ** np.linspace(-20, 40, 301)
NUMBERS = np.random.default_rng(1).bytes(4000 * 8)
EDGES = np.array([0, 1, 3, 0.1, 2.0**53 - 1, 2.0**-149, 2.0**-126, 5e-324, 3.4e38, 1.7e308, np.inf, np.nan])
SOME = np.concatenate([LARGE, EDGES, -EDGES])


@pytest.mark.parametrize("level", [None, Level.AVX2.value, Level.SSE2.value])
@pytest.mark.parametrize("kind", [DataType.DOUBLE, DataType.FLOAT], ids=["float64", "float32"])
def test_remainders_are_exact_for_all_numbers(level, kind):
    real = numpy_dtype(kind)
    with np.errstate(over="ignore"):
        numbers = np.concatenate([np.frombuffer(NUMBERS, real)[:600], SOME.astype(real)])
    x, y = (m.reshape(-1) for m in np.meshgrid(numbers[::2], numbers[::5]))
    pair = b.const(x, kind), b.const(y, kind)
    graph = Graph((), tuple((f, b.map_(f, *pair)) for f in ("mod", "fmod")))
    trial = Trial(load(native.lower(graph, constant_offsets(graph), Sizes()), choose(level)), {})
    trial.run()
    for f, (_, value) in zip((np.mod, np.fmod), trial.loaded.lowered.graph.outputs, strict=True):
        result = trial.read(trial.loaded.lowered.schedule.buffers[value], kind, x.shape)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(result, f(x, y))
            np.testing.assert_array_equal(np.signbit(result)[result == 0], np.signbit(f(x, y))[result == 0])


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
            exact = f.ref(*args[: f.arity])  # NumPy's results are within one ulp
            error = np.abs(np.where(got == exact, 0.0, got / exact - 1)) / 2.0**-52
        normal = np.abs(exact) > 2.0**-1022
        assert np.array_equal(np.isnan(got), np.isnan(exact))
        assert np.nanmax(error[normal]) <= f.double_ulp + 1, f.name
