"""Take short forms of functions where a half type is all that becomes of their results.

A unit of float16 is 8192 units of float32, so that some dozens hardly show in it. They still do not when
the result is multiplied or moved before it is rounded; where it is added to something, they might.
"""

from __future__ import annotations

from typing import Final

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Value, users, walk
from anyrt.ir.rewrite import transformed
from anyrt.prims import build
from anyrt.prims.map import CAST, SELECT, fn_of
from anyrt.prims.reshape import Reshape
from anyrt.prims.scalar import SCALARS
from anyrt.prims.view import View

HALVES: Final = frozenset({DataType.HALF, DataType.BF16})
PRODUCTS: Final = frozenset({CAST, SELECT, "mul", "div", "neg", "abs", "identity"})


def shorten(graph: Graph, types: frozenset[DataType] = HALVES) -> Graph:
    """`graph` with short forms where they do not show in results of `types`."""
    rounded = _rounded(graph, types)

    def change(old: Value, new: Value) -> Value:
        fn = _short(old) if old in rounded else ""
        return build.map_(fn, *new.args) if fn else new

    return transformed(graph, change)


def _rounded(graph: Graph, types: frozenset[DataType]) -> frozenset[Value]:
    """Values of `types`, and of float32 that only products and moves lead from there to them. A float32 that
    is the result of a layer has its digits, whoever reads it."""
    found, ends = set[Value](), [v for _, v in graph.outputs]
    uses, results = users(graph), {*graph.names, *ends}
    for value in reversed(list(walk(ends))):
        inside = value.dtype is DataType.FLOAT and value not in results
        if value.dtype in types or (inside and all(u in found and _keeps(u) for u in uses[value])):
            found.add(value)
    return frozenset(found)


def _keeps(user: Value) -> bool:
    """True when the relative error of an operand is that of the result."""
    return isinstance(user.op, View | Reshape) or fn_of(user) in PRODUCTS


def _short(value: Value) -> str:
    """The short form of what makes `value`; "" when it has none that pays."""
    fn = fn_of(value)
    name = SCALARS[fn].short if fn in SCALARS else ""
    if not name or not SCALARS[name].repeated:
        return name
    last = value.args[-1].shape[-1:]
    return name if last == (1,) != value.shape[-1:] else ""
