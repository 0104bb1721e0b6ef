"""Arithmetic that several expansions share."""

from __future__ import annotations

from collections.abc import Callable

from anyrt.core.dims import product
from anyrt.core.enums import DataType
from anyrt.ir.graph import Value, apply
from anyrt.prims.build import cast, map_, reduce_, reshape, scalar
from anyrt.prims.const import Shape


def in_float(value: Value, compute: Callable[[Value], Value]) -> Value:
    """`compute` in float32, so that constants are not rounded to a half type;
    the result has the type of `value`."""
    return cast(compute(cast(value, DataType.FLOAT)), value.dtype)


def mean(value: Value, axes: tuple[int, ...]) -> Value:
    """The sum over `axes`, which stay with size 1, divided by the number of elements (integers:
    towards zero)."""
    total = reduce_("sum", value, axes)
    count = product(value.shape[a] for a in axes)
    if isinstance(count, int):
        return map_("div", total, scalar(count, total))
    elements = cast(apply(Shape((count,))), total.dtype)
    return map_("div", total, reshape(elements, (1,) * total.type.rank))


def softmax(value: Value, axis: int) -> Value:
    """exp(x - max) / sum along `axis`."""
    powers = map_("exp", map_("sub", value, reduce_("max", value, (axis,))))
    return map_("div", powers, reduce_("sum", powers, (axis,)))
