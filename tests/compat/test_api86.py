"""The names of TensorRT 8.6, tested in a separate process because the mode changes the API of the whole
process."""

import contextlib
import json
import re
import subprocess
import sys

import pytest

import anyrt.compat
from anyrt.core.errors import ArgumentError
from tests.messages import diagnostic

START = """
import numpy as np, tensorrt as trt
logger = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(logger)
network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
config = builder.create_builder_config()
"""
ENGINE = """
x = network.add_input("x", trt.float32, (2, 3))
y = network.add_unary(x, trt.UnaryOperation.NEG).get_output(0)
y.name = "y"
network.mark_output(y)
engine = builder.build_engine(network, config)
context = engine.create_execution_context()
x, y = np.ones((2, 3), np.float32), np.empty((2, 3), np.float32)
"""
SHAPED = """
x = network.add_input("x", trt.float32, (4,))
n = network.add_input("n", trt.int32, (2,))
shuffle = network.add_shuffle(x)
shuffle.set_input(1, n)
network.mark_output(shuffle.get_output(0))
profile = builder.create_optimization_profile()
profile.set_shape_input("n", (1, 1), (2, 2), (4, 4))
config.add_optimization_profile(profile)
engine = builder.build_engine(network, config)
context = engine.create_execution_context()
x, y = np.float32([1, 2, 3, 4]), np.zeros((4, 1), np.float32)
"""


SERVE = """
import contextlib, io, json, sys
for body in sys.stdin:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(compile(json.loads(body), "script.py", "exec"), {"__name__": "__main__"})
    print(json.dumps(told.getvalue()), flush=True)
"""


@pytest.fixture(scope="module")
def run(cache_dir):
    """The output lines of a program: run(text), or run(text, "10") without the 8.6 mode."""
    with contextlib.ExitStack() as started:
        modes = {}

        def lines(body, api="8.6"):
            if api not in modes:
                command = [sys.executable, "-m", "anyrt.compat", "--api", api, "-c", SERVE]
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
                modes[api] = started.enter_context(subprocess.Popen(command, **pipes))
            child = modes[api]
            print(json.dumps(body), file=child.stdin, flush=True)
            return json.loads(child.stdout.readline()).splitlines()

        yield lines


def test_every_removed_name_exists_in_the_mode_and_only_there(run):
    body = """
import tensorrt as trt
from anyrt.api.edge.missing import REMOVED
owners = {name: trt if name == "anyrt" else getattr(trt, name) for name in REMOVED}
found = [hasattr(owners[owner], name) for owner, names in REMOVED.items() for name in names]
print(trt.__version__, len(found), set(found))
"""
    assert run(body) == ["8.6.1 46 {True}"]
    assert run(body, "10") == ["10.16.0 46 {False}"]


def test_bindings_have_numbers_and_names(run):
    body = """
print(engine.num_bindings, len(engine), list(engine), engine[-1], engine["y"], engine.max_batch_size)
print(engine.get_binding_name(2), engine.get_binding_index("z"), engine.binding_is_input("x"))
print(engine.get_binding_shape(0), engine.get_binding_dtype("y"), engine.get_location(1))
print(engine.get_profile_shape(0, "x")[1], engine.is_shape_binding(0), engine.is_execution_binding(0))
print(engine.get_binding_format(0), engine.get_binding_format_desc(1), engine.get_binding_vectorized_dim(0))
print(engine.get_binding_bytes_per_component(0), engine.get_binding_components_per_element(1))
print(context.get_binding_shape(1), context.get_strides(1))
"""
    assert run(START + ENGINE + body) == [
        "2 2 ['x', 'y'] y 1 1",
        "None -1 True",
        "(2, 3) DataType.FLOAT TensorLocation.DEVICE",
        "(2, 3) False True",
        "TensorFormat.LINEAR Row major linear FP32 format (kLINEAR) -1",
        "-1 -1",
        "(2, 3) (3, 1)",
    ]


def test_all_ways_to_run_write_the_outputs(run):
    body = """
for call in (context.execute_v2, lambda b: context.execute_async_v2(b, 0), lambda b: context.execute(1, b),
             lambda b: context.execute_async(bindings=b, stream_handle=0)):
    y[:] = 0
    print(call([x.ctypes.data, y.ctypes.data]), y.min(), y.max())
"""
    assert run(START + ENGINE + body) == ["True -1.0 -1.0"] * 4


