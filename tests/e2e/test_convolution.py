"""Convolutions whose sizes are known in the run only."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.enums import LayerType as L
from anyrt.core.enums import PaddingMode
from anyrt.ops import OPS
from anyrt.ops._filters import FilterAttrs
from anyrt.ops._record import weights


def network(log, kernel=(3, 3), channels=2, **attributes):
    """A builder and a network whose convolution has an input of open sizes but for its channels."""
    builder = trt.Builder(log)
    net = builder.create_network()
    x = net.add_input("x", trt.float32, (-1, channels, -1, -1))
    layer = net.add_convolution_nd(x, 3, kernel, np.ones(3 * channels * kernel[0] * kernel[1], np.float32))
    for name, value in attributes.items():
        setattr(layer, name, value)
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    profile.set_shape("x", (0, channels, 0, 0), (1, channels, 8, 8), (4, channels, 16, 16))
    config.add_optimization_profile(profile)
    return builder.build_engine_with_config(net, config)


def test_a_window_larger_than_its_input_is_refused_in_the_run(log):
    engine = network(log, padding_nd=(0, 1))
    assert engine.run(x=np.ones((1, 2, 3, 1), np.float32))["y"].tolist() == [[[[6]], [[6]], [[6]]]]
    with pytest.raises(trt.errors.AnyrtError, match=r"\[AR126\] .*wanted 3 or more"):
        engine.run(x=np.ones((1, 2, 2, 1), np.float32))


@pytest.mark.parametrize("shape", [(1, 2, 4, 4), (2, 2, 16, 5), (0, 2, 8, 8), (4, 2, 1, 1)])
def test_one_engine_serves_all_sizes_of_its_profile(log, shape):
    engine = network(log, padding_mode=trt.PaddingMode.SAME_UPPER, stride_nd=(2, 3))
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7
    attrs = FilterAttrs(
        *(3, (3, 3), weights(*[1.0] * 54)),
        padding_mode=PaddingMode.SAME_UPPER,
        stride_nd=(2, 3),
    )
    (want,) = OPS[L.CONVOLUTION].ref(attrs, (x,))
    assert np.array_equal(engine.run(x=x)["y"], want)
