"""Round half types after every layer, as if each had stored its result.

Values that a layer's name is known for are the layers' results. What only moves elements needs no rounding.
"""

from __future__ import annotations

from typing import Final

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Value
from anyrt.ir.rewrite import transformed
from anyrt.prims import build
from anyrt.prims.map import Map
from anyrt.prims.reduce import Reduce
from anyrt.prims.taps import Taps

ROUNDINGS: Final = {DataType.HALF: "to_half", DataType.BF16: "to_bf16"}


def round_layers(graph: Graph) -> Graph:
    """`graph` with a rounding after every layer that computes a half type."""

    def change(old: Value, new: Value) -> Value:
        return build.map_(ROUNDINGS[new.dtype], new) if old in graph.names and _computes(old) else new

    return transformed(graph, change)


def _computes(value: Value) -> bool:
    if value.dtype not in ROUNDINGS:
        return False
    match value.op:
        case Map(fn=fn):
            return fn not in ROUNDINGS.values()
        case Reduce():
            return True
        case Taps(rule=rule):
            return rule.weighs
    return False
