"""Properties common to all layers: names, inputs, outputs and types."""

import gc
import json
import re
import weakref

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.model.state import state_of
from anyrt.core.errors import GraphError
from tests.messages import diagnostic

F, SUM = trt.float32, trt.ElementWiseOperation.SUM
DETAILED, JSON = trt.ProfilingVerbosity.DETAILED, trt.LayerInformationFormat.JSON


@pytest.fixture
def engine_of(log):
    """An engine of the network that ends in this layer, whose output becomes y."""

    def build(layer):
        layer.get_output(0).name = "y"
        net = state_of(layer).network.it
        net.mark_output(layer.get_output(0))
        config = net.builder.create_builder_config()
        config.profiling_verbosity = DETAILED
        return net.builder.build_engine_with_config(net, config)

    return build


def numbers(net, *values):
    array = np.int32(values)
    return net.add_constant(array.shape, array).get_output(0)


def test_name_and_metadata_reach_the_engine(net, engine_of):
    layer = net.add_identity(net.add_input("x", F, (2,)))
    layer.name, layer.metadata = "same", "module: encoder"
    information = json.loads(engine_of(layer).create_engine_inspector().get_layer_information(0, JSON))
    assert (information["Name"], information["Metadata"]) == ("same", "module: encoder")


def test_messages_name_the_layer(net, log):
    layer = net.add_resize(net.add_input("x", F, (2,)))
    layer.name, layer.shape = "enlarge", (2, 2)
    assert layer.get_output(0).shape.rank == -1
    assert "enlarge (test_layers.py:" in log.lines[0]
    layer.name = ""
    assert (layer.name, "AR405" in log.lines[1]) == ("enlarge", True)
    with pytest.raises(TypeError, match="AR311"):
        layer.metadata = 3


@pytest.mark.parametrize("what", ["layer", "tensor", "metadata", "network"])
def test_text_that_utf8_cannot_hold_is_rejected(net, what):
    layer = net.add_identity(net.add_input("x", trt.float32, (1,)))
    owner = {"tensor": layer.get_output(0), "network": net}.get(what, layer)
    attribute = "metadata" if what == "metadata" else "name"
    before = getattr(owner, attribute)
    with trt.strict(), pytest.raises(GraphError, match=diagnostic("AR405", r"'\udce9'", "errors='replace'")):
        setattr(owner, attribute, b"caf\xe9".decode(errors="surrogateescape"))
    assert getattr(owner, attribute) == before


def test_set_input_changes_what_is_computed(net, engine_of):
    a, b = (net.add_constant((2,), np.float32(v)).get_output(0) for v in ([1, 2], [10, 20]))
    layer = net.add_elementwise(a, a, SUM)
    layer.set_input(1, b)
    assert (layer.get_input(0), layer.get_input(1), layer.num_inputs) == (a, b, 2)
    assert engine_of(layer).run()["y"].tolist() == [11, 22]


def test_set_input_of_a_list_of_inputs_replaces_one(net, engine_of, log):
    a, b = (net.add_constant((1,), np.float32([v])).get_output(0) for v in (1, 2))
    layer = net.add_concatenation([a, a, a])
    layer.set_input(1, b)
    layer.set_input(3, b)
    assert (layer.num_inputs, "AR312" in log.lines[0]) == (3, True)
    assert engine_of(layer).run()["y"].tolist() == [1, 2, 1]


def test_nothing_cannot_be_concatenated(net, log):
    assert net.add_concatenation([]) is None
    assert "AR406" in log.lines[0]


@pytest.mark.parametrize("index", [1, 2, 3, 5])
def test_an_operand_of_slice_takes_the_place_of_its_attribute(net, engine_of, index):
    x = net.add_constant((4,), np.float32([1, 2, 3, 4])).get_output(0)
    layer = net.add_slice(x, (1,), (2,), (1,))
    layer.axes = (7,) if index == 5 else (0,)
    name = {1: "start", 2: "shape", 3: "stride", 5: "axes"}[index]
    layer.set_input(index, numbers(net, {1: 2, 2: 3, 3: 2, 5: 0}[index]))
    assert (layer.num_inputs, getattr(layer, name).rank) == (index + 1, -1)
    assert engine_of(layer).run()["y"].tolist() == {1: [3, 4], 2: [2, 3, 4], 3: [2, 4], 5: [2, 3]}[index]


def test_an_attribute_of_slice_disconnects_its_own_operand_only(net, engine_of):
    x = net.add_constant((4,), np.float32([1, 2, 3, 4])).get_output(0)
    layer = net.add_slice(x, (0,), (1,), (1,))
    layer.mode = trt.SampleMode.FILL
    operands = [numbers(net, v) for v in (1, 2, 3)]
    fill = net.add_constant((), np.float32([9])).get_output(0)
    for index, tensor in enumerate([*operands, fill], 1):
        layer.set_input(index, tensor)
    layer.start = (2,)
    assert [layer.get_input(i) for i in range(5)] == [x, None, *operands[1:], fill]
    assert ([*layer.start], layer.shape.rank, operands[0].is_shape_tensor) == ([2], -1, False)
    assert engine_of(layer).run()["y"].tolist() == [3, 9]


