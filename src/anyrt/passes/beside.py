"""Outputs that are computed apart from the others, so that these have the same numbers as without them.

A value that is stored, as every output is, is read by what follows, and no longer computed inside its
readers: sums of these are cut otherwise, and half types rounded where excess precision is allowed. Debug
tensors must not do that to the outputs of a network. So they have nodes of their own down to the inputs,
which `Checked` tells apart: two graphs in one.

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

from anyrt.ir.counted import told
from anyrt.ir.graph import Graph, Value, apply, apply_all
from anyrt.ir.rewrite import transformed
from anyrt.prims.checked import Checked
from anyrt.prims.const import Const, Iota, Param
from anyrt.prims.map import Map


def only(graph: Graph, names: Collection[str]) -> Graph:
    """`graph` with the outputs of these names, and those that tell the sizes that data decide."""
    tells = {value for _, value in told(graph)}
    kept = tuple((name, value) for name, value in graph.outputs if name in names or value in tells)
    updates = tuple((y, x) for y, x in graph.updates if y in names)
    return replace(graph, outputs=kept, updates=updates)


def beside(graph: Graph, other: Graph, order: Sequence[str]) -> Graph:
    """The outputs of both, in this order, those of `other` from nodes that `graph` has not."""
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
    """Graphs share what has the same operands: inputs, positions, and what is computed from constants."""
    match old.op:
        case Param() | Iota():
            return apply(Checked(()), new)
        case Map() if all(isinstance(a.op, Const) for a in old.args):
            return apply_all(old.op, *(apply(Checked(()), a) for a in new.args))[0]
    return new
