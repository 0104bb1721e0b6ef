"""Casts in ONNX models: numbers and bits that are preserved, and values out of range."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper


@pytest.mark.parametrize("name", ["INT4", "UINT4", "INT2", "UINT2"])
def test_floats_wrap_in_packed_integers(run, name):
    x = np.arange(-9, 16).astype(np.float32)
    y = run("Cast", {"x": x}, to=TensorProto.DataType.Value(name))
    np.testing.assert_array_equal(
        y, x.astype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(name)))
    )


@pytest.mark.parametrize(
    "name", ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1"]
)
def test_numbers_too_large_for_small_floats_are_the_largest_or_none(run, name):
    kind = TensorProto.DataType.Value(name)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    x = np.array([1e9, -240.0, 464, 465, 61439, -61440, np.inf, 0.1, 3, np.nan], np.float32)
    top = float(ml_dtypes.finfo(dtype).max)
    for saturate, expected in ((1, np.clip(x, -top, top)), (0, x)):
        y = run("Cast", {"x": x}, to=kind, saturate=saturate)
        np.testing.assert_array_equal(y.astype(np.float32), expected.astype(dtype).astype(np.float32))


# Significant bits, and the exponent of the least normal number.
@pytest.mark.parametrize(("name", "digits", "least"), [
    ("FLOAT16", 11, -14), ("BFLOAT16", 8, -126), ("FLOAT8E4M3FN", 4, -6), ("FLOAT8E4M3FNUZ", 4, -7),
    ("FLOAT8E5M2", 3, -14), ("FLOAT8E5M2FNUZ", 3, -15), ("FLOAT4E2M1", 2, 0),
])  # fmt: skip
def test_float64_is_rounded_to_narrow_floats_once(run, name, digits, least):
    ties = 1 + np.arange(1, 2**digits, 2) / 2**digits  # between two numbers
    powers = 2.0 ** np.arange(least - digits, min(least + 3, 2))
    x = np.concatenate([np.outer(powers, ties * (1 + d)).reshape(-1) for d in (0, 2.0**-40, -(2.0**-40))])
    got = run("Cast", {"x": x}, to=TensorProto.DataType.Value(name), opset=23)
    step = 2.0 ** (np.maximum(np.floor(np.log2(x)), least) - digits + 1)
    np.testing.assert_array_equal(got.astype(np.float64), np.rint(x / step) * step)


@pytest.mark.parametrize(("name", "end"), [
    ("FLOAT8E4M3FN", 464.0), ("FLOAT8E4M3FNUZ", 248.0), ("FLOAT8E5M2FNUZ", 61440.0),
])  # fmt: skip
def test_float64_beyond_small_floats_is_none_of_them(run, name, end):
    x = np.array([end - 2.0**-30, end, end + 2.0**-30])
    got = run("Cast", {"x": x}, to=TensorProto.DataType.Value(name), saturate=0)
    assert np.isnan(got.astype(np.float32)).tolist() == [False, end != 464, True]


def test_float64_below_the_end_of_float16_is_its_largest_number(run):
    x = np.array([65519.9999999, 65520.0, -65519.9999999, 1e300, np.inf, np.nan, -0.0])
    got = run("Cast", {"x": x}, to=TensorProto.FLOAT16)
    np.testing.assert_array_equal(got, np.float16([65504, np.inf, -65504, np.inf, np.inf, np.nan, -0.0]))


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_float64_is_rounded_to_powers_of_two_once(run, mode):
    x = np.array([1 + 2.0**-40, 1 - 2.0**-40, 1.5 - 2.0**-40, 1.5 + 2.0**-40, 1.5, -2.0])
    y = run("Cast", {"x": x}, to=TensorProto.FLOAT8E8M0, round_mode=mode, opset=25)
    expected = {"up": [2, 1, 2, 2, 2, 2], "down": [1, 0.5, 1, 1, 1, 2], "nearest": [1, 1, 1, 2, 2, 2]}
    assert y.astype(np.float32).tolist() == expected[mode]


@pytest.mark.parametrize(("source", "target"), [("f4", "u4"), ("i8", "f8"), ("f2", "i2"), ("?", "i1")])
def test_bits_stay_in_a_bit_cast(run, source, target):
    x = np.array([[0, 1, -2.0], [3, 100, 7]]).astype(source)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(target))
    np.testing.assert_array_equal(run("BitCast", {"x": x}, to=kind, opset=26), x.view(target))


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_powers_of_two_are_rounded_as_set(run, mode, saturate):
    x = np.array([0, 1e-40, 0.7, 0.75, -1.5, 2, 3.4e38, np.inf, np.nan, 5.9e-39, 1.49], np.float32)
    y = run("Cast", {"x": x}, to=TensorProto.FLOAT8E8M0, round_mode=mode, saturate=saturate, opset=25)
    expected = numpy_helper.to_float8e8m0(x, bool(saturate), mode)
    np.testing.assert_array_equal(y.astype(np.float32), expected.astype(np.float32))
