"""Outputs that are computed separately, so that they do not change the numbers of the other outputs.

Storing a value, as every output is stored, prevents its readers from computing it: sums are cut in other
places, and half types are rounded although excess precision is allowed. Debug tensors must not change a
network's outputs in this way. They therefore have their own nodes down to the inputs, which `Checked`
distinguishes: two graphs in one.

>>> from anyrt.core.enums import DataType
>>> from anyrt.prims.build import map_, param
>>> x = param("x", (3,), DataType.HALF)
>>> exp = map_("exp", x)
>>> whole = Graph((("x", x),), (("seen", exp), ("y", map_("sqrt", exp))))
>>> graph = beside(only(whole, {"y"}), only(whole, {"seen"}), ["seen", "y"])
>>> seen, y = (v for _, v in graph.outputs)
>>> seen == y.args[0]
False
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from anyrt.ir.counted import computed_sizes
from anyrt.ir.graph import Graph, Value, apply, apply_all
from anyrt.ir.rewrite import transformed
from anyrt.prims.checked import Checked
from anyrt.prims.const import Const, Iota, Param
from anyrt.prims.map import Map


def only(graph: Graph, names: Collection[str]) -> Graph:
    """`graph` with the outputs of these names, and the outputs for data-dependent sizes."""
    tells = {value for _, value in computed_sizes(graph)}
    kept = tuple((name, value) for name, value in graph.outputs if name in names or value in tells)
    updates = tuple((y, x) for y, x in graph.updates if y in names)
    return replace(graph, outputs=kept, updates=updates)


def beside(graph: Graph, other: Graph, order: Sequence[str]) -> Graph:
    """The outputs of both, in this order, those of `other` with nodes that `graph` does not share."""
    own = transformed(other, _own)
    outputs = dict((*own.outputs, *graph.outputs))
    layers = {value: name for value, name in own.names.items() if not isinstance(value.op, Checked)}
    return replace(
        graph,
        outputs=tuple((name, outputs[name]) for name in order),
        names={**layers, **graph.names},
        makers={**own.makers, **graph.makers},
    )


def _own(old: Value, new: Value) -> Value:
    """Graphs share nodes with the same operands: inputs, positions, and values computed from constants."""
    match old.op:
        case Param() | Iota():
            return apply(Checked(()), new)
        case Map() if all(isinstance(a.op, Const) for a in old.args):
            return apply_all(old.op, *(apply(Checked(()), a) for a in new.args))[0]
    return new
