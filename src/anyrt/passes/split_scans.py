"""Long running sums with few rows, divided into parts for threads.

Each running sum depends on the previous one. If there are few rows, they are divided into equal parts, whose
totals are summed first: each part begins with the total before it.

    scan(x)     ->     scan(parts of x, beginning with scan(sums of the parts))

The number of parts depends only on sizes, so results depend neither on threads nor on timing.
"""

from __future__ import annotations

from typing import Final

from anyrt.core.dims import Dim, floordiv, product
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Shape, Value, apply
from anyrt.ir.rewrite import transformed
from anyrt.prims import build
from anyrt.prims.scan import Scan

TYPES: Final = frozenset({DataType.FLOAT, DataType.INT32, DataType.INT64})  # a part's sum is rounded as it is
ROWS: Final = 64  # that threads share, several of each at a time
LONG: Final = 1 << 14  # elements of a row, from which reading it twice pays
LEAST: Final = 256  # of a part


def split_scans(graph: Graph) -> Graph:
    """The graph with long running sums, if they have few rows, in parts."""
    return transformed(graph, lambda old, new: _in_parts(new))


def _in_parts(value: Value) -> Value:
    op = value.op
    if not isinstance(op, Scan) or op.fn != "sum" or len(value.args) != 1 or value.dtype not in TYPES:
        return value
    front, size, back = value.shape[: op.axis], value.shape[op.axis], value.shape[op.axis + 1 :]
    parts = _parts(front, size) if all(d == 1 for d in back) else None
    if parts is None:
        return value
    x = build.reshape(value.args[0], (*front, parts, floordiv(size, parts)))
    sums = build.reduce_("sum", x, (op.axis + 1,))
    before = apply(Scan("sum", op.axis, op.reverse, exclusive=True), sums)
    inside = Scan("sum", op.axis + 1, op.reverse, op.exclusive)
    return build.reshape(apply(inside, x, before), value.shape)


def _parts(front: Shape, size: Dim) -> int | None:
    """How many equal parts a row has, so that all rows have as many as threads share."""
    rows = product(front)
    if not isinstance(rows, int) or not isinstance(size, int) or size < LONG or not 0 < rows < ROWS:
        return None
    most = min(-(-ROWS // rows), size // LEAST)
    return next((n for n in range(most, 2 * most) if size % n == 0), None)
