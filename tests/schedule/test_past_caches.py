"""Which outputs are written past the caches: what counts of an input is what is read of it."""

import pytest

from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph
from anyrt.prims import build as b
from anyrt.schedule.nontemporal import past_caches

TABLE = b.param("table", (30000, 768), DataType.FLOAT)  # 88 MiB


@pytest.mark.parametrize(("rows", "past"), [(512, 0), (30000, 1)])
def test_of_a_table_those_rows_count_that_are_read(rows, past):
    at = b.param("at", (rows, 1), DataType.INT32)
    y = b.gather(TABLE, b.expand(at, (rows, 768)), 0)
    graph = Graph((("table", TABLE), ("at", at)), (("y", y),))
    assert past_caches(graph, REFERENCE)[y].rows == past


def test_a_table_that_is_also_summed_counts_whole():
    at = b.param("at", (4, 1), DataType.INT32)
    y, z = b.gather(TABLE, b.expand(at, (4, 768)), 0), b.reduce_("sum", TABLE, (0,))
    graph = Graph((("table", TABLE), ("at", at)), (("y", y), ("z", z)))
    assert past_caches(graph, REFERENCE)[y].rows == 1
