"""Loops are split until no index divides them, six times at most; remaining divisions are correct."""

import re

from anyrt.core.enums import DataType
from anyrt.core.enums import ResizeCoordinateTransformation as Coordinate
from anyrt.core.enums import ResizeSelector as Selector
from anyrt.ir.graph import Graph, Value
from anyrt.ir.kerneltext import print_kernels
from anyrt.prims import build as b
from anyrt.prims.taps import Linear
from anyrt.schedule.cost import Sizes
from tests import native
from tests.native import verify
from tests.targets import host


def lowered(x: Value, y: Value) -> native.Lowered:
    return native.lower(Graph((("x", x),), (("y", y),)), {}, Sizes())


def text(result: native.Lowered) -> list[str]:
    return print_kernels(result.module.kernels).splitlines()


def terms(index: str) -> list[str]:
    """The terms of an index, with any names of variables."""
    return sorted(re.sub(r"\b([iv])\.?\d+", r"\1", index).split(" + "))


def reversed_bits(count: int) -> native.Lowered:
    """Element i comes from the position whose bits are those of i in reverse order."""
    x = b.param("x", (2**count,), DataType.FLOAT)
    turned = b.transpose(b.reshape(x, (2,) * count), tuple(reversed(range(count))))
    return lowered(x, b.reshape(turned, (2**count,)))


def rows_with_reversed_bits() -> native.Lowered:
    """The same in rows of 256, in two steps, as operand of a resize that stores its rows."""
    x = b.param("x", (4, 256), DataType.FLOAT)
    turned = b.transpose(b.reshape(x, (4, 2, 2, 2, 2, 2, 2, 4)), (0, 7, 6, 5, 4, 3, 2, 1))
    row = b.reshape(b.transpose(b.reshape(turned, (4, 2, 2, 64)), (0, 2, 1, 3)), (4, 256))
    heavy = b.map_("mul", b.map_("abs", row), b.map_("sigmoid", row))
    return lowered(x, b.taps(heavy, 0, 8, Linear(Coordinate.HALF_PIXEL, Selector.FORMULA)))


def test_six_splits_take_all_divisions_away():
    result = reversed_bits(7)
    assert not any("floordiv" in line or "mod(" in line for line in text(result))
    assert sum("0.. < 2 {" in line for line in text(result)) == 7
    assert verify(result, host(), [{}]) == ()


def test_after_six_splits_an_index_that_still_divides_stays_and_is_right():
    result = reversed_bits(8)
    *loops, store = text(result)[3:11]
    assert [re.sub(r" i\d+ 0", "", line.strip()) for line in loops] == [
        "for serial.. < 4 {",
        *["for serial.. < 2 {"] * 4,
        "for vector.. < 2 {",
        "for tile.. < 2 {",
    ]
    write, read = (terms(x) for x in re.findall(r"\[(.*?)\]", store))
    assert write == ["16*i", "2*i", "32*i", "4*i", "64*i", "8*i", "i"]
    assert read == ["128*i", "16*i", "2*mod(i, 2)", "32*i", "4*i", "64*i", "8*i", "floordiv(i, 2)"]
    assert verify(result, host(), [{}]) == ()


def test_rows_that_a_resize_keeps_are_split_six_times_too():
    result = rows_with_reversed_bits()
    reads = [terms(line.split("abs(in_x[")[1].split("])")[0]) for line in text(result) if "abs(" in line]
    assert reads == [
        ["128*i", "16*i", "2*mod(i, 2)", "256*v", "32*i", "4*i", "64*i", "8*i", "floordiv(i, 2)"],
        ["128*i", "16*i", "2*i", "256*v", "32*i", "4*floordiv(i, 2)", "64*i", "8*mod(i, 2)", "i"],
    ]
    assert verify(result, host(), [{}]) == ()
