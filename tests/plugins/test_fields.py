"""Fields and field collections."""

import ml_dtypes
import numpy as np
import pytest

import anyrt as trt
from tests.messages import diagnostic

T = trt.PluginFieldType


@pytest.mark.parametrize(
    ("argument", "kind", "expected"),
    [
        (np.array([1, -2], np.int32), T.INT32, np.array([1, -2], np.int32)),
        (np.array([1, -2]), T.INT32, np.array([1, -2], np.int32)),  # 8 bytes each, as NumPy makes them
        (np.float32(0.5), T.FLOAT32, np.array([0.5], np.float32)),
        (np.array(3, np.int32), T.INT32, np.array([3], np.int32)),
        (np.array([True, False]), T.INT32, np.array([1, 0], np.int32)),
        (np.array([]), T.INT64, np.array([], np.int64)),
        (np.arange(6, dtype=np.float64).reshape(2, 3), T.FLOAT64, np.arange(6.0)),
        (b"\0\0\x80\x3f", T.FLOAT32, np.array([1], np.float32)),
        (np.array([1], ml_dtypes.bfloat16), T.BF16, np.array([1], ml_dtypes.bfloat16)),
        (np.array([1, 2], ">i4"), T.INT32, np.array([1, 2], np.int32)),
        (np.array([7, 8], np.uint8), T.UNKNOWN, np.array([7, 8], np.uint8)),
    ],
)
def test_a_field_converts_elements_to_its_type(argument, kind, expected):
    field = trt.PluginField("x", argument, kind)
    assert (field.data.dtype, field.data.tolist(), field.size) == (
        expected.dtype,
        expected.tolist(),
        expected.size,
    )


@pytest.mark.parametrize("text", [b"abc", np.array("abc"), np.array(["abc"], np.bytes_), bytearray(b"abc")])
def test_a_field_of_text_returns_bytes(text):
    assert trt.PluginField("x", text, T.CHAR).data.tobytes() == b"abc"


def test_a_field_borrows_its_array():
    array = np.array([1, 2], np.int32)
    field = trt.PluginField("x", array, T.INT32)
    array[0] = 5
    assert field.data.tolist() == [5, 2]


def test_invalid_data_types_sizes_and_names_are_rejected():
    with pytest.raises(TypeError, match=diagnostic("AR311", "PluginField 'x': data", "list")):
        trt.PluginField("x", [1, 2], T.INT32)
    with pytest.raises(TypeError, match="PluginFieldType"):
        trt.PluginField("x", b"", "INT32")
    with pytest.raises(ValueError, match=diagnostic("AR304", "PluginField 'x': size", 3, 2)):
        trt.PluginField("x", b"ab", T.INT8).size = 3
    with pytest.raises(ValueError, match=r"AR405.*UTF-8"):
        trt.PluginField("\ud800")
    with pytest.raises(ValueError, match=r"AR405.*UTF-8"):
        trt.IPluginV3OneCore().plugin_name = "\ud800"


def test_a_collection_is_a_list():
    a, b, c = (trt.PluginField(n) for n in "abc")
    fields = trt.PluginFieldCollection([a])
    fields.append(c)
    fields.insert(1, b)
    fields.extend([a])
    assert [f.name for f in fields] == ["a", "b", "c", "a"]
    assert (fields.pop(), fields.pop(0), len(fields), bool(fields)) == (a, a, 2, True)
    fields[0] = a
    del fields[1]
    assert list(trt.PluginFieldCollection(fields[0:1])) == [a]
    fields.clear()
    assert not fields


def test_a_creator_returns_the_fields_that_were_set():
    creator = trt.IPluginCreatorV3One()
    creator.field_names = trt.PluginFieldCollection([trt.PluginField("pads", np.array([]), T.INT32)])
    assert [f.name for f in creator.field_names] == ["pads"]
    assert (len(creator.field_names), creator.field_names[0].type) == (1, T.INT32)
    with pytest.raises(TypeError, match="PluginFieldCollection"):
        creator.field_names = "pads"


@pytest.mark.parametrize("argument", [np.int32([7]), np.float32([7.5]), np.float16([7.5])])
def test_a_single_element_converts_to_a_number(argument):
    data = trt.PluginField("n", argument, T[argument.dtype.name.upper()]).data
    assert (int(data), float(data), data.dtype) == (7, argument.item(), argument.dtype)
    assert np.array_equal(data * 2, argument * 2)
    for several in (np.repeat(data, 2), data[:0]):
        with pytest.raises(TypeError):
            int(several)
        with pytest.raises(TypeError):
            float(several)
