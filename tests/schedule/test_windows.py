"""Windows: depthwise over an input image by image, and inside a network with channels as lanes; few results
of many channels with positions as lanes."""

import re

import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, apply
from anyrt.ir.kerneltext import print_kernels
from anyrt.passes import PASSES
from anyrt.prims import build as b
from anyrt.prims.pad import Pad
from anyrt.prims.view import Axis
from anyrt.schedule.cost import Sizes
from tests import native
from tests.targets import choose

CHANNELS, EDGE = 40, 9


def weights(*shape):
    return b.const(np.random.default_rng(0).integers(-4, 5, shape), DataType.FLOAT)


def depthwise(x):
    padded = apply(Pad((0, 0, 1, 1), (0, 0, 1, 1), 0.0), x)
    axes = [Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((4, 1),)), Axis(0, 3, 1, ((5, 1),))]
    windows = b.windows(padded, axes, (*x.shape, 3, 3))
    return b.contract("nchwij,cij->nchw", windows, weights(CHANNELS, 3, 3), DataType.FLOAT)


def pointwise(x):
    return b.contract("nchw,oc->nohw", x, weights(CHANNELS, CHANNELS), DataType.FLOAT)


def doubled(x):
    """Three results at twice as many positions, of two residues along each axis."""
    padded = apply(Pad((0, 0, 1, 1), (0, 0, 1, 1), 0.0), x)
    rows, columns = Axis(0, 2, 1, ((4, 1), (6, 1))), Axis(0, 3, 1, ((5, 1), (7, 1)))
    windows = b.windows(padded, [Axis(0, 0), Axis(0, 1), rows, columns], (*x.shape, 2, 2, 2, 2))
    return b.contract("nchwijab,ckijab->nkhawb", windows, weights(CHANNELS, 3, 2, 2, 2, 2), DataType.FLOAT)


def narrowed(x, step):
    """A depthwise sum of bfloat16 between two other sums."""
    padded = apply(Pad((0, 0, 1, 1), (0, 0, 1, 1), 0.0), b.cast(pointwise(x), DataType.BF16))
    axes = [Axis(0, 0), Axis(0, 1), Axis(0, 2, step, ((4, 1),)), Axis(0, 3, step, ((5, 1),))]
    size = (EDGE - 1) // step + 1
    windows = b.windows(padded, axes, (1, CHANNELS, size, size, 3, 3))
    w = b.cast(weights(CHANNELS, 3, 3), DataType.BF16)
    built = b.contract("nchwij,cij->nchw", windows, w, DataType.FLOAT)
    return pointwise(b.cast(b.cast(b.map_("neg", built), DataType.BF16), DataType.FLOAT))


def scheduled(layer):
    return lowered(layer).schedules[0]


def lowered(layer):
    x = b.param("x", (1, CHANNELS, EDGE, EDGE), DataType.FLOAT)
    graph = Graph((("x", x),), (("y", layer(x)),))
    for step in PASSES:
        graph = step.run(graph)
    return native.lower(graph, constant_offsets(graph), Sizes({}), machine=REFERENCE)


def test_the_border_of_an_input_is_copied_with_its_images():
    assert [x.kind for x in scheduled(depthwise).launches] == ["window"]


def test_inside_a_network_channels_are_the_lanes_of_windows_and_of_what_they_make():
    schedule = scheduled(lambda x: pointwise(depthwise(pointwise(x))))
    assert [x.kind for x in schedule.launches] == ["map", *["contraction"] * 3]
    assert [layout.order for layout in schedule.layouts.values()] == [(0, 2, 3, 1)] * 2


def test_positions_are_the_lanes_of_few_results_of_each_residue():
    assert list(scheduled(doubled).layouts.values()) == []


@pytest.mark.parametrize("step", [1, 2])
def test_windows_of_bfloat16_have_a_border_in_memory_and_load_once_what_neighbours_share(step):
    lowering = lowered(lambda x: narrowed(x, step))
    launches = lowering.schedules[0].launches
    assert [x.group.border is not None for x in launches] == [True, False, False, False]
    text = print_kernels([launches[2].kernel])
    assert re.search(r"for unroll i\d+ 0\.\. < \d+ \{\n +for unroll k\d+ 0\.\. < 3 \{", text)
    assert "select" not in text
    assert [str(x) for x in native.verify(lowering, choose(None), [{}])] == []
