"""Arithmetic that several expansions share."""

from __future__ import annotations

from collections.abc import Callable

from anyrt.core.dims import Dim, product
from anyrt.core.dtype import wide
from anyrt.ir.graph import Value, apply
from anyrt.prims.build import cast, map_, reduce_, reshape, scalar
from anyrt.prims.const import Shape


def in_float(value: Value, compute: Callable[[Value], Value]) -> Value:
    """`compute` in float32, or float64, so that constants are not rounded to a half type;
    the result has the type of `value`."""
    return cast(compute(cast(value, wide(value.dtype))), value.dtype)


def mean(value: Value, axes: tuple[int, ...]) -> Value:
    """The sum over `axes`, which remain with size 1, divided by the number of elements (integers:
    towards zero)."""
    total = reduce_("sum", value, axes)
    return map_("div", total, number(product(value.shape[a] for a in axes), total))


def number(size: Dim, like: Value) -> Value:
    """A size as one number of the element type of `like`, which broadcasts with it."""
    if isinstance(size, int):
        return scalar(size, like)
    return reshape(cast(apply(Shape((size,))), like.dtype), (1,) * like.type.rank)


def from_end(index: Value, length: Dim) -> Value:
    """Indices from 0: negative ones in `index` count from the end of an axis of this length."""
    return map_(
        "select", map_("lt", index, scalar(0, index)), map_("add", index, number(length, index)), index
    )


def softmax(value: Value, axis: int) -> Value:
    """exp(x - max) / sum along `axis`."""
    powers = map_("exp", map_("sub", value, reduce_("max", value, (axis,))))
    return map_("div", powers, reduce_("sum", powers, (axis,)))
