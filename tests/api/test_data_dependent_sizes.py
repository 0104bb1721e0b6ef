"""Data-dependent dimensions: outputs of unknown size, layers behind them, conditions, memory."""

import ctypes

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.errors import BindingError, GraphError, ShapeError
from tests.messages import diagnostic
from tests.networks import engine, marked

F = trt.float32
X = np.float32([[0, 5, 0], [7, 0, -1]])


def nonzero(net, x):
    return net.add_non_zero(x).get_output(0)


class Allocator(trt.IOutputAllocator):
    def __init__(self, room=None):
        super().__init__()
        self.calls, self.room = [], room

    def reallocate_output(self, name, memory, size, alignment):
        self.calls.append(("room", size))
        self.memory = np.zeros(size, np.uint8)
        return self.memory.ctypes.data if self.room is None or size <= self.room else 0

    def notify_shape(self, name, shape):
        self.calls.append(("shape", tuple(shape)))


def test_a_shape_stays_open_when_a_run_has_found_it(net):
    marked(net, y=nonzero(net, net.add_input("x", F, (2, 3))))
    context = engine(net).create_execution_context()
    room = np.zeros(12, np.int32)
    assert tuple(context.get_tensor_shape("y")) == (2, -1)
    assert context.get_max_output_size("y") == room.nbytes
    context.set_tensor_address("x", X)
    context.set_tensor_address("y", room)
    assert context.execute_async_v3(0)
    assert (tuple(context.get_tensor_shape("y")), context._context.sizing.of("y")) == ((2, -1), (2, 3))
    assert tuple(context.get_tensor_strides("y")) == (-1, 1)
    assert room.tolist() == [0, 1, 1, 1, 0, 2, 0, 0, 0, 0, 0, 0]


def test_each_run_finds_its_own_size_and_other_shapes_forget_it(net):
    marked(net, y=nonzero(net, net.add_input("x", F, (-1,))))
    context = engine(net, x=((1,), (5,), (9,))).create_execution_context()
    x, y = np.float32([1, 0, 2]), np.zeros(9, np.int32)
    context.set_tensor_address("x", x)
    context.set_tensor_address("y", y)
    results = []
    for x[2] in (3, 0, 4):
        assert context.execute_async_v3(0)
        results.append(context._context.sizing.of("y"))
    assert results == [(1, 2), (1, 1), (1, 2)]
    context.set_input_shape("x", (2,))
    assert context._context.sizing.of("y") == (1, -1)


def test_an_allocator_provides_memory_for_all_elements_and_gets_their_number(net):
    marked(net, y=nonzero(net, net.add_input("x", F, (2, 3))))
    context, allocator = engine(net).create_execution_context(), Allocator()
    context.set_tensor_address("x", X)
    context.set_output_allocator("y", allocator)
    assert context.execute_async_v3(0)
    assert allocator.calls == [("room", 48), ("shape", (2, 3))]
    assert allocator.memory.view(np.int32)[:6].tolist() == [0, 1, 1, 1, 0, 2]


def test_less_room_than_there_may_be_results_is_rejected_before_anything_is_written(net):
    marked(net, y=nonzero(net, net.add_input("x", F, (2, 3))))
    context, small = engine(net).create_execution_context(), np.full(6, 9, np.int32)
    context.set_tensor_address("x", X)
    context.set_tensor_address("y", small)
    with trt.strict(), pytest.raises(BindingError, match=diagnostic("AR704", "y", 24, 48)):
        context.execute_async_v3(0)
    context.set_output_allocator("y", Allocator(room=24))
    with trt.strict(), pytest.raises(BindingError, match=r"AR709"):
        context.execute_async_v3(0)
    assert small.tolist() == [9] * 6


