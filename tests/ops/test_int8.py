"""The semantics of INT8 tensors with dynamic ranges."""

import numpy as np
import pytest

from anyrt.core.enums import (
    ActivationType,
    DataType,
    ElementWiseOperation,
    InterpolationMode,
    ReduceOperation,
    ScaleMode,
    UnaryOperation,
)
from anyrt.core.enums import LayerType as L
from anyrt.ir.graph import Graph, walk
from anyrt.ir.interpret import interpret
from anyrt.ops import OPS
from anyrt.ops._expand import expand_layer, output_scale
from anyrt.ops._record import Layer, weights
from anyrt.prims.build import param


def run(kind, attrs, array, dtype=DataType.INT8, **scales):
    array = np.asarray(array)
    x = param("x", array.shape, dtype)
    y = expand_layer(OPS[kind], Layer("layer", attrs, (x,)), **scales)[0]
    return interpret(Graph((("x", x),), (("y", y),)), {"x": array}, {})["y"]


def attrs_of(kind, *args):
    return OPS[kind].attrs(*args)


def test_ties_round_to_even_and_the_rest_saturates():
    halves = attrs_of(L.SCALE, ScaleMode.UNIFORM, weights(0.0), weights(0.5))
    x = np.int8([1, 3, 5, -1, -3, 127]).reshape(1, 1, 1, 6)
    assert run(L.SCALE, halves, x).reshape(-1).tolist() == [0, 2, 2, 0, -2, 64]
    assert run(L.SCALE, halves, x, out_scale=0.1).reshape(-1).tolist() == [5, 15, 25, -5, -15, 127]


@pytest.mark.parametrize(("op", "want"), [("SUM", [127, -128]), ("PROD", [127, -128]), ("AVG", [68, -68])])
def test_sums_and_products_saturate_and_averages_round(op, want):
    attrs = attrs_of(L.REDUCE, ReduceOperation[op], 2, False)
    assert run(L.REDUCE, attrs, np.int8([[100, 100, 3], [-100, -100, -3]])).tolist() == want


@pytest.mark.parametrize(("op", "want"), [("SUM", [127, 7, 1, 0]), ("DIV", [1, 2, 127, -128])])
def test_elementwise_arithmetic_saturates_and_rounds(op, want):
    a, b = (param(n, (4,), DataType.INT8) for n in "ab")
    layer = Layer("layer", attrs_of(L.ELEMENTWISE, ElementWiseOperation[op]), (a, b))
    (y,) = expand_layer(OPS[L.ELEMENTWISE], layer)
    feeds = {"a": np.int8([100, 5, 1, 0]), "b": np.int8([100, 2, 0, 0])}
    assert interpret(Graph((("a", a), ("b", b)), (("y", y),)), feeds, {})["y"].tolist() == want


def test_the_lowest_code_has_a_magnitude_of_127():
    for op in (UnaryOperation.NEG, UnaryOperation.ABS):
        assert run(L.UNARY, attrs_of(L.UNARY, op), np.int8([-128])).tolist() == [127]


def test_average_of_nothing_is_the_lowest_code():
    average = attrs_of(L.REDUCE, ReduceOperation.AVG, 2, False)
    assert run(L.REDUCE, average, np.zeros((2, 0), np.int8)).tolist() == [-128, -128]


def test_maximum_and_minimum_of_nothing_saturate():
    for op, lowest in ((ReduceOperation.MAX, -128), (ReduceOperation.MIN, 127)):
        assert run(L.REDUCE, attrs_of(L.REDUCE, op, 1, False), np.zeros(0, np.int8)) == lowest


def test_scale_quantises_if_its_output_is_int8():
    identity = attrs_of(L.SCALE, ScaleMode.UNIFORM)
    x = np.float32([0.5, 1.5, -2.5, 1e9]).reshape(1, 1, 1, 4)
    y = run(L.SCALE, identity, x, DataType.FLOAT, out_type=DataType.INT8)
    assert y.reshape(-1).tolist() == [0, 2, -2, 127]


def test_output_type_of_identity_converts_as_cast_does():
    x = np.float32([1.7, -1.7, 300.0])
    assert run(L.IDENTITY, attrs_of(L.IDENTITY), x, DataType.FLOAT, out_type=DataType.INT8).tolist() == [
        1,
        -1,
        127,
    ]


def test_dequantised_output_keeps_the_real_numbers():
    relu = attrs_of(L.ACTIVATION, ActivationType.RELU)
    y = run(L.ACTIVATION, relu, np.int8([-4, 4]), in_scales=(0.5,), out_type=DataType.FLOAT)
    assert y.tolist() == [0.0, 2.0]


@pytest.mark.parametrize(("out_scale", "want"), [(None, [4, -7]), (0.5, [4, -7]), (0.25, [8, -14])])
def test_copied_codes_change_only_with_the_scale(out_scale, want):
    y = run(L.IDENTITY, attrs_of(L.IDENTITY), np.int8([4, -7]), in_scales=(0.5,), out_scale=out_scale)
    assert y.tolist() == want


def test_copying_layer_hands_on_the_scale_of_its_operand():
    layer = Layer("layer", attrs_of(L.IDENTITY), (param("x", (2,), DataType.INT8),))
    assert output_scale(OPS[L.IDENTITY], layer, (0.5,), None) == 0.5
    assert output_scale(OPS[L.IDENTITY], layer, (0.5,), 0.25) == 0.25


def test_computing_layer_without_a_range_has_scale_1():
    layer = Layer("layer", attrs_of(L.SCALE, ScaleMode.UNIFORM), (param("x", (1, 1, 1, 2), DataType.INT8),))
    assert output_scale(OPS[L.SCALE], layer, (0.5,), None) == 1.0


def test_nearest_resize_copies_codes_without_arithmetic():
    x = param("x", (4,), DataType.INT8)
    nearest = attrs_of(L.RESIZE, InterpolationMode.NEAREST, (8,))
    y = expand_layer(OPS[L.RESIZE], Layer("layer", nearest, (x,)), in_scales=(0.5,))[0]
    assert [type(v.op).__name__ for v in walk([y])] == ["Param", "Taps"]


def test_uint8_resize_rounds_ties_to_even():
    linear = attrs_of(L.RESIZE, InterpolationMode.LINEAR, (6,))
    y = run(L.RESIZE, linear, np.uint8([0, 1, 4]), DataType.UINT8)
    assert y.tolist() == [0, 0, 1, 2, 4, 4]
