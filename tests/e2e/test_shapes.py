"""Shapes: several profiles, shape tensors, empty tensors, zero and eight dimensions."""

import math

import numpy as np
import pytest

import anyrt as trt

F = trt.float32


def floats(*shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape) / 4 - 3


def double(net, shape, dtype=F):
    x = net.add_input("x", dtype, shape)
    return net.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)


def test_profiles_allow_different_shapes(net, builder, log):
    y = double(net, (-1, 3))
    y.name = "y"
    net.mark_output(y)
    config = builder.create_builder_config()
    for low, high in ((1, 4), (100, 1000)):
        profile = builder.create_optimization_profile()
        profile.set_shape("x", (low, 3), (low, 3), (high, 3))
        config.add_optimization_profile(profile)
    engine = trt.Runtime(log).deserialize_cuda_engine(builder.build_serialized_network(net, config))
    context = engine.create_execution_context()
    for profile, rows, fits in ((0, 4, True), (0, 100, False), (1, 1000, True), (1, 4, False), (0, 1, True)):
        context.set_optimization_profile_async(profile, 0)
        assert context.set_input_shape("x", (rows, 3)) == fits
        x, out = floats(rows, 3), np.empty((rows, 3), np.float32)
        if fits:
            assert context.execute_v2([x.ctypes.data, out.ctypes.data])
            assert np.array_equal(out, 2 * x)
    assert all(np.array_equal(engine.run(x=floats(n, 3))["y"], 2 * floats(n, 3)) for n in (2, 200, 3))
    with pytest.raises(trt.errors.ProfileError):
        engine.run(x=floats(50, 3))


def test_values_in_host_memory_decide_sizes(net, builder, log):
    x, size = net.add_input("x", F, (2, -1)), net.add_input("size", trt.int32, (3,))
    shuffle = net.add_shuffle(x)
    shuffle.set_input(1, size)
    shuffle.get_output(0).name = "y"
    net.mark_output(shuffle.get_output(0))
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (2, 1), (2, 6), (2, 50))
    profile.set_shape_input("size", (1, 1, 1), (2, 2, 3), (100, 100, 100))
    config = builder.create_builder_config()
    config.add_optimization_profile(profile)
    engine = trt.Runtime(log).deserialize_cuda_engine(builder.build_serialized_network(net, config))
    context = engine.create_execution_context()
    values, data, out = np.int32([3, 2, 4]), floats(2, 12), np.empty(24, np.float32)
    context.set_input_shape("x", data.shape)
    for name, array in (("size", values), ("x", data), ("y", out)):
        assert context.set_tensor_address(name, array.ctypes.data)
    for sizes in ((3, 2, 4), (1, 24, 1), (24, 1, 1)):
        values[:] = sizes
        assert context.get_tensor_shape("y") == sizes
        out[:] = 0
        assert context.execute_async_v3(0)
        assert np.array_equal(out, data.ravel())
    values[:] = (5, 5, 1)
    assert not context.execute_async_v3(0)
    assert "AR103" in log.lines[-1]


def test_sizes_travel_through_shape_arithmetic(net, engine_of):
    x = net.add_input("x", F, (-1, 4))
    sizes = net.add_shape(x).get_output(0)
    halves = net.add_constant((2,), np.int64([2, 1])).get_output(0)
    half = net.add_elementwise(sizes, halves, trt.ElementWiseOperation.FLOOR_DIV).get_output(0)
    first = net.add_slice(x, (0, 0), (1, 1), (1, 1))
    first.set_input(2, half)
    engine = engine_of(net, first.get_output(0), sizes, x=[(n, 4) for n in (1, 5, 9)])
    for rows in (1, 2, 7, 9):
        got = engine.run(x=floats(rows, 4))
        assert np.array_equal(got["y"], floats(rows, 4)[: rows // 2])
        assert got["y1"].tolist() == [rows, 4]


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), (0, 0), (1, 3, 0, 5)])
def test_tensors_without_elements_run(shape, builder, engine_of):
    dynamic = (-1, *shape[1:])
    most = (4, *shape[1:])
    for declared, settings in ((shape, {}), (dynamic, {"x": [shape, shape, most]})):
        net = builder.create_network()
        y = double(net, declared)
        total = net.add_reduce(y, trt.ReduceOperation.SUM, (1 << len(shape)) - 1, False)
        got = engine_of(net, y, total.get_output(0), **settings).run(x=np.empty(shape, np.float32))
        assert (got["y"].shape, got["y1"].shape, float(got["y1"])) == (shape, (), 0)


