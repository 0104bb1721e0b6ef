"""Concatenation: tensors joined along one axis.

layer = add_concatenation([a, b])
layer.axis = 1
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ShapeError
from anyrt.ir.graph import Value
from anyrt.ops._check import check_axis, check_same_rank
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import STORAGE
from anyrt.prims.build import concat, identity


def default_axis(rank: int) -> int:
    """The third axis from the end: the channels of an image."""
    return max(rank - 3, 0)


@dataclass(frozen=True, slots=True)
class ConcatenationAttrs(Attrs):
    """Attributes of Concatenation."""

    axis: int | None = attr(Kind.INT, "the axis along which tensors are joined", None, from_rank=default_axis)


def expand(layer: Layer[ConcatenationAttrs]) -> tuple[Value, ...]:
    """One `Concat`."""
    values = [layer.input(i) for i in range(len(layer.inputs))]
    rank = values[0].type.rank
    check_same_rank(layer.name, values)
    if rank == 0:
        raise ShapeError("AR101", layer.name, "inputs of rank 0", "rank >= 1", "add a dimension of size 1")
    axis = default_axis(rank) if layer.attrs.axis is None else layer.attrs.axis
    check_axis(layer.name, axis, rank)
    return (identity(values[0]) if len(values) == 1 else concat(values, axis),)


def ref(attrs: ConcatenationAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """np.concatenate."""
    axis = default_axis(arrays[0].ndim) if attrs.axis is None else attrs.axis
    return (np.concatenate(arrays, axis),)


def dla(layer: Layer[ConcatenationAttrs]) -> str | None:
    """DLA supports at least two inputs, joined along the channels."""
    if len(layer.inputs) < 2:
        return "DLA concatenates at least two inputs"
    rank = layer.input(0).type.rank
    axis = default_axis(rank) if layer.attrs.axis is None else layer.attrs.axis
    return None if rank == 4 and axis == 1 else "DLA concatenates 4 dimensions along the channels (axis 1)"


def cases() -> tuple[Case[ConcatenationAttrs], ...]:
    """Every type, one to five inputs, every axis, empty parts, ranks to 8."""
    a = ConcatenationAttrs
    out = [Case(a(), ((1, 2, 3, 5), (1, 1, 3, 5)), (t,)) for t in sorted(STORAGE, key=int)]
    out += [Case(a(axis), ((2, 3, 5),) * 3) for axis in (0, 1, 2)]
    eight = (1, 2, 1, 2, 1, 3, 1, 2)
    out += [
        Case(a(), ((7,), (1,), (15,))),
        Case(a(), ((3, 2),)),
        Case(a(1), ((2, 0), (2, 3), (2, 0))),
        Case(a(1), ((0, 2), (0, 3))),
        Case(a(0), tuple((n, 2) for n in (1, 2, 3, 17, 31))),
        Case(a(7), (eight, eight)),
        Case(a(1), ((2, 3), (2, 5)), (DataType.INT8,), low=-100, high=100, int8=((0.5, 0.25), 0.5)),
    ]
    return tuple(out)


def mistakes() -> tuple[Mistake[ConcatenationAttrs], ...]:
    """Ranks, sizes, types and axes."""
    a = ConcatenationAttrs
    return (
        Mistake("AR113", "sizes that differ along another axis", a(0), ((2, 3), (2, 4))),
        Mistake("AR122", "inputs of different rank", a(0), ((2, 3), (2,))),
        Mistake("AR203", "inputs of different types", a(0), ((2, 3),) * 2, (DataType.FLOAT, DataType.HALF)),
        Mistake("AR303", "an axis outside the rank", a(2), ((2, 3), (2, 3))),
        Mistake("AR303", "a negative axis", a(-1), ((2, 3), (2, 3))),
        Mistake("AR101", "inputs of rank 0", a(), ((), ())),
        Mistake("AR202", "a type that Concatenation does not take", a(), ((2,), (3,)), (DataType.E8M0,)),
        Mistake("AR113", "sizes that differ at run time", a(0), ((2, 3), (2, 4)), dynamic=True),
    )


OPS = (
    Op(
        layer=LayerType.CONCATENATION,
        cls="IConcatenationLayer",
        methods=(
            Method(
                "add_concatenation",
                ("inputs",),
                variadic=True,
                example="layer = network.add_concatenation([a, b])\nlayer.axis = 1",
            ),
        ),
        inputs=(Input("inputs", STORAGE, same_as=0),),
        attrs=ConcatenationAttrs,
        expand=expand,
        ref=ref,
        doc="Concatenates tensors of the same type and rank along an axis, by default the third from the "
        "end. uint8, fp8 and 4-bit types are an extension.",
        cases=cases,
        mistakes=mistakes,
        dla=dla,
        onnx=("Concat",),
        source="operator page Concatenation",
    ),
)
