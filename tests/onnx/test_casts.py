"""Types of ONNX models changed: numbers kept, bits kept, and what does not fit."""

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
    for saturate, wanted in ((1, np.clip(x, -top, top)), (0, x)):
        y = run("Cast", {"x": x}, to=kind, saturate=saturate)
        np.testing.assert_array_equal(y.astype(np.float32), wanted.astype(dtype).astype(np.float32))


@pytest.mark.parametrize(("source", "target"), [("f4", "u4"), ("i8", "f8"), ("f2", "i2"), ("?", "i1")])
def test_bits_stay_in_a_bit_cast(run, source, target):
    x = np.array([[0, 1, -2.0], [3, 100, 7]]).astype(source)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(target))
    np.testing.assert_array_equal(run("BitCast", {"x": x}, to=kind, opset=26), x.view(target))


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_powers_of_two_are_rounded_as_asked(run, mode, saturate):
    x = np.array([0, 1e-40, 0.7, 0.75, -1.5, 2, 3.4e38, np.inf, np.nan, 5.9e-39, 1.49], np.float32)
    y = run("Cast", {"x": x}, to=TensorProto.FLOAT8E8M0, round_mode=mode, saturate=saturate, opset=25)
    wanted = numpy_helper.to_float8e8m0(x, bool(saturate), mode)
    np.testing.assert_array_equal(y.astype(np.float32), wanted.astype(np.float32))
