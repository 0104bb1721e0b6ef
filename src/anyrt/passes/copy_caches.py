"""Only the update reads an input that an output updates in place; all other readers read a copy.

    y = select(inside, written, cache)                    copy = checked(cache)
    z = exp(cache)                              ->        y = select(inside, written, cache)
                                                          z = exp(copy)

Copies are made before anything is written (schedule/fuse.py). If nothing else reads a cache, there is no
copy.
"""

from __future__ import annotations

from collections import Counter

from anyrt.ir.graph import Graph, Value, apply, apply_all
from anyrt.ir.rewrite import transformed
from anyrt.prims.asserted import Asserted
from anyrt.prims.checked import Checked
from anyrt.prims.map import Map


def copy_caches(graph: Graph) -> Graph:
    """The graph with such copies; the same graph if no input has readers beside its update."""
    inputs, outputs = dict(graph.inputs), dict(graph.outputs)
    for output, source in graph.updates:
        update, cache = _chosen(outputs[output]), inputs[source]
        if update != cache and _is_read_beside(graph, update, cache):
            graph = _with_copy(graph, update, cache)
            outputs = dict(graph.outputs)
    return graph


def _is_read_beside(graph: Graph, update: Value, cache: Value) -> bool:
    reads = Counter(v for v in graph.values for a in v.args if a == cache)
    marked = any(v == cache for _, v in graph.outputs)
    return marked or reads != Counter({update: 1} if _own(update, cache) is not None else {})


def _own(update: Value, cache: Value) -> int | None:
    """The operand whose elements an update keeps where it writes nothing."""
    operands = [k for k, a in enumerate(update.args) if a == cache]
    return operands[-1] if operands and isinstance(update.op, Map) and update.type == cache.type else None


def _chosen(value: Value) -> Value:
    """The value that computes an update, without the conditions that it waits for."""
    while isinstance(value.op, Checked | Asserted):
        value = value.args[0]
    return value


def _with_copy(graph: Graph, update: Value, cache: Value) -> Graph:
    copy, own = apply(Checked(()), cache), _own(update, cache)

    def change(old: Value, new: Value) -> Value:
        if old == cache:
            return copy
        if old != update or own is None:
            return new
        args = [cache if k == own else a for k, a in enumerate(new.args)]
        return apply_all(new.op, *args)[new.index]

    return transformed(graph, change)
