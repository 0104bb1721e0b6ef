"""Arrays that a program releases while a context still has their addresses."""

import weakref

import numpy as np
import pytest

import anyrt as trt
from anyrt.compat.tensorrt import held


@pytest.fixture
def context(monkeypatch):
    """A context of x, reshaped to the sizes in an input; twice the sizes is a shape output."""
    monkeypatch.setattr(trt.IExecutionContext, "set_tensor_address", trt.IExecutionContext.set_tensor_address)
    held.offer()
    net = trt.Builder(trt.Logger()).create_network()
    x, sizes = net.add_input("x", trt.float32, (12,)), net.add_input("sizes", trt.int64, (2,))
    layer = net.add_shuffle(x)
    layer.set_input(1, sizes)
    net.mark_output(layer.get_output(0))
    twice = net.add_elementwise(sizes, sizes, trt.ElementWiseOperation.SUM).get_output(0)
    twice.name = "twice"
    net.mark_output_for_shapes(twice)
    config, profile = net.builder.create_builder_config(), net.builder.create_optimization_profile()
    profile.set_shape_input("sizes", (1, 1), (3, 4), (12, 12))
    config.add_optimization_profile(profile)
    return net.builder.build_engine_with_config(net, config).create_execution_context()


def bound(context, name, values):
    """The object that keeps the memory of a tensor's address alive."""
    array = np.array(values)
    kept = [array]
    del array
    assert context.set_tensor_address(name, kept[0].ctypes.data)
    return weakref.ref(kept[0])


@pytest.mark.parametrize("name", ["sizes", "twice"])
def test_an_array_of_sizes_lives_until_the_next_address(context, name):
    first = bound(context, name, [4, 3])
    assert first() is not None
    second = bound(context, name, [6, 2])
    assert (first(), second().tolist()) == (None, [6, 2])


def test_an_array_of_sizes_does_not_outlive_the_context(context):
    array = bound(context, "sizes", [4, 3])
    assert held._HELD.pop(context) == {"sizes": array()}
    assert array() is None


def test_other_tensors_are_not_held(context):
    assert bound(context, "x", np.zeros(12, np.float32))() is None


def test_shape_inputs_and_outputs_use_the_arrays_at_their_addresses(context):
    bound(context, "sizes", [4, 3])
    reported = bound(context, "twice", [0, 0])
    others = [np.array([7, 7]) for _ in range(100)]
    assert context.infer_shapes() == []
    assert tuple(context.get_tensor_shape(context.engine.get_tensor_name(2))) == (4, 3)
    assert reported().tolist() == [8, 6]
    assert sum(x.sum() for x in others) == 1400
