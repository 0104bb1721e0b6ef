"""Constant lengths, and lengths that are known only during an inference."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.errors import ShapeError
from tests.messages import diagnostic

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def engine_of(net, lengths, open_sizes=False):
    sizes = (-1, -1) if open_sizes else (4, 3)
    y = net.add_reverse_sequence(net.add_input("x", trt.float32, sizes), lengths).get_output(0)
    y.name = "y"
    net.mark_output(y)
    config, profile = net.builder.create_builder_config(), net.builder.create_optimization_profile()
    if open_sizes:
        profile.set_shape("x", (0, 3), (4, 3), (9, 3))
        config.add_optimization_profile(profile)
    return net.builder.build_engine_with_config(net, config)


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_run_with_a_length_outside_is_rejected(dtype, open_sizes, net, log):
    engine = engine_of(net, net.add_input("lengths", getattr(trt, dtype), (3,)), open_sizes)
    assert engine.run(x=X, lengths=np.array([4, 0, 2], dtype))["y"][:, 0].tolist() == [9, 6, 3, 0]
    for n in (5, -1, np.iinfo(dtype).max, np.iinfo(dtype).min):
        stated = max(n, 1 - 2**63)  # the message limits the magnitude
        with trt.strict(), pytest.raises(ShapeError, match=diagnostic("AR133", "[ReverseSequence]", stated)):
            engine.run(x=X, lengths=np.array([4, n, 2], dtype))


@pytest.mark.parametrize("n", [5, -1])
def test_a_constant_length_outside_is_rejected_when_the_layer_is_added(n, net, log):
    lengths = net.add_constant((3,), np.int32([4, n, 2])).get_output(0)
    with (
        trt.strict(),
        pytest.raises(ShapeError, match=diagnostic("AR133", "[ReverseSequence]", n, 4 if n > 0 else 0)),
    ):
        engine_of(net, lengths)
