"""Scales and zero points of codes as separate constants, one for each function that reads one.

Equal numbers share one constant, whatever they mean: a layer with two zero points of 4, and a layer with 3
and 5, would need two kernels. With a constant per use, layers differ only in numbers, which kernels may load
(schedule/scales.py). All uses of a number share one blob, so that a plan stores it once.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import transformed
from anyrt.prims.const import Const
from anyrt.prims.map import CAST, fn_of

# Operands that may be scales or zero points.
ROLES = {"div": (1,), "mul": (0, 1), "fma": (0, 1), "add": (0, 1), "sub": (1,)}
TYPES = (DataType.FLOAT, DataType.INT32)


def own_scales(graph: Graph) -> Graph:
    """The graph with such constants, if it has codes."""
    if not any(map(_is_coded, graph.values)):
        return graph
    uses = count(1)

    def change(old: Value, new: Value) -> Value:
        roles = ROLES.get(fn_of(new) or "", ())
        if not any(k in roles and _is_shared(a) for k, a in enumerate(new.args)):
            return new
        own = (_own(a, next(uses)) if k in roles and _is_shared(a) else a for k, a in enumerate(new.args))
        return apply(new.op, *own)

    return transformed(graph, change)


def _is_coded(value: Value) -> bool:
    return fn_of(value) == CAST and DataType.INT8 in (value.dtype, value.args[0].dtype)


def _is_shared(value: Value) -> bool:
    """True for one number that other functions may read as well."""
    op = value.op
    one = isinstance(op, Const) and op.use == 0 and op.blob.size == 1 and op.blob.is_known
    return one and value.dtype in TYPES


def _own(value: Value, use: int) -> Value:
    assert isinstance(value.op, Const), f"{value} is no constant"
    return apply(replace(value.op, use=use))