def test_mistakes_with_bindings_are_logged(run):
    body = """
print(engine.get_binding_shape(7), context.set_binding_shape(-1, (2, 3)))
print(context.execute_async_v2([x.ctypes.data], 0), context.execute_v2([0, y.ctypes.data]))
try:
    engine[2]
except IndexError:
    print("IndexError")
print(context.execute(8, [x.ctypes.data, y.ctypes.data]))
"""
    reported = run(START + ENGINE + body)
    assert [line for line in reported if "[TRT]" not in line] == [
        "(unknown) False",
        "False False",
        "IndexError",
        "True",
    ]
    codes = ["binding 7", "binding -1", " 1 addresses", "[AR70"]
    logged = [line for line in reported if "[TRT]" in line]
    assert [code in line for code, line in zip(codes, logged, strict=False)] == [True] * 4
    assert "batch size 8 is ignored" in logged[-1]


def test_values_of_shapes_are_set_by_number(run):
    body = """
print(engine.is_shape_binding(1), engine.get_profile_shape_input(0, 1), context.set_shape_input(1, [4, 1]))
print(context.get_shape(1), context.all_shape_inputs_specified, context.get_binding_shape(2))
print(context.execute_async_v2([x.ctypes.data, 0, y.ctypes.data], 0), y.T)
"""
    assert run(START + SHAPED + body) == [
        "True [[1, 1], [2, 2], [4, 4]] True",
        "[4, 1] True (4, 1)",
        "True [[1. 2. 3. 4.]]",
    ]


def test_settings_of_builds_stand_for_their_successors(run):
    body = """
config.max_workspace_size = 1 << 30
print(config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE), config.max_workspace_size)
print(builder.max_batch_size, config.min_timing_iterations, network.has_explicit_precision)
config.set_flag(trt.BuilderFlag.STRICT_TYPES)
print(config.get_flag(trt.BuilderFlag.PREFER_PRECISION_CONSTRAINTS), trt.ProfilingVerbosity["VERBOSE"])
config.set_flag(trt.BuilderFlag.ENABLE_TACTIC_HEURISTIC)
config.set_preview_feature(trt.PreviewFeature.FASTER_DYNAMIC_SHAPES_0805, True)
print(trt.SliceMode.DEFAULT, trt.EngineCapability.SAFE_DLA, trt.LayerType.FULLY_CONNECTED)
print(int(trt.NetworkDefinitionCreationFlag.EXPLICIT_PRECISION), trt.LayerType.CAST)
"""
    reported = run(START + body)
    assert [line for line in reported if "[TRT]" not in line] == [
        "1073741824 1073741824",
        "1 1 False",
        "True ProfilingVerbosity.DETAILED",
        "SampleMode.STRICT_BOUNDS EngineCapability.DLA_STANDALONE LayerType.FULLY_CONNECTED",
        "1 LayerType.CAST",
    ]


def test_an_implicit_batch_is_rejected_with_the_flag_that_is_needed(run):
    (logged, answer) = run(START + "print(builder.create_network())")
    assert (
        "[AR901] create_network" in logged,
        "pass 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)" in logged,
        answer,
    ) == (True, True, "None")


def test_fully_connected_layers_multiply_by_the_kernel_and_add_the_bias(run):
    body = """
x = network.add_input("x", trt.float32, (-1, 2, 3, 4))
w, b = np.random.rand(5, 24).astype(np.float32), np.arange(5, dtype=np.float32)
for name, bias in (("y", b), ("z", trt.Weights())):
    fc = network.add_fully_connected(input=x, num_outputs=5, kernel=w, bias=bias)
    fc.get_output(0).name = name
    network.mark_output(fc.get_output(0))
profile = builder.create_optimization_profile()
profile.set_shape("x", (1, 2, 3, 4), (2, 2, 3, 4), (9, 2, 3, 4))
config.add_optimization_profile(profile)
image = np.random.rand(3, 2, 3, 4).astype(np.float32)
out = builder.build_engine(network, config).run(x=image)
print(out["y"].shape, np.allclose(out["z"][..., 0, 0], image.reshape(3, 24) @ w.T, atol=1e-5))
print(np.allclose(out["y"] - out["z"], b[:, None, None], atol=1e-5))
print(type(fc) is trt.IFullyConnectedLayer, fc.type, fc.num_output_channels, fc.kernel.size, fc.bias.size)
fc.num_output_channels = 4
print(fc.get_output(0).shape)
fc.num_output_channels, fc.bias = 5, w
print(fc.get_output(0).shape)
"""
    reported = run(START + body)
    assert [line for line in reported if "[TRT]" not in line] == [
        "(3, 5, 1, 1) True",
        "True",
        "True LayerType.FULLY_CONNECTED 5 120 0",
        "(unknown)",
        "(unknown)",
    ]
    logged = [line.split("[AR103]")[1] for line in reported if "[TRT]" in line]
    assert [("kernel" in logged[0], "bias" in logged[1]), len(logged)] == [(True, True), 2]


