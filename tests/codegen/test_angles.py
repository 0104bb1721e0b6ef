"""Sines, cosines and tangents of numbers of any magnitude in native code, compared with float64."""

import ml_dtypes
import numpy as np
import pytest

from anyrt.backends.cpu.processors import Level
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import load
from tests.targets import choose

PATTERNS = np.random.default_rng(4).integers(0x4E000000, 0x7F800000, 4000).astype(np.int32).view(np.float32)
EDGES = np.float32([0, 2.0**31, 1.5 * 2.0**31, 1e10, 1e20, 16367173 * 2.0**72, 3.4e38, np.inf, np.nan])
SOME = np.concatenate([PATTERNS, -PATTERNS, EDGES, -EDGES])
KINDS = {DataType.FLOAT: np.float32, DataType.BF16: ml_dtypes.bfloat16}


@pytest.mark.parametrize("level", [None, Level.AVX2.value, Level.SSE2.value])
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_angles_of_any_size_are_reduced(level, kind):
    x = SOME.astype(KINDS[kind])
    arg, exact = b.const(x, kind), x.astype(np.float64)
    graph = Graph((), tuple((f, b.map_(f, arg)) for f in ("sin", "cos", "tan")))
    trial = Trial(load(native.lower(graph, constant_offsets(graph), Sizes()), choose(level)), {})
    trial.run()
    for f, (_, value) in zip((np.sin, np.cos, np.tan), trial.loaded.lowered.graph.outputs, strict=True):
        actual = trial.read(trial.loaded.lowered.schedule.buffers[value], kind, x.shape).astype(np.float64)
        with np.errstate(invalid="ignore"):
            expected = f(exact)
        slope = 1 + expected**2 if f is np.tan else np.ones(x.size)
        step = 2.0**-8 * np.abs(expected) if kind is DataType.BF16 else 0.0
        assert np.array_equal(np.isnan(actual), np.isnan(expected))
        error = np.abs(actual - expected) / (2.0**-22 * slope + step)
        assert np.nanmax(error) <= 1, f.__name__
