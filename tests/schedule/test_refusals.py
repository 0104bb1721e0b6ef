"""Groups that a strategy rejects are split until it accepts them."""

import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.enums import DataType
from anyrt.core.errors import CompileError
from anyrt.ir.graph import Graph
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from anyrt.schedule.elements import FusionFailure
from anyrt.schedule.naive import Builder
from tests import native
from tests.native import verify
from tests.targets import choose

X = b.param("x", (64, 96), DataType.FLOAT)
MOST = b.reduce_("max", X, (1,))
TOTAL = b.reduce_("sum", b.map_("exp", b.map_("sub", X, MOST)), (1,))
ENDS = (("total", TOTAL), ("below", b.transpose(b.map_("sub", X, MOST), (1, 0))))


def lowered():
    graph = Graph((("x", X),), ENDS)
    return native.lower(graph, constant_offsets(graph), Sizes())


@pytest.fixture
def refusing(monkeypatch):
    """A strategy rejects the roots of kernels for which `unlike` says so of the builder."""

    def install(unlike):
        build = Builder.build

        def picky(builder):
            if unlike(builder):
                return FusionFailure(builder.group.root, "its root does not suit it")
            return build(builder)

        monkeypatch.setattr(Builder, "build", picky)

    return install


def computes_more(builder):
    """It folds for other kernels, or computes more than its root."""
    return builder.group.also or any(a.args and a not in builder.buffers for a in builder.group.root.args)


def test_a_kernel_that_rejects_its_root_again_and_again_is_taken_apart(refusing):
    assert any(x.group.also for x in lowered().schedule.launches)  # the maximum, with the sum
    refusing(computes_more)
    lowering = lowered()
    assert [len(x.inlined) for x in lowering.schedule.launches] == [0] * 5
    assert verify(lowering, choose(None), [{}]) == ()


def test_a_strategy_that_rejects_every_kernel_is_reported(refusing):
    refusing(lambda builder: True)
    with pytest.raises(CompileError, match=r"AR807.*its root does not suit it"):
        lowered()