def test_convolutions_have_attributes_of_height_and_width(run):
    body = """
x, w = network.add_input("x", trt.float32, (1, 2, 5, 5)), np.ones(24, np.float32)
for add, size in ((network.add_convolution, (2, 2)), (network.add_deconvolution, trt.DimsHW(2, 2))):
    layer = add(x, 3, size, w)
    layer.stride, layer.padding = (2, 3), trt.DimsHW(1, 0)
    print(layer.kernel_size.w, layer.stride.h, layer.stride_nd, layer.padding, layer.get_output(0).shape)
    print(hasattr(layer, "dilation"))
"""
    assert run(START + body) == [
        *("2 2 (2, 3) (1, 0) (1, 3, 3, 2)", "True"),
        *("2 2 (2, 3) (1, 0) (1, 3, 8, 14)", "False"),
    ]


def test_pooling_has_its_attributes_without_nd_and_rejects_the_modes_of_caffe(run):
    body = """
x = network.add_input("x", trt.float32, (1, 1, 5, 4))
pool = network.add_pooling(x, trt.PoolingType.MAX, trt.DimsHW(3, 2))
pool.stride, pool.padding = trt.DimsHW(2, 2), (1, 0)
print(pool.window_size, pool.stride_nd, pool.padding_nd, pool.get_output(0).shape)
pool.padding_mode = trt.PaddingMode.CAFFE_ROUND_DOWN
pool.name = "pool"
network.mark_output(pool.get_output(0))
print(builder.build_engine(network, config))
"""
    shown, logged, built = run(START + body)
    assert (shown, built) == ("(3, 2) (2, 2) (1, 0) (1, 1, 3, 2)", "None")
    values = ("pool (script.py:9)", "padding_mode", "CAFFE_ROUND_DOWN")
    assert re.search(diagnostic("AR304", *values), logged)


def test_names_of_8_6_without_replacement_are_missing_in_the_mode_too(run):
    body = """
for place, name in ((network, "add_rnn_v2"), (trt, "UffParser")):
    try:
        getattr(place, name)
    except AttributeError as error:
        print(str(error).split(":")[0])
"""
    assert run(START + body) == [
        "[AR902] INetworkDefinition.add_rnn_v2",
        "[AR902] anyrt.UffParser",
    ]


@pytest.mark.parametrize("options", [["--api"], ["--api", "7"], ["--apu", "8.6", "x.py"], ["--api", "8.6"]])
def test_wrong_options_print_the_usage(options):
    command = [sys.executable, "-m", "anyrt.compat", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.split()[:4]) == (1, ["usage:", "python", "-m", "anyrt.compat"])


def test_only_two_versions_can_be_installed():
    with pytest.raises(ArgumentError, match=r"AR304.*api='9'.*'10' or '8.6'"):
        anyrt.compat.install(api="9")


def test_shapes_are_int32_tensors_which_sizes_may_be_made_of(run):
    body = """
x = network.add_input("x", trt.float32, (-1, 6))
shape = network.add_shape(x).get_output(0)
two = network.add_constant((2,), np.array([2, 2], np.int32)).get_output(0)
other = network.add_elementwise(shape, two, trt.ElementWiseOperation.FLOOR_DIV).get_output(0)
first = network.add_slice(x, (0, 0), (1, 1), (1, 1))
first.set_input(2, other)
network.mark_output(first.get_output(0))
profile = builder.create_optimization_profile()
profile.set_shape("x", (2, 6), (4, 6), (8, 6))
config.add_optimization_profile(profile)
context = builder.build_engine(network, config).create_execution_context()
context.set_binding_shape(0, (4, 6))
print(shape.dtype, context.get_binding_shape(1))
"""
    assert run(START + body) == ["DataType.INT32 (2, 3)"]


