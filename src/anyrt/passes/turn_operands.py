"""Operands of products transposed to the order in which they are read fastest (schedule/turning.py).

nchw,ckab->nkhawb     ->     nhwc,ckab->nkhawb    of the transposed operand
"""

from __future__ import annotations

from dataclasses import replace

from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import transformed
from anyrt.prims import build
from anyrt.prims.contract import Contract
from anyrt.schedule.turning import axis_of_terms


def turn_operands(graph: Graph) -> Graph:
    """The graph with the operands transposed for which it pays."""
    return transformed(graph, lambda old, new: _turned(new))


def _turned(value: Value) -> Value:
    op = value.op
    if not isinstance(op, Contract):
        return value
    (a, left), (b, right) = (_operand(value, side) for side in (0, 1))
    return value if (a, b) == value.args else apply(replace(op, left=left, right=right), a, b)


def _operand(value: Value, side: int) -> tuple[Value, tuple[int, ...]]:
    """An operand of a contraction in that order, with its labels."""
    assert isinstance(value.op, Contract), "operands of others stay as they are"
    arg, labels, axis = value.args[side], (value.op.left, value.op.right)[side], axis_of_terms(value, side)
    if axis is None or axis == arg.type.rank - 1:
        return arg, labels
    order = [*(k for k in range(arg.type.rank) if k != axis), axis]
    return build.transpose(arg, order), tuple(labels[k] for k in order)
