"""Element types: sizes, NumPy counterparts, packing, and the casting rules of all kernels."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyrt.core import dtype
from anyrt.core.enums import DataType
from anyrt.core.errors import DTypeError
from tests.messages import diagnostic

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("t", DataType)
def test_every_type_has_a_name_and_a_numpy_type_that_lead_back(t: DataType):
    assert dtype.parse(dtype.short_name(t)) is t
    assert dtype.from_numpy(dtype.numpy_dtype(t)) is t
    assert dtype.from_numpy(dtype.numpy_dtype(t).type) is t


def test_short_names_are_the_documented_ones():
    names = [dtype.short_name(t) for t in DataType]
    assert names == [
        "float32", "float16", "int8", "int32", "bool", "uint8",
        "fp8", "bfloat16", "int64", "int4", "fp4", "e8m0",
        "float64", "int16", "uint16", "uint32", "uint64", "uint4", "int2", "uint2",
        "fp8e5m2", "fp8e4m3fnuz", "fp8e5m2fnuz",
    ]  # fmt: skip


def test_kinds_partition_the_types():
    floats = {"FLOAT", "HALF", "BF16", "FP8", "FP4", "E8M0"}
    floats |= {"DOUBLE", "FP8E5M2", "FP8E4M3FNUZ", "FP8E5M2FNUZ"}
    unsigned = {"UINT8", "UINT16", "UINT32", "UINT64", "UINT4", "UINT2"}
    integers = unsigned | {"INT8", "INT16", "INT32", "INT64", "INT4", "INT2"}
    assert {t.name for t in DataType if dtype.is_float(t)} == floats
    assert {t.name for t in DataType if dtype.is_integer(t)} == integers
    assert {t.name for t in DataType if not dtype.is_signed(t)} == {"BOOL", "E8M0"} | unsigned
    assert {t.name for t in DataType if dtype.is_packed(t)} == {"INT4", "FP4", "UINT4", "INT2", "UINT2"}


@pytest.mark.parametrize("bad", [np.longdouble, np.complex64, np.dtype(">f4"), "S3", object])
def test_foreign_numpy_types_are_rejected(bad: np.dtype):
    with pytest.raises(DTypeError, match="AR204"):
        dtype.from_numpy(bad)


def test_unknown_type_name_is_rejected():
    with pytest.raises(DTypeError, match=r"AR207.*'float'"):
        dtype.parse("float")


@pytest.mark.parametrize(
    ("t", "count", "size"),
    [
        (DataType.FLOAT, 3, 12),
        (DataType.BOOL, 3, 3),
        (DataType.INT4, 3, 2),
        (DataType.FP4, 4, 2),
        (DataType.INT4, 0, 0),
        (DataType.UINT2, 5, 2),
    ],
)
def test_storage_rounds_packed_types_up_to_bytes(t: DataType, count: int, size: int):
    assert dtype.storage_bytes(t, count) == size


def test_packing_puts_the_first_element_into_the_low_nibble():
    x = np.array([1, -1, 7, -8, 3]).astype(dtype.numpy_dtype(DataType.INT4))
    assert dtype.pack4(x).tolist() == [0xF1, 0x87, 0x03]
    assert dtype.pack4(np.array([1, -1, 0, -2, 1]).astype("int2")).tolist() == [0b10_00_11_01, 0b01]


@pytest.mark.parametrize("t", [DataType.UINT4, DataType.INT2, DataType.UINT2])
def test_unpacking_gives_back_every_number_of_few_bits(t: DataType):
    low = -2 if t is DataType.INT2 else 0
    x = np.arange(low, low + (1 << dtype.bits(t))).astype(dtype.numpy_dtype(t))
    assert dtype.unpack4(dtype.pack4(x), x.size, t).tolist() == x.tolist()


@pytest.mark.parametrize(
    ("t", "values", "expected"),
    [
        (DataType.UINT64, [3.9, -1.0, 1e30, np.nan], [3, 0, 2**64 - 1, 0]),
        (DataType.UINT32, [4294967295.0, 4294967296.0, -0.5], [2**32 - 1, 2**32 - 1, 0]),
        (DataType.INT16, [-32768.9, 1e9], [-32768, 32767]),
        (DataType.UINT4, [17, -1], [1, 15]),
        (DataType.INT2, [1, 2, 3, 5], [1, -2, -1, 1]),
        (DataType.FP8E5M2, [1e9, -np.inf, 61439, 61440, -0.0], [np.inf, -np.inf, 57344, np.inf, 0]),
        (DataType.FP8E4M3FNUZ, [1e9, -1e9, 1.1, -0.0], [240, -240, 1.125, 0]),
        (DataType.DOUBLE, [1 / 3], [1 / 3]),
    ],
)
def test_types_that_tensorrt_has_not_are_converted_as_numpy_does(t: DataType, values: list, expected: list):
    assert dtype.cast(np.array(values), t).astype(object).tolist() == expected


@given(st.lists(st.integers(-8, 7)))
def test_unpacking_int4_undoes_packing(values: list[int]):
    x = np.array(values, np.int8).astype(dtype.numpy_dtype(DataType.INT4))
    back = dtype.unpack4(dtype.pack4(x), len(values), DataType.INT4)
    assert back.astype(np.int8).tolist() == values


def test_unpacking_fp4_gives_all_sixteen_values():
    packed = bytes(range(0x10, 0x100, 0x22))
    values = dtype.unpack4(packed, 16, DataType.FP4).astype(np.float32)
    assert values.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]


def test_unpacking_too_few_bytes_is_rejected():
    with pytest.raises(DTypeError, match=diagnostic("AR205", 1, 2, 3)):
        dtype.unpack4(b"\x12", 3, DataType.INT4)


@pytest.mark.parametrize(
    ("t", "want"),
    [
        (DataType.INT4, [2, -2, 7, -8, 7, -8, 0]),
        (DataType.INT8, [2, -2, 127, -128, 127, -128, 0]),
        (DataType.UINT8, [2, 0, 255, 0, 255, 0, 0]),
        (DataType.INT32, [2, -2, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0]),
        (DataType.INT64, [2, -2, 2**63 - 1, -(2**63), 2**63 - 1, -(2**63), 0]),
    ],
)
def test_float_to_integer_truncates_and_saturates(t: DataType, want: list[int]):
    x = np.array([2.9, -2.9, 1e30, -1e30, INF, -INF, NAN], np.float32)
    assert dtype.cast(x, t).astype(np.int64).tolist() == want


def test_integer_to_narrower_integer_wraps():
    x = np.array([300, -1, 128, 17])
    assert dtype.cast(x, DataType.UINT8).tolist() == [44, 255, 128, 17]
    assert dtype.cast(x, DataType.INT8).tolist() == [44, -1, -128, 17]
    assert dtype.cast(x, DataType.INT4).astype(np.int8).tolist() == [-4, -1, 0, 1]


@pytest.mark.parametrize("source", [np.float16, np.float32, np.int8, "bfloat16", "int4"])
def test_to_bool_asks_whether_it_is_not_zero(source: str):
    x = np.array([0, 1, -3], np.float32).astype(source)
    assert dtype.cast(x, DataType.BOOL).tolist() == [False, True, True]
    assert dtype.cast(np.array([NAN, -0.0]), DataType.BOOL).tolist() == [True, False]


def test_fp8_rounds_to_even_and_saturates_but_keeps_nan():
    x = np.array([1.0625, 1.1875, 449, 1e9, -INF, NAN], np.float32)
    got = dtype.cast(x, DataType.FP8).astype(np.float32)
    assert got.tolist()[:5] == [1.0, 1.25, 448, 448, -448]
    assert np.isnan(got[5])


def test_fp4_rounds_to_even_and_saturates_and_has_no_nan():
    x = np.array([0.25, 0.75, 5, 7, INF, -INF, NAN], np.float32)
    assert dtype.cast(x, DataType.FP4).astype(np.float32).tolist() == [0, 1, 4, 6, 6, -6, 6]


def test_half_types_round_to_even_and_overflow_to_infinity_without_a_warning():
    x = np.array([1 + 2**-11, 1 + 3 * 2**-11, 1e6, 1 + 2**-8, 1 + 3 * 2**-8])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        half = dtype.cast(x, DataType.HALF).astype(np.float64)
        bf16 = dtype.cast(x, DataType.BF16).astype(np.float64)
    assert half.tolist()[:3] == [1, 1 + 2**-9, INF]
    assert bf16.tolist()[3:] == [1, 1 + 2**-6]


def test_float64_is_rounded_once():
    x = np.array([1 + 2.0**-11 + 2.0**-40, 65519.9999999, 1 + 2.0**-8 + 2.0**-40, 1.0625 + 2.0**-40])
    assert dtype.cast(x[:2], DataType.HALF).tolist() == [1 + 2.0**-10, 65504]
    assert dtype.cast(x[2:3], DataType.BF16).tolist() == [1 + 2.0**-7]
    assert dtype.cast(x[3:], DataType.FP8).tolist() == [1.125]


def test_cast_to_the_same_type_copies_nothing():
    x = np.ones(3, np.float32)
    assert dtype.cast(x, DataType.FLOAT) is x
