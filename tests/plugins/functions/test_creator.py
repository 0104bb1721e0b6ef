"""The creators of plug-ins made from functions, as the registry and the ONNX parser use them."""

import numpy as np
import pytest

import anyrt as trt
import anyrt.plugin as trtp
from tests.messages import diagnostic

D = trtp.TensorDesc
BUILD, RUNTIME = trt.TensorRTPhase.BUILD, trt.TensorRTPhase.RUNTIME
INT32, FLOAT32 = trt.PluginFieldType.INT32, trt.PluginFieldType.FLOAT32


@pytest.fixture
def creator(registry):
    def described(x: D, n: int, scale: float, name: str) -> D:
        return x.like()

    def computed(x, n: int, outputs, stream):
        np.asarray(outputs[0])[:] = n

    trtp.register("creator::filled")(described)
    trtp.impl("creator::filled")(computed)
    return registry.get_creator("filled", "1", "creator")


def fields(**values):
    kinds = {int: (np.int32, INT32), float: (np.float32, FLOAT32)}
    built = [
        trt.PluginField(n, np.array([x], kinds[type(x)][0]), kinds[type(x)][1]) for n, x in values.items()
    ]
    return trt.PluginFieldCollection(built)


def test_a_creator_is_registered_with_its_attributes(creator):
    names = creator.field_names
    assert isinstance(creator, trt.IPluginCreatorV3Quick)
    assert (creator.name, creator.plugin_version, creator.plugin_namespace) == ("filled", "1", "creator")
    assert [(names[k].name, names[k].type.name) for k in range(len(names))] == [
        ("n", "INT64"),
        ("scale", "FLOAT64"),
        ("name", "CHAR"),
    ]


def test_fields_of_narrower_types_are_converted(creator, log):
    values = fields(n=7, scale=0.5)
    values.append(trt.PluginField("name", b"x", trt.PluginFieldType.CHAR))
    plugin = creator.create_plugin("filled", "creator", values, BUILD)
    builder = trt.Builder(log)
    network = builder.create_network()
    layer = network.add_plugin(([network.add_input("x", trt.float32, (2,))], [], plugin))
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    engine = trt.Runtime(log).deserialize_cuda_engine(plan)
    assert engine.run(x=np.zeros(2, np.float32))["y"].tolist() == [7, 7]
    assert (layer.plugin is plugin, layer.type, plugin.values["name"]) == (True, trt.LayerType.PLUGIN_V3, "x")


@pytest.mark.parametrize(
    ("values", "phase", "message"),
    [
        (fields(n=1), BUILD, diagnostic("AR306", "creator::filled", "scale", "name")),
        (fields(), RUNTIME, diagnostic("AR306", "creator::filled", "n")),
        (fields(m=1), BUILD, diagnostic("AR304", "creator::filled", "'m'", "n", "scale", "name")),
    ],
)
def test_missing_and_unknown_fields_are_reported(creator, values, phase, message):
    with pytest.raises(ValueError, match=message):
        creator.create_plugin("filled", "creator", values, phase)


def test_a_name_of_another_creator_is_rejected(registry):
    class Other(trt.IPluginCreatorV3One):
        def __init__(self):
            trt.IPluginCreatorV3One.__init__(self)
            self.name, self.plugin_version, self.plugin_namespace = "taken", "1", "creator"

    registry.register_creator(Other(), "creator")

    def described(x: D) -> D:
        return x.like()

    with pytest.raises(ValueError, match="AR304"):
        trtp.register("creator::taken")(described)


class Own(trt.IPluginV3, trt.IPluginV3QuickCore, trt.IPluginV3QuickBuild, trt.IPluginV3QuickRuntime):
    """A quick plug-in that a program derives itself; it records the strides that it receives."""

    strides = ()

    def __init__(self):
        for base in Own.__bases__:
            base.__init__(self)
        self.plugin_name, self.plugin_namespace = "own", "creator"

    def get_capability_interface(self, type):
        return self

    def clone(self):
        return Own()

    def get_num_outputs(self):
        return 1

    def get_output_data_types(self, input_types, ranks):
        assert ranks == [2]
        return input_types

    def get_output_shapes(self, inputs, shape_inputs, exprBuilder, ranks):
        return [trt.DimsExprs(inputs[0])]

    def get_supported_format_combinations(self, in_out, num_inputs):
        return [x.desc for x in in_out]

    def enqueue(self, input_desc, output_desc, inputs, outputs, in_strides, out_strides, stream):
        Own.strides = in_strides, out_strides, len(inputs), len(outputs)


class OwnCreator(trt.IPluginCreatorV3Quick):
    def __init__(self):
        trt.IPluginCreatorV3Quick.__init__(self)
        self.name, self.plugin_version, self.plugin_namespace = "own", "1", "creator"

    def create_plugin(self, name, namespace, field_collection, phase, quickPluginType):
        return Own()


def test_quick_plug_ins_that_a_program_derives_are_built_and_run(log, registry):
    registry.register_creator(OwnCreator(), "creator")
    builder = trt.Builder(log)
    network = builder.create_network()
    layer = network.add_plugin_v3([network.add_input("x", trt.float32, (2, 3))], [], Own())
    network.mark_output(layer.get_output(0))
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    trt.Runtime(log).deserialize_cuda_engine(plan).run(x=np.zeros((2, 3), np.float32))
    assert Own.strides == ([[3, 1]], [[3, 1]], 1, 1)
