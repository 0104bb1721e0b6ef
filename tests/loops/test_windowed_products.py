"""Products next to windows, and computed positions: every kernel is verified."""

from types import SimpleNamespace

import numpy as np
import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.buffer import Buffer, Space
from anyrt.ir.graph import Graph, Value, walk
from anyrt.ir.kernel import Load, bound, index, load
from anyrt.loops.nest import Names
from anyrt.loops.upcoming import Run, next_rows
from anyrt.passes import PASSES
from anyrt.prims import build as b
from anyrt.prims.const import Param
from anyrt.prims.view import Axis
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import choose

F, BF16 = DataType.FLOAT, DataType.BF16


def constant(shape: tuple[int, ...], dtype: DataType = F) -> Value:
    return b.const(np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32), dtype)


def columns_three_times() -> Value:
    """Lanes of a product that move with windows, which are rows of it."""
    y = b.contract("mk,kn->mn", b.param("x", (16, 32), F), constant((32, 33)))
    return b.windows(y, (Axis(0, 0), Axis(0, 1, 1, ((2, 1),))), (16, 31, 3))


def images_with_moving_borders() -> Value:
    """Images with sliding windows; only some of them have rows at the border."""
    x = b.pad(b.param("x", (4, 2, 64), F), (0, 0, 1), (0, 0, 1), 0.0)
    windows = b.windows(x, (Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((3, 1),))), (4, 2, 65, 2))
    y = b.contract("nwcl,wl->nwc", windows, constant((2, 2)))
    return b.windows(y, (Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((3, 1),))), (4, 2, 64, 2))


def images_with_borders_of_their_own() -> Value:
    """The same with windows over images: each image has other border rows than the next one."""
    x = b.pad(b.param("x", (3, 2, 64), F), (0, 0, 1), (0, 0, 1), 0.0)
    windows = b.windows(x, (Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((3, 1),))), (3, 2, 65, 2))
    y = b.contract("nwcl,wl->nwc", windows, constant((2, 2)))
    axes = (Axis(0, 0, 1, ((4, 1),)), Axis(0, 1), Axis(0, 2, 1, ((3, 1),)))
    return b.windows(y, axes, (2, 2, 64, 2, 2))


def narrow_images_in_words() -> Value:
    """A convolution whose two columns of results lie between two rows, of words of bfloat16."""
    x = b.pad(b.param("x", (1, 32, 31, 2), BF16), (0, 0, 2, 2), (0, 0, 2, 1), 0.0)
    axes = (Axis(0, 0), Axis(0, 1), Axis(0, 2, 1, ((4, 1),)), Axis(0, 3, 1, ((5, 1),)))
    windows = b.windows(x, axes, (1, 32, 31, 2, 5, 4))
    return b.contract("nchwij,ocij->nohw", windows, constant((4, 32, 5, 4), BF16), F)


BUILDERS = (
    columns_three_times,
    images_with_moving_borders,
    images_with_borders_of_their_own,
    narrow_images_in_words,
)


@pytest.mark.parametrize("make", BUILDERS)
@pytest.mark.parametrize("level", [None, "avx2"])
def test_kernels_agree_with_the_interpreter(make, level):
    y = make()
    inputs = tuple((v.op.name, v) for v in walk([y]) if isinstance(v.op, Param))
    graph = Graph(inputs, (("y", y),))
    for step in PASSES:
        graph = step.run(graph)
    target = choose(level)
    lowered = native.lower(graph, constant_offsets(graph), Sizes({}), machine=target.limited(REFERENCE))
    assert verify(lowered, target, [{}]) == ()


def test_rows_at_computed_places_are_not_prefetched():
    row, k, one = Sym("i", extent=17), Sym("k", extent=64), Sym("p", extent=1)
    m = SimpleNamespace(chunk=Sym("c", extent=2), size=8, count=17, loop=row)
    tile, n = SimpleNamespace(m=row, tiles=1), SimpleNamespace(panel=one, j=Sym("j", extent=16))
    x = Buffer("x", F, Space.INPUT, 4096)

    def asked(read: Load) -> Run | None:
        product = SimpleNamespace(first=read, summed=(k,), m=())
        return next_rows(SimpleNamespace(product=product, tile=tile, m=m, n=n), Names())

    assert asked(load(x, 64 * row.dim + k.dim)) is not None
    place = bound(index(16 - row.dim), 0, 16)
    assert asked(load(x, 64 * place + k.dim + 64 * row.dim)) is None
