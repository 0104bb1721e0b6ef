"""Plug-ins as users write them: NumPy arrays at the addresses of tensors."""

import ctypes
import json

import numpy as np

import anyrt as trt


def at(address, desc):
    """The array of a tensor, for types of NumPy."""
    dtype, shape = np.dtype(trt.nptype(desc.type)), tuple(desc.dims)
    count = int(np.prod(shape, dtype=np.int64))
    raw = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address) if count else bytearray()
    return np.frombuffer(raw, dtype, count).reshape(shape)


class Pad(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
    """Circular padding of the last two dimensions."""

    def __init__(self, fc=None, phase=None):
        trt.IPluginV3.__init__(self)
        trt.IPluginV3OneCore.__init__(self)
        trt.IPluginV3OneBuild.__init__(self)
        trt.IPluginV3OneRuntime.__init__(self)
        self.pads = []
        self.X_shape = []
        self.num_outputs = 1
        self.plugin_namespace = ""
        self.plugin_name = "CircPad"
        self.plugin_version = "1"
        if fc is not None:
            assert fc[0].name == "pads"
            self.pads = fc[0].data
        if phase is not None:
            self.phase = phase

    def get_capability_interface(self, type):
        return self

    def get_output_data_types(self, input_types):
        return [input_types[0]]

    def get_output_shapes(self, inputs, shape_inputs, exprBuilder):
        output_dims = trt.DimsExprs(inputs[0])
        for i in range(np.size(self.pads) // 2):
            output_dims[len(output_dims) - i - 1] = exprBuilder.operation(
                trt.DimensionOperation.SUM,
                inputs[0][len(output_dims) - i - 1],
                exprBuilder.constant(self.pads[i * 2] + self.pads[i * 2 + 1]),
            )
        return [output_dims]

    def get_fields_to_serialize(self):
        return trt.PluginFieldCollection([trt.PluginField("pads", self.pads, trt.PluginFieldType.INT32)])

    def configure_plugin(self, inp, out):
        X_dims = inp[0].desc.dims
        self.X_shape = np.zeros((len(X_dims),))

    def on_shape_change(self, inp, out):
        self.X_shape = [*inp[0].dims]

    def supports_format_combination(self, pos, in_out, num_inputs):
        assert num_inputs == 1
        desc = in_out[pos].desc
        if desc.format != trt.TensorFormat.LINEAR:
            return False
        if pos == 0:
            return desc.type in (trt.DataType.FLOAT, trt.DataType.HALF)
        return in_out[0].desc.type == desc.type

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        x, y = at(inputs[0], input_desc[0]), at(outputs[0], output_desc[0])
        pads = [(0, 0)] * (x.ndim - 2) + [tuple(self.pads[2:4]), tuple(self.pads[:2])]
        y[...] = np.pad(x, pads, "wrap")

    def attach_to_context(self, context):
        return self.clone()

    def set_tactic(self, tactic):
        pass

    def clone(self):
        cloned_plugin = Pad()
        cloned_plugin.__dict__.update(self.__dict__)
        return cloned_plugin


class PadCreator(trt.IPluginCreatorV3One):
    def __init__(self):
        trt.IPluginCreatorV3One.__init__(self)
        self.name = "CircPad"
        self.plugin_namespace = ""
        self.plugin_version = "1"
        self.field_names = trt.PluginFieldCollection(
            [trt.PluginField("pads", np.array([]), trt.PluginFieldType.INT32)]
        )

    def create_plugin(self, name, fc, phase):
        return Pad(fc, phase)


class OldPad(trt.IPluginV2DynamicExt):
    """Pad as a plug-in of version 2, with its state as JSON."""

    def __init__(self, fc=None):
        trt.IPluginV2DynamicExt.__init__(self)
        self.pads = []
        self.num_outputs = 1
        self.plugin_namespace = ""
        self.plugin_type = "OldPad"
        self.plugin_version = "1"
        self.ready = 0
        if fc is not None:
            for f in fc:
                if f.name == "pads":
                    self.pads = f.data.tolist()

    def initialize(self):
        self.ready += 1

    def terminate(self):
        self.ready -= 1

    def get_output_datatype(self, index, input_types):
        return input_types[0]

    def get_output_dimensions(self, output_index, inputs, exprBuilder):
        return Pad.get_output_shapes(self, inputs, [], exprBuilder)[0]

    def serialize(self):
        return json.dumps({"pads": self.pads})

    def configure_plugin(self, inp, out):
        self.X_shape = [*inp[0].desc.dims]

    def supports_format_combination(self, pos, in_out, num_inputs):
        assert num_inputs == 1
        if in_out[pos].format != trt.TensorFormat.LINEAR:
            return False
        return in_out[pos].type == (trt.DataType.FLOAT if pos == 0 else in_out[0].type)

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        assert self.ready == 1
        assert self.X_shape == [*input_desc[0].dims]
        Pad.enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream)

    def clone(self):
        cloned_plugin = OldPad()
        cloned_plugin.__dict__.update(self.__dict__)
        return cloned_plugin


class OldPadCreator(trt.IPluginCreator):
    def __init__(self):
        trt.IPluginCreator.__init__(self)
        self.name = "OldPad"
        self.plugin_namespace = ""
        self.plugin_version = "1"
        self.field_names = trt.PluginFieldCollection(
            [trt.PluginField("pads", np.array([]), trt.PluginFieldType.INT32)]
        )

    def create_plugin(self, name, fc):
        return OldPad(fc)

    def deserialize_plugin(self, name, data):
        deserialized = OldPad()
        deserialized.__dict__.update(json.loads(data))
        return deserialized


def wrapped(x, pads=(1, 2, 3, 4)):
    """The padding of both versions."""
    return np.pad(x, [(0, 0)] * (x.ndim - 2) + [tuple(pads[2:4]), tuple(pads[:2])], "wrap")


def fields(pads=(1, 2, 3, 4)):
    return trt.PluginFieldCollection(
        [trt.PluginField("pads", np.array(pads, np.int32), trt.PluginFieldType.INT32)]
    )


def pad(pads=(1, 2, 3, 4)):
    return Pad(fields(pads), trt.TensorRTPhase.BUILD)


def built(log, describe, *shapes, dtype=trt.float32, strong=False, **settings):
    """An engine of the network that `describe(network, x)` adds; `shapes`: that of x, or its minimum, optimum
    and maximum."""
    builder = trt.Builder(log)
    network = builder.create_network(int(strong) << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    config = builder.create_builder_config()
    for name, value in settings.items():
        setattr(config, name, value)
    least, best, most = shapes if len(shapes) == 3 else (shapes or ((2, 3, 4),)) * 3
    fixed = [n if n == a == b else -1 for a, n, b in zip(least, best, most, strict=True)]
    x = network.add_input("x", dtype, fixed)
    if -1 in fixed:
        profile = builder.create_optimization_profile()
        profile.set_shape("x", least, best, most)
        config.add_optimization_profile(profile)
    outputs = describe(network, x)
    for k, y in enumerate(outputs if isinstance(outputs, (list, tuple)) else [outputs]):
        y.name = "y" if k == 0 else f"y{k}"
        network.mark_output(y)
    plan = builder.build_serialized_network(network, config)
    return None if plan is None else trt.Runtime(log).deserialize_cuda_engine(plan)
