"""Data-dependent dimensions without an upper bound: scales, counts and windows from inputs of any type."""

import ctypes

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.errors import BindingError, NotSupportedError, ShapeError
from tests.messages import diagnostic
from tests.networks import engine, marked

F, I64 = trt.float32, trt.int64
E, U = trt.ElementWiseOperation, trt.UnaryOperation
X = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)


def constant(net, x, dtype=np.float32):
    return net.add_constant(np.shape(x), np.array(x, dtype)).get_output(0)


def element(net, op, *tensors):
    return net.add_elementwise(*tensors, op).get_output(0)


def size(net, name="n"):
    """An input that holds a size in float32, so that it is no shape tensor."""
    return net.add_cast(net.add_input(name, F, (1,)), I64).get_output(0)


def joined(net, *tensors):
    return net.add_concatenation(tensors).get_output(0)


def shaped(net, x, *dims):
    layer = net.add_shuffle(x)
    layer.reshape_dims = dims
    return layer.get_output(0)


def resized(net, x, scales, mode=trt.InterpolationMode.NEAREST):
    layer = net.add_resize(x)
    layer.resize_mode = mode
    layer.set_input(2, scales)
    return layer.get_output(0)


def filled(net, shape, alpha=0, beta=1, dtype=F):
    layer = net.add_fill((1,), trt.FillOperation.LINSPACE, dtype)
    layer.alpha, layer.beta = alpha, beta
    layer.set_input(0, shape)
    return layer.get_output(0)


def arange(net, dtype=F, *values):
    """ONNX's Range with three inputs."""
    start, limit, delta = values or (net.add_input(name, dtype, (1,)) for name in ("start", "limit", "delta"))
    way, by = element(net, E.SUB, limit, start), delta
    if dtype is not F:
        way, by = (net.add_cast(x, trt.float64).get_output(0) for x in (way, by))
    steps = element(net, E.DIV, way, by)
    whole = net.add_cast(net.add_unary(steps, U.CEIL).get_output(0), I64).get_output(0)
    layer = net.add_fill((1,), trt.FillOperation.LINSPACE, dtype)
    layer.set_input(0, element(net, E.MAX, whole, constant(net, [0], np.int64)))
    layer.set_input(1, shaped(net, start))
    layer.set_input(2, delta)
    return layer.get_output(0)


def ends(*numbers):
    return {n: np.float32([x]) for n, x in zip(("start", "limit", "delta"), numbers, strict=True)}


ENDS = ((1, 5, 2), (10, 4, -2), (5, 5, 1), (3, 0, 1), (0, 0.5, 1), (0, 1000, 1), (0, 2000, 1), (0, 1, 0.25))


