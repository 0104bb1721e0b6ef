"""The kernels of pooling, and its results for windows with few elements or none."""

import math
from functools import reduce

import numpy as np
import pytest

from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.core.enums import DataType, LayerType, PaddingMode, PoolingType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph
from anyrt.ir.interpret import interpret
from anyrt.ir.kerneltext import print_kernels
from anyrt.ops import OPS
from anyrt.ops._expand import expand_layer
from anyrt.ops._record import Layer
from anyrt.passes import PASSES
from anyrt.prims.build import param
from anyrt.schedule.cost import Sizes
from anyrt.schedule.fuse import schedule
from anyrt.schedule.task import Task

POOLING = OPS[LayerType.POOLING]
MAX, AVERAGE, _ = PoolingType


def graph(shape, *values, **attributes):
    x = param("x", shape, DataType.FLOAT)
    (y,) = expand_layer(POOLING, Layer("pool", POOLING.attrs(*values, **attributes), (x,)))
    return Graph((("x", x),), (("y", y),))


def pooled(array, *values, **attributes):
    x = np.float32(array)
    return interpret(graph(x.shape, *values, **attributes), {"x": x}, {})["y"].tolist()


def scheduled(kind, shape, window, **attributes):
    """The kernels of the layer alone, as text, line by line."""
    built = reduce(lambda g, step: step.run(g), PASSES, graph(shape, kind, window, **attributes))
    launches = schedule(Task(built, Sizes({}), REFERENCE, STRATEGIES)).launches
    return print_kernels([launch.kernel for launch in launches]).splitlines()


@pytest.mark.parametrize("kind", [MAX, AVERAGE])
@pytest.mark.parametrize(
    ("shape", "window", "more", "count", "stored"),
    [
        ((1, 64, 112, 112), (3, 3), {"stride_nd": (2, 2), "padding_nd": (1, 1)}, 1, []),
        ((1, 2048, 7, 7), (7, 7), {}, 1, []),
        ((1, 512, 20, 20), (13, 13), {"padding_nd": (6, 6)}, 2, [512 * 20 * 20]),
        ((1, 8, 64, 64), (33, 33), {}, 2, [8 * 32 * 64]),
    ],
)
def test_no_window_is_stored(kind, shape, window, more, count, stored):
    text = scheduled(kind, shape, window, **more)
    arena = {line for line in text if line.startswith("buffer") and " arena " in line}
    assert sum(line.startswith("kernel") for line in text) == count
    assert [int(line.split()[4]) for line in arena] == stored


def test_neighbouring_windows_are_computed_side_by_side():
    text = scheduled(MAX, (1, 64, 112, 112), (3, 3), stride_nd=(2, 2), padding_nd=(1, 1))
    vectors = [line.strip() for line in text if "for vector" in line]
    assert vectors == ["for vector i6 0.. < 55 {"]  # and one window next to the border


def test_a_window_of_padding_alone_has_no_largest_and_no_mean():
    row, both = [[[2, 4]]], {"padding_nd": (0, 1)}
    counted = {"average_count_excludes_padding": False, **both}
    assert pooled(row, MAX, (1, 1), **both) == [[[-math.inf, 2, 4, -math.inf]]]
    assert str(pooled(row, AVERAGE, (1, 1), **both)) == "[[[nan, 2.0, 4.0, nan]]]"
    assert pooled(row, AVERAGE, (1, 1), **counted) == [[[0, 2, 4, 0]]]


def test_elements_past_the_padding_are_not_counted():
    row, up = [[[2, 4, 6, 9]]], {"stride_nd": (1, 2), "padding_mode": PaddingMode.EXPLICIT_ROUND_UP}
    up["average_count_excludes_padding"] = False
    assert pooled(row, AVERAGE, (1, 3), **up) == [[[4, 7.5]]]
    assert pooled(row, AVERAGE, (1, 4), post_padding=(0, 1), **up) == [[[5.25, 5]]]
