"""Values read at several positions are stored once, instead of computed for each position and again in the
next layer: chains of layers that read shifted neighbours grow linearly, not exponentially."""

import re

import pytest

from anyrt.backends.cpu.processors import Level
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph
from anyrt.ir.kerneltext import print_kernels
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from anyrt.schedule.positions import times
from tests import native
from tests.targets import forced


def shifted(x, by):
    """The row shifted by `by` elements, with zeros in their place."""
    return b.slice_(b.pad(x, (0, by), (0, 0), 0.0), (0, 0), x.shape, (1, 1))


def scan(layers):
    """Prefix sums by doubling: each layer adds its input, shifted twice as far."""
    x = y = b.param("x", (8, 4096), DataType.FLOAT)
    for k in range(layers):
        y = b.map_("add", y, shifted(y, 1 << k))
    return Graph((("x", x),), (("y", y),))


def boxes(layers):
    """tanh of sums of nine neighbours."""
    x = y = b.param("x", (64, 64), DataType.FLOAT)
    for _ in range(layers):
        wide = b.pad(y, (1, 1), (1, 1), 0.0)
        near = [b.slice_(wide, (i, j), (64, 64), (1, 1)) for i in range(3) for j in range(3)]
        y = near[0]
        for other in near[1:]:
            y = b.map_("add", y, other)
        y = b.map_("tanh", y)
    return Graph((("x", x),), (("y", y),))


def turns(layers):
    """Transposes between reshapes that split the rows."""
    x = y = b.param("x", (6, 10, 14), DataType.FLOAT)
    for k in range(layers):
        y = b.reshape(y, ((10, 14, 6), (14, 6, 10), (35, 24), (24, 35))[k % 4])
        y = b.transpose(y, tuple(reversed(range(y.type.rank))))
    return Graph((("x", x),), (("y", y),))


def instructions(graph):
    text = native.text(native.lower(graph, {}, Sizes()), forced(Level.AVX2))
    return len(re.findall(r"^  \S", text, re.MULTILINE))


@pytest.mark.parametrize(("network", "layers"), [(scan, 6), (boxes, 2), (turns, 12)])
def test_twice_as_many_layers_that_read_elsewhere_are_about_twice_the_work(network, layers):
    once, twice = instructions(network(layers)), instructions(network(2 * layers))
    assert twice <= 2.8 * once


def test_halves_of_a_row_are_not_stored_to_be_read():
    x = b.param("x", (4, 64), DataType.FLOAT)
    y = b.map_("erf", x)
    left, right = (b.slice_(y, (0, k), (4, 32), (1, 1)) for k in (0, 32))
    graph = Graph((("x", x),), (("y", b.map_("mul", left, right)),))
    assert native.lower(graph, {}, Sizes()).arena_bytes == 0


def test_one_position_reached_in_two_ways_is_one():
    x = b.param("x", (4, 64), DataType.FLOAT)
    y = b.map_("exp", x)
    back = b.slice_(b.slice_(y, (0, 63), (4, 64), (1, -1)), (0, 63), (4, 64), (1, -1))
    read = times(b.map_("add", y, back), frozenset(), {})
    assert [there[y] for there in read.values() if y in there] == [1]


def test_values_that_two_views_shift_apart_are_computed_for_each():
    x = b.param("x", (4, 64), DataType.FLOAT)
    y = b.map_("exp", x)
    read = times(b.map_("add", y, shifted(y, 1)), frozenset(), {})
    assert [there[y] for there in read.values() if y in there] == [1, 1]


def test_a_mean_whose_neighbours_are_summed_is_folded_once():
    x = b.param("x", (32, 64), DataType.FLOAT)
    total = b.reduce_("sum", x, (0,))
    near = b.map_("add", b.map_("add", total, shifted(total, 1)), shifted(total, 2))
    graph = Graph((("x", x),), (("y", b.map_("mul", x, near)),))
    kernels = print_kernels(native.lower(graph, {}, Sizes()).module.distinct)
    assert len(re.findall(r"\bfold ", kernels)) == 1


def test_borders_inside_borders_are_dearer_than_a_kernel_of_their_own():
    assert instructions(scan(12)) <= 1500  # 2073 if a selection at the border costs nothing


def test_values_gathered_at_several_positions_are_stored_once():
    x = b.param("x", (40, 64), DataType.FLOAT)
    places = [b.param(f"p{k}", (40, 64), DataType.INT32) for k in range(4)]
    computed = b.map_("tanh", b.map_("exp", x))
    y = b.gather(computed, places[0], 0)
    for at in places[1:]:
        y = b.map_("add", y, b.gather(computed, at, 0))
    graph = Graph((("x", x), *((f"p{k}", p) for k, p in enumerate(places))), (("y", y),))
    (reason,) = (r.reason for s in native.lower(graph, {}, Sizes()).schedules for r in s.refused)
    assert reason.startswith("4 positions would each take")
