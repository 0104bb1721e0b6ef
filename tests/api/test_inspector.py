"""Reports of inspectors, in the keys that programs read from TensorRT's. A layer in a report is a kernel."""

import json

import numpy as np
import pytest

import anyrt as trt
from anyrt.api.run import inspector
from anyrt.backends.cpu.strategies import STRATEGIES
from anyrt.plan.kernels import parse_records

JSON, ONELINE = trt.LayerInformationFormat.JSON, trt.LayerInformationFormat.ONELINE
Verbosity = trt.ProfilingVerbosity


def chain(net):
    """The sums of any number of rows, and a scaled copy of them: two kernels."""
    x = net.add_input("x", trt.float16, (-1, 40))
    ramp = net.add_constant((1, 40), np.arange(40, dtype=np.float16))
    times = net.add_elementwise(x, ramp.get_output(0), trt.ElementWiseOperation.PROD)
    total = net.add_reduce(times.get_output(0), trt.ReduceOperation.SUM, 2, True)
    twice = net.add_elementwise(total.get_output(0), total.get_output(0), trt.ElementWiseOperation.SUM)
    for layer, name in ((times, "times"), (total, "total"), (twice, "twice")):
        layer.name = name
    times.metadata, total.metadata = "[first]", "[second]"
    total.get_output(0).name, twice.get_output(0).name = "t", "y"
    net.mark_output(total.get_output(0))
    net.mark_output(twice.get_output(0))


@pytest.fixture
def engine_of_chain(net):
    def build(verbosity):
        chain(net)
        config, profile = net.builder.create_builder_config(), net.builder.create_optimization_profile()
        profile.set_shape("x", (1, 40), (4, 40), (8, 40))
        config.add_optimization_profile(profile)
        config.profiling_verbosity = verbosity
        return net.builder.build_engine_with_config(net, config)

    return build


def tensor(name, *dimensions):
    form = "Row major linear FP16 format"
    return {"Name": name, "Location": "Device", "Dimensions": [*dimensions], "Format/Datatype": form}


def test_a_detailed_engine_reports_everything_of_a_kernel(engine_of_chain):
    report = engine_of_chain(Verbosity.DETAILED).create_engine_inspector()
    first = json.loads(report.get_layer_information(0, JSON))
    layers = first.pop("Layers")
    assert first == {
        "Name": "times+total",
        "LayerType": "Fusion",
        "Inputs": [tensor("x", -1, 40)],
        "Outputs": [tensor("t", -1, 1)],
        "ParameterType": "Reduce",
        "Weights": {"Type": "Half", "Count": 40},
        "TacticName": "reduction, model",
        "TacticValue": "0x009372c470eeadd5",
        "StreamId": 0,
        "Metadata": "[first]\x1e[second]",
    }
    assert [(layer["Name"], layer["LayerType"], layer["Outputs"]) for layer in layers] == [
        ("times", "ElementWise", ["(Unnamed Layer* 1) [ElementWise]_output"]),
        ("total", "Reduce", ["t"]),
    ]
    assert [layer["source"].partition(":")[0] for layer in layers] == ["test_inspector.py"] * 2


def test_tensors_between_kernels_have_one_name(engine_of_chain):
    report = engine_of_chain(Verbosity.DETAILED).create_engine_inspector()
    first, second = json.loads(report.get_engine_information(JSON))["Layers"]
    assert (second["Name"], second["LayerType"], second["ParameterType"]) == (
        "twice",
        "ElementWise",
        "ElementWise",
    )
    assert (first["Outputs"], second["Outputs"]) == (second["Inputs"], [tensor("y", -1, 1)])


def test_sizes_are_those_of_the_context(engine_of_chain):
    engine = engine_of_chain(Verbosity.DETAILED)
    report, context = engine.create_engine_inspector(), engine.create_execution_context()
    report.execution_context = context
    assert json.loads(report.get_layer_information(1, JSON))["Outputs"] == [tensor("y", -1, 1)]
    context.set_input_shape("x", (3, 40))
    assert json.loads(report.get_layer_information(1, JSON))["Outputs"] == [tensor("y", 3, 1)]


@pytest.mark.parametrize(
    ("verbosity", "layers", "first"),
    [
        (Verbosity.NONE, [], ""),
        (Verbosity.LAYER_NAMES_ONLY, ["times+total", "twice"], "times+total"),
    ],
)
def test_less_verbose_engines_report_names_or_nothing(engine_of_chain, verbosity, layers, first):
    report = engine_of_chain(verbosity).create_engine_inspector()
    whole = json.loads(report.get_engine_information(JSON))
    assert (whole["Layers"], whole["Bindings"]) == (layers, ["x", "t", "y"])
    assert json.loads(report.get_layer_information(0, JSON)) == first
    assert report.get_layer_information(0, ONELINE) == first
    lines = report.get_engine_information(ONELINE).splitlines()
    assert lines[: len(layers) + 6] == ["Layers:", *layers, "", "Bindings:", "x", "t", "y"]


def test_lines_are_written_as_tensorrt_writes_them(engine_of_chain):
    report = engine_of_chain(Verbosity.DETAILED).create_engine_inspector()
    form = "Format/Datatype: Row major linear FP16 format"
    line = report.get_layer_information(1, ONELINE)
    assert line.startswith(
        "Name: twice, LayerType: ElementWise, "
        f"Inputs: [{{ Name: t, Location: Device, Dimensions: [-1,1], {form} }}], "
        f"Outputs: [{{ Name: y, Location: Device, Dimensions: [-1,1], {form} }}], "
        "ParameterType: ElementWise, Layers: [{ Name: twice, "
    )
    assert line.endswith("TacticName: map, model, TacticValue: 0x009372c470eeadd5, StreamId: 0, Metadata: ")


