"""The steps from a graph to kernels: the stored values, and their places."""

from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE
from anyrt.ir.graph import Graph
from anyrt.prims import build as b
from anyrt.schedule.cost import Sizes
from anyrt.schedule.fuse import schedule
from anyrt.schedule.task import Item, Task


def test_rows_are_padded_only_on_request():
    x = b.param("x", (6, 40), DataType.FLOAT)
    rows, others = b.map_("exp", x), b.map_("sqrt", x)
    graph = Graph((("x", x),), (("y", b.map_("add", rows, others)),))
    stored = frozenset({rows, others})
    scheduled = schedule(Task(graph, Sizes({}), REFERENCE, STRATEGIES, stored, item=Item(pitch={rows: 48})))
    assert [scheduled.buffers[v].size for v in (rows, others)] == [6 * 48, 6 * 40]
    assert list(scheduled.layouts) == [rows]
