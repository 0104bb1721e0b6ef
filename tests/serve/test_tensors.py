"""Tensors of requests: accepted and rejected ones for a port."""

import json
import re

import ml_dtypes
import numpy as np
import pytest

from anyrt.core.enums import DataType
from anyrt.serve.refused import Limits, Reason, Refused
from anyrt.serve.tensors import NAMES, Input, checked_shape, decode_bytes, decode_json, encode_json
from tests.messages import values_in_order

X = Input("x", DataType.FLOAT, (-1, 3), (((1, 3), (4, 3)),))
LIMITS = Limits(tensor_elements=9)


def refusal(call, *arguments):
    with pytest.raises(Refused) as raised:
        call(*arguments)
    return raised.value.reason, raised.value.text


def test_shape_that_fits_is_taken():
    assert checked_shape(X, "FP32", [2, 3], LIMITS) == (2, 3)


@pytest.mark.parametrize(
    ("datatype", "shape", "reason", "text"),
    [
        ("FP64", [2, 3], Reason.BAD, "FP64.*FP32"),
        ("BYTES", [2, 3], Reason.NOT_SUPPORTED, "BYTES"),
        (None, [2, 3], Reason.BAD, "None"),
        ("FP32", [2, 4], Reason.BAD, r"\(2, 4\).*\[-1, 3\]"),
        ("FP32", [2], Reason.BAD, r"\(2,\).*\[-1, 3\]"),
        ("FP32", [-2, 3], Reason.BAD, "0 and more"),
        ("FP32", [True, 3], Reason.BAD, "0 and more"),
        ("FP32", [1 << 40, 3], Reason.BAD, "0 and more"),
        ("FP32", [2.0, 3], Reason.BAD, "0 and more"),
        ("FP32", "23", Reason.BAD, "0 and more"),
        ("FP32", None, Reason.BAD, "0 and more"),
        ("FP32", [5, 3], Reason.BAD, "outside all profiles"),
        ("FP32", [4, 3], Reason.TOO_LARGE, "at most 9"),
    ],
)
def test_shape_that_does_not_fit_is_rejected(datatype, shape, reason, text):
    actual, message = refusal(checked_shape, X, datatype, shape, LIMITS)
    assert actual is reason
    assert re.search(text, message)


@pytest.mark.parametrize("dtype", NAMES)
def test_bytes_of_every_type_come_back(dtype):
    types = {DataType.BF16: ml_dtypes.bfloat16, DataType.HALF: np.float16, DataType.DOUBLE: np.float64}
    of = np.dtype(
        types.get(dtype) or {"BOOL": "bool", "FP32": "float32"}.get(NAMES[dtype], NAMES[dtype].lower())
    )
    x = np.array([[0, 1], [1, 0]]).astype(of)
    result = decode_bytes(Input("x", dtype, (-1, 2)), (2, 2), x.tobytes())
    assert result.dtype == of
    np.testing.assert_array_equal(result, x)


@pytest.mark.parametrize("size", [0, 23, 25])
def test_bytes_of_a_wrong_number_are_rejected(size):
    reason, text = refusal(decode_bytes, X, (2, 3), bytes(size))
    assert reason is Reason.BAD
    assert re.search(values_in_order(size, 24), text)


def test_bool_holds_nothing_but_0_and_1():
    assert "0 or 1" in refusal(decode_bytes, Input("b", DataType.BOOL, (-1,)), (1,), b"\2")[1]


def test_json_is_flat_or_nested():
    for data in ([1, 2.5, 3, 4, 5, 6], [[1, 2.5, 3], [4, 5, 6]]):
        assert decode_json(X, (2, 3), data).tolist() == [[1, 2.5, 3], [4, 5, 6]]
    assert decode_json(X, (0, 3), []).shape == (0, 3)


@pytest.mark.parametrize(
    "data",
    [
        None,
        "abc",
        7,
        {},
        [1] * 5,
        [[1, 2], [3, 4], [5, 6]],
        ["a"] * 6,
        [None] * 6,
        [[1, 2, 3], [4, 5]],
        [True] * 6,
    ],
)
def test_json_of_another_shape_or_type_is_rejected(data):
    assert refusal(decode_json, X, (2, 3), data)[0] is Reason.BAD


def test_deep_json_is_rejected():
    data = json.loads("[" * 900 + "]" * 900)
    assert refusal(decode_json, X, (2, 3), data)[0] is Reason.BAD


@pytest.mark.parametrize("value", [128, -129, 1.5, 10**30])
def test_integers_outside_of_a_type_are_rejected(value):
    assert refusal(decode_json, Input("i", DataType.INT8, (-1,)), (1,), [value])[0] is Reason.BAD


def test_half_types_and_nan_have_no_json():
    half = Input("h", DataType.HALF, (-1,))
    assert "send binary" in refusal(decode_json, half, (1,), [1])[1]
    assert "binary" in refusal(encode_json, "y", np.float16([1]), DataType.HALF)[1]
    assert "NaN" in refusal(encode_json, "y", np.float32([np.nan]), DataType.FLOAT)[1]
    assert encode_json("y", np.float32([[1, 2]]), DataType.FLOAT) == [1, 2]
