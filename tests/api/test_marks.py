"""Marks and names in a network: their effects on the engine."""

import ctypes

import numpy as np
import pytest

import anyrt as trt
from tests.messages import diagnostic

F = trt.float32


@pytest.fixture
def engine_of(log):
    """An engine of a network without dynamic dimensions."""

    def build(net):
        return net.builder.build_engine_with_config(net, net.builder.create_builder_config())

    return build


@pytest.fixture
def chain(net):
    """x → twice → root, and the shape of x; root is the output y."""
    x = net.add_input("x", F, (2,))
    twice = net.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
    root = net.add_unary(twice, trt.UnaryOperation.SQRT).get_output(0)
    sizes = net.add_shape(x).get_output(0)
    twice.name, root.name, sizes.name = "twice", "y", "sizes"
    net.mark_output(root)
    return twice, root, sizes


def test_marked_outputs_are_those_of_the_engine(net, chain, engine_of):
    twice, root, _ = chain
    net.mark_output(twice)
    assert [*engine_of(net)] == ["x", "y", "twice"]
    net.unmark_output(root)
    engine = engine_of(net)
    assert ([*engine], engine.get_tensor_mode("twice")) == (["x", "twice"], trt.TensorIOMode.OUTPUT)


def test_outputs_for_shapes_are_shape_inference_io_until_unmarked(net, chain, engine_of):
    _, _, sizes = chain
    assert net.mark_output_for_shapes(sizes)
    engine = engine_of(net)
    assert (engine.is_shape_inference_io("sizes"), sizes.is_shape_tensor) == (True, True)
    assert net.unmark_output_for_shapes(sizes)
    assert ([*engine_of(net)], sizes.is_shape_tensor) == (["x", "y"], False)


def test_unmarking_for_shapes_what_is_not_marked_is_an_error(net, chain, log):
    assert net.unmark_output_for_shapes(chain[2]) is False
    assert "AR407" in log.lines[0]


def test_outputs_for_shapes_are_outputs_of_the_network_in_host_memory(net, chain):
    _, root, sizes = chain
    net.mark_output_for_shapes(sizes)
    assert [net.get_output(i) for i in range(net.num_outputs)] == [root, sizes]
    assert (sizes.is_network_output, sizes.location) == (True, trt.TensorLocation.HOST)
    net.mark_output(sizes)
    assert net.num_outputs == 2
    net.unmark_output_for_shapes(sizes)
    assert (net.num_outputs, sizes.location) == (2, trt.TensorLocation.DEVICE)


def test_inputs_are_no_outputs_for_shapes(net, log):
    assert net.mark_output_for_shapes(net.add_input("n", trt.int32, (2,))) is False
    assert "AR404" in log.lines[0]


def test_debug_tensors_are_those_of_the_engine(net, chain, engine_of, log):
    twice, root, _ = chain
    assert net.mark_debug(twice)
    assert (net.is_debug_tensor(twice), net.is_debug_tensor(root)) == (True, False)
    assert engine_of(net).is_debug_tensor("twice")
    assert net.unmark_debug(twice)
    assert not engine_of(net).is_debug_tensor("twice")
    assert (net.unmark_debug(twice), "AR407" in log.lines[0]) == (False, True)


def test_repeated_debug_tensors_are_rejected(net, chain, log):
    for tensor in (chain[0], net.get_input(0)):
        assert (net.mark_debug(tensor), net.mark_debug(tensor)) == (True, False)
    assert [line[:7] for line in log.lines] == ["[AR402]"] * 2


def test_inputs_may_be_debug_tensors_and_stay_inputs(net, chain, engine_of):
    x, extra = net.get_input(0), net.add_input("extra", F, (1,))
    assert [net.mark_debug(t) for t in (extra, x)] == [True, True]
    engine = engine_of(net)
    assert ([*engine], [engine.is_debug_tensor(n) for n in engine]) == (
        ["x", "extra", "y"],
        [True, True, False],
    )
    assert net.unmark_debug(x)
    net.remove_tensor(extra)
    assert ([*engine_of(net)], net.is_debug_tensor(extra)) == (["x", "y"], False)


