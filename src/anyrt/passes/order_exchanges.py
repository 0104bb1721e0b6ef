"""Exchanges between ranks come in one order, that of the graph, which is the same on all ranks.

    a = collective(x)                    a = collective(x)
    b = collective(y)           ->       b = collective(y, a)

Ranks that took two exchanges in another order would give one's numbers to the other. What depends on an
exchange comes behind it anyway.
"""

from __future__ import annotations

from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import in_regions, transformed
from anyrt.prims.collective import Collective


def order_exchanges(graph: Graph) -> Graph:
    """The graph whose exchanges wait for one another; the same where there are less than two."""
    return _ordered(in_regions(graph, _ordered))


def _ordered(graph: Graph) -> Graph:
    made = list[Value]()  # all exchanges so far
    behind = dict[Value, int]()  # how many of them a value waits for

    def change(old: Value, new: Value) -> Value:
        behind[old] = max((behind[a] for a in old.args), default=0)
        if not isinstance(new.op, Collective):
            return new
        if behind[old] < len(made):
            new = apply(new.op, new.args[0], made[-1])
        made.append(new)
        behind[old] = len(made)
        return new

    return transformed(graph, change)
