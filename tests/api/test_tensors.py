"""Every attribute and method of ITensor: its effect on shapes, numbers and engines."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.model.state import state_of

F, HOST, DEVICE = trt.float32, trt.TensorLocation.HOST, trt.TensorLocation.DEVICE


@pytest.fixture
def engine_of(log):
    """An engine whose outputs are these tensors."""

    def build(*tensors):
        net = state_of(tensors[0]).network.it
        for tensor in tensors:
            net.mark_output(tensor)
        return net.builder.build_engine_with_config(net, net.builder.create_builder_config())

    return build


def scaled(net, x):
    return net.add_scale(x, trt.ScaleMode.UNIFORM, scale=np.float32([2])).get_output(0)


def test_names_are_those_of_the_engine(net, engine_of):
    x = net.add_input("x", F, (2,))
    y = net.add_identity(x).get_output(0)
    x.name, y.name = "pixels", "classes"
    assert [*engine_of(y)] == ["pixels", "classes"]


def test_bad_names_change_nothing(net, log):
    x = net.add_input("x", F, (2,))
    x.name = "a\0b"
    assert (x.name, "AR405" in log.lines[0]) == ("x", True)


def test_shapes_of_inputs_decide_the_engine(net, engine_of):
    x = net.add_input("x", F, (2, 3))
    y = net.add_identity(x).get_output(0)
    y.name, x.shape = "y", [4, 1]
    assert y.shape == (4, 1)
    assert engine_of(y).get_tensor_shape("x") == (4, 1)


def test_types_of_inputs_and_outputs_can_be_assigned(net, engine_of):
    x = net.add_input("x", F, (2,))
    y = net.add_identity(x).get_output(0)
    x.dtype, y.dtype, y.name = trt.float16, trt.int32, "y"
    engine = engine_of(y)
    assert (x.dtype, engine.get_tensor_dtype("x")) == (trt.float16, trt.float16)
    assert engine.run(x=np.float16([1.5, -2.5]))["y"].tolist() == [1, -2]
    with pytest.raises(TypeError, match="AR311"):
        x.dtype = np.float32


def test_layers_beside_an_input_that_became_half_read_float32(net, engine_of):
    x, one = net.add_input("x", F, (2,)), net.add_constant((2,), np.float32([1, 1 / 3])).get_output(0)
    y = net.add_elementwise(one, x, trt.ElementWiseOperation.SUM).get_output(0)
    x.dtype, y.name = trt.float16, "y"
    engine, values = engine_of(y), np.float16([1.5, 1 / 3])
    assert (x.dtype, engine.get_tensor_dtype("x"), y.dtype) == (trt.float16, trt.float16, F)
    assert engine.run(x=values)["y"].tolist() == (np.float32(values) + np.float32([1, 1 / 3])).tolist()


def test_an_input_that_was_half_from_the_beginning_takes_no_other_type(net, log):
    x, one = net.add_input("x", trt.float16, (2,)), net.add_constant((2,), np.float32([1, 2])).get_output(0)
    y = net.add_elementwise(one, x, trt.ElementWiseOperation.SUM).get_output(0)
    assert (y.shape == (2,), "AR203" in log.lines[0]) == (False, True)


def test_types_of_layer_outputs_follow_in_strongly_typed_networks(log):
    net = trt.Builder(log).create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    x = net.add_input("x", F, (2,))
    y = net.add_identity(x).get_output(0)
    y.dtype = F
    assert log.lines == []
    y.dtype = trt.float16
    assert (y.dtype, "AR310" in log.lines[0]) == (F, True)
    x.dtype = trt.int32
    assert y.dtype is trt.int32


def test_locations_are_those_of_the_engine(net, engine_of):
    x, z = net.add_input("x", F, (2,)), net.add_input("z", F, (2,))
    y = net.add_elementwise(x, z, trt.ElementWiseOperation.SUM).get_output(0)
    assert (x.location, y.location) == (DEVICE, DEVICE)
    x.location, y.name = HOST, "y"
    engine = engine_of(y)
    assert [engine.get_tensor_location(n) for n in engine] == [HOST, DEVICE, DEVICE]
    with pytest.raises(TypeError, match="AR311"):
        x.location = 1


def test_allowed_formats_are_a_mask_of_one_or_more(net, log):
    x = net.add_input("x", F, (2,))
    assert x.allowed_formats == 1 << int(trt.TensorFormat.LINEAR)
    x.allowed_formats |= 1 << int(trt.TensorFormat.CHW4)
    assert (x.allowed_formats, log.lines) == (0b1001, [])
    x.allowed_formats = 1 << 30
    x.allowed_formats = 0
    assert (x.allowed_formats, [line[:7] for line in log.lines]) == (0b1001, ["[AR304]"] * 2)
    with pytest.raises(TypeError, match="AR311"):
        x.allowed_formats = trt.TensorFormat.CHW4


def test_broadcast_across_batch_is_kept(net):
    x = net.add_input("x", F, (2,))
    before = x.broadcast_across_batch
    x.broadcast_across_batch = True
    assert (before, x.broadcast_across_batch) == (False, True)
    assert trt.ITensor.broadcast_across_batch.__doc__.startswith("Kept")


def test_inputs_and_outputs_know_that_they_are(net):
    x = net.add_input("x", F, (2,))
    y = net.add_identity(x).get_output(0)
    assert (x.is_network_input, y.is_network_input) == (True, False)
    assert (x.is_network_output, y.is_network_output) == (False, False)
    net.mark_output(y)
    assert (y.is_network_input, y.is_network_output) == (False, True)


def test_shape_tensors_that_are_also_data_are_execution_tensors(net):
    n, x = net.add_input("n", trt.int32, (1,)), net.add_input("x", F, (6,))
    net.add_shuffle(x).set_input(1, n)
    assert (n.is_shape_tensor, n.is_execution_tensor) == (True, False)
    net.add_cast(n, F)
    assert (n.is_shape_tensor, n.is_execution_tensor) == (True, True)
    assert (x.is_shape_tensor, x.is_execution_tensor) == (False, True)


@pytest.mark.parametrize(
    ("assign", "want"),
    [
        (lambda x: None, [20, -40, 120]),
        (lambda x: setattr(x, "dynamic_range", (-12.7, 3)), [2, -4, 12]),
        (lambda x: x.set_dynamic_range(-2, 12.7), [2, -4, 12]),
        (lambda x: (x.set_dynamic_range(-2, 12.7), x.reset_dynamic_range()), [20, -40, 120]),
        (lambda x: (x.set_dynamic_range(-2, 12.7), setattr(x, "dynamic_range", None)), [20, -40, 120]),
    ],
)
def test_dynamic_ranges_are_what_int8_numbers_mean(net, engine_of, assign, want):
    x = net.add_input("x", trt.int8, (1, 1, 1, 3))
    y = scaled(net, x)
    y.name = "y"
    assign(x)
    assert engine_of(y).run(x=np.int8([[[[10, -20, 60]]]]))["y"].ravel().tolist() == want


@pytest.mark.parametrize("limits", [(1,), (1, 2, 3), 5, "ab"])
def test_dynamic_ranges_are_pairs(net, limits):
    with pytest.raises(TypeError, match="AR311"):
        net.add_input("x", trt.int8, (1,)).dynamic_range = limits


def test_dimension_names_tie_sizes_together(net, log):
    a, b = (net.add_input(n, F, (-1,)) for n in "ab")
    total = net.add_concatenation([a, b]).get_output(0)
    a.set_dimension_name(0, "length")
    b.set_dimension_name(0, "length")
    net.mark_output(total)
    config, profile = net.builder.create_builder_config(), net.builder.create_optimization_profile()
    for name in "ab":
        profile.set_shape(name, (1,), (2,), (9,))
    config.add_optimization_profile(profile)
    engine = net.builder.build_engine_with_config(net, config)
    with trt.strict(), pytest.raises(trt.errors.BindingError, match="AR710"):
        engine.run(a=np.ones(2, np.float32), b=np.ones(3, np.float32))


def test_only_dimensions_of_inputs_have_names(net, log):
    x = net.add_input("x", F, (2,))
    net.add_identity(x).get_output(0).set_dimension_name(0, "n")
    x.set_dimension_name(1, "n")
    assert (x.get_dimension_name(0), x.get_dimension_name(5)) == ("", "")
    assert ["AR310" in log.lines[0], "AR312" in log.lines[1]] == [True, True]


def test_renaming_the_output_of_a_layer_judges_no_layer_again(net, monkeypatch):
    x = net.add_input("x", F, (2,))
    y = net.add_identity(net.add_identity(x).get_output(0)).get_output(0)
    assert y.shape == (2,)
    monkeypatch.setattr("anyrt.api.model.expansion.expand_layer", pytest.fail)
    y.name = "y"
    assert (y.name, y.shape) == ("y", (2,))


def test_renaming_an_input_makes_another_of_it(net):
    x = net.add_input("x", F, (2,))
    y = net.add_identity(x).get_output(0)
    assert y.shape == (2,)
    x.name = "z"
    net.mark_output(y)
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    assert engine.run(z=np.ones(2, np.float32))[y.name].tolist() == [1, 1]
