"""The elements of shape tensors as sizes, so that a reshape can use sizes that the network computes."""

from __future__ import annotations

from anyrt.core.dtype import is_float
from anyrt.ir.graph import Value
from anyrt.ir.prim import Symbolic


def known(value: Value) -> Symbolic | None:
    """The elements of an integer or bool `value` as Dims, shaped like it; None when they depend on data."""
    elements: dict[Value, Symbolic | None] = {}
    todo = [value]
    while todo:
        top = todo[-1]
        missing = [a for a in _followed(top) if a not in elements]
        if missing:
            todo += missing
            continue
        todo.pop()
        elements[top] = _elements(top, elements)
    return elements[value]


def _followed(value: Value) -> tuple[Value, ...]:
    return () if is_float(value.dtype) else tuple(a for a in value.args if not is_float(a.dtype))


def _elements(value: Value, elements: dict[Value, Symbolic | None]) -> Symbolic | None:
    if is_float(value.dtype) or len(value.node.types) > 1:
        return None
    return value.op.values(tuple(elements.get(a) for a in value.args), value.type)
