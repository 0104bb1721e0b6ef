"""What TensorRT 10.16 was seen to compute and to answer on a GPU."""

import numpy as np
import pytest

import anyrt as trt

SILENT = trt.Logger(trt.Logger.INTERNAL_ERROR)


@pytest.fixture
def builder():
    return trt.Builder(SILENT)


def run(builder, network, config=None, **feeds):
    engine = builder.build_engine_with_config(network, config or builder.create_builder_config())
    return engine.run(**feeds)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("count", [4, 300])
def test_cast_to_uint8_wraps_above_and_keeps_to_zero_below(builder, dtype, count):
    network = builder.create_network()
    x = network.add_input("x", trt.DataType.HALF if dtype is np.float16 else trt.float32, (count,))
    network.mark_output(network.add_cast(x, trt.uint8).get_output(0))
    given = np.resize(np.array([-30, 250, 260, 290], dtype), count)
    (y,) = run(builder, network, x=given).values()
    assert y.tolist() == np.resize([0, 250, 4, 34], count).tolist()


def test_uint8_output_that_is_asked_of_a_layer_wraps_as_cast_does(builder):
    network = builder.create_network()
    layer = network.add_identity(network.add_input("x", trt.float32, (4,)))
    layer.set_output_type(0, trt.uint8)
    network.mark_output(layer.get_output(0))
    (y,) = run(builder, network, x=np.float32([-30, 250, 260, 290])).values()
    assert y.tolist() == [0, 250, 4, 34]


def test_cast_of_a_constant_to_uint8_is_that_of_an_input(builder):
    network = builder.create_network()
    number = network.add_constant((4,), np.float32([-30, 250, 260, 290])).get_output(0)
    network.mark_output(network.add_cast(number, trt.uint8).get_output(0))
    (y,) = run(builder, network).values()
    assert y.tolist() == [0, 250, 4, 34]


def test_cast_to_int8_counts_steps_of_the_range_of_its_output(builder):
    network, config = builder.create_network(), builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    y = network.add_cast(network.add_input("x", trt.float32, (3,)), trt.int8).get_output(0)
    y.dynamic_range = (-300, 300)
    network.mark_output(y)
    (y,) = run(builder, network, config, x=np.float32([-300, 290, 0])).values()
    assert y.tolist() == [-127, 123, 0]
