"""Folding in registers that are wider than the type."""

import pytest

from anyrt.codegen.llvm import host
from anyrt.compiler import native
from anyrt.compiler.verify import verify
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes


@pytest.mark.parametrize("dtype", [DataType.INT8, DataType.UINT8])
@pytest.mark.parametrize("fn", ["sum", "prod"])
def test_a_fused_fold_wraps_before_it_is_used(fn, dtype):
    x = b.param("x", (64, 62), dtype)
    folded = b.reduce_(fn, x, (1,))
    graph = Graph((("x", x),), (("y", b.map_("select", b.cast(folded, DataType.BOOL), folded, x)),))
    assert verify(native.lower(graph, {}, Sizes({})), host(), [{}]) == ()