def test_inputs_that_are_disconnected_at_the_end_are_counted_no_longer(net):
    layer = net.add_slice(net.add_input("x", F, (4,)), (0,), (1,), (1,))
    layer.set_input(5, numbers(net, 0))
    assert [layer.get_input(i) is None for i in range(6)] == [False, True, True, True, True, False]
    layer.set_input(2, numbers(net, 3))
    layer.axes = (0,)
    assert (layer.num_inputs, layer.get_output(0).shape) == (3, (3,))
    layer.shape = (2,)
    assert (layer.num_inputs, layer.get_output(0).shape) == (1, (2,))


def test_a_tensor_that_is_two_operands_is_disconnected_from_one(net):
    n = numbers(net, 1)
    layer = net.add_slice(net.add_input("x", F, (4,)), (0,), (1,), (1,))
    layer.set_input(1, n)
    layer.set_input(2, n)
    layer.start = (0,)
    assert n.is_shape_tensor
    layer.shape = (4,)
    assert not n.is_shape_tensor


def test_get_output_type_follows_the_inputs_and_the_setting(net, engine_of):
    layer = net.add_shape(net.add_input("x", F, (2, 3)))
    assert (layer.get_output_type(0), layer.output_type_is_set(0)) == (trt.int64, False)
    layer.set_output_type(0, F)
    assert (layer.get_output_type(0), layer.output_type_is_set(0)) == (F, True)
    assert engine_of(layer).run(x=np.ones((2, 3), np.float32))["y"].dtype == np.float32
    layer.reset_output_type(0)
    assert (layer.get_output_type(0), layer.get_output(0).dtype) == (trt.int64, trt.int64)


def test_output_types_of_outputs_that_are_not_there_are_errors(net, log):
    layer = net.add_identity(net.add_input("x", F, (2,)))
    layer.set_output_type(1, trt.int32)
    assert (layer.get_output_type(1), layer.output_type_is_set(1)) == (F, False)
    assert [line[:7] for line in log.lines] == ["[AR312]"] * 3


@pytest.mark.parametrize(
    ("name", "value", "default"), [("precision", trt.float16, F), ("num_ranks", 2, 1), ("metadata", "m", "")]
)
def test_what_is_kept_reads_back_and_changes_no_number(net, engine_of, name, value, default):
    layer = net.add_unary(net.add_input("x", F, (1,)), trt.UnaryOperation.RECIP)
    assert getattr(layer, name) == default
    setattr(layer, name, value)
    assert getattr(layer, name) == value
    assert engine_of(layer).run(x=np.float32([3]))["y"].tolist() == [np.float32(1) / np.float32(3)]
    assert "Kept" in getattr(trt.ILayer, name).__doc__ or name == "metadata"


def test_precisions_are_types(net):
    layer = net.add_identity(net.add_input("x", F, (2,)))
    layer.precision = trt.int8
    assert (layer.precision, layer.precision_is_set) == (trt.int8, True)
    layer.reset_precision()
    assert (layer.precision, layer.precision_is_set) == (F, False)
    for refused in (lambda: setattr(layer, "precision", "half"), lambda: layer.set_output_type(0, 1)):
        with pytest.raises(TypeError, match="AR311"):
            refused()


def test_a_layer_keeps_the_array_of_its_weights(net, engine_of):
    array = np.float32([1, 2])
    alive = weakref.ref(array)
    layer = net.add_constant((2,), array)
    array += 1
    del array
    gc.collect()
    assert alive() is not None
    assert engine_of(layer).run()["y"].tolist() == [2, 3]


def test_an_output_of_nine_axes_is_rejected(net, log):
    x = net.add_input("x", F, (1,) * 8)
    layer = net.add_unsqueeze(x, net.add_constant((1,), np.int32([0])).get_output(0))
    layer.name = "wide"
    assert layer.get_output(0).shape.rank == -1
    assert re.search(diagnostic("AR115", "wide (test_layers.py:", 9, (1,) * 9, 8), log.lines[0])
    with pytest.raises(ValueError, match=diagnostic("AR115", "add_input: shape", 9, 8)):
        net.add_input("y", F, (1,) * 9)


def test_layers_that_a_network_hands_back_have_the_type_of_layers_until_their_class_is_assigned(net):
    x = net.add_input("x", trt.float32, (1, 1, 4, 4))
    relu = net.add_activation(x, trt.ActivationType.RELU)
    pool = net.add_pooling_nd(relu.get_output(0), trt.PoolingType.MAX, (2, 2))
    kinds = [trt.LayerType.ACTIVATION, trt.LayerType.POOLING]
    assert [layer.type for layer in net] == [net[i].type for i in range(2)] == kinds
    assert [net.get_layer(i) for i in range(2)] == [relu, pool]
    for layer, cls in zip(net, (trt.IActivationLayer, trt.IPoolingLayer), strict=True):
        layer.__class__ = cls
        assert isinstance(layer, cls)
        assert layer.type in (relu.type, pool.type)
    assert (relu.type, pool.type) == (trt.ActivationType.RELU, trt.PoolingType.MAX)


def test_a_layer_that_a_network_hands_back_is_the_layer(net):
    x = net.add_input("x", trt.float32, (1,))
    relu = net.add_activation(x, trt.ActivationType.LEAKY_RELU)
    result = net.get_layer(0)
    result.name, result.alpha = "leaky", 0.25
    config = net.builder.create_builder_config()
    config.set_device_type(result, trt.DeviceType.DLA)
    assert (relu.name, relu.alpha, {relu: 1}[result], repr(result)) == ("leaky", 0.25, 1, repr(relu))
    assert config.get_device_type(relu) is trt.DeviceType.DLA
    with pytest.raises(AttributeError, match="AR313"):
        result.alhpa = 1
