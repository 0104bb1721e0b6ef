"""Long rows: sums and squares around the mean in one pass over chunks, as exact as two passes."""

import numpy as np
import pytest

from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.dims import Dim, Sym
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.kerneltext import print_kernels
from anyrt.ops._math import mean
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from anyrt.schedule.pieces import pieces
from tests import native
from tests.native import load, verify
from tests.targets import host

CHUNK = pieces(REFERENCE).folded
LENGTH = Sym("x.1", 0, 1 << 20)


def lowered(length: Dim, optimum: int = 0, around_half: bool = False) -> native.Lowered:
    """The variance of two rows, or their squares around half the mean."""
    x = b.param("x", (2, length), DataType.FLOAT)
    centre = mean(x, (1,))
    off = b.map_("sub", x, b.map_("mul", centre, b.scalar(0.5, x)) if around_half else centre)
    symbols = () if isinstance(length, int) else (Symbol(LENGTH, "x", 1),)
    graph = Graph((("x", x),), (("y", mean(b.map_("mul", off, off), (1,))),), {}, symbols)
    return native.lower(graph, constant_offsets(graph), Sizes({LENGTH.name: optimum}))


def loops(lowering: native.Lowered) -> list[str]:
    text = print_kernels(lowering.module.kernels).splitlines()
    return [" ".join(line.split()[1:-1:4]) for line in text if line.strip().startswith("for ")]


def test_a_long_row_comes_from_memory_once_but_for_its_first_chunk():
    assert loops(lowered(5 * CHUNK)) == [
        *("vector 4096", "vector 4096"),  # the first chunk: its sum, then the squares
        *("serial 4", "vector 4096"),  # the others: both
        *("vector 5", "vector 5"),  # all chunks
        "vector 20480",  # the row once more where squares overflow
    ]


@pytest.mark.parametrize(
    ("length", "half"), [(2 * CHUNK, False), (5 * CHUNK, True)], ids=["short", "no mean"]
)
def test_other_rows_are_read_twice(length, half):
    assert loops(lowered(length, around_half=half)) == [f"vector {length}", f"vector {length}"]


def test_any_length_is_right_where_the_usual_one_is_long():
    lowering = lowered(LENGTH.dim, 5 * CHUNK)
    lengths = (0, 1, 100, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 17, 12 * CHUNK)
    assert verify(lowering, host(), [{LENGTH.name: n} for n in lengths]) == ()


@pytest.mark.parametrize("kind", ["far from 0", "ramp", "steps", "first chunk elsewhere", "last elsewhere"])
def test_means_that_differ_from_chunk_to_chunk_cost_no_digits(kind):
    n, rng = 6 * CHUNK + 100, np.random.default_rng(1)
    noise = rng.standard_normal(n)
    x = {
        "far from 0": 1000 + noise,
        "ramp": np.linspace(0, 1000, n) + noise / 1000,
        "steps": np.repeat(rng.uniform(-1000, 1000, 7), CHUNK)[:n] + noise / 100,
        "first chunk elsewhere": np.where(np.arange(n) < CHUNK, 0, 1000 + noise / 10),
        "last elsewhere": np.where(np.arange(n) < n - 100, 1000 + noise / 10, 0),
    }[kind].astype(np.float32)
    np.testing.assert_allclose(variance(x), np.var(x.astype(np.float64)), rtol=4e-6)


@pytest.mark.here  # sums of four lanes lose more than the sixteen that the bound assumes: SSE2's do, too
@pytest.mark.parametrize("number", [1e6 / 3, 1e-3, 12345.678, 3e7])
def test_the_variance_of_equal_numbers_is_not_negative(number):
    x = np.full(6 * CHUNK + 100, number, np.float32)
    result = variance(x)
    assert (result >= 0).all()
    assert (result <= (np.spacing(x[0]) * 8) ** 2).all()


def variance(x: np.ndarray) -> np.ndarray:
    """The variances of x and of −x."""
    trial = Trial(load(lowered(x.size), host()), {})
    graph, schedule = trial.loaded.lowered.graph, trial.loaded.lowered.schedule
    trial.write(schedule.buffers[dict(graph.inputs)["x"]], np.stack([x, -x]), DataType.FLOAT)
    trial.run()
    return trial.read(schedule.buffers[dict(graph.outputs)["y"]], DataType.FLOAT, (2, 1))
