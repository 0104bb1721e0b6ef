"""Padding: adds zeros around the last two axes, or crops them.

add_padding_nd(x, (1, 0), (1, -2))        # a row of zeros above and below; crops two columns at the right
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyrt.core.dims import add
from anyrt.core.enums import DataType, LayerType
from anyrt.core.errors import ShapeError
from anyrt.core.requirement import Relation
from anyrt.ir.graph import Value
from anyrt.ops._check import Requirements, checked, need, show
from anyrt.ops._record import Array, Attrs, Case, Input, Kind, Layer, Method, Mistake, Op, attr
from anyrt.ops._types import STORAGE
from anyrt.prims.build import identity, pad, slice_


@dataclass(frozen=True, slots=True)
class PaddingAttrs(Attrs):
    """Attributes of Padding: the zeros before and after the last two axes."""

    pre_padding_nd: tuple[int, ...] = attr(
        Kind.DIMS, "zeros before the last two axes; a negative value crops elements"
    )
    post_padding_nd: tuple[int, ...] = attr(
        Kind.DIMS, "zeros after the last two axes; a negative value crops elements"
    )


def expand(layer: Layer[PaddingAttrs]) -> tuple[Value, ...]:
    """A `Pad` for positive padding, a `View` for negative padding."""
    x = layer.input(0)
    if x.type.rank < 4:
        got, do = f"rank {x.type.rank}", "add dimensions of size 1 with a shuffle or unsqueeze"
        raise ShapeError("AR101", layer.name, got, "rank >= 4", do)
    untouched = (0,) * (x.type.rank - 2)
    before = untouched + _two(layer, "pre_padding_nd", layer.attrs.pre_padding_nd)
    after = untouched + _two(layer, "post_padding_nd", layer.attrs.post_padding_nd)
    sizes = [add(d, a + b) for d, a, b in zip(x.shape, before, after, strict=True)]
    rules: Requirements = ()
    for axis, size in enumerate(sizes):
        got, do = f"size {size} for axis {axis}", "crop fewer elements"
        rules += need(layer.name, 0, Relation.LE, size, "AR120", got, "a size of 0 or more", do)
    x = checked(x, rules)  # checked before the conditions of the slice
    more = pad(x, [max(0, n) for n in before], [max(0, n) for n in after], 0.0)
    y = slice_(more, [max(0, -n) for n in before], sizes, [1] * x.type.rank)
    return (identity(x) if y == x else y,)


def _two(layer: Layer[PaddingAttrs], name: str, padding: tuple[int, ...]) -> tuple[int, ...]:
    if len(padding) != 2:
        got, do = f"{name} {show(padding)}", "give (rows, columns)"
        raise ShapeError("AR108", layer.name, got, "2 values", do)
    return padding


def ref(attrs: PaddingAttrs, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Row by row: the element at the position minus the pre-padding, or 0."""
    x = arrays[0]
    (top, left), (bottom, right) = attrs.pre_padding_nd, attrs.post_padding_nd
    height, width = x.shape[-2:]
    y = np.zeros((*x.shape[:-2], height + top + bottom, width + left + right), x.dtype)
    for row in range(y.shape[-2]):
        for column in range(y.shape[-1]):
            if 0 <= row - top < height and 0 <= column - left < width:
                y[..., row, column] = x[..., row - top, column - left]
    return (y,)


def cases() -> tuple[Case[PaddingAttrs], ...]:
    """Every type; padding, cropping and both at once; neither; empty tensors; more than four axes."""
    p = PaddingAttrs
    around = p((1, 2), (3, 0))
    return (
        *(Case(around, ((1, 2, 3, 4),), (t,)) for t in sorted(STORAGE, key=int)),
        *(Case(p((-1, 0), (-1, -2)), ((2, 1, 4, 5),), (t,)) for t in (DataType.FLOAT, DataType.INT8)),
        Case(p((2, -3), (-1, 1)), ((1, 2, 3, 5),)),
        Case(p((-4, 0), (6, 0)), ((2, 2, 3, 4),)),  # begins after the input: zeros only
        Case(p((0, 0), (0, 0)), ((1, 2, 3, 4),)),
        Case(p((-3, 1), (0, 1)), ((2, 3, 3, 4),)),
        Case(p((1, 1), (1, 1)), ((1, 0, 2, 2),)),
        Case(p((2, 0), (0, 1)), ((1, 1, 0, 3),)),
        Case(p((1, 0), (0, -1)), ((1, 1, 2, 3),)),
        Case(p((0, 1), (1, -1)), ((2, 1, 2, 1, 3, 2),)),
    )


def mistakes() -> tuple[Mistake[PaddingAttrs], ...]:
    """Wrong ranks, numbers of values, and sizes."""
    p, x = PaddingAttrs, ((1, 2, 3, 4),)
    return (
        Mistake("AR101", "an input of fewer than four dimensions", p((1, 1), (1, 1)), ((2, 3, 4),)),
        Mistake("AR108", "a number of values other than two", p((1,), (1, 1)), x),
        Mistake("AR108", "a number of values other than two in post_padding", p((1, 1), (0, 0, 1)), x),
        Mistake("AR120", "more cropped than exists", p((-2, 0), (-2, 0)), x),
        Mistake("AR120", "more cropped than exists at run time", p((-2, 0), (-2, 0)), x, dynamic=True),
        Mistake("AR202", "an unsupported element type", p((1, 1), (1, 1)), x, (DataType.E8M0,)),
    )


PARAMETERS = ("input", "pre_padding", "post_padding")
RENAMED = (("pre_padding", "pre_padding_nd"), ("post_padding", "post_padding_nd"))
OPS = (
    Op(
        layer=LayerType.PADDING,
        cls="IPaddingLayer",
        methods=tuple(
            Method(name, PARAMETERS, renamed=RENAMED, example=f"layer = network.{name}(x, (1, 1), (0, -2))")
            for name in ("add_padding_nd", "add_padding")
        ),
        inputs=(Input("input", STORAGE),),
        attrs=PaddingAttrs,
        expand=expand,
        ref=ref,
        doc="Adds zeros around the last two axes. Output position i reads input position i − pre; the output "
        "is 0 outside the input. A negative padding crops. `add_padding` is the method of TensorRT 8. Types "
        "other than float32, float16, int8 and int32 are extensions.",
        cases=cases,
        mistakes=mistakes,
        source="operator page Padding",
    ),
)