def test_scales_may_be_an_ordinary_input(net):
    x, scales = net.add_input("x", F, (1, 1, 3, 4)), net.add_input("scales", F, (4,))
    marked(net, y=resized(net, x, scales))
    assert not scales.is_shape_tensor
    run = engine(net).run
    for h, w in ((1, 2), (0.5, 1), (2, 0.25), (7, 90), (0, 1), (1, 1)):
        y = run(x=X, scales=np.float32([1, 1, h, w]))["y"]
        rows, columns = (np.arange(int(n * s)) * n // max(int(n * s), 1) for n, s in ((3, h), (4, w)))
        assert np.array_equal(y, X[:, :, rows][..., columns])


def test_scales_between_layers_follow_dynamic_sizes(net):
    x, s = net.add_input("x", F, (-1, 2, -1)), net.add_input("s", F, (1,))
    scales = joined(net, constant(net, [1.0, 1.0]), s)
    y = resized(net, element(net, E.PROD, x, x), scales, trt.InterpolationMode.LINEAR)
    relu = net.add_activation(y, trt.ActivationType.RELU).get_output(0)
    marked(net, sums=net.add_reduce(relu, trt.ReduceOperation.SUM, 4, False).get_output(0))
    run = engine(net, x=((1, 2, 1), (2, 2, 8), (9, 2, 64))).run
    for n, width, s in ((1, 4, 2), (2, 8, 3), (4, 16, 0.5), (9, 64, 10), (3, 5, 1), (3, 5, 0)):
        x = np.random.default_rng(1).random((n, 2, width), np.float32)
        at = np.arange(int(width * s)) / max(int(width * s), 1) * width
        expected = [[np.interp(at, range(width), row**2).sum() for row in rows] for rows in x]
        assert np.allclose(run(x=x, s=np.float32([s]))["sums"], expected, rtol=1e-5)


def test_images_of_any_size_are_convolved(net):
    x, s = net.add_input("x", F, (1, 2, -1, -1)), net.add_input("s", F, (1,))
    kernel = np.random.default_rng(2).random((3, 2, 3, 3), np.float32)
    scales = joined(net, constant(net, [1.0, 1.0]), s, s)
    layer = net.add_convolution_nd(resized(net, x, scales), 3, (3, 3), kernel, np.zeros(3, np.float32))
    marked(net, y=layer.get_output(0))
    run = engine(net, x=((1, 2, 1, 1), (1, 2, 8, 8), (1, 2, 64, 64))).run
    for height, s in ((5, 2), (10, 2), (20, 2), (3, 1), (7, 3)):
        x = np.random.default_rng(3).random((1, 2, height, 6), np.float32)
        large = x.repeat(s, 2).repeat(s, 3)[0]
        windows = np.lib.stride_tricks.sliding_window_view(large, (3, 3), (1, 2))
        expected = np.einsum("chwij,ocij->ohw", windows, kernel)
        assert np.allclose(run(x=x, s=np.float32([s]))["y"][0], expected, rtol=1e-4)


TYPES = {
    trt.float32: np.float32,
    trt.float64: np.float64,
    trt.int16: np.int16,
    trt.int32: np.int32,
    trt.int64: np.int64,
}


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.name)
def test_a_range_is_of_any_type(net, dtype):
    kind, far = TYPES[dtype], net.add_input("far", F, (3,))  # the integers here are no shape tensors
    start, limit, delta = (
        net.add_cast(net.add_slice(far, (k,), (1,), (1,)).get_output(0), dtype).get_output(0)
        for k in range(3)
    )
    marked(net, y=arange(net, dtype, start, limit, delta))
    run = engine(net).run
    for numbers in ((3, 9, 2), (9, 3, -2), (0, 0, 1), (0, 700, 1), (0, 1400, 1), (5, 4, 1), (-7, 7, 5)):
        y = run(far=np.float32(numbers))["y"]
        assert y.dtype == kind
        assert np.array_equal(y, np.arange(*numbers).astype(kind))


@pytest.mark.parametrize("numbers", ENDS)
def test_a_range_has_as_many_elements_as_its_ends_say(net, numbers):
    marked(net, y=arange(net))
    assert np.array_equal(engine(net).run(**ends(*numbers))["y"], np.arange(*numbers, dtype=np.float32))


def test_layers_behind_a_range_compute_with_all_of_it(net):
    x, at = net.add_input("x", F, (3, 1)), arange(net)
    y = element(net, E.SUM, element(net, E.PROD, x, shaped(net, at, 1, -1)), x)
    total = net.add_reduce(y, trt.ReduceOperation.SUM, 2, True).get_output(0)
    ones = net.add_matrix_multiply(y, trt.MatrixOperation.NONE, y, trt.MatrixOperation.TRANSPOSE).get_output(
        0
    )
    marked(net, y=y, total=total, ones=ones)
    run, x = engine(net).run, np.float32([[1], [-2], [3]])
    for numbers in ENDS:
        expected = x * np.arange(*numbers, dtype=np.float32) + x
        actual = run(x=x, **ends(*numbers))
        assert np.allclose(actual["y"], expected)
        assert np.allclose(actual["total"], expected.sum(1, keepdims=True), rtol=1e-5)
        assert np.allclose(actual["ones"], expected @ expected.T, rtol=1e-5)


def test_sizes_are_quotients_rounded_to_zero_by_sign_and_magnitude(net):
    x = net.add_input("x", F, (-1, 2))
    rows = net.add_slice(net.add_shape(x).get_output(0), (0,), (1,), (1,)).get_output(0)
    two = net.add_constant((1,), np.array([2], np.int64)).get_output(0)
    sign = net.add_unary(element(net, E.PROD, rows, two), trt.UnaryOperation.SIGN).get_output(0)
    size = element(net, E.PROD, element(net, E.FLOOR_DIV, rows, two), sign)
    fill = net.add_fill((-1,), trt.FillOperation.LINSPACE, trt.int64)
    fill.set_input(0, size)
    for k, value in ((1, np.array(0, np.int64)), (2, np.array([1], np.int64))):
        fill.set_input(k, net.add_constant(value.shape, value).get_output(0))
    marked(net, y=fill.get_output(0))
    built = engine(net, x=((1, 2), (5, 2), (9, 2)))
    context = built.create_execution_context()
    context.set_input_shape("x", (7, 2))
    assert tuple(context.get_tensor_shape("y")) == (3,)
    assert built.run(x=np.zeros((7, 2), np.float32))["y"].tolist() == [0, 1, 2]


