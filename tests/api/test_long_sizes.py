"""Dimensions computed from input shapes through chains of reshapes, as PyTorch compilers emit them."""

import numpy as np
import pytest

import anyrt as trt
from tests.networks import marked

LIMITS = {"p": 4, "q": 8, "pq": 32}


@pytest.fixture
def chain(net):
    """Shapes read from tensors during network construction: flattened and back, four times, with a
    sum each."""
    shapes = []

    def reshaped(t, *parts):
        layer = net.add_shuffle(t)
        layer.set_input(1, net.add_concatenation(parts).get_output(0))
        shapes.append(tuple(layer.get_output(0).shape))
        return layer.get_output(0)

    x = y = net.add_input("x", trt.float32, (-1, -1, 4))
    p, q, pq = (net.add_input(name, trt.int64, (1,)) for name in LIMITS)
    four = net.add_constant((1,), np.int64([4])).get_output(0)
    for _ in range(4):
        y = reshaped(reshaped(y, pq, four), p, q, four)
        y = net.add_elementwise(x, y, trt.ElementWiseOperation.SUM).get_output(0)
    marked(net, y=y)
    return shapes


def test_shapes_of_tensors_have_the_known_dimensions(chain, log):
    assert chain == [(-1, 4), (-1, -1, 4)] * 4
    assert log.lines == []


@pytest.mark.usefixtures("chain")
def test_network_of_them_is_built_within_the_limits_of_its_profile(net):
    builder = net.builder
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    profile.set_shape("x", (1, 1, 4), (2, 3, 4), (4, 8, 4))
    for name, most in LIMITS.items():
        profile.set_shape_input(name, [1], [2], [most])
    config.add_optimization_profile(profile)
    engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(builder.build_serialized_network(net, config))
    x, (p, q, pq) = np.random.default_rng(0).random((3, 5, 4), np.float32), np.int64([[3], [5], [15]])
    (y,) = engine.run(x=x, p=p, q=q, pq=pq).values()
    np.testing.assert_allclose(y, 5 * x, rtol=1e-6)