def test_models_take_and_give_int32_for_int64(run):
    body = """
from onnx import TensorProto as T, helper
info = lambda n: helper.make_tensor_value_info(n, T.INT64, ["n"])
nodes = [helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("Identity", ["x"], ["z"])]
graph = helper.make_graph(nodes, "g", [info("x")], [info("y"), info("z")])
parser = trt.OnnxParser(network, logger)
print(parser.parse(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()))
profile = builder.create_optimization_profile()
profile.set_shape("x", (1,), (3,), (4,))
config.add_optimization_profile(profile)
engine = builder.build_engine(network, config)
print([(n, engine.get_binding_dtype(n).name) for n in engine])
context, arrays = engine.create_execution_context(), [np.int32([1, -2, 3]), *np.zeros((2, 3), np.int32)]
context.set_binding_shape(0, (3,))
print(context.execute_v2([a.ctypes.data for a in arrays]), *arrays[1:])
"""
    names = [("x", "INT32"), ("y", "INT32"), ("z", "INT32")]
    assert run(START + body) == ["True", str(names), "True [ 2 -4  6] [ 1 -2  3]"]


def test_standard_plugins_are_there_as_version_2(run):
    body = """
trt.init_libnvinfer_plugins(logger, "")
ends = {"clipMin": 0, "clipMax": 2}
fields = [trt.PluginField(n, np.float32([v]), trt.PluginFieldType.FLOAT32) for n, v in ends.items()]
creator = trt.get_plugin_registry().get_plugin_creator("Clip_TRT", "1", "")
plugin = creator.create_plugin("clip", trt.PluginFieldCollection(fields))
x = network.add_input("x", trt.float32, (4,))
network.mark_output(network.add_plugin_v2([x], plugin).get_output(0))
context = builder.build_engine(network, config).create_execution_context()
x, y = np.float32([-1, 1, 2, 3]), np.zeros(4, np.float32)
print(context.execute_v2([x.ctypes.data, y.ctypes.data]), y)
"""
    assert run(START + body) == ["True [0. 1. 2. 2.]"]


@pytest.mark.rare
def test_commands_that_a_program_starts_build_engines(run, tmp_path):
    body = f"""
import onnx, os, subprocess, sys
model, plan = (os.path.join({str(tmp_path)!r}, n) for n in ("m.onnx", "m.plan"))
inputs, outputs = ([onnx.helper.make_tensor_value_info(n, 1, [2, 3])] for n in "xy")
graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "g", inputs, outputs)
onnx.save(onnx.helper.make_model(graph), model)
for words in (["exec", "--onnx=" + model, "--buildOnly", "--saveEngine=" + plan], ["check", model]):
    print(subprocess.run([sys.executable, "-m", "anyrt", *words], stdout=subprocess.DEVNULL).returncode)
engine = trt.Runtime(logger).deserialize_cuda_engine(open(plan, "rb").read())
print(engine.get_binding_name(1), *trt.load(model).run({{"x": np.ones((2, 3), np.float32)}}).values())
"""
    assert run(START + body)[:3] == ["0", "0", "y [[-1. -1. -1.]"]


def test_numbers_of_enums_are_those_of_86(run):
    body = """
print(5, trt.BuilderFlag(5), 47, trt.LayerType(47))
print(int(trt.LayerType.FULLY_CONNECTED), int(trt.LayerType.RNN_V2), int(trt.LayerType.NORMALIZATION))
print([int(m) for m in trt.PreviewFeature][:3], int(trt.PreviewFeature.PROFILE_SHARING_0806))
print([m.name for m in trt.NetworkDefinitionCreationFlag][:3], bin(config.flags))
for kind in (trt.BuilderFlag, trt.LayerType, trt.PreviewFeature, trt.NetworkDefinitionCreationFlag):
    assert [int(m) for m in kind] == list(range(len(kind))), kind
    assert [kind(int(m)) for m in kind] == list(kind), kind
config.set_flag(trt.BuilderFlag.REFIT)
print(config.flags >> 5 & 1, *map(config.get_flag, (trt.BuilderFlag.TF32, trt.BuilderFlag.SAFETY_SCOPE)))
"""
    assert [line for line in run(START + body) if "[TRT]" not in line] == [
        "5 BuilderFlag.REFIT 47 LayerType.CAST",
        "1 20 46",
        "[0, 1, 2] 2",
        "['EXPLICIT_BATCH', 'EXPLICIT_PRECISION', 'STRONGLY_TYPED'] 0b10000000",
        "1 True False",
    ]
