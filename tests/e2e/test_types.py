"""Element types: packed ones, bool, wide integers, types that NumPy lacks."""

import ml_dtypes
import numpy as np
import pytest

import anyrt as trt

PACKED = {trt.int4: ml_dtypes.int4, trt.fp4: ml_dtypes.float4_e2m1fn}


def shuffled(net, dtype, shape):
    layer = net.add_shuffle(net.add_input("x", dtype, shape))
    layer.first_transpose = (2, 0, 1)
    return layer.get_output(0)


@pytest.mark.parametrize("dtype", PACKED, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 5, 7), (1, 1, 1)])
def test_four_bit_elements_are_moved_two_to_a_byte(dtype, shape, net, engine_of, random):
    engine = engine_of(net, shuffled(net, dtype, (-1, *shape[1:])), x=[shape, shape, (9, *shape[1:])])
    x = random.integers(-7, 7, shape).astype(PACKED[dtype])
    assert np.array_equal(engine.run(x=x)["y"], x.transpose(2, 0, 1))


def test_four_bit_elements_have_half_the_bytes(net, engine_of):
    context = engine_of(net, shuffled(net, trt.int4, (1, 2, 3))).create_execution_context()
    x, y = np.uint8([0x21, 0x43, 0xF5]), np.zeros(3, np.uint8)
    assert context.set_tensor_address("x", x)
    assert context.set_tensor_address("y", y)
    assert context.execute_async_v3(0)
    assert y.tolist() == [0x41, 0x52, 0xF3]  # 1 2 3 / 4 5 -1 by columns: 1 4, 2 5, 3 -1


@pytest.mark.parametrize(
    ("dtype", "numpy"), [(trt.fp8, ml_dtypes.float8_e4m3fn), (trt.bfloat16, ml_dtypes.bfloat16)]
)
def test_types_that_numpy_lacks_travel_as_ml_dtypes(dtype, numpy, net, engine_of):
    x = np.arange(24).astype(numpy).reshape(2, 3, 4)
    assert np.array_equal(engine_of(net, shuffled(net, dtype, (2, 3, 4))).run(x=x)["y"], x.transpose(2, 0, 1))


def sliced(net, x, mode, start, size, fill=None):
    layer = net.add_slice(x, (start,), (size,), (1,))
    layer.mode = mode
    if fill is not None:
        layer.set_input(4, fill)
    return layer.get_output(0)


CODES = np.arange(256, dtype=np.uint8)
NANS = np.uint16([0x7F81, 0xFFC0, 0xFF9A, 0x7FFF])
FP8 = ml_dtypes.float8_e4m3fn


@pytest.mark.parametrize(
    ("mode", "ends"),
    [
        (trt.SampleMode.FILL, [0, 0]),
        (trt.SampleMode.CLAMP, [0, 255]),
        (trt.SampleMode.WRAP, [255, 0]),
        (trt.SampleMode.REFLECT, [1, 254]),
    ],
)
@pytest.mark.parametrize("least", [256, 1], ids=["static", "dynamic"])
def test_slices_move_every_code_of_fp8_bit_by_bit(mode, ends, least, strong, engine_of):
    x = strong.add_input("x", trt.fp8, (256 if least == 256 else -1,))
    y = sliced(strong, x, mode, -1, 258)
    again = sliced(strong, y, trt.SampleMode.REFLECT, 0, 260)
    got = engine_of(strong, y, again, x=[(least,), (256,), (256,)]).run(x=CODES.view(FP8))
    want = [ends[0], *CODES.tolist(), ends[1]]
    assert got["y"].view(np.uint8).tolist() == want
    assert got["y1"].view(np.uint8).tolist() == [*want, *want[-2:-4:-1]]


def test_fills_and_constants_keep_the_bits_of_their_nans(strong, engine_of):
    """Values folded during the build, and literals in kernels."""
    codes, minus = (
        strong.add_constant((256,), CODES.view(FP8)),
        strong.add_constant((), np.array(0xFF, np.uint8).view(FP8)),
    )
    folded = sliced(strong, codes.get_output(0), trt.SampleMode.REFLECT, 0, 256)
    x = strong.add_input("x", trt.fp8, (2,))
    filled = sliced(strong, x, trt.SampleMode.FILL, -1, 4, minus.get_output(0))
    single = np.array(0xFFC12345, np.uint32).view(np.float32)
    wide = strong.add_input("w", trt.float32, (1,))
    payload = sliced(strong, wide, trt.SampleMode.FILL, -1, 2, strong.add_constant((), single).get_output(0))
    got = engine_of(strong, folded, filled, payload).run(x=np.uint8([0x7F, 1]).view(FP8), w=np.float32([0]))
    assert got["y"].view(np.uint8).tolist() == CODES.tolist()
    assert got["y1"].view(np.uint8).tolist() == [0xFF, 0x7F, 1, 0xFF]
    assert got["y2"].view(np.uint32).tolist() == [0xFFC12345, 0]


