"""Reading at positions from tables, in vector loops."""

import pytest

from anyrt.codegen.llvm import host
from anyrt.compiler import native
from anyrt.compiler.trial import Trial, load
from anyrt.compiler.verify import verify
from anyrt.core.dims import Sym
from anyrt.core.enums import DataType, SampleMode
from anyrt.ir.graph import Graph, Symbol
from anyrt.ir.kerneltext import print_kernels
from anyrt.prims import build as b
from anyrt.prims.taps import Border
from anyrt.schedule.cost import Sizes

N = Sym("x.0", 1, 100)


@pytest.mark.parametrize("mode", [SampleMode.REFLECT, SampleMode.WRAP, SampleMode.CLAMP])
def test_positions_that_descend_are_read_right(mode):
    x = b.param("x", (N.dim, 2, 4), DataType.UINT8)
    y = b.taps(x, 2, 3, Border(mode, 1, -1))
    graph = Graph((("x", x),), (("y", y),), {}, (Symbol(N, "x", 0),))
    sizes = [{N.name: n} for n in (1, 37)]
    assert verify(native.lower(graph, {}, Sizes(sizes[1])), host(), sizes) == ()


@pytest.mark.parametrize("dtype", [DataType.INT64, DataType.BOOL, DataType.INT8, DataType.HALF])
def test_a_kept_row_has_room_for_its_elements(dtype):
    """A row of 600 elements, computed once because the taps below it are dear."""
    x = b.param("x", (4, 3, 8), dtype)
    v = b.reshape(b.taps(x, 2, 8, Border(SampleMode.WRAP, -2, 2)), (96,))
    v = b.taps(
        b.taps(v, 0, 600, Border(SampleMode.REFLECT, -2, -1)), 0, 8, Border(SampleMode.REFLECT, -2, -1)
    )
    lowered = native.lower(Graph((("x", x),), (("y", v),)), {}, Sizes({}))
    assert "row" in print_kernels(lowered.module.kernels)
    trial = Trial(load(lowered, host()), {})
    trial.run()
    assert trial.overrun() == ()
    assert verify(lowered, host(), [{}]) == ()
