"""Short forms of functions whose results are only used in a half type.

A unit of float16 is 8192 units of float32, so an error of some dozens is hardly visible in it, also if the
result is multiplied or moved before it is rounded. After an addition it might be visible.
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
    """`graph` with short forms if these are not visible in results of `types`."""
    rounded = _rounded(graph, types)

    def change(old: Value, new: Value) -> Value:
        fn = _short(old) if old in rounded else ""
        return build.map_(fn, *new.args) if fn else new

    return transformed(graph, change)


def _rounded(graph: Graph, types: frozenset[DataType]) -> frozenset[Value]:
    """Values of `types`, and the float32 values from which only products and moves lead to them. A float32
    result of a layer keeps its digits for all readers."""
    rounded, ends = set[Value](), [v for _, v in graph.outputs]
    uses, results = users(graph), {*graph.names, *ends}
    for value in reversed(list(walk(ends))):
        inside = value.dtype is DataType.FLOAT and value not in results
        if value.dtype in types or (inside and all(u in rounded and _keeps(u) for u in uses[value])):
            rounded.add(value)
    return frozenset(rounded)


def _keeps(user: Value) -> bool:
    """True if the relative error of an operand is that of the result."""
    return isinstance(user.op, View | Reshape) or fn_of(user) in PRODUCTS


def _short(value: Value) -> str:
    """The short form of the function of `value`; "" if it has none that pays."""
    fn = fn_of(value)
    name = SCALARS[fn].short if fn in SCALARS else ""
    if not name or not SCALARS[name].repeated:
        return name
    last = value.args[-1].shape[-1:]
    return name if last == (1,) != value.shape[-1:] else ""
