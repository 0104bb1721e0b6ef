"""Operands for the examples of rules, and the unit of their tolerances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from anyrt.core.enums import DataType
from anyrt.ir.graph import Value
from anyrt.prims import build

Below = Callable[[int], int]  # a random number below its argument

HALVES: Final = (DataType.HALF, DataType.BF16)
FLOATS: Final = (DataType.FLOAT, *HALVES)
NUMBERS: Final = (*FLOATS, DataType.INT32, DataType.INT64, DataType.INT8, DataType.UINT8)
EVERY: Final = (*NUMBERS, DataType.BOOL, DataType.FP8)
UNIT: Final = 2.0**-24  # the relative error of one rounding to float32


def operand(draw: Below, *types: DataType) -> Value:
    """An input of a few rows, of one of `types`."""
    return build.param("x", (1 + draw(4), 1 + draw(4)), types[draw(len(types))])


def like(x: Value, number: float) -> Value:
    """`number` in the type and rank of `x`."""
    return build.scalar(number, x)
