"""TensorRT's samples of plug-ins made from functions, on host memory."""

import numpy as np
import pytest

import anyrt as trt
import anyrt.plugin as trtp
from tests.plugins.functions import samples

PADS = np.array([1, 2, 3, 1], np.int32)


def wrapped(x):
    return np.pad(x, [(0, 0)] * (x.ndim - 2) + [(3, 1), (1, 2)], "wrap")


def test_adding_one_to_every_element(build, rng):
    x = rng.integers(0, 10, (10, 3, 32, 32)).astype(np.float32)
    engine = build(lambda t: trtp.op.sample.elemwise_add(t, block_size=256), x=x.shape)
    assert np.array_equal(engine.run(x=x)["y0"], x + 1)


@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (1, 1, 4, 4)])
def test_circular_padding_with_pads_as_an_array(build, rng, shape):
    x = rng.standard_normal(shape, np.float32)
    engine = build(lambda t: trtp.op.sample.circ_pad(t, pads=PADS), x=shape)
    assert np.array_equal(engine.run(x=x)["y0"], wrapped(x))


def test_one_engine_pads_every_size_of_its_profile(build, rng):
    engine = build(lambda t: trtp.op.sample.circ_pad(t, pads=PADS), x=(-1, 3, -1, -1))
    for shape in [(1, 3, 4, 4), (2, 3, 5, 9), (64, 3, 8, 8)]:
        x = rng.standard_normal(shape, np.float32)
        assert np.array_equal(engine.run(x=x)["y0"], wrapped(x))


def test_the_builder_measures_each_tactic_and_the_engine_uses_one(build, rng):
    samples.SEEN.clear()
    engine = build(lambda t: trtp.op.sample.circ_pad(t, pads=PADS), x=(1, 2, 8, 8))
    assert set(samples.SEEN) == {1, 2}
    samples.SEEN.clear()
    for _ in range(3):
        engine.run(x=rng.standard_normal((1, 2, 8, 8), np.float32))
    assert len(samples.SEEN) == 3
    assert len(set(samples.SEEN)) == 1


@pytest.mark.parametrize("zeros", [0.0, 0.5, 1.0])
def test_positions_of_nonzero_elements_have_a_data_dependent_count(build, rng, zeros):
    x = np.where(rng.random((16, 12)) < zeros, 0, 1).astype(np.float32)
    engine = build(lambda t: trtp.op.sample.non_zero(t), x=x.shape)
    outputs = engine.run(x=x)
    assert np.array_equal(outputs["y0"], np.argwhere(x))
    assert outputs["y1"] == np.count_nonzero(x)


def in_place(log, describe):
    """A context of a network from x, 4 x 3, to y."""
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    config.set_preview_feature(trt.PreviewFeature.ALIASED_PLUGIN_IO_10_03, True)
    y = describe(network, network.add_input("x", trt.float32, (4, 3)))
    y.name = "y"
    network.mark_output(y)
    plan = builder.build_serialized_network(network, config)
    return trt.Runtime(log).deserialize_cuda_engine(plan).create_execution_context()


def added(network, t, *deltas):
    for delta in deltas:
        t = network.add_plugin(trtp.op.sample.elemwise_add_(t, delta=delta)).get_output(0)
    return t


def run(context, x, y):
    assert context.set_tensor_address("x", x.ctypes.data)
    assert context.set_tensor_address("y", y.ctypes.data)
    return context.execute_async_v3(0)


@pytest.mark.parametrize("deltas", [(2,), (2, 4), (1, 2, 3)])
def test_plug_ins_overwrite_the_input_if_the_output_shares_its_memory(log, deltas):
    context, x, y = in_place(log, lambda net, x: added(net, x, *deltas)), *np.ones((2, 4, 3), np.float32)
    assert run(context, x, y)
    assert (x.min(), x.max(), y.min(), y.max()) == (1, 1, 1 + sum(deltas), 1 + sum(deltas))
    for k in (1, 2):
        assert run(context, x, x)
        assert (x.min(), x.max()) == (1 + k * sum(deltas), 1 + k * sum(deltas))


def also_read(net, x):
    """y, and -x as another output."""
    z = net.add_unary(x, trt.UnaryOperation.NEG).get_output(0)
    z.name = "z"
    net.mark_output(z)
    return added(net, x, 2)


def test_an_input_with_other_readers_is_not_overwritten(log):
    context, x, z = in_place(log, also_read), *np.ones((2, 4, 3), np.float32)
    context.set_tensor_address("z", z.ctypes.data)
    assert not run(context, x, x)
    assert "[AR711] y" in log.lines[-1]
    assert run(context, x, np.ones((4, 3), np.float32))


def test_an_output_of_another_layer_does_not_share_memory_with_an_input(log):
    def describe(net, x):
        return net.add_unary(added(net, x, 2), trt.UnaryOperation.NEG).get_output(0)

    context, x = in_place(log, describe), np.ones((4, 3), np.float32)
    assert not run(context, x, x)
    assert "[AR711] y" in log.lines[-1]
