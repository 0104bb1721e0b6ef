"""The masked last iteration of vector loops: every length, and no write past the last element."""

import numpy as np
import pytest

from anyrt.backends.cpu.processors import Level
from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Symbol
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import load
from tests.targets import choose

LEVELS = [None, Level.AVX2.value, Level.SSE2.value]
NARROWING = [
    (DataType.INT64, DataType.INT32),
    (DataType.INT32, DataType.INT8),
    (DataType.FLOAT, DataType.FP8),
    (DataType.FLOAT, DataType.BF16),
    (DataType.FLOAT, DataType.HALF),
    (DataType.FLOAT, DataType.BOOL),
]


def trial_of(graph: Graph, level: str | None, sizes: dict[str, int]) -> Trial:
    return Trial(load(native.lower(graph, constant_offsets(graph), Sizes(sizes)), choose(level)), sizes)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("wide", "narrow"), NARROWING, ids=lambda t: t.name)
def test_one_narrow_element_behind_whole_vectors_is_stored_alone(wide, narrow, level):
    for length in (1, 3, 17, 33):
        x, column = b.param("x", (3, length), wide), b.param("c", (3, 1), wide)
        graph = Graph((("x", x), ("c", column)), (("y", b.cast(b.map_("mul", x, column), narrow)),))
        trial = trial_of(graph, level, {})
        trial.run()
        assert trial.overrun() == ()


@pytest.mark.parametrize("level", LEVELS)
def test_a_dynamic_length_stores_no_more_than_its_elements(level):
    n = Sym("x.0", 0, 100)
    x = b.param("x", (n.dim,), DataType.INT64)
    graph = Graph((("x", x),), (("y", b.cast(x, DataType.INT8)),), {}, (Symbol(n, "x", 0),))
    for length in (0, 1, 2, 15, 16, 17, 33, 64, 65):
        trial = trial_of(graph, level, {"x.0": length})
        trial.run()
        assert trial.overrun() == ()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("length", [1, 7, 16, 37])
def test_a_position_times_a_large_number_wraps_as_integers_of_64_bits_do(length, level):
    by, rows = -848385952476782187, 3
    at = b.map_("sub", b.iota((rows, length), 1, DataType.INT64), b.iota((rows, length), 0, DataType.INT64))
    whole = b.iota((rows * length,), 0, DataType.INT64)
    for x, expected in (
        (at, np.arange(length) - np.arange(rows)[:, None]),
        (whole, np.arange(rows * length)),
    ):
        lowered = native.lower(graph := Graph((), (("y", b.map_("mul", x, b.scalar(by, x))),)), {}, Sizes({}))
        trial = Trial(load(lowered, choose(level)), {})
        trial.run()
        (buffer,) = (buffer for buffer in lowered.module.places if buffer.name == "out_y")
        got = trial.read(buffer, DataType.INT64, graph.outputs[0][1].shape)
        assert np.array_equal(got, expected * np.int64(by))
