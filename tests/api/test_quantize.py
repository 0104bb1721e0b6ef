"""Explicit quantisation: scales of every type, dynamic ranges, both results."""

import re

import ml_dtypes
import numpy as np
import pytest

import anyrt as trt
from anyrt.core.dtype import cast, numpy_dtype
from tests.messages import diagnostic

NONE = trt.MatrixOperation.NONE


def constant(net, array):
    return net.add_constant(array.shape, array).get_output(0)


def built(net, builder, *tensors):
    """An engine with these tensors as outputs y0, y1, …"""
    for k, tensor in enumerate(tensors):
        tensor.name = f"y{k}"
        net.mark_output(tensor)
    return builder.build_engine_with_config(net, builder.create_builder_config())


@pytest.fixture
def builder(log):
    return trt.Builder(log)


def test_every_e8m0_scale_is_read_as_its_power_of_two(builder):
    net = builder.create_network()
    scale = net.add_input("scale", trt.e8m0, (256,))
    layer = net.add_dequantize(constant(net, np.ones(256, np.int8)), scale, trt.float32)
    layer.axis = 0
    codes = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu)
    got = built(net, builder, layer.get_output(0)).run(scale=codes)["y0"]
    assert np.array_equal(got, codes.astype(np.float32), equal_nan=True)


def test_e8m0_scales_are_the_next_powers_of_two(builder):
    net = builder.create_network()
    x = net.add_input("x", trt.float32, (8,))
    layer = net.add_dynamic_quantize(x, 0, 1, trt.fp8, trt.e8m0)
    numbers = np.float32([448, 449, -896, 0, 1e-40, 3e38, np.inf, np.nan])
    got = built(net, builder, layer.get_output(1)).run(x=numbers)["y0"].view(np.uint8)
    assert got.tolist() == [127, 128, 128, 0, 0, 247, 254, 255]


@pytest.mark.parametrize(("of", "count"), [(trt.fp8, 256), (trt.fp4, 16)], ids=["fp8", "fp4"])
def test_every_code_of_a_small_float_is_read_and_written(builder, of, count):
    net = builder.create_network()
    one = constant(net, np.array(1, np.float32))
    codes = net.add_input("codes", of, (count,))
    numbers = net.add_dequantize(codes, one).get_output(0)
    x = net.add_input("x", trt.float32, (2, count))
    engine = built(net, builder, numbers, net.add_quantize(x, one, of).get_output(0))
    every = np.arange(count, dtype=np.uint8).view(numpy_dtype(of))
    want = every.astype(np.float32)
    beside = np.stack([want * np.float32(1.0625), np.nextafter(want * np.float32(1.0625), np.float32(0))])
    got = engine.run(codes=every, x=beside)
    assert np.array_equal(got["y0"], want, equal_nan=True)
    assert np.array_equal(*(a.astype(np.float32) for a in (got["y1"], cast(beside, of))), equal_nan=True)


def test_quantize_and_dequantize_look_at_no_dynamic_range(builder):
    net = builder.create_network()
    x, step = net.add_input("x", trt.float32, (3,)), constant(net, np.array(0.5, np.float32))
    codes = net.add_quantize(x, step).get_output(0)
    codes.dynamic_range = (-1270, 1270)
    numbers = net.add_dequantize(codes, step).get_output(0)
    engine = built(net, builder, net.add_identity(codes).get_output(0), numbers)
    got = engine.run(x=np.float32([1, -2, 100]))
    assert [got["y0"].tolist(), got["y1"].tolist()] == [[2, -4, 127], [1, -2, 63.5]]


def test_codes_are_rounded_to_even_before_anything_reads_them(builder):
    net = builder.create_network()
    x, one = net.add_input("x", trt.float32, (6,)), constant(net, np.array(1, np.float32))
    pairs = [net.add_dequantize(net.add_quantize(x, one, t).get_output(0), one) for t in (trt.fp4, trt.int4)]
    engine = built(net, builder, *(p.get_output(0) for p in pairs))
    got = engine.run(x=np.float32([0.25, 0.75, 2.5, 5, 9, -9]))
    assert got["y0"].tolist() == [0, 1, 2, 4, 6, -6]
    assert got["y1"].tolist() == [0, 1, 2, 5, 7, -8]


def test_products_of_codes_are_summed_exactly(builder):
    net = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    random = np.random.default_rng(5)
    codes, weights = (random.integers(64, 128, s, np.int8) for s in ((9, 4001), (4001, 7)))
    one, both = constant(net, np.array(1, np.float32)), constant(net, np.float32([1, 2, 1, 2, 1, 2, 1]))
    x = net.add_dequantize(net.add_input("x", trt.int8, (9, 4001)), one).get_output(0)
    w = net.add_dequantize(constant(net, weights), both)
    w.axis = 1
    layer = net.add_matrix_multiply(x, NONE, w.get_output(0), NONE)
    got = built(net, builder, layer.get_output(0)).run(x=codes)["y0"]
    want = codes.astype(np.int64) @ weights.astype(np.int64)
    assert np.array_equal(got, np.float32(want) * np.float32([1, 2, 1, 2, 1, 2, 1]))


def with_zero_point(builder, of, number):
    """Codes with a float32 zero point behind a cast, and the numbers that they represent."""
    net = builder.create_network()
    scale = constant(net, np.array(0.5, np.float32))
    zero = net.add_cast(constant(net, np.array(number, np.float32)), of).get_output(0)
    layer = net.add_quantize(net.add_input("x", trt.float32, (4,)), scale, of)
    layer.set_input(2, zero)
    back = net.add_dequantize(layer.get_output(0), scale, trt.float32)
    back.set_input(2, zero)
    return built(net, builder, back.get_output(0))


def test_a_zero_point_may_be_a_constant_of_another_type(builder):
    got = with_zero_point(builder, trt.int8, 5).run(x=np.float32([-70, 1, 2, 70]))["y0"]
    np.testing.assert_array_equal(got, [-66.5, 1, 2, 61])


def test_values_computed_from_a_constant_are_checked_like_constants(builder, log):
    assert with_zero_point(builder, trt.fp8, 1) is None
    net = builder.create_network()
    double = net.add_cast(constant(net, np.array(-1, np.float32)), trt.float16).get_output(0)
    x = net.add_input("x", trt.float16, (2, 32))
    layer = net.add_dynamic_quantize(x, 1, 16, trt.fp4, trt.fp8)
    layer.set_input(1, double)
    assert built(net, builder, layer.get_output(0)) is None
    assert len(log.lines) == 2
    assert re.search(diagnostic("AR304", "[Quantize]", "fp8", 0), log.lines[0])
    assert re.search(diagnostic("AR304", "[DynamicQuantize]", -1, 0), log.lines[1])
