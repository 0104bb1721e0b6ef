"""Arguments of the wrong type raise TypeErrors that name the call, wherever they are checked first."""

import numpy as np
import pytest

import anyrt as trt
from tests.messages import diagnostic

PAIR = np.ones(2, np.int64)


@pytest.mark.parametrize("bad", [None, "0", PAIR, (), 1.5])
@pytest.mark.parametrize("method", ["get_layer", "get_input", "get_output"])
def test_indices_of_a_network_are_ints(net, method, bad):
    with pytest.raises(TypeError, match="AR311"):
        getattr(net, method)(bad)


@pytest.mark.parametrize("bad", [None, "0", PAIR, 1.5])
def test_indices_of_a_layer_are_ints(net, bad):
    x = net.add_input("x", trt.float32, (1, 2))
    layer = net.add_identity(x)
    for call in (layer.get_output, layer.reset_output_type, layer.output_type_is_set, x.get_dimension_name):
        with pytest.raises(TypeError, match="AR311"):
            call(bad)
    with pytest.raises(TypeError, match="AR311"):
        layer.set_input(bad, x)


def test_attributes_are_no_arrays(net):
    x = net.add_input("x", trt.float32, (1, 1, 2, 2))
    relu = net.add_activation(x, trt.ActivationType.LEAKY_RELU)
    shuffle = net.add_shuffle(x)
    for owner, name in ((relu, "alpha"), (shuffle, "zero_is_placeholder"), (x, "broadcast_across_batch")):
        with pytest.raises(TypeError, match="AR311"):
            setattr(owner, name, PAIR)
    with pytest.raises(TypeError, match="AR311"):
        shuffle.reshape_dims = (PAIR, 2)


MASKED = np.ma.array(np.float32([1, 2]), mask=[False, True])


def test_layers_take_no_matrices_and_no_masked_arrays(net):
    x = net.add_input("x", trt.float32, (1, 1, 2, 2))
    resize, elu = net.add_resize(x), net.add_activation(x, trt.ActivationType.ELU)
    with pytest.raises(TypeError, match=diagnostic("AR311", "add_constant: weights", "matrix")):
        net.add_constant((2,), np.ones((1, 2), np.float32).view(np.matrix))
    with pytest.raises(TypeError, match=diagnostic("AR311", "add_scale: shift", "MaskedArray")):
        net.add_scale(x, trt.ScaleMode.UNIFORM, MASKED[:1])
    with pytest.raises(TypeError, match="AR311"):
        resize.scales = MASKED
    with pytest.raises(TypeError, match="AR311"):
        elu.alpha = MASKED[1]
    with pytest.raises(TypeError, match="AR311"):
        net.add_reduce(x, trt.ReduceOperation.SUM, np.ma.array(3, mask=True), keep_dims=True)


def test_numbers_beyond_every_float_are_no_floats(net):
    layer = net.add_activation(net.add_input("x", trt.float32, (1,)), trt.ActivationType.ELU)
    with pytest.raises(TypeError, match="AR311"):
        layer.alpha = 10**400


def test_indices_of_an_engine_are_ints(engine, context):
    for call in (engine.get_tensor_name, engine.get_device_memory_size_for_profile_v2):
        with pytest.raises(TypeError, match="AR311"):
            call("0")
    with pytest.raises(TypeError, match="AR311"):
        engine.get_tensor_format("x", None)
    with pytest.raises(TypeError, match="AR311"):
        context.set_all_tensors_debug_state(PAIR)


@pytest.mark.parametrize("bad", [None, "text", 3])
def test_timing_caches_are_made_of_buffers(log, bad):
    config = trt.Builder(log).create_builder_config()
    with pytest.raises(TypeError, match="AR311"):
        config.create_timing_cache(bad)


def test_the_path_of_a_runtime_may_be_anything(log):
    assert trt.Runtime(log).load_runtime("x" * 5000) is None
    assert "AR304" in log.lines[0]


def test_names_and_lists_may_be_anything(net, context, log):
    assert not net.are_weights_marked_refittable([])
    for call in (context.set_aux_streams, context.execute_v2):
        with pytest.raises(TypeError, match="AR311"):
            call(None)
    with pytest.raises(TypeError, match="AR311"):
        trt.Builder(log).create_builder_config().set_preview_feature(
            trt.PreviewFeature.ALIASED_PLUGIN_IO_10_03, PAIR
        )


def test_scale_types_are_no_types_of_outputs(net, log):
    layer = net.add_identity(net.add_input("x", trt.float32, (2,)))
    layer.set_output_type(0, trt.e8m0)
    assert layer.get_output(0).shape.rank == -1
    assert "AR206" in log.lines[0]