def test_layers_behind_compute_with_as_many_as_were_found(net):
    x = net.add_input("x", F, (-1, -1))
    at = net.add_shuffle(nonzero(net, x))
    at.first_transpose = (1, 0)
    some = net.add_gather_v2(x, at.get_output(0), trt.GatherMode.ND).get_output(0)
    twice = net.add_elementwise(some, some, trt.ElementWiseOperation.SUM).get_output(0)
    total = net.add_reduce(twice, trt.ReduceOperation.SUM, 1, True).get_output(0)
    again = nonzero(net, net.add_unary(net.add_activation(some, trt.ActivationType.RELU).get_output(0),
                                       trt.UnaryOperation.SQRT).get_output(0))  # fmt: skip
    marked(net, twice=twice, total=total, again=again, count=net.add_shape(some).get_output(0))
    run = engine(net, x=((1, 1), (2, 3), (200, 300))).run
    results = {name: y.tolist() for name, y in run(x=X).items()}
    assert results == {"twice": [10, 14, -2], "total": [22], "again": [[0, 1]], "count": [3]}
    results = {name: y.tolist() for name, y in run(x=0 * X).items()}
    assert results == {"twice": [], "total": [0], "again": [[]], "count": [0]}
    large = np.random.default_rng(1).integers(-1, 2, (200, 300)).astype(np.float32)
    assert run(x=large)["twice"].tolist() == (2 * large[large != 0]).tolist()


def test_the_size_may_be_the_only_output(net):
    shape = net.add_shape(nonzero(net, net.add_input("x", F, (2, 3)))).get_output(0)
    marked(net, y=shape)
    assert engine(net).run(x=X)["y"].tolist() == [2, 3]


def test_sizes_of_two_layers_must_fit_when_they_are_found(net):
    a, b = (nonzero(net, net.add_input(name, F, (4,))) for name in "ab")
    marked(net, y=net.add_elementwise(a, b, trt.ElementWiseOperation.SUM).get_output(0))
    run = engine(net).run
    two, three = np.float32([1, 0, 0, 1]), np.float32([0, 1, 1, 1])
    assert run(a=two, b=two)["y"].tolist() == [[0, 6]]
    assert run(a=np.float32([0, 0, 1, 0]), b=three)["y"].tolist() == [[3, 4, 5]]
    with pytest.raises(ShapeError, match=diagnostic("AR112", "[ElementWise]", 2, "[NonZero]#count", 1)):
        run(a=two, b=three)


def test_two_layers_of_one_name_that_decide_sizes_are_rejected(net):
    x = net.add_input("x", F, (4,))
    for name, y in (("a", x), ("b", net.add_unary(x, trt.UnaryOperation.SQRT).get_output(0))):
        layer = net.add_non_zero(y)
        layer.name = "same"
        marked(net, **{name: layer.get_output(0)})
    with trt.strict(), pytest.raises(GraphError, match=diagnostic("AR402", "same#count")):
        engine(net)


def test_the_tensor_of_a_size_is_no_tensor_of_the_engine(net):
    marked(net, y=nonzero(net, net.add_input("x", F, (2, 3))))
    built = engine(net)
    assert list(built) == ["x", "y"]
    assert built.get_tensor_shape("y") == (2, -1)
    assert list(built.run(x=X)) == ["y"]


def test_a_profiler_runs_kernel_by_kernel_with_the_sizes_found(net):
    class Profiler(trt.IProfiler):
        def report_layer_time(self, name, ms):
            names.append(name)

    names = []
    x = net.add_input("x", F, (2, 3))
    at = nonzero(net, x)
    marked(net, y=net.add_elementwise(at, at, trt.ElementWiseOperation.SUM).get_output(0))
    context, y = engine(net).create_execution_context(), np.zeros(12, np.int32)
    context.profiler = Profiler()
    context.set_tensor_address("x", X)
    context.set_tensor_address("y", y.ctypes.data)
    assert context.execute_async_v3(0)
    assert context._context.sizing.of("y") == (2, 3)
    assert (ctypes.c_int32 * 6).from_buffer(y)[:] == [0, 2, 2, 2, 0, 4]
    assert len(names) > 2
