"""Collective operations in one order, that of the graph, which is the same on all ranks.

    a = collective(x)                    a = collective(x)
    b = collective(y)           ->       b = collective(y, a)

If ranks performed two operations in different orders, each would receive data of the other operation. Values
that depend on an operation follow it anyway.
"""

from __future__ import annotations

from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import in_regions, transformed
from anyrt.prims.collective import Collective


def order_exchanges(graph: Graph) -> Graph:
    """The graph whose collective operations wait for one another; the same graph if there are less than
    two."""
    return _ordered(in_regions(graph, _ordered))


def _ordered(graph: Graph) -> Graph:
    exchanges = list[Value]()  # all operations so far
    behind = dict[Value, int]()  # the number of them that a value waits for

    def change(old: Value, new: Value) -> Value:
        behind[old] = max((behind[a] for a in old.args), default=0)
        if not isinstance(new.op, Collective):
            return new
        if behind[old] < len(exchanges):
            new = apply(new.op, new.args[0], exchanges[-1])
        exchanges.append(new)
        behind[old] = len(exchanges)
        return new

    return transformed(graph, change)
