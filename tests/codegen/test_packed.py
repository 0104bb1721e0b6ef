"""4-bit elements, packed two per byte."""

import pytest

from anyrt.compiler.trial import constant_offsets
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import host


@pytest.mark.parametrize("dtype", [DataType.INT4, DataType.FP4])
def test_concatenated_parts_that_share_bytes_all_arrive(dtype):
    x = b.param("x", (3, 5), dtype)
    both = b.concat([x, b.slice_(x, (0, 1), (3, 2), (1, 1)), x], 1)
    graph = Graph((("x", x),), (("y", both),))
    assert verify(native.lower(graph, constant_offsets(graph), Sizes({})), host(), [{}]) == ()


def test_not_a_number_is_stored_as_the_largest_positive_one():
    x = b.param("x", (8,), DataType.FLOAT)
    graph = Graph(
        (("x", x),), (("y", b.cast(b.map_("sqrt", b.map_("neg", b.map_("exp", x))), DataType.FP4)),)
    )
    assert verify(native.lower(graph, {}, Sizes({})), host(), [{}]) == ()
