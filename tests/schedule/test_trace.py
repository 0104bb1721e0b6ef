"""A trace of the steps that transform a kernel, available when it is compiled."""

from dataclasses import replace

import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.kerneltext import print_kernels
from anyrt.ir.rewrite import Fail
from anyrt.prims import build as b
from anyrt.prims.taps import Linear
from anyrt.schedule.cost import Sizes
from tests import native

N = Sym("x.0", 1, 4096)
LINEAR = Linear(Coordinate.HALF_PIXEL, Selector.FORMULA)


def lowered(make, shape, dtype=DataType.FLOAT):
    x = b.param("x", shape, dtype)
    symbols = (Symbol(N, "x", 0),) if N.dim in shape else ()
    graph = Graph((("x", x),), (("y", make(x)),), {}, symbols)
    return native.lower(graph, constant_offsets(graph), Sizes({N.name: 300}))


def centred(x):
    return b.map_("sub", x, b.map_("mul", b.reduce_("sum", x, (1,)), b.scalar(0.125, x)))


def photograph(x):
    return b.taps(b.taps(b.cast(x, DataType.FLOAT), 1, 40, LINEAR), 0, 50, LINEAR)


def parts(x):
    turned = b.transpose(x, (1, 0))
    return b.concat([turned, b.map_("neg", turned)], 0)


@pytest.mark.parametrize(
    ("make", "shape", "dtype"),
    [
        (lambda x: b.map_("exp", x), (7, 5), DataType.FLOAT),
        (lambda x: centred(centred(x)), (N.dim, 70), DataType.FLOAT),
        (photograph, (20, 30, 3), DataType.UINT8),
        (parts, (40, 30), DataType.HALF),
        (lambda x: b.transpose(x, (1, 0)), (N.dim, 4096), DataType.FLOAT),
    ],
    ids=["map", "rows, twice", "photograph", "parts", "past the caches"],
)
def test_the_last_step_gives_the_kernel_that_is_called(make, shape, dtype):
    lowering = lowered(make, shape, dtype)
    for launch in lowering.schedule.launches:
        kernels = [s.result for s in lowering.schedule.trace(launch) if not isinstance(s.result, Fail)]
        assert kernels[-1] == launch.kernel
        assert kernels[0].var.extent == 1


def test_steps_that_do_not_apply_say_why():
    lowering = lowered(lambda x: b.map_("exp", x), (7, 5))
    steps = {s.step: s.result for s in lowering.schedule.trace(lowering.schedule.launches[0])}
    assert steps["tile"] == Fail("nothing is read across memory")
    assert steps["non-temporal stores"] == Fail("its results fit the caches")


def test_nontemporal_stores_are_marked_last():
    lowering = lowered(lambda x: b.transpose(x, (1, 0)), (N.dim, 4096))
    step = lowering.schedule.trace(lowering.schedule.launches[0])[-1]
    assert (step.step, "nontemporal" in print_kernels([step.result])) == ("non-temporal stores", True)


def test_each_kernel_of_an_item_is_shown_and_then_all_of_them():
    q, k, v = (b.param(n, (8, 128, 16), DataType.FLOAT) for n in "qkv")
    e = b.map_("exp", b.contract("bmd,bnd->bmn", q, k))
    y = b.contract("bmn,bnd->bmd", b.map_("div", e, b.reduce_("sum", e, (2,))), v)
    graph = Graph((("q", q), ("k", k), ("v", v)), (("y", y),))
    (schedule,) = native.lower(graph, {}, Sizes({}), machine=replace(REFERENCE, l2_bytes=1 << 15)).schedules
    (launch,) = (x for x in schedule.launches if x.kind == "fused tile")
    trace = schedule.trace(launch)
    assert {s.step.split(":")[0] for s in trace[:-1]} == {"k0", "k1", "k2"}
    assert (trace[-1].step, trace[-1].result) == ("compute at", launch.kernel)
