"""IPluginV2, IPluginV2Ext and IPluginV2IOExt: plug-ins with static shapes."""

import ctypes
import struct

import numpy as np
import pytest

import anyrt as trt
from anyrt.core.errors import PluginError
from tests.plugins.samples import built


def array(address, shape, dtype=np.float32):
    count = int(np.prod(shape))
    raw = (ctypes.c_uint8 * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(raw, dtype, count).reshape(shape)


class Leaky(trt.IPluginV2):
    """max(x, slope · x) of one type in all tensors; its methods are those of TensorRT's first interface."""

    def __init__(self, slope=0.1):
        trt.IPluginV2.__init__(self)
        self.slope, self.calls = slope, []
        self.num_outputs, self.plugin_type, self.plugin_version, self.plugin_namespace = 1, "Leaky", "1", ""

    def get_output_shape(self, index, input_shapes):
        return input_shapes[0]

    def supports_format(self, dtype, format):
        return dtype == trt.float32 and format == trt.TensorFormat.LINEAR

    def configure_with_format(self, input_shapes, output_shapes, dtype, format, max_batch_size):
        self.shape = tuple(input_shapes[0])
        self.calls.append(("configure", dtype, max_batch_size))

    def initialize(self):
        self.calls.append("initialize")
        return 0

    def get_workspace_size(self, max_batch_size):
        return 4 * int(np.prod(self.shape))

    def execute_async(self, batch_size, inputs, outputs, workspace, stream_handle):
        x, y, room = (array(a, self.shape) for a in (inputs[0], outputs[0], workspace))
        np.multiply(x, np.float32(self.slope), out=room)
        np.maximum(x, room, out=y)
        return 0 if self.calls[-2:] == ["initialize", ("configure", trt.float32, 1)] else 1

    def serialize(self):
        return struct.pack("f", self.slope)

    def clone(self):
        return type(self)(self.slope)


class LeakyCreator(trt.IPluginCreator):
    def __init__(self, kind):
        trt.IPluginCreator.__init__(self)
        self.kind, self.name, self.plugin_version = kind, kind().plugin_type, "1"
        self.field_names = trt.PluginFieldCollection(
            [trt.PluginField("slope", b"", trt.PluginFieldType.FLOAT32)]
        )

    def create_plugin(self, name, field_collection):
        return self.kind(float(field_collection[0].data[0]))

    def deserialize_plugin(self, name, serialized_plugin):
        return self.kind(*struct.unpack("f", serialized_plugin))


class LeakyExt(Leaky, trt.IPluginV2Ext):
    """A Leaky with a second output: the signs of x as bytes."""

    def __init__(self, slope=0.1):
        Leaky.__init__(self, slope)
        self.num_outputs, self.plugin_type, self.attached = 2, "LeakyExt", 0

    def get_output_data_type(self, index, input_types):
        return trt.int32 if index else input_types[0]

    def configure_plugin(self, inp, out, types, out_types, broadcast, out_broadcast, format, max_batch_size):
        assert (types, out_types) == ([trt.float32], [trt.float32, trt.int32])
        assert (broadcast, out_broadcast, format) == ([False], [False, False], trt.TensorFormat.LINEAR)
        self.configure_with_format(inp, out, types[0], format, max_batch_size)

    def supports_format(self, dtype, format):
        return dtype in (trt.float32, trt.int32) and format == trt.TensorFormat.LINEAR

    def attach_to_context(self, cudnn, cublas, allocator):
        self.attached += 1

    def execute_async(self, batch_size, inputs, outputs, workspace, stream_handle):
        assert self.attached == 1
        array(outputs[1], self.shape, np.int32)[...] = np.sign(array(inputs[0], self.shape))
        return Leaky.execute_async(self, batch_size, inputs, outputs, workspace, stream_handle)


class LeakyIo(LeakyExt, trt.IPluginV2IOExt):
    """A Leaky with a float16 input, from the descriptions of its tensors."""

    def __init__(self, slope=0.1):
        LeakyExt.__init__(self, slope)
        self.plugin_type = "LeakyIo"

    def supports_format_combination(self, pos, in_out, num_inputs, num_outputs):
        assert (num_inputs, num_outputs) == (1, 2)
        expected = (trt.float16, trt.float32, trt.int32)[pos]
        return in_out[pos].format == trt.TensorFormat.LINEAR and in_out[pos].type == expected

    def get_output_data_type(self, index, input_types):
        return trt.int32 if index else trt.float32

    def configure_plugin(self, inp, out):
        assert [x.type for x in (*inp, *out)] == [trt.float16, trt.float32, trt.int32]
        self.shape = tuple(inp[0].dims)

    def execute_async(self, batch_size, inputs, outputs, workspace, stream_handle):
        x = array(inputs[0], self.shape, np.float16).astype(np.float32)
        array(outputs[0], self.shape)[...] = np.maximum(x, x * np.float32(self.slope))
        array(outputs[1], self.shape, np.int32)[...] = np.sign(x)


def between(kind, slope=0.25):
    """A plug-in between two layers."""

    def describe(network, x):
        y = network.add_unary(x, trt.UnaryOperation.NEG).get_output(0)
        layer = network.add_plugin_v2([y], kind(slope))
        y = network.add_unary(layer.get_output(0), trt.UnaryOperation.NEG).get_output(0)
        return [y, *(layer.get_output(k) for k in range(1, layer.num_outputs))]

    return describe


@pytest.mark.parametrize("kind", [Leaky, LeakyExt, LeakyIo])
def test_an_old_plugin_is_configured_initialized_and_restored(kind, registry, log, rng):
    registry.register_creator(LeakyCreator(kind), "")
    x = rng.standard_normal((2, 3, 4)).astype(np.float16)
    values = x if kind is LeakyIo else x.astype(np.float32)
    with trt.strict():
        engine = built(log, between(kind), dtype=trt.float16 if kind is LeakyIo else trt.float32)
        for again in (engine, trt.Runtime(log).deserialize_cuda_engine(engine.serialize())):
            result = again.run(x=values)
            assert np.array_equal(result["y"], np.minimum(x, 0.25 * x).astype(np.float32))
            assert result.keys() == {"y"} or np.array_equal(result["y1"], -np.sign(x).astype(np.int32))


def test_a_creator_makes_a_plugin_from_fields(registry):
    registry.register_creator(LeakyCreator(Leaky), "")
    slope = trt.PluginField("slope", np.float32([0.5]), trt.PluginFieldType.FLOAT32)
    creator = registry.get_plugin_creator("Leaky", "1", "")
    plugin = creator.create_plugin("l", trt.PluginFieldCollection([slope]))
    assert (plugin.slope, plugin.serialization_size, creator.field_names[0].name) == (0.5, 4, "slope")


def test_an_old_plugin_selects_its_types_or_has_that_of_its_first_input(log):
    network = trt.Builder(log).create_network()
    x = network.add_input("x", trt.float32, (2, 3))
    assert network.add_plugin_v2([x], Leaky()).get_output(0).dtype == trt.float32
    layer = network.add_plugin_v2([x], LeakyExt())
    assert [layer.get_output(k).dtype for k in range(2)] == [trt.float32, trt.int32]
    assert [tuple(layer.get_output(k).shape) for k in range(2)] == [(2, 3)] * 2


@pytest.mark.parametrize("kind", [Leaky, LeakyIo])
def test_old_plugins_reject_dynamic_shapes_and_suggest_a_class(kind, registry, log):
    registry.register_creator(LeakyCreator(kind), "")
    with trt.strict(), pytest.raises(PluginError, match=r"AR822.*IPluginV2DynamicExt"):
        built(log, between(kind), (1, 2), (2, 2), (3, 2), dtype=trt.float16)


def test_a_status_other_than_0_ends_the_inference(registry, log):
    failing = type("Failing", (Leaky,), {"execute_async": lambda *x: 3})
    registry.register_creator(LeakyCreator(failing), "")
    with trt.strict(), pytest.raises(PluginError, match=r"AR822.*status 3 from Failing.execute_async"):
        built(log, between(failing)).run(x=np.ones((2, 3, 4), np.float32))
