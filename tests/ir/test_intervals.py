"""Intervals inferred from the form of a value's expression."""

from __future__ import annotations

import pytest

from anyrt.core.enums import DataType
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.intervals import interval
from anyrt.ir.kernel import Expr, Op, alu, cast, const, load, select
from anyrt.prims._convert import convert

X = load(Buffer("x", Scalar.F32, Space.INPUT), 0)
BYTE = cast(load(Buffer("b", Scalar.U8, Space.INPUT), 0), Scalar.I32)
ABOVE = select(const(-3.5, Scalar.F32) < X, X, -3.5)
INSIDE = select(ABOVE < 7.5, ABOVE, 7.5)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (const(2.0, Scalar.F32), (2.0, 2.0)),
        (const(float("nan"), Scalar.F32), None),
        (X, None),
        (BYTE, (0.0, 255.0)),
        (cast(BYTE, Scalar.F32), (0.0, 255.0)),
        (ABOVE, (-3.5, float("inf"))),
        (INSIDE, (-3.5, 7.5)),
        (alu(Op.RINT, INSIDE), (-4.0, 8.0)),
        (alu(Op.MAX, INSIDE, const(0.0, Scalar.F32)), (0.0, 7.5)),
        (alu(Op.MIN, INSIDE, const(3.0, Scalar.F32)), (-3.5, 3.0)),
        (alu(Op.MAX, X, const(0.0, Scalar.F32)), None),  # as it may be NaN
        (cast(INSIDE, Scalar.I32), (-3.0, 7.0)),
        (cast(ABOVE, Scalar.I32), None),  # infinity becomes another number
        (cast(INSIDE, Scalar.U8), None),  # and so does −3
        (select(X < 7.5, X, 7.5), (float("-inf"), 7.5)),
        (select(X < 7.5, 7.5, X), None),  # NaN propagates
    ],
)
def test_intervals(x: Expr, expected: tuple[float, float] | None):
    assert interval(x) == expected


def test_a_value_in_range_is_converted_without_limits():
    assert convert(INSIDE, DataType.FLOAT, DataType.INT8) is cast(INSIDE, Scalar.I32)
    assert convert(INSIDE, DataType.FLOAT, DataType.UINT8) is not cast(INSIDE, Scalar.I32)


def test_integers_that_are_computed_and_cannot_wrap():
    row, column = (cast(load(Buffer(n, Scalar.U8, Space.INPUT), 0), Scalar.I32) for n in "rc")
    at = row * 640 + column
    assert interval(at) == (0, 255 * 640 + 255)
    assert interval(row * -3 + 7) == (7 - 765, 7)
    assert interval(at * at) is None
    assert interval(select(at < 9, at, 0) * column) == (0, 9 * 255)
    assert interval(alu(Op.MIN, row - 300, column)) == (-300, -45)
    assert interval(alu(Op.MAX, row - 300, const(-100, Scalar.I32))) == (-100, -45)