def test_every_element_type_has_a_format_that_tools_know(net):
    known = {
        trt.float32: "Row major linear FP32",
        trt.float16: "Row major linear FP16 format",
        trt.bfloat16: "Row major linear BFloat16 format",
        trt.int8: "Row major Int8 format",
        trt.uint8: "Row major linear UInt8 format",
        trt.int32: "Row major linear Int32",
        trt.int64: "Row major linear Int64 format",
        trt.bool: "Row major linear BOOL",
    }
    for dtype in known:
        net.mark_output(net.add_identity(net.add_input(dtype.name, dtype, (3,))).get_output(0))
    config = net.builder.create_builder_config()
    config.profiling_verbosity = Verbosity.DETAILED
    report = net.builder.build_engine_with_config(net, config).create_engine_inspector()
    layers = json.loads(report.get_engine_information(JSON))["Layers"]
    assert [layer["Inputs"][0]["Format/Datatype"] for layer in layers] == [*known.values()]
    assert {layer["LayerType"] for layer in layers} == {"Identity"}


def test_a_constant_that_is_an_output_is_reported_by_its_layer(net):
    constant = net.add_constant((3,), np.float32([1, 2, 3]))
    constant.name = "numbers"
    net.mark_output(constant.get_output(0))
    config = net.builder.create_builder_config()
    config.profiling_verbosity = Verbosity.DETAILED
    report = net.builder.build_engine_with_config(net, config).create_engine_inspector()
    information = json.loads(report.get_layer_information(0, JSON))
    assert (information["Name"], information["LayerType"], information["Inputs"]) == (
        "numbers",
        "Constant",
        [],
    )
    assert information["Weights"] == {"Type": "Float", "Count": 3}


def test_versions_for_sizes_have_the_names_that_a_profiler_gets(net):
    x, y = (net.add_input(name, trt.float32, (-1, 4)) for name in "xy")
    layer = net.add_elementwise(x, y, trt.ElementWiseOperation.SUM)
    layer.name = "sum"
    net.mark_output(layer.get_output(0))
    config, profile = net.builder.create_builder_config(), net.builder.create_optimization_profile()
    for name in "xy":
        profile.set_shape(name, (1, 4), (4, 4), (8, 4))
    config.add_optimization_profile(profile)
    engine = net.builder.build_engine_with_config(net, config)
    assert json.loads(engine.create_engine_inspector().get_engine_information(JSON))["Layers"] == [
        "sum",
        "sum (any sizes)",
    ]
    assert engine.num_layers == 2


def test_an_inspector_reads_its_records_once(engine_of_chain, monkeypatch):
    calls = []
    monkeypatch.setattr(inspector, "parse_records", lambda *a: calls.append(a) or parse_records(*a))
    report = engine_of_chain(Verbosity.DETAILED).create_engine_inspector()
    assert report.get_layer_information(0, JSON) != report.get_layer_information(1, JSON)
    assert len(calls) == 1


def test_every_kind_of_kernel_has_a_name_of_tensorrt():
    assert {*STRATEGIES.lists, "fused tile", "copy", "loop", "conditional"} == {*inspector.KINDS}


@pytest.mark.parametrize("groups", [1, 6])
def test_convolution_kernels_are_described_in_the_words_of_tensorrt(net, groups):
    x = net.add_input("x", trt.float32, (2, 6, 9, 9))
    conv = net.add_convolution_nd(x, 6, (3, 3), np.ones(36 * 9 // groups, np.float32), np.ones(6, np.float32))
    conv.padding_nd, conv.num_groups = (1, 1), groups
    net.mark_output(net.add_activation(conv.get_output(0), trt.ActivationType.TANH).get_output(0))
    config = net.builder.create_builder_config()
    config.profiling_verbosity = Verbosity.DETAILED
    report = net.builder.build_engine_with_config(net, config).create_engine_inspector()
    layers = json.loads(report.get_engine_information(JSON))["Layers"]
    (results,) = [layer for layer in layers if layer["ParameterType"] == "Convolution"]
    assert (results["Kernel"], results["PrePadding"], results["Stride"]) == ([3, 3], [1, 1], [1, 1])
    assert (results["OutMaps"], results["Groups"], results["HasBias"]) == (6, groups, 1)
    shapes = [t["Dimensions"] for t in results["Inputs"] + results["Outputs"]]
    assert [(len(shape), shape[1]) for shape in shapes] == [(4, 6), (4, 6)]


def test_sizes_computed_inside_a_branch_are_unknown(net):
    x, choice = net.add_input("x", trt.float32, (6,)), net.add_if_conditional()
    choice.set_condition(net.add_input("flag", trt.bool, ()))
    output = net.add_non_zero(choice.add_input(x).get_output(0)).get_output(0)
    ways = [net.add_unary(output, op) for op in (trt.UnaryOperation.NEG, trt.UnaryOperation.ABS)]
    layer = choice.add_output(*(way.get_output(0) for way in ways)).get_output(0)
    net.mark_output(layer)
    config = net.builder.create_builder_config()
    config.profiling_verbosity = Verbosity.DETAILED
    report = net.builder.build_engine_with_config(net, config).create_engine_inspector()
    shapes = [
        t["Dimensions"]
        for x in json.loads(report.get_engine_information(JSON))["Layers"]
        for t in x["Inputs"]
    ]
    assert [1, -1] in shapes
