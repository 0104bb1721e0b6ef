"""Circular padding as an IPluginV3 in NumPy, with copies by CUDA calls; the ONNX parser finds it.

usage: plugin_v3_circ_pad.py DIRECTORY
"""

import os
import sys

import common
import numpy as np
import onnx
import onnx_graphs
import tensorrt as trt
from cuda import cudart

TRT_LOGGER = trt.Logger(trt.Logger.ERROR)


def copy(to, source, nbytes, kind, stream):
    common.cuda_call(cudart.cudaMemcpyAsync(to, source, nbytes, kind, stream))


class CircPadPlugin(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
    def __init__(self, fc=None):
        trt.IPluginV3.__init__(self)
        trt.IPluginV3OneCore.__init__(self)
        trt.IPluginV3OneBuild.__init__(self)
        trt.IPluginV3OneRuntime.__init__(self)
        self.pads = []
        self.X_shape = []
        self.num_outputs = 1
        self.plugin_namespace = ""
        self.plugin_name = "CircPadPlugin"
        self.plugin_version = "1"
        if fc is not None:
            assert {f.name for f in fc} == {"pads"}, "Field collection invalid"
            for f in fc:
                if f.name == "pads":
                    self.pads = f.data

    def get_capability_interface(self, type):
        return self

    def get_output_data_types(self, input_types):
        return [input_types[0]]

    def get_output_shapes(self, inputs, shape_inputs, exprBuilder):
        output_dims = trt.DimsExprs(inputs[0])
        for i in range(np.size(self.pads) // 2):
            axis = len(output_dims) - i - 1
            total = exprBuilder.constant(int(self.pads[i * 2] + self.pads[i * 2 + 1]))
            output_dims[axis] = exprBuilder.operation(trt.DimensionOperation.SUM, inputs[0][axis], total)
        return [output_dims]

    def get_fields_to_serialize(self):
        pads = np.array(self.pads, np.int32)
        return trt.PluginFieldCollection([trt.PluginField("pads", pads, trt.PluginFieldType.INT32)])

    def configure_plugin(self, inp, out):
        assert len(inp) == len(out) == 1

    def on_shape_change(self, inp, out):
        self.X_shape = list(inp[0].dims)

    def supports_format_combination(self, pos, in_out, num_inputs):
        assert num_inputs == 1
        assert pos < len(in_out)
        desc = in_out[pos].desc
        if desc.format != trt.TensorFormat.LINEAR:
            return False
        if pos == 0:
            return desc.type in (trt.DataType.FLOAT, trt.DataType.HALF)
        return desc.type == in_out[0].desc.type

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        dtype = trt.nptype(input_desc[0].type)
        x = np.empty(tuple(self.X_shape), dtype)
        copy(x.ctypes.data, inputs[0], x.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, stream)
        pads = [(0, 0)] * (x.ndim - len(self.pads) // 2)
        pads += [(int(a), int(b)) for a, b in np.reshape(self.pads, (-1, 2))[::-1]]
        y = np.ascontiguousarray(np.pad(x, pads, "wrap"))
        assert y.shape == tuple(output_desc[0].dims)
        copy(outputs[0], y.ctypes.data, y.nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, stream)
        common.cuda_call(cudart.cudaStreamSynchronize(stream))

    def attach_to_context(self, context):
        return self.clone()

    def get_valid_tactics(self):
        return []

    def set_tactic(self, tactic):
        assert tactic == 0

    def clone(self):
        cloned_plugin = CircPadPlugin()
        cloned_plugin.__dict__.update(self.__dict__)
        return cloned_plugin


class CircPadPluginCreator(trt.IPluginCreatorV3One):
    def __init__(self):
        trt.IPluginCreatorV3One.__init__(self)
        self.name = "CircPadPlugin"
        self.plugin_namespace = ""
        self.plugin_version = "1"
        self.field_names = trt.PluginFieldCollection(
            [trt.PluginField("pads", np.array([]), trt.PluginFieldType.INT32)]
        )

    def create_plugin(self, name, fc, phase):
        return CircPadPlugin(fc)


def save_model(path):
    nodes = [
        ("Relu", ["X"], ["R"], {}),
        ("CircPadPlugin", ["R"], ["P"], {"pads": [1, 1, 2, 0]}),
        ("Neg", ["P"], ["Y"], {}),
    ]
    onnx.save(onnx_graphs.model(nodes, {"X": ["n", 2, 3, 4]}, ["Y"]), path)


def build_from_onnx(path, precision):
    builder = trt.Builder(TRT_LOGGER)
    network, config = builder.create_network(0), builder.create_builder_config()
    parser = trt.OnnxParser(network, TRT_LOGGER)
    if not parser.parse_from_file(path):
        print(*(parser.get_error(i) for i in range(parser.num_errors)))
        sys.exit(1)
    if precision == np.float16:
        config.set_flag(trt.BuilderFlag.FP16)
    profile = builder.create_optimization_profile()
    profile.set_shape("X", (1, 2, 3, 4), (2, 2, 3, 4), (4, 2, 3, 4))
    config.add_optimization_profile(profile)
    return builder.build_serialized_network(network, config)


def build_from_layers():
    builder = trt.Builder(TRT_LOGGER)
    network, config = builder.create_network(0), builder.create_builder_config()
    creator = trt.get_plugin_registry().get_creator("CircPadPlugin", "1", "")
    pads = trt.PluginField("pads", np.array([1, 1, 2, 0], np.int32), trt.PluginFieldType.INT32)
    fields = trt.PluginFieldCollection([pads])
    plugin = creator.create_plugin("pad", fields, trt.TensorRTPhase.BUILD)
    x = network.add_input("X", trt.float32, (2, 2, 3, 4))
    r = network.add_activation(x, trt.ActivationType.RELU).get_output(0)
    layer = network.add_plugin_v3([r], [], plugin)
    assert layer.plugin.plugin_name == "CircPadPlugin"
    y = network.add_unary(layer.get_output(0), trt.UnaryOperation.NEG).get_output(0)
    y.name = "Y"
    network.mark_output(y)
    return builder.build_serialized_network(network, config)


def infer(plan, x):
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(plan)
    context = engine.create_execution_context()
    context.set_input_shape("X", x.shape)
    y = np.empty(tuple(context.get_tensor_shape("Y")), np.float32)
    stream = common.cuda_call(cudart.cudaStreamCreate())
    device = [common.cuda_call(cudart.cudaMalloc(a.nbytes)) for a in (x, y)]
    copy(device[0], x.ctypes.data, x.nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, stream)
    context.set_tensor_address("X", device[0])
    context.set_tensor_address("Y", device[1])
    assert context.execute_async_v3(stream)
    copy(y.ctypes.data, device[1], y.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, stream)
    common.cuda_call(cudart.cudaStreamSynchronize(stream))
    return y


def expected(x):
    return -np.pad(np.maximum(x, 0), ((0, 0), (0, 0), (2, 0), (1, 1)), "wrap")


def main():
    path = os.path.join(sys.argv[1], "pad.onnx")
    trt.get_plugin_registry().register_creator(CircPadPluginCreator(), "")
    save_model(path)
    for precision, tolerance in ((np.float32, 0), (np.float16, 1e-3)):
        plan = build_from_onnx(path, precision)
        for n in (1, 2, 4):
            x = np.random.default_rng(n).standard_normal((n, 2, 3, 4)).astype(np.float32)
            np.testing.assert_allclose(infer(plan, x), expected(x), rtol=tolerance)
    x = np.random.default_rng(9).standard_normal((2, 2, 3, 4)).astype(np.float32)
    np.testing.assert_array_equal(infer(build_from_layers(), x), expected(x))
    print("PASSED")


if __name__ == "__main__":
    main()
