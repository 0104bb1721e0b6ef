"""Nodes for plug-ins: TensorRT's own, and a program's, as exporters write them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import anyrt as trt
import anyrt.plugin as trtp
from anyrt.core.errors import PluginError
from tests.plugins.test_standard_detections import boxes, holds, reference


def model(nodes, inputs, outputs, domain="TRT"):
    """Bytes of a model; `inputs`: shapes by name."""
    declared = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    messages = [helper.make_empty_tensor_value_info(n) for n in outputs]
    sets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    proto = helper.make_model(helper.make_graph(nodes, "g", declared, messages), opset_imports=sets)
    return proto.SerializeToString()


def parsed(data):
    """The network of a model, its builder and parser."""
    builder = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR))
    network = builder.create_network()
    parser = trt.OnnxParser(network, builder.logger)
    parser.parse(data)
    return builder, network, parser


def run(data, arrays):
    """The outputs of a model, built for these sizes and any smaller ones."""
    builder, network, parser = parsed(data)
    assert parser.num_errors == 0, parser.get_error(0)
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    for name, x in arrays.items():
        profile.set_shape(name, (0, *x.shape[1:]), x.shape, x.shape)
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    engine = trt.Runtime(builder.logger).deserialize_cuda_engine(plan)
    context, results = engine.create_execution_context(), []
    for name in engine:
        if name in arrays:
            context.set_input_shape(name, arrays[name].shape)
            y = arrays[name]
        else:
            y = np.empty(tuple(context.get_tensor_shape(name)), trt.nptype(engine.get_tensor_dtype(name)))
            results.append(y)
        context.set_tensor_address(name, y.ctypes.data)
    assert context.execute_async_v3(0)
    return results


def detector(**more):
    """The end of a YOLO: scores by a sigmoid, then EfficientNMS."""
    fields = {"score_threshold": 0.3, "iou_threshold": 0.4, "max_output_boxes": 9, "background_class": -1,
              "score_activation": 0, "class_agnostic": 0, "box_coding": 0, "plugin_version": "1"}  # fmt: skip
    names = ["num_dets", "det_boxes", "det_scores", "det_classes"]
    nodes = [
        helper.make_node("Sigmoid", ["raw"], ["scores"]),
        helper.make_node("EfficientNMS_TRT", ["boxes", "scores"], names, "nms", **{**fields, **more}),
    ]
    nodes[1].domain = "TRT"
    return model(nodes, {"boxes": ["N", 40, 4], "raw": ["N", 40, 3]}, names)


def test_a_detector_ends_in_efficient_nms():
    rng = np.random.default_rng(3)
    x, raw = boxes(rng, 2, 40), rng.normal(0, 2, (2, 40, 3)).astype(np.float32)
    trt.init_libnvinfer_plugins(None, "")
    odds = 1 / (1 + np.exp(-raw.astype(np.float64)))
    holds(run(detector(), {"boxes": x, "raw": raw}), reference(x, odds, 9, 0.3, 0.4), 1e-5)
    _, network, _ = parsed(detector())
    assert [layer.type for layer in network] == [trt.LayerType.ACTIVATION, trt.LayerType.PLUGIN_V2]


def test_batched_nms_and_instance_normalization_are_found_in_a_model():
    rng = np.random.default_rng(3)
    fields = {"numClasses": 1, "topK": 40, "keepTopK": 5, "scoreThreshold": 0.2, "iouThreshold": 0.5,
              "shareLocation": 1, "isNormalized": 1, "clipBoxes": 0, "backgroundLabelId": -1}  # fmt: skip
    ones = {"scales": [1.0] * 40, "bias": [0.0] * 40, "epsilon": 1e-5}
    nodes = [
        helper.make_node("InstanceNormalization_TRT", ["raw"], ["scores"], **ones),
        helper.make_node("BatchedNMSDynamic_TRT", ["boxes", "scores"], ["n", "b", "s", "c"], **fields),
    ]
    data = model(nodes, {"boxes": ["N", 40, 1, 4], "raw": ["N", 40, 1]}, ["n", "b", "s", "c"])
    trt.init_libnvinfer_plugins(None, "")
    x, raw = boxes(rng, 1, 40, 1), rng.normal(0, 1, (1, 40, 1)).astype(np.float32)
    count, *_ = run(data, {"boxes": x, "raw": raw})
    assert count.tolist() == [[0]]  # a single number is its own mean


def test_plugins_of_tensorrt_are_there_before_a_program_asks_for_them():
    _, network, parser = parsed(detector())
    assert parser.num_errors == 0
    assert network.get_layer(network.num_layers - 1).type is trt.LayerType.PLUGIN_V2
    assert trt.get_plugin_registry().get_creator("EfficientNMS_TRT", "1", "") is not None


def test_operators_without_a_creator_are_named():
    _, network, parser = parsed(detector(plugin_version="9"))
    assert parser.get_error(0).node_operator() == "EfficientNMS_TRT"
    assert network.num_layers == 0


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"plugin_version": "7"}, "AR904"),
        ({"plugin_namespace": "ours"}, "AR904"),
        ({"box_coding": 2}, "AR304"),
        ({"iou_threshold": 1}, "AR304"),
        ({"iou_threshold": "much"}, "AR304"),
    ],
)
def test_attributes_that_do_not_fit_are_errors_of_the_node(more, text):
    trt.init_libnvinfer_plugins(None, "")
    _, _, parser = parsed(detector(**more))
    assert text in parser.get_error(0).desc()
    assert parser.get_error(0).node_name() == "nms"


class Recorder(trt.IPluginCreatorV3One):
    """Records the fields that it receives, and creates no plug-in."""

    def __init__(self):
        trt.IPluginCreatorV3One.__init__(self)
        self.name, self.plugin_version, self.plugin_namespace = "Recorder", "2", "ours"
        names = "number", "numbers", "real", "reals", "text", "tensor", "missing"
        self.field_names = trt.PluginFieldCollection([trt.PluginField(n) for n in names])

    def create_plugin(self, name, fields, phase):
        self.fields = {
            fields[k].name: (fields[k].type.name, fields[k].data.tolist()) for k in range(len(fields))
        }
        return


def test_attributes_become_fields_of_a_creator():
    trt.get_plugin_registry().register_creator(creator := Recorder(), "ours")
    tensor = helper.make_tensor("t", TensorProto.FLOAT16, [2], [1.0, 2.0])
    node = helper.make_node("Recorder", ["x"], ["y"], number=3, numbers=[1, 2], real=0.5, reals=[0.5, 1.5],
                            text="ab", tensor=tensor, other=1, plugin_version="2",
                            plugin_namespace="ours")  # fmt: skip
    _, _, parser = parsed(model([node], {"x": [2]}, ["y"]))
    assert "AR822" in parser.get_error(0).desc()
    assert creator.fields == {
        "number": ("INT32", [3]), "numbers": ("INT32", [1, 2]), "real": ("FLOAT32", [0.5]),
        "reals": ("FLOAT32", [0.5, 1.5]), "text": ("CHAR", [97, 98, 0]), "tensor": ("FLOAT16", [1.0, 2.0]),
    }  # fmt: skip


def test_an_exception_of_a_creator_is_an_error_of_the_node():
    class Broken(Recorder):
        def create_plugin(self, name, fields, phase):
            raise KeyError("nothing")

    trt.get_plugin_registry().register_creator(Broken(), "ours")
    node = helper.make_node("Recorder", ["x"], ["y"], plugin_version="2", plugin_namespace="ours")
    _, _, parser = parsed(model([node], {"x": [2]}, ["y"]))
    assert "AR824" in parser.get_error(0).desc()


def test_a_plugin_is_found_whatever_the_domain_of_its_node():
    trt.init_libnvinfer_plugins(None, "")
    node = helper.make_node("LReLU_TRT", ["x"], ["y"], domain="TRT", negSlope=0.5)
    data = model([node], {"x": ["N", 3]}, ["y"])
    (got,) = run(data, {"x": np.float32([[-1, 0, 2]])})
    assert got.tolist() == [[-0.5, 0, 2]]


@pytest.fixture
def tripled():
    """A plug-in with two functions, removed from the process after the test."""
    registry = trt.get_plugin_registry()
    before = registry.all_creators

    @trtp.register("onnx_nodes::tripled")
    def times(x: trtp.TensorDesc, factor: float) -> trtp.TensorDesc:
        return x.like()

    @trtp.impl("onnx_nodes::tripled")
    def tripled_by_numpy(x: trtp.Tensor, factor: float, outputs: tuple[trtp.Tensor], stream: int) -> None:
        np.asarray(outputs[0])[...] = np.asarray(x) * factor

    @trtp.aot_impl("onnx_nodes::tripled")
    def tripled_by_a_kernel(
        x: trtp.TensorDesc, factor: float, outputs: tuple[trtp.TensorDesc], tactic: int
    ) -> tuple[str | bytes, str | bytes, trtp.KernelLaunchParams, trtp.SymExprs]:
        raise ValueError("the kernel was asked for")

    yield
    for creator in registry.all_creators:
        if creator not in before:
            registry.deregister_creator(creator)


def test_a_node_says_which_function_computes_a_plugin_that_has_two(tripled):
    node = helper.make_node("tripled", ["x"], ["y"], plugin_namespace="onnx_nodes", factor=3.0)
    inputs = {"inputs": {"x": ["n"]}, "outputs": ["y"]}
    assert "AR306" in parsed(model([node], **inputs))[2].get_error(0).desc()
    node.attribute.append(helper.make_attribute("aot", 0))
    assert np.array_equal(run(model([node], **inputs), {"x": np.float32([1, 2])}), [[3, 6]])
    node.attribute[-1].i = 1
    builder, network, _ = parsed(model([node], **inputs))
    with pytest.raises(PluginError, match="the kernel was asked for"), trt.strict():
        builder.build_serialized_network(network, builder.create_builder_config())
