"""OneHot: a new axis along which the element at the index is "on" and all others are "off".

add_one_hot(indices, values, depth, axis=-1)      # [0, 2], [0, 1], 3 gives [[1, 0, 0], [0, 0, 1]]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.dims import Dim
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ArgumentError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Value
from anyrt.ops._check import Requirements, checked, need
from anyrt.ops._elements import elements, with_counts
from anyrt.ops._math import from_end
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import INTS, STORAGE
from anyrt.prims.build import iota, map_, reshape, slice_, unsqueeze

DEPTH = 2  # operand


@dataclass(frozen=True, slots=True)
class OneHotAttrs(Attrs):
    """Attributes of OneHot."""

    axis: int = attr(Kind.INT, "position of the new axis in the output; a negative value counts from the end")


def expand(layer: Layer[OneHotAttrs]) -> tuple[Value, ...]:
    """Positions along the new axis are compared with the index; a `select` chooses the value."""
    indices, (depth, rules) = layer.input(0), _depth(layer)
    rank = indices.type.rank + 1
    axis = _axis(layer, rank)
    index = from_end(unsqueeze(indices, (axis,)), depth)
    count = iota(tuple(depth if k == axis else 1 for k in range(rank)), axis, indices.dtype)
    off, on = (_value(layer.input(1), k, rank) for k in range(2))
    y = checked(map_("select", map_("eq", count, index), on, off), rules)
    return (with_counts(layer, y, DEPTH),)


def _value(values: Value, k: int, rank: int) -> Value:
    return reshape(slice_(values, (k,), (1,), (1,)), (1,) * rank)


def _axis(layer: Layer[OneHotAttrs], rank: int) -> int:
    axis = layer.attrs.axis
    if not -rank <= axis < rank:
        got, wanted = f"axis {axis} of an output of rank {rank}", f"{-rank} to {rank - 1}"
        raise ArgumentError("AR303", layer.name, got, wanted, "set axis to an axis of the output")
    return axis % rank


def _depth(layer: Layer[OneHotAttrs]) -> tuple[Dim, Requirements]:
    """The size of the new axis."""
    ((depth, _),) = elements(layer.name, DEPTH, layer.input(DEPTH))
    got, do = f"a depth of {depth}", "give the number of classes"
    return depth, need(layer.name, 1, Relation.LE, depth, "AR120", got, "1 or more", do)


def ref(attrs: OneHotAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Rows of an identity matrix, and a row of zeros for indices out of range, moved to the axis."""
    indices, (off, on), depth = arrays[0].astype(np.int64), arrays[1], int(arrays[2])
    inside = (-depth <= indices) & (indices < depth)
    rows = np.eye(depth + 1, depth, dtype=bool)[np.where(inside, indices % depth, depth)]
    return (np.where(np.moveaxis(rows, -1, attrs.axis), on, off),)


def cases() -> tuple[Case[OneHotAttrs], ...]:
    """Every axis and type; negative indices and indices out of range; no indices; a dynamic depth."""
    o, f, i32, i64 = OneHotAttrs, DataType.FLOAT, DataType.INT32, DataType.INT64
    page = np.array([0, 1, 2, 3, 4, -1, -2, -3, -4, -5])
    far = np.array([[2**31 - 1, -(2**31), 0], [-1, 7, 2]])
    four = np.array(4)
    out = [
        Case(o(axis), ((2, 3), (2,), ()), (i32, f, i32), (None, None, four)) for axis in (-1, -2, -3, 0, 1, 2)
    ]
    out += [
        Case(o(-1), ((10,), (2,), ()), (i32, t, i64), (page, np.array([0, 1]), four))
        for t in sorted(STORAGE, key=int)
    ]
    out += [
        Case(o(axis), shape, (index, f, i32), (at, np.array([-1.5, 2.5]), np.array(depth)))
        for axis, shape, index, at, depth in (
            (0, ((), (2,), ()), i32, np.array(-2), 3),
            (1, ((2, 3), (2,), ()), i32, far, 8),
            (1, ((2, 3), (2,), ()), i64, far << 31, 40),
            (0, ((0, 3), (2,), ()), i32, None, 5),
            (2, ((2, 3), (2,), ()), i32, far, 1),
        )
    ]
    return tuple(out)


def mistakes() -> tuple[Mistake[OneHotAttrs], ...]:
    """Wrong axes, shapes, depths and types."""
    o, f, i32 = OneHotAttrs, DataType.FLOAT, DataType.INT32
    shapes, types, data = ((2, 3), (2,), ()), (i32, f, i32), (None, None, np.array(4))
    return (
        Mistake("AR303", "an axis outside the rank of the output", o(3), shapes, types, data),
        Mistake("AR303", "an axis before the first", o(-4), shapes, types, data),
        Mistake("AR123", "other than two values", o(0), ((2, 3), (3,), ()), types, data),
        Mistake("AR123", "values of a rank other than 1", o(0), ((2, 3), (1, 2), ()), types, data),
        Mistake("AR123", "other than two values at run time", o(0), ((2, 3), (3,), ()), types, data, True),
        Mistake("AR123", "a depth that is not a scalar", o(0), ((2, 3), (2,), (1,)), types, data),
        Mistake("AR120", "a depth of 0", o(0), shapes, types, (None, None, np.array(0))),
        Mistake(
            "AR120", "a depth below 1 at run time", o(0), shapes, types, (None, None, np.array(-1)), True
        ),
        Mistake("AR202", "non-integer indices", o(0), shapes, (f, f, i32), data),
        Mistake("AR202", "an unsupported element type", o(0), shapes, (i32, DataType.E8M0, i32), data),
        Mistake("AR115", "an output of more than 8 dimensions", o(0), ((1,) * 8, (2,), ()), types, data),
    )


OPS = (
    Op(
        layer=LayerType.ONE_HOT,
        cls="IOneHotLayer",
        methods=(
            Method(
                "add_one_hot",
                ("indices", "values", "depth", "axis"),
                example="values = network.add_constant((2,), np.float32([0, 1])).get_output(0)\n"
                "depth = network.add_constant((), np.array(10, np.int32)).get_output(0)\n"
                "layer = network.add_one_hot(indices, values, depth, -1)",
            ),
        ),
        inputs=(
            Input("indices", INTS),
            Input("values", STORAGE, axes="2"),
            Input("depth", INTS, shape_values=True, axes=""),
        ),
        attrs=OneHotAttrs,
        expand=expand,
        ref=ref,
        doc="Inserts an axis of size depth. The output is values[1] where the position along it equals the "
        "index, and values[0] elsewhere. Negative indices count from depth; others out of range select "
        "nothing. int64 indices, values of bool or of at most 8 bits, and an input as depth are extensions.",
        cases=cases,
        mistakes=mistakes,
        onnx=("OneHot",),
        source="operator page OneHot",
    ),
)
