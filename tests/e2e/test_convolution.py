"""Convolutions and deconvolutions with dynamic dimensions."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.enums import LayerType as L
from anyrt.core.enums import PaddingMode
from anyrt.ops import OPS
from anyrt.ops._filters import FilterAttrs
from anyrt.ops._record import weights
from tests.messages import diagnostic


def network(log, kind="convolution", **attributes):
    """An engine of a layer with 2 channels, 3 output maps and 3 x 3 kernels, for an input of dynamic
    dimensions."""
    builder = trt.Builder(log)
    net = builder.create_network()
    x = net.add_input("x", trt.float32, (-1, 2, -1, -1))
    layer = getattr(net, f"add_{kind}_nd")(x, 3, (3, 3), np.ones(54, np.float32))
    for name, value in attributes.items():
        setattr(layer, name, value)
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    profile.set_shape("x", (0, 2, 0, 0), (1, 2, 8, 8), (4, 2, 16, 16))
    config.add_optimization_profile(profile)
    return builder.build_engine_with_config(net, config)


def test_a_window_larger_than_its_input_is_rejected_in_the_run(log):
    engine = network(log, padding_nd=(0, 1))
    assert engine.run(x=np.ones((1, 2, 3, 1), np.float32))["y"].tolist() == [[[[6]], [[6]], [[6]]]]
    with pytest.raises(
        trt.errors.AnyrtError, match=diagnostic("AR126", "[Convolution]", 2, "x.shape[2] = 2", 3)
    ):
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


def test_a_deconvolution_that_cuts_off_more_than_there_is_is_rejected_in_the_run(log):
    engine = network(log, "deconvolution", padding_nd=(3, 1))
    assert engine.run(x=np.ones((1, 2, 4, 1), np.float32))["y"].shape == (1, 3, 0, 1)
    with pytest.raises(
        trt.errors.AnyrtError, match=diagnostic("AR120", "[Deconvolution]", -1, "x.shape[2] = 3", 0)
    ):
        engine.run(x=np.ones((1, 2, 3, 1), np.float32))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("shape", [(1, 2, 4, 4), (0, 2, 8, 8), (2, 2, 1, 3)])
@pytest.mark.parametrize("stride", [(2, 3), (3, 2)])
def test_one_deconvolution_serves_all_sizes_of_its_profile(log, shape, stride):
    engine = network(log, "deconvolution", padding_nd=(1, 1), stride_nd=stride)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7
    attrs = FilterAttrs(3, (3, 3), weights(*[1.0] * 54), padding_nd=(1, 1), stride_nd=stride)
    (want,) = OPS[L.DECONVOLUTION].ref(attrs, (x,))
    assert np.array_equal(engine.run(x=x)["y"], want)
