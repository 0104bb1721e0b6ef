"""Replaces a constant with equal elements by one number, if elementwise functions repeat it.

Kernels contain it as a literal, and scalar functions know it: a power of 2 is a square.
"""

from __future__ import annotations

from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import transformed
from anyrt.passes.facts import is_repeated
from anyrt.prims import build
from anyrt.prims.closed import constant
from anyrt.prims.const import Blob, Const
from anyrt.prims.map import Map


def narrow_constants(graph: Graph) -> Graph:
    """`graph` with one number in place of each such constant."""
    return transformed(graph, lambda old, new: _narrowed(new))


def _narrowed(value: Value) -> Value:
    """A function of elements whose constant operands of equal numbers are one number each."""
    if not isinstance(value.op, Map):
        return value
    args = tuple(_one(a) or a for a in value.args)
    if args == value.args or value.op.infer(tuple(a.type for a in args)) != value.type:
        return value
    return apply(value.op, *args)


def _one(value: Value) -> Value | None:
    """The number that a constant has everywhere."""
    if not isinstance(value.op, Const) or value.op.blob.size < 2 or not is_repeated(value.op.blob):
        return None
    rank = value.type.rank
    if value.op.blob.origin is None:
        return apply(Const(Blob(value.op.blob.data[:1].copy(), value.dtype), (1,) * rank))
    return constant(build.slice_(value, (0,) * rank, (1,) * rank, (1,) * rank))
