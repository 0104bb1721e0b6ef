"""The host program: one entry runs all kernels, another runs the kernel with a given number."""

import pytest

from anyrt.compiler.trial import Trial, constant_offsets
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import load
from tests.targets import host


@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 5, 9])
def test_step_runs_each_kernel_of_many_alike(outputs):
    """LLVM would select kernels through a table of their addresses, which an image cannot hold."""
    x = b.param("x", (4, 31, 4, 31), DataType.UINT8)
    graph = Graph((("x", x),), tuple((f"y{k}", x) for k in range(outputs)))
    trial = Trial(load(native.lower(graph, constant_offsets(graph), Sizes({})), host()), {})
    trial.blocks["tensor x"].bytes[:-64] = 7
    for k in range(outputs):
        trial.step(k)
    assert all((trial.blocks[f"tensor y{k}"].bytes[:-64] == 7).all() for k in range(outputs))
