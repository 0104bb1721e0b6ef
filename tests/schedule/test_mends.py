"""Kernels that recompute rows that contain NaN: their operands, and their memory traffic."""

import numpy as np

from anyrt.compiler.trial import constant_offsets
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph
from anyrt.passes import passes_for
from anyrt.prims import build as b
from anyrt.prims.view import Axis
from anyrt.schedule import nontemporal
from anyrt.schedule.cost import Sizes
from anyrt.schedule.hidden import read_again
from tests import native

F = DataType.FLOAT
X = b.param("x", (1, 32, 64, 64), F)
PADDED = 32 * 66 * 66 * 4  # bytes of the padded input
TILES = 36 * 16 * 16 * 32 * 4  # bytes of the input's tiles, and of as many results


def convolved(x):
    """A convolution of 3 × 3 with padding and as many maps as channels."""
    padded, (n, c, h, w) = b.pad(x, (0, 0, 1, 1), (0, 0, 1, 1), 0.0), x.shape
    axes = [Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((4, 1),)), Axis(0, 3, 1, ((5, 1),))]
    weights = b.const(np.ones((c, c, 3, 3)), F)
    return b.contract("nchwij,kcij->nkhw", b.windows(padded, axes, (n, c, h, w, 3, 3)), weights)


def product(x):
    """A tensor that is stored because a convolution reads it."""
    return b.contract("nchw,kc->nkhw", x, b.const(np.ones((32, 32)), F))


def tiled(**outputs):
    graph = Graph((("x", X),), tuple(outputs.items()))
    for step in passes_for(REFERENCE, (4,), True):
        graph = step.run(graph)
    return graph


def lowered(**outputs):
    graph = tiled(**outputs)
    return native.lower(graph, constant_offsets(graph), Sizes({}), machine=REFERENCE)


def mended(lowering):
    """The one kernel that recomputes, and the value that is already padded in memory."""
    (mend,) = (launch for launch in lowering.schedule.launches if launch.kind == "mend")
    read = {lowering.schedule.buffers[v]: v for v in lowering.schedule.buffers}
    return [v for b in mend.call.buffers if (v := read.get(b)) is not None and v.shape[-1] == 66]


def test_a_mend_kernel_reads_an_input_and_not_the_copy_with_a_border():
    lowering = lowered(y=convolved(X))
    assert not mended(lowering)
    assert lowering.arena_bytes == 2 * TILES


def test_a_mend_kernel_reads_what_is_read_later_anyhow_and_not_the_copy():
    built = product(X)
    for later in (b.map_("add", convolved(built), built), b.map_("mul", product(convolved(built)), built)):
        assert not mended(lowered(y=later))


def test_a_mend_kernel_reads_an_output_and_not_the_copy():
    built = product(X)
    assert not mended(lowered(y=convolved(built), made=built))


def test_a_mend_kernel_reads_the_copy_where_nothing_else_is_there():
    lowering = lowered(y=convolved(product(X)))
    assert len(mended(lowering)) == 1
    assert lowering.arena_bytes == 2 * TILES + PADDED


def test_of_a_mended_convolution_one_map_is_read_again():
    ((_, y),) = tiled(y=convolved(X)).outputs
    assert read_again(y, {}) == 64 * 64


def test_reads_that_repeat_count_as_far_as_they_reach():
    y = b.map_("exp", b.param("x", (1, 64, 256, 256), F))
    graph, size = Graph((("x", y.args[0]),), (("y", y),)), 64 * 256 * 256
    past = [nontemporal.past_caches(graph, REFERENCE, {y: n})[y] for n in (0, size // 64, size)]
    assert past == [nontemporal.Past(0, 1), nontemporal.NOT_PAST, nontemporal.NOT_PAST]
