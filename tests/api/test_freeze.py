"""Freezing a network: inferred properties of its layers are reused if they cannot have changed."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.model.state import state_of
from anyrt.api.model.weights import SHORT, Weights, is_steady

F = trt.float32


def plan_of(net):
    return bytes(net.builder.build_serialized_network(net, net.builder.create_builder_config()))


def filled(net, fill):
    """y = x padded with `fill`. The shape of the output has been read, which makes the layer read
    the number."""
    x = net.add_input("x", F, (2,))
    layer = net.add_slice(x, (0,), (4,), (1,))
    layer.mode = trt.SampleMode.FILL
    layer.set_input(4, net.add_constant((), fill).get_output(0))
    net.mark_output(layer.get_output(0))
    layer.get_output(0).name = "y"
    assert layer.get_output(0).shape == (4,)


def run(net):
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    return engine.run(x=np.ones(2, np.float32))["y"].tolist()


def test_a_build_sees_weights_as_they_are_when_it_begins(net):
    fill = np.array([2], np.float32)
    filled(net, fill)
    fill[0] = 3
    assert run(net) == [1, 1, 3, 3]
    fill[0] = 4
    assert run(net) == [1, 1, 4, 4]


@pytest.mark.parametrize("fill", [np.full(1, 5, np.float32), np.frombuffer(b"\0\0\xa0@", np.float32)])
def test_layers_whose_weights_stay_are_judged_once(net, fill, monkeypatch):
    filled(net, fill)
    monkeypatch.setattr("anyrt.api.model.expansion.expand_layer", pytest.fail)
    assert run(net) == [1, 1, 5, 5]


@pytest.mark.parametrize(("count", "known"), [(SHORT // 4, True), (SHORT, False)])
def test_long_weights_that_may_be_written_to_are_looked_at_again(net, count, known):
    x = net.add_input("x", F, (1, 1, 1, count))
    y = net.add_scale(x, trt.ScaleMode.ELEMENTWISE, np.ones(count, np.float32)).get_output(0)
    state = state_of(net)
    assert (y.shape, state.expansion.holds_of(state.inputs, state.layers)) == (x.shape, known)


def test_layers_of_open_sizes_are_judged_for_their_profile(net):
    x = net.add_input("x", F, (-1,))
    y = net.add_identity(x).get_output(0)
    assert y.shape == (-1,)
    net.mark_output(y)
    config, profile = net.builder.create_builder_config(), net.builder.create_optimization_profile()
    profile.set_shape("x", (2,), (3,), (4,))
    config.add_optimization_profile(profile)
    engine = net.builder.build_engine_with_config(net, config)
    with trt.strict(), pytest.raises(trt.errors.AnyrtError):
        engine.run(x=np.ones(5, np.float32))


def test_plans_do_not_depend_on_earlier_queries(log):
    plans = set()
    for asked in (False, True):
        net = trt.Builder(log).create_network()
        net.name, weights = "net", Weights(np.arange(6, dtype=np.float32))
        x = net.add_input("x", F, (2, 3))
        a, b = (net.add_constant((2, 3), weights).get_output(0) for _ in range(2))
        for factor in (a, b):
            assert not asked or x.shape == (2, 3)
            x = net.add_elementwise(x, factor, trt.ElementWiseOperation.PROD).get_output(0)
        net.mark_output(x)
        plans.add(plan_of(net))
    assert len(plans) == 1


def test_weights_are_steady_as_long_as_they_are_what_they_were():
    array = np.ones(3, np.float32)
    short, long = Weights(array), Weights(np.ones(SHORT, np.float32))
    assert (is_steady(short), is_steady(long)) == (True, False)
    array[0] = 2
    assert not is_steady(short)
    array[0] = 1
    assert not is_steady(short)  # other objects may have been derived from them meanwhile
    assert is_steady(Weights(np.frombuffer(bytes(4 * SHORT), np.float32)))
    assert not is_steady(Weights(trt.float32, array.ctypes.data, 3))


def test_an_input_of_integers_that_no_layer_reads_is_taken_and_left(net):
    y = net.add_unary(net.add_input("x", F, (2,)), trt.UnaryOperation.NEG).get_output(0)
    net.add_input("spare", trt.int64, (3,))
    net.mark_output(y)
    y.name = "y"
    assert y.shape == (2,)
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    assert engine.run(x=np.float32([1, 2]), spare=np.int64([7, 8, 9]))["y"].tolist() == [-1, -2]