def test_filling_leaves_the_nans_of_half_types_as_they_are(net, engine_of):
    x = NANS.view(ml_dtypes.bfloat16)
    y = sliced(net, net.add_input("x", trt.bfloat16, (4,)), trt.SampleMode.FILL, -1, 6)
    assert engine_of(net, y).run(x=x)["y"].view(np.uint16).tolist() == [0, *NANS.tolist(), 0]


def test_four_bit_constants_become_outputs(net, engine_of):
    data = np.uint8([0x10, 0x32, 0x54])
    weights = trt.Weights(trt.int4, data.ctypes.data, 6)
    layer = net.add_shuffle(net.add_constant((2, 3), weights).get_output(0))
    layer.first_transpose = (1, 0)
    assert engine_of(net, layer.get_output(0)).run()["y"].astype(int).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_bool_is_computed_and_selected(net, engine_of):
    a, b = (net.add_input(n, trt.float32, (4,)) for n in "ab")
    less = net.add_elementwise(a, b, trt.ElementWiseOperation.LESS).get_output(0)
    low = net.add_select(less, a, b).get_output(0)
    neither = net.add_unary(less, trt.UnaryOperation.NOT).get_output(0)
    engine = engine_of(net, low, less, neither)
    got = engine.run(a=np.float32([1, 5, 2, np.nan]), b=np.float32([3, 4, 2, 0]))
    assert got["y"].tolist() == [1, 4, 2, 0]
    assert (got["y1"].tolist(), got["y1"].dtype) == ([True, False, False, False], np.bool_)
    assert got["y2"].tolist() == [False, True, True, True]


def test_wide_integers_keep_every_bit_and_wrap(net, engine_of):
    x = net.add_input("x", trt.int64, (3,))
    y = net.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
    big = np.int64([1 << 40, (1 << 62) + 1, -1])
    assert engine_of(net, y).run(x=big)["y"].tolist() == [1 << 41, (1 << 63) + 2 - (1 << 64), -2]


@pytest.mark.parametrize("dtype", [trt.int32, trt.int64])
def test_a_number_that_is_limited_on_one_side_alone_saturates_on_the_other(dtype, net, engine_of):
    x = net.add_input("x", trt.float32, (5,))
    above = net.add_activation(x, trt.ActivationType.THRESHOLDED_RELU)  # x > 0 ? x : 0
    y = net.add_cast(above.get_output(0), dtype).get_output(0)
    got = engine_of(net, y).run(x=np.float32([1e19, np.inf, -1e19, 2.5, np.nan]))["y"]
    most = np.iinfo(trt.nptype(dtype)).max
    assert got.tolist() == [most, most, 0, 2, 0]


@pytest.mark.parametrize("operation", ["DIV", "FLOOR_DIV"])
@pytest.mark.parametrize("dtype", [trt.int32, trt.int64])
def test_integer_division_never_traps(operation, dtype, net, engine_of):
    a, b = (net.add_input(n, dtype, (4,)) for n in "ab")
    y = net.add_elementwise(a, b, trt.ElementWiseOperation[operation]).get_output(0)
    numpy = trt.nptype(dtype)
    low = np.iinfo(numpy).min
    got = engine_of(net, y).run(a=np.array([7, -7, low, 5], numpy), b=np.array([2, 2, -1, 0], numpy))["y"]
    assert got[:2].tolist() == [3, -3 if operation == "DIV" else -4]
    assert got[2] == low


def test_int8_follows_dynamic_ranges(net, engine_of):
    x = net.add_input("x", trt.int8, (1, 1, 1, 4))
    x.set_dynamic_range(-12.7, 12.7)
    layer = net.add_scale(x, trt.ScaleMode.UNIFORM, scale=np.float32([2]))
    layer.get_output(0).set_dynamic_range(-12.7, 12.7)
    got = engine_of(net, layer.get_output(0)).run(x=np.int8([-100, 1, 3, 100]).reshape(1, 1, 1, 4))["y"]
    assert got.ravel().tolist() == [-128, 2, 6, 127]


def test_uint8_becomes_float_by_a_cast_only(net, log):
    x = net.add_input("x", trt.uint8, (2, 3))
    y = net.add_activation(x, trt.ActivationType.RELU).get_output(0)
    assert y.shape.rank == -1
    assert "AR202" in log.lines[0]
