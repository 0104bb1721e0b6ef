"""A hard-swish with a slope as an IPluginV2DynamicExt that serializes pickled attributes, over pycuda.

usage: plugin_v2_dynamic.py
"""

import pickle

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)


def volume(dims):
    return int(np.prod(tuple(dims)))


class HardSwish(trt.IPluginV2DynamicExt):
    def __init__(self, slope=1.0):
        trt.IPluginV2DynamicExt.__init__(self)
        self.slope = slope
        self.num_outputs = 1
        self.plugin_namespace = "samples"
        self.plugin_type = "HardSwish"
        self.plugin_version = "1"

    def get_output_datatype(self, index, input_types):
        return input_types[0]

    def get_output_dimensions(self, output_index, inputs, exprBuilder):
        return trt.DimsExprs(inputs[0])

    def serialize(self):
        return pickle.dumps({"slope": self.slope})

    def configure_plugin(self, inp, out):
        self.largest = volume(inp[0].max)

    def supports_format_combination(self, pos, in_out, num_inputs):
        desc = in_out[pos]
        return desc.format == trt.TensorFormat.LINEAR and desc.type == trt.float32

    def get_workspace_size(self, inputs, outputs):
        return 4 * volume(inputs[0].dims)

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        x = np.empty(tuple(input_desc[0].dims), np.float32)
        # Through the workspace, as a plug-in with an intermediate result would.
        cuda.memcpy_dtod_async(int(workspace), inputs[0], x.nbytes, cuda.Stream())
        cuda.memcpy_dtoh(x, workspace)
        y = x * np.clip(self.slope * x + 3, 0, 6) / 6
        cuda.memcpy_htod(outputs[0], np.ascontiguousarray(y, np.float32))
        return 0

    def clone(self):
        cloned = HardSwish(self.slope)
        cloned.__dict__.update(self.__dict__)
        return cloned


class HardSwishCreator(trt.IPluginCreator):
    def __init__(self):
        trt.IPluginCreator.__init__(self)
        self.name = "HardSwish"
        self.plugin_namespace = "samples"
        self.plugin_version = "1"
        self.field_names = trt.PluginFieldCollection(
            [trt.PluginField("slope", np.array([]), trt.PluginFieldType.FLOAT32)]
        )

    def create_plugin(self, name, fc):
        return HardSwish(float(fc[0].data[0]))

    def deserialize_plugin(self, name, data):
        instance = HardSwish()
        instance.__dict__.update(dict(pickle.loads(data)))
        return instance


def build(slope):
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    config = builder.create_builder_config()
    creators = trt.get_plugin_registry().plugin_creator_list
    creator = next(c for c in creators if c.name == "HardSwish")
    field = trt.PluginField("slope", np.array([slope], np.float32), trt.PluginFieldType.FLOAT32)
    plugin = creator.create_plugin("swish", trt.PluginFieldCollection([field]))
    x = network.add_input("x", trt.float32, (-1, 8))
    double = network.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
    layer = network.add_plugin_v2(inputs=[double], plugin=plugin)
    layer.name = "swish"
    y = network.add_activation(layer.get_output(0), trt.ActivationType.TANH).get_output(0)
    y.name = "y"
    network.mark_output(y)
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 8), (4, 8), (16, 8))
    config.add_optimization_profile(profile)
    return builder.build_serialized_network(network, config)


def main():
    creator = HardSwishCreator()
    registry = trt.get_plugin_registry()
    assert registry.register_creator(creator, "samples")
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build(1.5))
    context, stream = engine.create_execution_context(), cuda.Stream()
    for n in (1, 3, 16):
        x = np.linspace(-5, 5, n * 8, dtype=np.float32).reshape(n, 8)
        y = cuda.pagelocked_empty((n, 8), np.float32)
        d_x, d_y = cuda.mem_alloc(x.nbytes), cuda.mem_alloc(y.nbytes)
        cuda.memcpy_htod_async(d_x, x, stream)
        context.set_input_shape("x", x.shape)
        context.set_tensor_address("x", int(d_x))
        context.set_tensor_address("y", int(d_y))
        assert context.execute_async_v3(stream.handle)
        cuda.memcpy_dtoh_async(y, d_y, stream)
        stream.synchronize()
        want = np.tanh(2 * x * np.clip(3 * x + 3, 0, 6) / 6)
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
    print("PASSED")


if __name__ == "__main__":
    main()