def unfused(net, engine_of):
    """The tensors that a listener receives from an engine if it marks unfused tensors."""

    class Listener(trt.IDebugListener):
        def process_debug_tensor(self, addr, location, type, shape, name, stream):
            seen.append(name)
            return True

    seen = []
    context = engine_of(net).create_execution_context()
    context.set_debug_listener(Listener())
    context.unfused_tensors_debug_state = True
    arrays = [np.ones((64, 64, 64), np.float32), np.empty((1, 96, 96), np.float32)]
    for name, array in zip(["x", "y"], arrays, strict=True):
        context.set_tensor_address(name, array)
    assert context.execute_async_v3(0)
    return seen


def test_unfused_tensors_are_debug_tensors_while_they_are_marked(net, engine_of):
    total = net.add_reduce(net.add_input("x", F, (64, 64, 64)), trt.ReduceOperation.SUM, 0b001, True)
    resize = net.add_resize(total.get_output(0))
    resize.resize_mode, resize.scales = trt.InterpolationMode.CUBIC, (1, 1.5, 1.5)
    total.get_output(0).name, resize.get_output(0).name = "total", "y"
    net.mark_output(resize.get_output(0))
    assert net.mark_unfused_tensors_as_debug_tensors()
    assert unfused(net, engine_of) == ["total"]
    assert net.unmark_unfused_tensors_as_debug_tensors()
    assert unfused(net, engine_of) == []


def test_removed_inputs_are_not_in_the_engine(net, chain, engine_of):
    extra = net.add_input("extra", F, (1,))
    assert [*engine_of(net)] == ["x", "extra", "y"]
    net.remove_tensor(extra)
    assert [*engine_of(net)] == ["x", "y"]


def test_the_name_of_a_network_is_the_name_of_the_engine(net, chain, engine_of):
    assert net.name.startswith("Unnamed Network ")
    net.name = "classifier"
    assert engine_of(net).name == "classifier"
    with pytest.raises(TypeError, match="AR311"):
        net.name = 3


def test_a_network_knows_its_builder_and_has_no_implicit_batch(log):
    builder = trt.Builder(log)
    net = builder.create_network()
    assert (net.builder, net.has_implicit_batch_dimension, bool(net), len(net)) == (builder, False, True, 0)
    with pytest.raises(TypeError, match="AR311"):
        net.get_flag(0)


def test_tensors_of_other_networks_are_never_marked(net, log):
    other = trt.Builder(log).create_network()
    foreign = other.add_identity(other.add_input("x", F, (1,))).get_output(0)
    marks = [
        *(net.mark_output, net.unmark_output, net.mark_debug, net.unmark_debug, net.remove_tensor),
        *(net.mark_output_for_shapes, net.unmark_output_for_shapes),
    ]
    assert [mark(foreign) for mark in marks] == [None, None, False, False, None, False, False]
    assert [line[:7] for line in log.lines] == ["[AR403]"] * len(marks)
    for mark in marks:
        with pytest.raises(TypeError, match="AR311"):
            mark("y")


def test_weights_have_one_name_and_only_named_ones_are_marked(net, log):
    array = np.ones(1, np.float32)
    net.add_constant((1,), array)
    assert net.mark_weights_refittable("w") is False
    assert net.set_weights_name(array, "w")
    assert net.mark_weights_refittable("w")
    assert net.set_weights_name(array, "v")
    assert net.unmark_weights_refittable("w") is False
    assert [line[:7] for line in log.lines] == ["[AR304]"] * 2