def test_sizes_follow_from_what_has_such_sizes(net):
    n = size(net)
    first = filled(net, n)
    last = net.add_reduce(first, trt.ReduceOperation.SUM, 1, True).get_output(0)  # n (n - 1) / 2
    second = filled(net, net.add_cast(last, I64).get_output(0), 1.0)
    marked(net, first=first, second=second)
    run = engine(net).run
    for n in (3, 0, 1, 40, 7, 80):
        result = run(n=np.float32([n]))
        assert np.array_equal(result["first"], np.arange(n))
        assert np.array_equal(result["second"], 1 + np.arange(n * (n - 1) // 2))


def test_windows_and_shapes_may_come_from_any_data(net):
    x, n = net.add_input("x", F, (8, 6)), size(net)
    two = joined(net, n, constant(net, [6], np.int64))
    cut = net.add_slice(x, (0, 0), (1, 1), (1, 1))
    cut.set_input(2, two)
    around = net.add_slice(x, (0, 0), (1, 1), (1, 1))
    around.mode = trt.SampleMode.WRAP
    around.set_input(2, two)
    folded = net.add_shuffle(x)
    folded.set_input(1, joined(net, n, constant(net, [-1], np.int64)))
    marked(net, cut=cut.get_output(0), around=around.get_output(0), folded=folded.get_output(0))
    run, x = engine(net).run, np.random.default_rng(4).random((8, 6), np.float32)
    for n in (1, 2, 4, 8):
        result = run(x=x, n=np.float32([n]))
        assert np.array_equal(result["cut"], x[:n])
        assert np.array_equal(result["around"], np.tile(x, (1, 1))[:n])
        assert np.array_equal(result["folded"], x.reshape(n, -1))
    with pytest.raises(ShapeError, match=diagnostic("AR114", "[Slice]", 9, 8)):
        run(x=x, n=np.float32([9]))
    with pytest.raises(ShapeError, match=r"AR103"):
        run(x=x, n=np.float32([5]))


def test_a_number_that_two_layers_read_is_reported_once(net):
    n = size(net)
    y = element(net, E.SUM, filled(net, n), filled(net, n, 1.0))
    marked(net, y=y)
    assert engine(net).run(n=np.float32([3]))["y"].tolist() == [1, 3, 5]


def test_sizes_with_and_without_bounds_meet(net):
    x, n = net.add_input("x", F, (-1,)), size(net)
    some = net.add_non_zero(x).get_output(0)
    layer = net.add_concatenation(
        [net.add_cast(some, F).get_output(0), shaped(net, filled(net, n, 100.0), 1, -1)]
    )
    layer.axis = 1
    marked(net, y=layer.get_output(0))
    run = engine(net, x=((1,), (8,), (1000,))).run
    for n, every in ((2, 3), (0, 1), (500, 7), (1, 1000)):
        x = np.float32(np.arange(1000) % every == 0)
        assert np.array_equal(
            run(x=x, n=np.float32([n]))["y"][0], [*np.flatnonzero(x), *(100 + np.arange(n))]
        )


class Allocator(trt.IOutputAllocator):
    def __init__(self):
        super().__init__()
        self.calls = []

    def reallocate_output(self, name, memory, size, alignment):
        self.calls.append(("room", size))
        self.memory = np.zeros(size, np.uint8)
        return self.memory.ctypes.data

    def notify_shape(self, name, shape):
        self.calls.append(("shape", tuple(shape)))


def test_an_allocator_is_called_when_the_size_is_known(net):
    marked(net, y=filled(net, size(net)))
    context, allocator, n = engine(net).create_execution_context(), Allocator(), np.float32([3])
    context.set_tensor_address("n", n)
    context.set_output_allocator("y", allocator)
    assert tuple(context.get_tensor_shape("y")) == (-1,)
    assert context.get_max_output_size("y") == -1
    for n[0] in (3, 0, 700):
        assert context.execute_async_v3(0)
        assert allocator.calls[-1] == ("shape", (n[0],))
        assert tuple(context.get_tensor_shape("y")) == (-1,)
        assert np.frombuffer(allocator.memory, np.float32, int(n[0])).tolist() == list(range(int(n[0])))


def test_an_allocator_gets_size_and_shape_once_for_each_inference(net):
    marked(net, y=filled(net, size(net)))
    context, allocator = engine(net).create_execution_context(), Allocator()
    context.set_tensor_address("n", np.float32([3]))
    context.set_output_allocator("y", allocator)
    assert context.execute_async_v3(0)
    assert context.execute_async_v3(0)
    assert allocator.calls == [("room", 12), ("shape", (3,))] * 2


def test_an_array_must_have_room_for_what_is_found(net):
    marked(net, y=filled(net, size(net)))
    context, n, y = engine(net).create_execution_context(), np.float32([3]), np.full(5, 9, np.float32)
    context.set_tensor_address("n", n)
    context.set_tensor_address("y", y)
    assert context.execute_async_v3(0)
    assert y.tolist() == [0, 1, 2, 9, 9]
    n[0] = 6
    with trt.strict(), pytest.raises(BindingError, match=diagnostic("AR704", "y", 20, 24)):
        context.execute_async_v3(0)
    assert y.tolist() == [0, 1, 2, 9, 9]


def test_earlier_results_survive_the_growth_of_memory(net):
    x, n = net.add_input("x", F, (-1,)), size(net)
    kept = net.add_reduce(x, trt.ReduceOperation.SUM, 1, True).get_output(0)
    order = net.add_topk(x, trt.TopKOperation.MAX, 3, 1).get_output(0)
    part = net.add_reduce(
        net.add_unary(order, U.SQRT).get_output(0), trt.ReduceOperation.SUM, 1, True
    ).get_output(0)
    n = element(net, E.SUM, n, net.add_cast(part, I64).get_output(0))
    table = net.add_cumulative(
        filled(net, n), constant(net, 0, np.int32), trt.CumulativeOperation.SUM, False, False
    )
    marked(net, y=element(net, E.SUM, table.get_output(0), kept), z=element(net, E.PROD, part, kept))
    run, x = engine(net, x=((3,), (8,), (99,))).run, np.float32([4, 9, 16, 0])
    for n in (1, 100000, 5, 300000):
        result = run(x=x, n=np.float32([n]))
        assert np.allclose(result["y"], 29 + np.cumsum(np.arange(n + 9)), rtol=1e-4)
        assert result["z"].tolist() == [9 * 29]


def test_numbers_that_are_no_sizes_are_rejected_and_the_next_run_is_right(net):
    marked(net, y=filled(net, size(net)))
    run = engine(net).run
    with pytest.raises(ShapeError, match=diagnostic("AR120", "[Fill]", -2, 0)):
        run(n=np.float32([-2]))
    with pytest.raises(ShapeError, match=r"AR111"):
        run(n=np.float32([3e9]))
    assert run(n=np.float32([2]))["y"].tolist() == [0, 1]


def test_two_contexts_have_sizes_of_their_own(net):
    marked(net, y=filled(net, size(net)))
    built = engine(net)
    contexts, rooms = [built.create_execution_context() for _ in range(2)], np.zeros((2, 9), np.float32)
    for k, (context, room) in enumerate(zip(contexts, rooms, strict=True)):
        context.set_tensor_address("n", np.float32([3 + 4 * k]))
        context.set_tensor_address("y", room)
    assert all(context.execute_async_v3(0) for context in contexts)
    assert [context._context.sizing.of("y") for context in contexts] == [(3,), (7,)]
    assert rooms.sum(1).tolist() == [3, 21]


def test_a_plan_keeps_sizes_that_are_open(net):
    marked(net, y=filled(net, size(net)))
    plan = net.builder.build_serialized_network(net, net.builder.create_builder_config())
    loaded = trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan)
    assert list(loaded) == ["n", "y"]
    assert loaded.get_tensor_shape("y") == (-1,)
    assert [loaded.run(n=np.float32([n]))["y"].tolist() for n in (2, 0)] == [[0, 1], []]


def test_a_profiler_runs_kernel_by_kernel_with_what_is_found(net):
    class Profiler(trt.IProfiler):
        def report_layer_time(self, name, ms):
            names.append(name)

    names, n = [], np.float32([3])
    last = net.add_reduce(filled(net, size(net)), trt.ReduceOperation.SUM, 1, True).get_output(0)
    marked(net, y=filled(net, net.add_cast(last, I64).get_output(0)))
    context, y = engine(net).create_execution_context(), np.zeros(99, np.float32)
    context.profiler = Profiler()
    context.set_tensor_address("n", n)
    context.set_tensor_address("y", y)
    for n[0], count in ((3, 3), (5, 10), (0, 0)):
        assert context.execute_async_v3(0)
        assert context._context.sizing.of("y") == (count,)
        assert y.sum() == max(count * (count - 1) // 2, 3 if n[0] == 3 else y.sum())
    assert len(names) > 2


def test_sizes_are_products_in_float32_rounded_down(net):
    marked(net, y=resized(net, net.add_input("x", F, (10,)), net.add_input("s", F, (1,))))
    run = engine(net).run
    for s in (0.7, 0.3, 0.1, 1.1, 2.9999999, 0.0999999):
        expected = np.floor(np.float32(10) * np.float32(s))
        assert run(x=np.zeros(10, np.float32), s=np.float32([s]))["y"].shape == (expected,)


def test_a_loop_concatenates_a_data_dependent_number_of_iterations(net):
    n, loop = net.add_input("n", F, ()), net.add_loop()
    turns = net.add_cast(n, trt.int32).get_output(0)
    loop.add_trip_limit(turns, trt.TripLimit.COUNT)
    power = loop.add_recurrence(constant(net, 1.0))
    power.set_input(1, element(net, E.SUM, power.get_output(0), power.get_output(0)))
    collected = loop.add_loop_output(power.get_output(0), trt.LoopOutput.CONCATENATE)
    collected.set_input(1, turns)
    marked(net, y=collected.get_output(0))
    run = engine(net).run
    for n in (0, 1, 5, 100):
        assert run(n=np.float32(n))["y"].tolist() == [2.0**k for k in range(n)]


def test_one_hot_has_as_many_classes_as_any_data_say(net):
    at, depth = net.add_input("at", trt.int32, (3,)), net.add_input("n", F, ())
    layer = net.add_one_hot(at, constant(net, [0.0, 1.0]), net.add_cast(depth, trt.int32).get_output(0), -1)
    marked(net, y=layer.get_output(0))
    run = engine(net).run
    for n in (3, 40, 1):
        y = run(at=np.int32([0, 2, -1]), n=np.float32(n))["y"]
        assert np.array_equal(y, [np.arange(n) == k for k in (0, 2, n - 1)])


def test_both_branches_of_a_condition_may_have_sizes_of_their_own(net):
    flag, n = net.add_input("flag", trt.bool, ()), size(net)
    conditional = net.add_if_conditional()
    conditional.set_condition(flag)
    layer = conditional.add_output(filled(net, n), filled(net, element(net, E.SUM, n, n), 7.0))
    marked(net, y=layer.get_output(0))
    run = engine(net).run
    for n in (0, 3, 100, 1):
        assert run(flag=np.array(True), n=np.float32([n]))["y"].tolist() == list(range(n))
        assert run(flag=np.array(False), n=np.float32([n]))["y"].tolist() == list(range(7, 7 + 2 * n))


def test_nonzero_elements_are_found_in_data_dependent_dimensions(net):
    x = filled(net, size(net), -5.0)
    output = net.add_non_zero(net.add_activation(x, trt.ActivationType.RELU).get_output(0)).get_output(0)
    marked(net, y=element(net, E.SUM, output, output))
    run = engine(net).run
    for n in (8, 0, 6, 3000, 1, 9000):
        assert run(n=np.float32([n]))["y"].tolist() == [list(range(12, 2 * n, 2))]


def test_kernels_that_check_accesses_find_none_outside(net):
    x, s = net.add_input("x", F, (2, 5)), net.add_input("s", F, (2,))
    y = resized(net, x, s, trt.InterpolationMode.LINEAR)
    marked(net, y=net.add_reduce(y, trt.ReduceOperation.SUM, 2, False).get_output(0))
    config = net.builder.create_builder_config()
    config.checked = True
    run = net.builder.build_engine_with_config(net, config).run
    for h, w in ((1, 1), (3, 2), (0.5, 7), (20, 0)):
        y = run(x=np.ones((2, 5), np.float32), s=np.float32([h, w]))["y"]
        assert np.allclose(y, np.full(int(2 * h), int(5 * w)))


def test_debug_tensors_may_have_sizes_that_are_found(net):
    class Listener(trt.IDebugListener):
        def process_debug_tensor(self, addr, location, type, shape, name, stream):
            count = int(np.prod(shape))
            seen.append(np.ctypeslib.as_array((ctypes.c_float * count).from_address(addr)).tolist())
            return True

    seen, n = [], np.float32([3])
    hidden = filled(net, size(net))
    net.mark_debug(hidden)
    marked(net, y=net.add_reduce(hidden, trt.ReduceOperation.SUM, 1, True).get_output(0))
    context, y = engine(net).create_execution_context(), np.zeros(1, np.float32)
    context.set_debug_listener(Listener())
    context.set_all_tensors_debug_state(True)
    context.set_tensor_address("n", n)
    context.set_tensor_address("y", y)
    for n[0] in (3, 5):
        assert context.execute_async_v3(0)
    assert seen == [[0, 1, 2], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("mode", ["WRAP", "CLAMP", "REFLECT", "FILL", "STRICT_BOUNDS"])
def test_a_window_begins_where_any_data_say(net, mode):
    x, n = net.add_input("x", F, (9,)), size(net)
    layer = net.add_slice(x, (0,), (5,), (1,))
    layer.mode = getattr(trt.SampleMode, mode)
    layer.set_input(1, n)
    marked(net, y=net.add_unary(layer.get_output(0), U.NEG).get_output(0))
    run, x = engine(net).run, np.float32(range(9))
    wide = {
        "WRAP": "wrap",
        "CLAMP": "edge",
        "REFLECT": "reflect",
        "FILL": "constant",
        "STRICT_BOUNDS": "edge",
    }
    around = np.pad(x, 8, wide[mode])
    for n in (0, 4, 2) if mode == "STRICT_BOUNDS" else (0, 6, -3, 8, -8):
        assert np.array_equal(run(x=x, n=np.float32([n]))["y"], -around[n + 8 : n + 13])


def test_a_border_by_a_size_with_a_bound_is_rejected(net):
    x = net.add_input("x", F, (9,))
    layer = net.add_slice(x, (0,), (5,), (1,))
    layer.mode = trt.SampleMode.WRAP
    shape = net.add_shape(net.add_non_zero(x).get_output(0)).get_output(0)
    layer.set_input(1, net.add_slice(shape, (1,), (1,), (1,)).get_output(0))
    marked(net, y=layer.get_output(0))
    with pytest.raises(NotSupportedError, match=r"AR901"):
        engine(net)


def test_sizes_that_a_branch_decides_are_found_before_it(net):
    flag, x = net.add_input("flag", trt.bool, ()), net.add_input("x", F, (6,))
    conditional = net.add_if_conditional()
    conditional.set_condition(flag)
    inner = conditional.add_input(x).get_output(0)
    some = net.add_cast(net.add_non_zero(inner).get_output(0), F).get_output(0)
    total = net.add_reduce(some, trt.ReduceOperation.SUM, 2, True).get_output(0)
    many = filled(net, net.add_cast(shaped(net, total, 1), I64).get_output(0))
    layer = conditional.add_output(many, shaped(net, some, -1))
    marked(net, y=layer.get_output(0))
    run = engine(net).run
    for x in np.float32([[0, 1, 0, 1, 1, 0], [0] * 6, [1] * 6]):
        result = np.flatnonzero(x)
        assert np.array_equal(run(flag=np.array(True), x=x)["y"], np.arange(result.sum()))
        assert np.array_equal(run(flag=np.array(False), x=x)["y"], result)


def test_a_loop_computes_no_unbounded_size_again(net, golden_text):
    loop = net.add_loop()
    loop.add_trip_limit(constant(net, 3, np.int32), trt.TripLimit.COUNT)
    state = loop.add_recurrence(net.add_input("n", F, (1,)))
    many = filled(net, net.add_cast(state.get_output(0), I64).get_output(0))
    state.set_input(1, net.add_reduce(many, trt.ReduceOperation.SUM, 1, True).get_output(0))
    marked(net, y=loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0))
    with pytest.raises(NotSupportedError) as caught:
        engine(net)
    golden_text(caught.value)