def test_tensors_without_elements_need_no_address(net, engine_of):
    context = engine_of(net, double(net, (-1, 3)), x=[(0, 3), (1, 3), (4, 3)]).create_execution_context()
    assert context.set_input_shape("x", (0, 3))
    assert context.execute_async_v3(0)


def test_a_scalar_has_no_dimensions(net, engine_of):
    x = net.add_input("x", F, ())
    engine = engine_of(net, net.add_unary(x, trt.UnaryOperation.NEG).get_output(0))
    context = engine.create_execution_context()
    assert (engine.get_tensor_shape("x"), context.get_tensor_shape("y")) == ((), ())
    assert (context.get_tensor_strides("y"), context.get_tensor_shape("z").rank) == ((), -1)
    assert engine.run(x=np.array(2.5, np.float32))["y"] == np.float32(-2.5)


def test_eight_dimensions_are_transposed(net, engine_of):
    shape, order = (2, 1, 3, 2, 1, 2, 3, 2), (7, 0, 6, 1, 5, 2, 4, 3)
    layer = net.add_shuffle(net.add_input("x", F, (-1, *shape[1:-1], -1)))
    layer.first_transpose = order
    most = (5, *shape[1:-1], 5)
    engine = engine_of(net, layer.get_output(0), x=[(1, *shape[1:-1], 1), shape, most])
    for value in (shape, most):
        assert np.array_equal(engine.run(x=floats(*value))["y"], floats(*value).transpose(order))


def test_named_dimensions_are_one_size(net, engine_of):
    a, b = net.add_input("a", F, (-1, 2)), net.add_input("b", F, (-1, 2))
    for tensor in (a, b):
        tensor.set_dimension_name(0, "batch")
    y = net.add_elementwise(a, b, trt.ElementWiseOperation.PROD).get_output(0)
    engine = engine_of(net, y, a=[(1, 2), (2, 2), (9, 2)], b=[(1, 2), (2, 2), (9, 2)])
    assert np.array_equal(engine.run(a=floats(3, 2), b=floats(3, 2))["y"], floats(3, 2) ** 2)
    with pytest.raises(trt.errors.BindingError, match="AR710"):
        engine.run(a=floats(3, 2), b=floats(4, 2))


def test_dimensions_broadcast_at_run_time(net, engine_of):
    a, b = net.add_input("a", F, (-1, 3)), net.add_input("b", F, (-1, 3))
    y = net.add_elementwise(a, b, trt.ElementWiseOperation.SUM).get_output(0)
    engine = engine_of(net, y, a=[(1, 3), (1, 3), (9, 3)], b=[(1, 3), (4, 3), (9, 3)])
    for m, n in ((1, 1), (1, 5), (5, 1), (6, 6)):
        assert np.array_equal(engine.run(a=floats(m, 3), b=floats(n, 3))["y"], floats(m, 3) + floats(n, 3))
    with pytest.raises(trt.errors.ShapeError, match="AR112"):
        engine.run(a=floats(2, 3), b=floats(3, 3))


def test_many_inputs_of_open_sizes_broadcast_at_run_time(net, engine_of):
    inputs = [net.add_input(f"x{k}", F, (-1, 2)) for k in range(20)]
    total = inputs[0]
    for x in inputs[1:]:
        largest = net.add_elementwise(x, total, trt.ElementWiseOperation.MAX).get_output(0)
        total = net.add_elementwise(total, largest, trt.ElementWiseOperation.SUM).get_output(0)
    engine = engine_of(net, total, **{x.name: [(0, 2), (4, 2), (9, 2)] for x in inputs})
    for rows in (1, 3, 0):
        feeds = {f"x{k}": floats(1 if k % 3 else rows, 2) + k / 8 for k in range(20)}
        expected = feeds["x0"]
        for x in list(feeds.values())[1:]:
            expected = expected + np.maximum(x, expected)
        np.testing.assert_allclose(engine.run(**feeds)["y"], expected, rtol=1e-5)


