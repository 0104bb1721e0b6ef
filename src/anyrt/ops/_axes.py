"""Named axes of operands: a record states the ranks and the equal sizes of its operands.

    Input("query", FLOATS, axes="batch heads queries size")
    Input("mask", FLOATS, axes="batch? heads? queries keys")       # an axis with a ? may have size 1
    Input("lengths", INTS, axes="batch+1")
    Input("scale", FLOATS, axes="| experts")                       # one number, or one for each expert

The first operand that names an axis determines its size. A number in place of a name is the size itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

from anyrt.core.dims import Dim, add
from anyrt.core.errors import ShapeError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Value
from anyrt.ops._check import Requirements, checked, need, show
from anyrt.ops._record import A, Input, Layer, Op
from anyrt.prims.build import slice_

_AXIS = re.compile(r"(\w+)(?:\+(\d+))?(\?)?")


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its size is that of `name` plus `more`, or 1 if `may_be_1`."""

    name: str
    more: int
    may_be_1: bool

    def __str__(self) -> str:
        return "1 or " * self.may_be_1 + self.name + (f" + {self.more}" if self.more else "")


@cache
def parsed(text: str) -> tuple[tuple[Axis, ...], ...]:
    """The alternative lists of axes that a record names.

    >>> [[str(axis) for axis in axes] for axes in parsed("batch? size+1 | ")]
    [['1 or batch', 'size + 1'], []]
    """
    return tuple(tuple(map(_axis, axes.split())) for axes in text.split("|"))


def _axis(text: str) -> Axis:
    parts = _AXIS.fullmatch(text)
    assert parts is not None, f"{text!r} names no axis"
    return Axis(parts[1], int(parts[2] or 0), parts[3] is not None)


def with_axes(op: Op[A], layer: Layer[A]) -> Layer[A]:
    """The layer with operands that have the sizes of the record, by requirements if sizes are dynamic. Raises
    AR123 for other sizes."""
    if all(operand.axes is None for operand in op.inputs):
        return layer
    sizes: dict[str, tuple[Dim, str]] = {}
    inputs = list(layer.inputs)
    for i, value in enumerate(layer.inputs):
        operand = op.operand(i)
        text = operand.axes(layer) if callable(operand.axes) else operand.axes
        if value is not None and text is not None:
            inputs[i] = _sized(layer.name, operand, value, parsed(text), sizes)
    return replace(layer, inputs=tuple(inputs))


def _sized(
    where: str,
    operand: Input,
    value: Value,
    choices: tuple[tuple[Axis, ...], ...],
    sizes: dict[str, tuple[Dim, str]],
) -> Value:
    got = f"{operand.name} of shape {show(value.shape)}"
    axes = next((axes for axes in choices if len(axes) == value.type.rank), None)
    if axes is None:
        wanted = " or ".join(f"({', '.join(map(str, axes))})" for axes in choices)
        raise ShapeError("AR123", where, got, wanted, "reshape it with add_shuffle")
    rules: Requirements = ()
    shape = list(value.shape)
    for k, axis in enumerate(axes):
        if axis.may_be_1 and shape[k] == 1:
            continue
        size: Dim
        if axis.name.isdecimal():
            size, wanted, do = int(axis.name), f"{axis.name} for axis {k}", "reshape it with add_shuffle"
        else:
            base, first = sizes.setdefault(axis.name, (add(shape[k], -axis.more), operand.name))
            size = add(base, axis.more)
            wanted = f"{axis} = {size}, as in {first}"
            do = f"make {axis.name} of {operand.name} and {first} equal"
        rules += need(where, shape[k], Relation.EQ, size, "AR123", got, wanted, do)
        shape[k] = size
    return slice_(checked(value, rules), (0,) * len(shape), shape, (1,) * len(shape)) if rules else value
