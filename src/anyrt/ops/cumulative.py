"""Cumulative: the sum or product of all elements up to each one, along an axis.

axis = network.add_constant((), np.array(1, np.int32)).get_output(0)
add_cumulative(x, axis, CumulativeOperation.SUM, exclusive=False, reverse=False)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.enums import CumulativeOperation, DataType, LayerType
from anyrt.core.errors import ShapeError
from anyrt.ir.graph import Value, apply
from anyrt.ops._check import constants, normalized_axes
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import FLOATS, INTS, OWN_NUMBERS, PACKED
from anyrt.prims.build import reshape
from anyrt.prims.scan import Scan

C = CumulativeOperation
TYPES = FLOATS | INTS | (OWN_NUMBERS - PACKED)
FOLDS = {C.SUM: "sum", C.PROD: "prod"}


@dataclass(frozen=True, slots=True)
class CumulativeAttrs(Attrs):
    """Attributes of Cumulative."""

    op: CumulativeOperation = attr(Kind.ENUM, "SUM or PROD", enum=CumulativeOperation)
    exclusive: bool = attr(Kind.BOOL, "whether each sum excludes the element itself", False)
    reverse: bool = attr(Kind.BOOL, "whether sums start at the end of the axis", False)


def expand(layer: Layer[CumulativeAttrs]) -> tuple[Value, ...]:
    """A `Scan`."""
    x, attrs = layer.input(0), layer.attrs
    if x.type.rank == 0:
        raise ShapeError("AR101", layer.name, "rank 0", "rank >= 1", "add a dimension of size 1")
    elements = constants(layer.name, reshape(layer.input(1), (1,)), "axis")
    (axis,) = normalized_axes(layer.name, elements, x.type.rank)
    return (apply(Scan(FOLDS[attrs.op], axis, attrs.reverse, attrs.exclusive), x),)


def ref(attrs: CumulativeAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """One fold of a slice for each position."""
    x, axis = arrays[0], int(arrays[1])
    fold = x.__class__.sum if attrs.op is C.SUM else x.__class__.prod
    wide = np.zeros_like(x)
    for k in range(x.shape[axis]):
        chosen: list[slice | int] = [slice(None)] * x.ndim
        rest = chosen.copy()
        if attrs.reverse:
            rest[axis] = slice(k + attrs.exclusive, None)
        else:
            rest[axis] = slice(0, k + 1 - attrs.exclusive)
        chosen[axis] = k
        with np.errstate(all="ignore"):
            wide[tuple(chosen)] = fold(x[tuple(rest)], axis=axis, dtype=x.dtype)
    return (wide,)


def _case(
    shape: tuple[int, ...], axis: int, exclusive: bool, reverse: bool, dtype: DataType = DataType.FLOAT,
    index: DataType = DataType.INT32, op: CumulativeOperation = C.SUM,
) -> Case[CumulativeAttrs]:  # fmt: skip
    a = CumulativeAttrs(op, exclusive, reverse)
    return Case(a, (shape, ()), (dtype, index), (None, np.array(axis)))


def cases() -> tuple[Case[CumulativeAttrs], ...]:
    """Both directions, with and without the element itself, along every axis, in every type."""
    flags = [(exclusive, reverse) for exclusive in (False, True) for reverse in (False, True)]
    edges = np.array([2**31 - 1, 1, -(2**31), -1])
    wrap = CumulativeAttrs(CumulativeOperation.SUM, False, False)
    special = np.array([[1.0, np.inf, -np.inf, 2.0], [np.nan, 1.0, -0.0, 0.0]])
    return (
        *(_case((3, 17), 1, e, r, t) for e, r in flags for t in sorted(TYPES, key=int)),
        *(_case((2, 5, 33), axis, e, r, op=C.PROD) for e, r in flags for axis in (0, 1, -1)),
        *(_case((3, 7), 1, False, True, t, op=C.PROD) for t in sorted(TYPES, key=int)),
        *(_case((2, 5, 33), axis, e, r) for e, r in flags for axis in (0, 1, -1)),
        _case((31,), 0, False, False, index=DataType.INT64),
        _case((3, 0), 1, True, False),
        _case((0, 3), 1, False, True),
        _case((1, 2, 1, 2, 1, 3, 1, 2), 5, True, True),
        Case(wrap, ((4,), ()), (DataType.INT32, DataType.INT32), (edges, np.array(0))),
        Case(wrap, ((2, 4), ()), (DataType.FLOAT, DataType.INT32), (special, np.array(1))),
    )


def mistakes() -> tuple[Mistake[CumulativeAttrs], ...]:
    """Axes and types."""
    a, f, i = CumulativeAttrs(CumulativeOperation.SUM), DataType.FLOAT, DataType.INT32
    far, zero = (None, np.array(2)), (None, np.array(0))
    return (
        Mistake("AR303", "an axis beyond the rank", a, ((2, 3), ()), (f, i), far),
        Mistake("AR303", "an axis before the first", a, ((2, 3), ()), (f, i), (None, np.array(-3))),
        Mistake("AR123", "an axis of rank 1", a, ((2, 3), (1,)), (f, i), (None, np.array([0]))),
        Mistake("AR101", "an input of rank 0", a, ((), ()), (f, i), zero),
        Mistake("AR202", "a type that Cumulative does not take", a, ((3,), ()), (DataType.BOOL, i), zero),
        Mistake("AR202", "an axis that is not an integer", a, ((3,), ()), (f, f), zero),
    )


OPS = (
    Op(
        layer=LayerType.CUMULATIVE,
        cls="ICumulativeLayer",
        methods=(
            Method(
                "add_cumulative",
                ("input", "axis", "op", "exclusive", "reverse"),
                example="axis = network.add_constant((), np.array(0, np.int32)).get_output(0)\n"
                "layer = network.add_cumulative(x, axis, trt.CumulativeOperation.SUM, False, False)",
            ),
        ),
        inputs=(Input("input", TYPES), Input("axis", INTS, shape_values=True, build_time=True, axes="")),
        attrs=CumulativeAttrs,
        expand=expand,
        ref=ref,
        doc="Replaces each element by the sum of all elements up to it along an axis. `exclusive` leaves out "
        "the element itself; `reverse` sums the elements from it to the end. The axis is a constant of shape "
        "(); a negative axis counts from the end. Floats are summed in float32, in order, and rounded when "
        "they are stored; integers wrap. Few long rows are split into parts, whose sums are computed first. "
        "PROD, which multiplies, and float64 and integers other than int32 and int64 are an extension.",
        cases=cases,
        mistakes=mistakes,
        onnx=("CumSum", "CumProd"),
        source="operator page Cumulative; from 10.8",
    ),
)
