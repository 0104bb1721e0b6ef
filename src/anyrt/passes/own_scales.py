"""Scales and zero points of codes as separate constants, one for each function that reads one.

Equal numbers share one constant, whatever they mean: a layer with two zero points of 4, and a layer with 3
and 5, would need two kernels. With a constant per use, layers differ only in numbers, which kernels may load
(schedule/scales.py). All uses of a number share one blob, so that a plan stores it once. If some codes have
zero points, those without get 0, so that their layers share kernels with the others.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import count

import numpy as np

from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import transformed
from anyrt.passes.facts import source
from anyrt.prims import build
from anyrt.prims.const import Blob, Const
from anyrt.prims.map import CAST, fn_of

# Operands that may be scales or zero points.
ROLES = {"div": (1,), "mul": (0, 1), "fma": (0, 1), "add": (0, 1), "sub": (1,)}
ZERO = Blob(np.zeros(1, np.float32), DataType.FLOAT)


def own_scales(graph: Graph) -> Graph:
    """The graph with such constants, if it has codes."""
    if not any(fn_of(v) == CAST and DataType.INT8 in (v.dtype, v.args[0].dtype) for v in graph.values):
        return graph
    uses, have_zeros = count(1), any(fn_of(v) == "sub" and _is_number(v.args[0]) for v in graph.values)

    @cache
    def moved(codes: Value) -> Value:
        return build.map_("sub", codes, apply(Const(ZERO, (1,) * codes.type.rank, use=next(uses))))

    def change(old: Value, new: Value) -> Value:
        if have_zeros and fn_of(new) in ROLES.keys() - {"sub"} and any(map(_is_number, new.args)):
            new = apply(new.op, *(moved(a) if _is_number(a) else a for a in new.args))
        roles = ROLES.get(fn_of(new) or "", ())
        own = [_own(a, next(uses)) if k in roles and _is_shared(a) else a for k, a in enumerate(new.args)]
        return new if own == [*new.args] else apply(new.op, *own)

    return transformed(graph, change)


def _is_number(value: Value) -> bool:
    """True for codes as float32, except those of weights, which have kernels of their own."""
    types = (value.dtype, *(a.dtype for a in value.args)) if fn_of(value) == CAST else ()
    return types == (DataType.FLOAT, DataType.INT8) and not isinstance(source(value.args[0]).op, Const)


def _is_shared(value: Value) -> bool:
    """True for one number that other functions may read as well."""
    op = value.op
    one = isinstance(op, Const) and op.use == 0 and op.blob.size == 1 and op.blob.is_known
    return one and value.dtype in (DataType.FLOAT, DataType.INT32)


def _own(value: Value, use: int) -> Value:
    assert isinstance(value.op, Const), f"{value} is no constant"
    return apply(replace(value.op, use=use))
