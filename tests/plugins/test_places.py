"""Plug-ins of both versions in loops and branches, and before layers with data-dependent shapes."""

import numpy as np
import pytest

import anyrt as trt
from tests.plugins.samples import OldPad, OldPadCreator, Pad, PadCreator, at, built, fields, pad, wrapped


class Found(Pad):
    """The positions of nonzero elements, a data-dependent number of rows; the second output is the size
    tensor."""

    def __init__(self):
        Pad.__init__(self)
        self.plugin_name, self.num_outputs = "Found", 2

    def get_output_data_types(self, input_types):
        return [trt.int32, trt.int64]

    def get_output_shapes(self, inputs, shape_inputs, builder):
        most = builder.operation(trt.DimensionOperation.PROD, inputs[0][0], inputs[0][1])
        half = builder.operation(trt.DimensionOperation.FLOOR_DIV, most, builder.constant(2))
        count = builder.declare_size_tensor(1, half, most)
        return [trt.DimsExprs([count, builder.constant(2)]), trt.DimsExprs(0)]

    def get_fields_to_serialize(self):
        return trt.PluginFieldCollection([])

    def supports_format_combination(self, pos, in_out, num_inputs):
        return in_out[pos].desc.type == (trt.float32, trt.int32, trt.int64)[pos]

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        result = np.argwhere(at(inputs[0], input_desc[0]))
        at(outputs[0], output_desc[0]).reshape(-1)[: result.size] = result.reshape(-1)
        at(outputs[1], output_desc[1])[...] += len(result)  # as kernels count that add

    def clone(self):
        return Found()


class FoundCreator(PadCreator):
    def __init__(self):
        PadCreator.__init__(self)
        self.name = "Found"

    def create_plugin(self, name, fc, phase):
        return Found()


@pytest.fixture(autouse=True)
def creators(registry):
    for creator in (PadCreator(), OldPadCreator(), FoundCreator()):
        registry.register_creator(creator, "")
    with trt.strict():
        yield


def test_a_plugin_of_version_2_is_serialized_initialized_and_configured(log, rng):
    old = lambda n, x: n.add_plugin_v2([x], OldPad(fields())).get_output(0)  # noqa: E731
    engine = built(log, old, (1, 3, 2), (4, 4, 5), (9, 9, 9))
    for shape in ((1, 4, 5), (9, 9, 9), (3, 5, 4)):
        x = rng.standard_normal(shape).astype(np.float32)
        assert np.array_equal(engine.run(x=x)["y"], wrapped(x))


def nonzero(network, x):
    layer = network.add_plugin_v3([x], [], Found())
    scale = network.add_constant((1, 2), np.array([[1, 100]], np.int32)).get_output(0)
    product = network.add_elementwise(layer.get_output(0), scale, trt.ElementWiseOperation.PROD)
    return product.get_output(0), layer.get_output(0), layer.get_output(1)


def test_a_size_tensor_determines_the_shape_of_later_layers(log, rng):
    engine = built(log, nonzero, (1, 1), (5, 5), (9, 9))
    for shape in ((5, 5), (9, 9), (1, 7)):
        x = (rng.random(shape) > 0.5).astype(np.float32)
        actual, want = engine.run(x=x), np.argwhere(x)
        assert np.array_equal(actual["y1"], want)
        assert np.array_equal(actual["y"], want * [1, 100])
        assert actual["y2"] == len(want)


def doubled(network, x):
    """Three iterations of a sum and a plug-in that copies its input."""
    loop, three = network.add_loop(), network.add_constant((), np.array(3, np.int32)).get_output(0)
    loop.add_trip_limit(three, trt.TripLimit.COUNT)
    state = loop.add_recurrence(x)
    same = network.add_plugin_v3([state.get_output(0)], [], pad((0, 0, 0, 0))).get_output(0)
    state.set_input(1, network.add_elementwise(same, same, trt.ElementWiseOperation.SUM).get_output(0))
    return loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE, 0).get_output(0)


def test_a_plugin_in_a_loop_is_called_in_each_iteration(log, rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    assert np.array_equal(built(log, doubled).run(x=x)["y"], 8 * x)


def either(network, x):
    """One of two plug-ins, selected by the sign of the sum."""
    total = network.add_reduce(x, trt.ReduceOperation.SUM, 7, False).get_output(0)
    zero = network.add_constant((), np.array(0, np.float32)).get_output(0)
    choice = network.add_if_conditional()
    choice.set_condition(network.add_elementwise(total, zero, trt.ElementWiseOperation.GREATER).get_output(0))
    inner = choice.add_input(x).get_output(0)
    result = (network.add_plugin_v3([inner], [], pad(p)).get_output(0) for p in ((1, 1, 1, 1), (0, 2, 0, 2)))
    return choice.add_output(*result).get_output(0)


def test_a_plugin_in_a_branch_is_called_only_if_that_is_selected(log, rng):
    engine, x = built(log, either), rng.random((2, 3, 4)).astype(np.float32)
    assert np.array_equal(engine.run(x=x)["y"], wrapped(x, (1, 1, 1, 1)))
    assert np.array_equal(engine.run(x=-x)["y"], wrapped(-x, (0, 2, 0, 2)))