def test_a_reshape_to_fixed_sizes_is_a_condition_of_the_call(net, engine_of):
    """Kernels specialised for inputs with equal numbers of rows do not make twelve elements of them."""
    a, b = net.add_input("a", F, (-1, 4)), net.add_input("b", F, (-1, 4))
    shuffle = net.add_shuffle(net.add_elementwise(a, b, trt.ElementWiseOperation.SUM).get_output(0))
    shuffle.reshape_dims = (2, 6)
    sizes = {"a": [(2, 4), (3, 4), (6, 4)], "b": [(1, 4), (1, 4), (2, 4)]}
    engine = engine_of(net, shuffle.get_output(0), **sizes)
    total = engine.run(a=floats(3, 4), b=floats(1, 4))["y"]
    assert np.array_equal(total, (floats(3, 4) + floats(1, 4)).reshape(2, 6))
    with pytest.raises(trt.errors.ShapeError, match="AR103"):
        engine.run(a=floats(2, 4), b=floats(2, 4))


def test_stated_memory_is_enough_where_largest_shapes_exclude_each_other(net, builder, log):
    """size 8 x 8 and x of 16 rows: neither maximum is valid together with the other one."""
    x, size = net.add_input("x", F, (-1, 4)), net.add_input("size", trt.int32, (2,))
    total = net.add_reduce(x, trt.ReduceOperation.SUM, 0b10, False).get_output(0)
    square = net.add_shuffle(total)
    square.set_input(1, size)
    resize = net.add_resize(square.get_output(0))
    resize.resize_mode, resize.scales = trt.InterpolationMode.CUBIC, (2, 2)
    net.mark_output(resize.get_output(0))
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 4), (8, 4), (16, 4))
    profile.set_shape_input("size", (1, 1), (4, 2), (8, 8))
    config = builder.create_builder_config()
    config.add_optimization_profile(profile)
    engine = builder.build_engine_with_config(net, config)
    context = engine.create_execution_context(trt.ExecutionContextAllocationStrategy.USER_MANAGED)
    memory = np.zeros(engine.device_memory_size_v2 + 64, np.uint8)
    context.set_device_memory(memory.ctypes.data + -memory.ctypes.data % 64, engine.device_memory_size_v2)
    for rows, columns in ((8, 2), (2, 8), (4, 4)):
        data, sizes = floats(16, 4), np.int32([rows, columns])
        out = np.empty((2 * rows, 2 * columns), np.float32)
        context.set_input_shape("x", data.shape)
        assert context.execute_v2([data, sizes, out])
        assert np.allclose(out, engine.run(x=data, size=sizes)[engine[-1]])


@pytest.mark.parametrize("mode", ["NEAREST", "LINEAR", "CUBIC"])
@pytest.mark.parametrize("size", [1, 2, 40])
def test_one_element_is_resized_to_many(net, builder, mode, size):
    """The element that is read many times is computed once."""
    x = net.add_input("x", F, (2, 1, 3, 1))
    y = x
    for _ in range(3):
        y = net.add_unary(net.add_unary(y, trt.UnaryOperation.COS).get_output(0), trt.UnaryOperation.ERF)
        y = y.get_output(0)
    resize = net.add_resize(y)
    resize.resize_mode, resize.shape = getattr(trt.InterpolationMode, mode), (2, 1, 3, size)
    net.mark_output(resize.get_output(0))
    engine = builder.build_engine_with_config(net, builder.create_builder_config())
    data = floats(2, 1, 3, 1)
    expected = data.astype(np.float64)
    for _ in range(3):
        expected = np.vectorize(math.erf)(np.cos(expected))
    assert np.allclose(engine.run(x=data)[engine[-1]], np.broadcast_to(expected, (2, 1, 3, size)), atol=1e-6)