def halves(net, debug):
    """The outputs for some numbers of a float16 network whose layers fuse, with these debug tensors."""
    x = net.add_input("x", trt.float16, (2, 6, 40))
    a = net.add_activation(x, trt.ActivationType.TANH).get_output(0)
    b = net.add_softmax(a).get_output(0)
    c = net.add_elementwise(b, x, trt.ElementWiseOperation.PROD).get_output(0)
    d = net.add_matrix_multiply(c, trt.MatrixOperation.NONE, x, trt.MatrixOperation.TRANSPOSE).get_output(0)
    y = net.add_unary(d, trt.UnaryOperation.SIN).get_output(0)
    for tensor, name in zip((a, b, c, d, y), "abcdy", strict=True):
        tensor.name = name
    net.mark_output(y)
    for tensor in (t for t in (x, a, b, c, d, y) if t.name in debug):
        assert net.mark_debug(tensor)
    if debug == "unfused":
        net.mark_unfused_tensors_as_debug_tensors()
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    numbers = np.random.default_rng(1).standard_normal((2, 6, 40)).astype(np.float16)
    return engine.run(x=numbers)["y"].tobytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("debug", ["a", "b", "c", "d", "x", "y", "xabcdy", "unfused"])
def test_debug_tensors_change_no_number_of_an_output(log, debug):
    plain, marked = (trt.Builder(log).create_network() for _ in range(2))
    assert halves(marked, debug) == halves(plain, "")


def test_debug_tensors_are_what_layers_would_store(net, chain, engine_of):
    class Listener(trt.IDebugListener):
        def process_debug_tensor(self, addr, location, type, shape, name, stream):
            seen[name] = np.frombuffer((ctypes.c_float * 2).from_address(addr), np.float32).tolist()
            return True

    seen = {}
    for tensor in (net.get_input(0), *chain[:2]):
        net.mark_debug(tensor)
    context = engine_of(net).create_execution_context()
    context.set_debug_listener(Listener())
    context.set_all_tensors_debug_state(True)
    x, y = np.float32([2, 8]), np.empty(2, np.float32)
    context.set_tensor_address("x", x)
    context.set_tensor_address("y", y)
    assert context.execute_async_v3(0)
    assert seen == {"x": [2, 8], "twice": [4, 16], "y": [2, 4]}


def test_debug_tensors_have_the_sizes_that_data_decide(net):
    class Listener(trt.IDebugListener):
        def process_debug_tensor(self, addr, location, type, shape, name, stream):
            numbers = np.frombuffer(ctypes.string_at(addr, 4 * shape[0]), np.int32)
            seen.append((name, tuple(shape), numbers.tolist()))
            return True

    seen = []
    chosen = net.add_non_zero(net.add_input("x", trt.bool, (6,))).get_output(0)
    flat = net.add_shuffle(chosen)
    flat.reshape_dims, flat.get_output(0).name = (-1,), "flat"
    total = net.add_reduce(flat.get_output(0), trt.ReduceOperation.SUM, 1, False).get_output(0)
    net.mark_output(total)
    assert net.mark_debug(flat.get_output(0))
    total.name = "y"
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    context = engine.create_execution_context()
    context.set_debug_listener(Listener())
    context.set_tensor_debug_state("flat", True)
    x, y = np.array([1, 0, 1, 0, 0, 1], bool), np.empty((), np.int32)
    context.set_tensor_address("x", x)
    context.set_tensor_address("y", y)
    assert context.execute_async_v3(0)
    assert (seen, int(y)) == ([("flat", (3,), [0, 2, 5])], 7)


@pytest.mark.parametrize("name", [np.zeros(0), np.zeros(2), None, 3], ids=repr)
def test_weights_are_marked_by_a_name_that_is_a_str(net, name):
    for method in (net.mark_weights_refittable, net.unmark_weights_refittable):
        with pytest.raises(
            TypeError,
            match=diagnostic(
                "AR311", "mark_weights_refittable", type(name).__name__.removesuffix("Type"), "str"
            ),
        ):
            method(name)
