"""Long chains of layers are split into kernels, so that recursion is bounded."""

import pytest

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native


def chain(length):
    x = b.param("x", (4, 33), DataType.FLOAT)
    y = x
    for _ in range(length):
        y = b.map_("sub", y, x)
    return Graph((("x", x),), (("y", y),))


def test_a_chain_of_a_thousand_layers_becomes_kernels_of_limited_depth():
    launches = native.lower(chain(1000), {}, Sizes()).schedule.launches
    assert max(len(x.inlined) for x in launches) <= 48
    assert len(launches) == 21


def test_a_value_that_one_kernel_uses_often_is_computed_there_once():
    x = b.param("x", (4, 33), DataType.FLOAT)
    e = b.map_("exp", x)
    graph = Graph((("x", x),), (("y", b.map_("mul", b.map_("add", e, x), b.map_("sub", e, x))),))
    assert len(native.lower(graph, {}, Sizes()).schedule.launches) == 1


def gated(layers):
    x = y = b.param("x", (128, 768), DataType.FLOAT)
    for _ in range(layers):
        y = b.map_("mul", y, b.map_("sigmoid", y))
    return Graph((("x", x),), (("y", y),))


def spread(layers):
    x = y = b.param("x", (128, 768), DataType.FLOAT)
    for _ in range(layers):
        split = b.map_("max", y, b.scalar(0.0, y)), b.map_("tanh", b.map_("abs", y))
        y = b.map_("mul", y, b.map_("add", *split))
    return Graph((("x", x),), (("y", y),))


@pytest.mark.parametrize("network", [gated, spread])
def test_a_long_residual_chain_is_cut_where_no_layer_is_computed_twice(network):
    lowered = native.lower(network(24), {}, Sizes())
    inlined = [v for launch in lowered.schedule.launches for v in launch.inlined]
    assert len(inlined) == len(set(inlined))
    assert len(lowered.module.distinct) <= 2
