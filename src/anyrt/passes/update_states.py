"""States of a loop of which an iteration changes only some elements are updated in place.

    again: cache = select(position == turn, new, cache)

If only the selection reads a value, it may overwrite it, and only new elements are stored (loops/keep.py). A
cache of keys, of which each iteration writes one row, is never copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyrt.core.dtype import is_packed
from anyrt.ir.graph import Graph, Node, Value, apply_all, users
from anyrt.ir.rewrite import transformed
from anyrt.prims.map import fn_of
from anyrt.prims.repeated import Repeated


def update_states(graph: Graph) -> Graph:
    """The graph with such updates in the bodies of its loops."""
    done: dict[Node, Sequence[Value]] = {}

    def change(_: Value, new: Value) -> Value:
        if not isinstance(new.op, Repeated):
            return new
        if new.node not in done:
            body = _updating(new.op.body)
            op = new.op if body == new.op.body else replace(new.op, body=body)
            done[new.node] = apply_all(op, *new.args)
        return done[new.node][new.index]

    return transformed(graph, change)


def _updating(body: Graph) -> Graph:
    uses, updated = users(body), dict(body.updates)
    ends = [v for _, v in body.outputs]
    for (name, state), (end, successor) in zip(body.inputs, body.outputs, strict=False):
        alone = uses.get(state) == [successor] and ends.count(successor) == 1 and state not in ends
        if alone and end not in updated and _keeps(successor, state):
            updated[end] = name
    return replace(body, updates=tuple(updated.items()))


def _keeps(successor: Value, state: Value) -> bool:
    """True for an elementwise selection between the state's elements and others."""
    if fn_of(successor) != "select" or is_packed(successor.dtype):
        return False
    return state in successor.args[1:] and state.type == successor.type
