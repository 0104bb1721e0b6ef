"""Scales of codes: a number, or a value of one element, which a refit may change.

times(codes, 0.05)                   # the numbers that codes represent
over(real, scale)                    # numbers divided by the scale
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from anyrt.core.enums import DataType
from anyrt.ir.graph import Value
from anyrt.prims.build import cast, const, map_, reshape, scalar

Scale: TypeAlias = float | Value


def number(scale: Scale, like: Value) -> Value:
    """The scale as a value of the type of `like`, which broadcasts with it."""
    if isinstance(scale, Value):
        return cast(reshape(scale, (1,) * like.type.rank), like.dtype)
    return scalar(scale, like)


def times(x: Value, scale: Scale) -> Value:
    """Each element times the scale."""
    return x if scale == 1 else map_("mul", x, number(scale, x))


def over(x: Value, scale: Scale) -> Value:
    """Each element divided by the scale."""
    return x if scale == 1 else map_("div", x, number(scale, x))


def both(a: Scale, b: Scale) -> Scale:
    """The scale of a product of two codes."""
    if isinstance(a, Value) or isinstance(b, Value):
        return times(_value(a), b)
    return a * b


def ratio(a: Scale, b: Scale) -> Scale:
    """The quotient of two scales."""
    if isinstance(a, Value) or isinstance(b, Value):
        return over(_value(a), b)
    return a / b


def single(scale: Scale) -> Scale:
    """The scale, rounded to float32."""
    return scale if isinstance(scale, Value) else float(np.float32(scale))


def _value(scale: Scale) -> Value:
    return scale if isinstance(scale, Value) else const(np.float32(scale), DataType.FLOAT)
