"""Sums over rows whose neighbours are strided, in the order of memory."""

import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph
from anyrt.ir.kerneltext import print_kernels
from anyrt.loops.fold_along import fold_along
from anyrt.prims import build as b
from anyrt.prims.view import Axis
from anyrt.schedule.cost import Sizes
from tests import native
from tests.targets import choose

BUFFERS = """
buffer acc f32 register 1 offset 0
buffer x FLOAT input 96 offset 0
buffer y FLOAT output 1 offset 0
"""
GROUP = """
kernel "k" p0 0.. < 1 work 1 scratch 0 {
  alloc acc = 0.0:f32
  for serial r1 0.. < 48 {
    fold acc add x[floordiv(floordiv(r1, 3), 2) + 48*mod(floordiv(r1, 3), 2) + 16*mod(r1, 3)]
  }
  store y[0] = acc[0]
}
"""
EXPECTED = """\
kernel "k" p0 0.. < 1 work 1 scratch 64 {
  alloc acc = 0.0:f32
  for vector c11 0.. < 8 {
    alloc part16 = 0.0:f32
    alloc part17 = 0.0:f32
    for serial q13 0.. < 3 {
      fold part16 add x[c11 + 16*q13]
      fold part17 add x[48 + c11 + 16*q13]
    }
    store sums15[c11] = part16[0]
    store sums15[8 + c11] = part17[0]
  }
  for serial k14 0.. < 16 {
    fold acc add sums15[k14]
  }
  store y[0] = acc[0]
}
"""


def test_channels_that_lie_side_by_side_are_lanes_of_sums_beside_one_another(after, names):
    assert after(BUFFERS + GROUP, lambda k: fold_along(k, names, 8, 512)) == EXPECTED


def test_sums_are_cut_into_blocks_of_a_few_terms(after, names):
    built = after(BUFFERS + GROUP, lambda k: fold_along(k, names, 8, 2))
    assert "for serial b12 0.. < 2 {" in built
    assert "for serial q13 0.. < min(2, 3 + -2*b12) {" in built
    assert "store sums15[8 + 16*b12 + c11] = part17[0]" in built


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("add x", "max x"),  # no sum
        ("floordiv(floordiv(r1, 3), 2) + 48*mod(floordiv(r1, 3), 2) + 16*mod(r1, 3)", "r1"),
        ("floordiv(floordiv(r1, 3), 2) +", "floordiv(floordiv(r1, 3), 4) +"),  # four neighbours
    ],
)
def test_all_else_stays(after, names, old, new):
    built = after((BUFFERS + GROUP).replace(old, new), lambda k: fold_along(k, names, 8, 512))
    assert built == "no row lies in memory in another order"


def grouped(channels, side):
    """A normalisation of two groups of channels between two convolutions."""
    dice = np.random.default_rng(0)

    def convolved(x, maps):
        padded = b.pad(x, (0, 0, 1, 1), (0, 0, 1, 1), 0.0)
        w = b.const(dice.standard_normal((maps, x.shape[1], 3, 3)) / (3 * x.shape[1] ** 0.5), DataType.FLOAT)
        axes = [Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((4, 1),)), Axis(0, 3, 1, ((5, 1),))]
        return b.contract("nchwij,kcij->nkhw", b.windows(padded, axes, (*x.shape, 3, 3)), w)

    x = b.param("x", (1, 4, side, side), DataType.FLOAT)
    v = convolved(x, 2 * channels)
    rows = b.reshape(v, (1, 2, channels * side * side))
    count = b.scalar(rows.shape[2], rows)
    off = b.map_("sub", rows, b.map_("div", b.reduce_("sum", rows, (2,)), count))
    spread = b.map_("div", b.reduce_("sum", b.map_("mul", off, off), (2,)), count)
    y = convolved(b.reshape(b.map_("div", off, b.map_("sqrt", spread)), v.shape), 32)
    return Graph((("x", x),), (("y", y),))


@pytest.mark.parametrize(("channels", "side"), [(8, 5), (16, 48), (40, 21)])
def test_groups_of_channels_that_lie_innermost_are_folded_so(channels, side):
    """Compiled code, compared with the interpreter."""
    graph = grouped(channels, side)
    lowered = native.lower(graph, constant_offsets(graph), Sizes({}))
    texts = print_kernels(x.kernel for s in lowered.schedules for x in s.everywhere)
    assert "for vector c" in texts
    assert [str(x) for x in native.verify(lowered, choose(None), [{}])] == []
