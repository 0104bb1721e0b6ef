"""Casts and wrapping at the limits of integer types."""

from __future__ import annotations

import numpy as np
import pytest

from anyrt.core.enums import DataType
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.evaluate import evaluate
from anyrt.ir.kernel import load
from anyrt.prims._convert import convert_array, limits, wrap, wrap_array

I8, U8, I4, I32, I64 = DataType.INT8, DataType.UINT8, DataType.INT4, DataType.INT32, DataType.INT64


@pytest.mark.parametrize(("dtype", "modulus"), [(I8, 256), (U8, 256), (I4, 16)])
def test_results_of_narrow_arithmetic_wrap(dtype: DataType, modulus: int):
    wide = np.array(
        [-(2**31), -300, -129, -128, -9, -8, -1, 0, 7, 8, 127, 128, 255, 256, 2**31 - 1], np.int32
    )
    low = limits(dtype)[0]
    expected = ((wide.astype(np.int64) - low) % modulus + low).tolist()
    x = load(Buffer("x", Scalar.I32, Space.INPUT, wide.size), 0)
    got = [evaluate(wrap(x, "add", dtype), {"x": wide[k : k + 1]}, {}).item() for k in range(wide.size)]
    assert got == expected
    assert wrap_array(wide, dtype).tolist() == expected


def test_functions_that_stay_in_range_are_not_wrapped():
    x = load(Buffer("x", Scalar.I32, Space.INPUT), 0)
    assert wrap(x, "max", I8) is x
    assert wrap(x, "add", I32) is x


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (np.array([300, -300, 5]), I8, [44, -44, 5]),
        (np.array([300, -300, 5]), U8, [44, 212, 5]),
        (np.array([9, -9, 5]), I4, [-7, 7, 5]),
        (np.array([300.9, -300.9, np.inf, np.nan]), I8, [127, -128, 127, 0]),
        (np.array([2**31, -1]), I32, [-(2**31), -1]),
        (np.array([2.9, -2.9, np.nan, 1e10]), I32, [2, -2, 0, 2**31 - 1]),
        (np.array([0.1, 0.0, np.nan]), DataType.BOOL, [True, False, True]),
        (np.array([True, False]), I8, [1, 0]),
        (np.array([0.3]), DataType.FP8, [0.3]),
    ],
)
def test_casts(source: np.ndarray, target: DataType, expected: list[object]):
    assert convert_array(source, target).tolist() == expected
