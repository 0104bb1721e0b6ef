"""Fill layers: integers and floats, operands, streams of random numbers."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.building.freeze import freeze
from anyrt.compiler.request import Settings
from anyrt.ir.interpret import interpret

LINSPACE, UNIFORM, NORMAL = trt.FillOperation.__members__.values()


def output_of(net, layer, **inputs):
    """The output of an engine of the network."""
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    config = net.builder.create_builder_config()
    return net.builder.build_engine_with_config(net, config).run(**inputs)["y"]


def drawn(net, op, seed, count=1 << 16):
    layer = net.add_fill((count,), op)
    layer.seed = seed
    return output_of(net, layer).astype(np.float64)


def test_integers_stay_integers(net):
    layer = net.add_fill((3,), LINSPACE, trt.int64)
    before = layer.is_alpha_beta_int64()
    layer.alpha, layer.beta = 2**53 + 1, np.int64(-1)
    assert (before, layer.is_alpha_beta_int64(), layer.alpha) == (False, True, 2**53 + 1)
    assert output_of(net, layer).tolist() == [2**53 + 1, 2**53, 2**53 - 1]


def test_floats_are_floats(net):
    layer = net.add_fill((3,), LINSPACE)
    layer.alpha, layer.beta = 1.0, np.float32(0.5)
    assert (layer.is_alpha_beta_int64(), layer.beta) == (False, 0.5)
    with pytest.raises(TypeError, match="AR311"):
        layer.beta = "1"
    assert output_of(net, layer).tolist() == [1, 1.5, 2]


def test_operands_fix_the_type_and_attributes_disconnect_them(net):
    layer = net.add_fill((2, 2), LINSPACE)
    layer.set_input(1, net.add_constant((), np.int32([7])).get_output(0))
    layer.set_input(2, net.add_constant((2,), np.int32([10, 1])).get_output(0))
    assert (layer.num_inputs, layer.get_input(0), layer.get_output(0).dtype) == (3, None, trt.int32)
    assert output_of(net, layer).tolist() == [[7, 8], [17, 18]]
    layer.beta = 2.0
    assert (layer.num_inputs, layer.get_input(1) is None) == (2, False)


def test_a_shape_that_the_network_computes(net):
    x = net.add_input("x", trt.float32, (-1, 3))
    profile = net.builder.create_optimization_profile()
    profile.set_shape("x", (0, 3), (4, 3), (9, 3))
    config = net.builder.create_builder_config()
    config.add_optimization_profile(profile)
    layer = net.add_fill((), UNIFORM)
    layer.set_input(0, net.add_shape(x).get_output(0))
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    engine = net.builder.build_engine_with_config(net, config)
    five = engine.run(x=np.zeros((5, 3), np.float32))["y"]
    assert (five.shape, engine.run(x=np.zeros((0, 3), np.float32))["y"].shape) == ((5, 3), (0, 3))
    assert np.array_equal(engine.run(x=np.zeros((2, 3), np.float32))["y"], five[:2])


def test_uniform_numbers_are_the_same_in_every_bit_everywhere(net):
    layer = net.add_fill((1000,), UNIFORM)
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    expected = interpret(freeze(net, [], Settings()).graph, {})["y"]
    assert np.array_equal(output_of(net, layer), expected)
    assert len(np.unique(expected)) == 1000


def test_layers_have_streams_of_their_own_unless_a_seed_is_set(net):
    a, b, c, d = (net.add_fill((9,), UNIFORM) for _ in range(4))
    c.seed = d.seed = 1
    for layer, name in ((a, "a"), (b, "b"), (c, "c"), (d, "d")):
        layer.get_output(0).name = name
        net.mark_output(layer.get_output(0))
    engine = net.builder.build_engine_with_config(net, net.builder.create_builder_config())
    y, again = engine.run(), engine.run()
    assert not np.intersect1d(y["a"], y["b"]).size
    assert np.array_equal(y["c"], y["d"])
    assert np.array_equal(y["a"], again["a"])


@pytest.mark.parametrize("seed", [0, 1, -1, 2**62])
def test_moments_of_uniform_numbers(net, seed):
    y = drawn(net, UNIFORM, seed) - 0.5
    one = 1 / 256  # a standard error times the square root of the variance
    assert (abs(y.mean()), abs((y**2).mean() - 1 / 12)) < (4 * one * 0.289, 4 * one * 0.075)
    assert abs((y[1:] * y[:-1]).mean()) < 4 * one / 12
    assert -0.5 <= y.min() < -0.4998 < 0.4998 < y.max() < 0.5


@pytest.mark.parametrize("seed", [0, 1, -1, 2**62])
def test_moments_of_normal_numbers(net, seed):
    y = drawn(net, NORMAL, seed)
    expected = {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96)}  # and the variance of a power
    for power, (mean, variance) in expected.items():
        assert abs((y**power).mean() - mean) < 4 * variance**0.5 / 256, power
    assert abs((y[1:] * y[:-1]).mean()) < 4 / 256
    assert 3.6 < abs(y).max() < 6.7


def test_a_range_that_is_rejected_says_so_in_the_log(net, log):
    layer = net.add_fill((2, 3), LINSPACE)
    net.mark_output(layer.get_output(0))
    assert net.builder.build_serialized_network(net, net.builder.create_builder_config()) is None
    assert "[AR124] (Unnamed Layer* 0) [Fill] (test_fill.py:" in log.lines[0]
