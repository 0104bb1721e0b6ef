"""Strips that are read across memory and transposed in registers."""

import pytest

from anyrt.codegen.llvm import host
from anyrt.compiler import native
from anyrt.compiler.verify import verify
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Value
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes


def differing(x: Value, y: Value) -> tuple[object, ...]:
    return verify(native.lower(Graph((("x", x),), (("y", y),)), {}, Sizes({})), host(), [{}])


@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.HALF, DataType.INT8, DataType.INT64])
def test_a_tile_whose_lanes_are_stored_apart_is_not_stored_in_a_run(dtype):
    x = b.param("x", (64, 33, 1), dtype)
    across = b.transpose(x, (1, 0, 2))
    assert differing(x, b.concat([across, b.map_("neg", across)], 2)) == ()


@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.HALF, DataType.INT8, DataType.INT64])
@pytest.mark.parametrize("shape", [(64, 48), (61, 37), (16, 15), (3, 200), (200, 3)])
def test_a_transpose_is_right_at_every_edge(shape, dtype):
    x = b.param("x", (2, *shape), dtype)
    assert differing(x, b.transpose(x, (0, 2, 1))) == ()
