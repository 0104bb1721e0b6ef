"""Builds with non-default strategies: their kernels, and separate cache entries."""

from dataclasses import replace

import pytest

from anyrt.backends import loader
from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.compiler import cached
from anyrt.compiler.request import BuildRequest
from anyrt.compiler.trial import constant_offsets
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE, Machine
from anyrt.ir.graph import Graph
from anyrt.ir.kerneltext import print_kernels
from anyrt.ops._math import mean
from anyrt.plan.file import read_plan
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from anyrt.schedule.step import Strategies
from anyrt.schedule.tuning import Tuning
from tests import native


def transposed() -> Graph:
    x = b.param("x", (333, 517), DataType.FLOAT)
    return Graph((("x", x),), (("y", b.transpose(x, (1, 0))),))


def scaled() -> Graph:
    """A transpose after a factor for each column, which tiles would compute again."""
    x, f = b.param("x", (333, 517), DataType.FLOAT), b.param("f", (1, 517), DataType.FLOAT)
    y = b.transpose(b.map_("mul", x, b.map_("neg", f)), (1, 0))
    return Graph((("x", x), ("f", f)), (("y", y),))


def kernels(graph: Graph, strategies: Strategies, machine: Machine = REFERENCE) -> str:
    blobs = constant_offsets(graph)
    lowered = native.lower(graph, blobs, Sizes({}), strategies=strategies, machine=machine)
    return print_kernels(lowered.module.kernels)


def code(plan: bytes) -> bytes:
    """The entry of a plan's code in the cache."""
    file = read_plan(plan)
    key = cached.plan_key(loader.device(), file.digest)
    result = cached.kernel_cache().get(key, file.plan.sym_by_name)
    assert result is not None
    return result.image


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))


def test_a_step_that_is_left_out_does_nothing():
    assert "tile" in kernels(transposed(), STRATEGIES)
    assert "tile" not in kernels(transposed(), STRATEGIES.without("tile"))


def test_sizes_of_pieces_are_those_of_the_strategies():
    narrow = replace(STRATEGIES, tuning=Tuning(line=32))
    assert "0.. < 16" in kernels(transposed(), STRATEGIES)
    assert "0.. < 16" not in kernels(transposed(), narrow)


def test_values_that_tiles_would_recompute_are_stored_with_and_without_tiles():
    assert kernels(scaled(), STRATEGIES).count("kernel ") == 2
    assert kernels(scaled(), STRATEGIES.without("tile")).count("kernel ") == 2
    assert kernels(scaled(), STRATEGIES.without("store repeated")).count("kernel ") == 1


def test_half_rows_of_which_float32_copies_are_kept_come_in_batches():
    x = b.param("x", (128, 768), DataType.HALF)
    wide = b.cast(x, DataType.FLOAT)
    off = b.map_("sub", wide, mean(wide, (1,)))
    y = b.map_("mul", off, b.map_("rsqrt", mean(b.map_("square", off), (1,))))
    listing = kernels(Graph((("x", x),), (("y", b.cast(y, DataType.HALF)),)), STRATEGIES)
    assert "0.. < 32 " in listing.split("{")[0]  # four rows per item
    assert "f32 scratch 3072 " in listing  # of four rows


def test_plans_by_other_strategies_keep_code_of_their_own(monkeypatch):
    usual = BuildRequest("net", scaled())
    other = BuildRequest("net", scaled(), strategies=STRATEGIES.without("store repeated"))
    plans = [native.build(request) for request in (usual, other)]
    monkeypatch.setattr(native, "compile_lowered", None)
    assert [native.build(request) for request in (usual, other)] == plans
    assert code(plans[0]) != code(plans[1])
    settings = [dict(read_plan(plan).plan.settings) for plan in plans]
    assert [s.get("strategies") for s in settings] == [None, str(other.strategies)]


def test_a_plan_by_other_strategies_is_lowered_by_the_usual_ones():
    plan = native.build(BuildRequest("net", transposed(), strategies=STRATEGIES.without("tile")))
    loaded = native.lower_plan(read_plan(plan))
    assert print_kernels(loaded.module.kernels) == kernels(transposed(), STRATEGIES, loaded.machine)
