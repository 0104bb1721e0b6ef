"""Polygraphy's commands with TensorRT as their backend, started from the command line.

make programs
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import anyrt
from tests.compat.programs.onnx_graphs import model

pytest.importorskip("polygraphy", reason="Polygraphy is not installed: make programs runs this")
GRAPHS = "onnx-graphsurgeon is not installed: make programs runs this"
pytest.importorskip("onnx_graphsurgeon", reason=GRAPHS)

pytestmark = pytest.mark.programs

SHAPES = "--trt-min-shapes x:[1,1,8] --trt-opt-shapes x:[2,4,8] --trt-max-shapes x:[4,16,8]"
NETWORK = """
import tensorrt as trt
from polygraphy import func
from polygraphy.backend.trt import CreateNetwork

@func.extend(CreateNetwork())
def load_network(builder, network):
    x = network.add_input("x", shape=(2, 4), dtype=trt.float32)
    y = network.add_activation(x, trt.ActivationType.RELU).get_output(0)
    y.name = "y"
    network.mark_output(y)
"""
DATA = """
import numpy as np

def load_data():
    rng = np.random.default_rng(0)
    for _ in range(4):
        yield {"x": rng.standard_normal((1, 3, 16, 16)).astype(np.float32)}
"""
PLUGIN = """
import numpy as np
import tensorrt as trt

class Twice(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
    def __init__(self):
        for base in Twice.__bases__:
            base.__init__(self)
        self.plugin_name, self.plugin_version, self.plugin_namespace, self.num_outputs = "Twice", "1", "", 1
    def get_capability_interface(self, kind): return self
    def get_output_data_types(self, types): return [types[0]]
    def get_output_shapes(self, inputs, shape_inputs, builder): return [trt.DimsExprs(inputs[0])]
    def get_fields_to_serialize(self): return trt.PluginFieldCollection([])
    def configure_plugin(self, inp, out): pass
    def on_shape_change(self, inp, out): pass
    def supports_format_combination(self, pos, in_out, count):
        return in_out[pos].desc.type == trt.float32 and in_out[pos].desc.format == trt.TensorFormat.LINEAR
    def attach_to_context(self, context): return self.clone()
    def set_tactic(self, tactic): pass
    def clone(self): return Twice()
    def enqueue(self, inp, out, inputs, outputs, workspace, stream):
        import ctypes
        count = int(np.prod(tuple(inp[0].dims)))
        x, y = (np.ctypeslib.as_array((ctypes.c_float * count).from_address(a[0])) for a in (inputs, outputs))
        y[:] = 2 * x

class Creator(trt.IPluginCreatorV3One):
    def __init__(self):
        trt.IPluginCreatorV3One.__init__(self)
        self.name, self.plugin_version, self.plugin_namespace = "Twice", "1", ""
        self.field_names = trt.PluginFieldCollection([])
    def create_plugin(self, name, fields, phase): return Twice()

trt.get_plugin_registry().register_creator(Creator(), "")

def load_network():
    from polygraphy.backend.trt import network_from_onnx_path
    return network_from_onnx_path("plugin.onnx")
"""
RUNS = [
    "run cnn.onnx --trt --onnxrt --input-shapes x:[2,3,16,16]",
    f"run tokens.onnx --trt --onnxrt {SHAPES}",
    "run lstm.onnx --trt --onnxrt",
    "run codes.onnx --trt --onnxrt --atol 1e-5",
    "run found.onnx --trt --onnxrt",
    "run cnn.onnx --trt --onnxrt --trt-outputs mark all --onnx-outputs mark all",
    "run cnn.onnx --trt --fp16 --tensor-dtypes x:float16 y:float16 --validate",
    "run tokens.onnx --trt --all-tensor-dtypes float16 --fp16",
    "run cnn.onnx --trt --int8 --calibration-cache c.cache --data-loader-script data.py;"
    "run cnn.onnx --trt --onnxrt --int8 --calibration-cache c.cache --data-loader-script data.py --atol 0.1",
    "run cnn.onnx --trt --int8 --calib-base-cls IInt8LegacyCalibrator --quantile 0.99 --regression-cutoff 1",
    "run cnn.onnx --trt --fp16 --save-tactics t.json; inspect tactics t.json;"
    "run cnn.onnx --trt --fp16 --load-tactics t.json; inspect diff-tactics --good t.json --bad t.json",
    "run cnn.onnx --trt --save-engine e.plan --save-timing-cache t.cache;"
    "run cnn.onnx --trt --load-timing-cache t.cache --error-on-timing-cache-miss;"
    "run e.plan --model-type engine --trt --save-outputs out.json;"
    "run cnn.onnx --onnxrt --load-outputs out.json",
    "run cnn.onnx --trt --onnxrt --refittable",
    "run cnn.onnx --trt --onnxrt --version-compatible --hardware-compatibility-level ampere_plus",
    "run cnn.onnx --trt --onnxrt --weight-streaming --weight-streaming-budget 50% --strongly-typed",
    "run cnn.onnx --trt --precision-constraints obey --fp16 --layer-precisions r:float32",
    "run cnn.onnx --trt --onnxrt --allocation-strategy runtime --pool-limit workspace:32M --tf32",
    "run cnn.onnx --trt --onnxrt --use-dla --allow-gpu-fallback --sparse-weights --max-aux-streams 2",
    "run cnn.onnx --trt --onnxrt --sequential-runners --use-subprocess --iterations 3 --warm-up 1",
    "run cnn.onnx --trt --mark-debug r --builder-optimization-level 5 --profiling-verbosity detailed",
    "run network.py --model-type trt-network-script --trt",
    "run cnn.onnx --trt --onnxrt --plugins libnvinfer_plugin.so",
    "run plugin.py --model-type trt-network-script --trt --validate",
]
OTHERS = [
    "inspect model cnn.onnx --display-as trt --show layers attrs weights",
    "inspect capability cnn.onnx; inspect capability plugin.onnx --with-partitioning",
    "convert cnn.onnx -o e.engine; inspect model e.engine --show layers attrs weights",
    "convert cnn.onnx -o e.engine --int8 --calibration-cache c.cache --data-loader-script data.py",
    "convert cnn.onnx -o e.engine --strip-plan; inspect model e.engine",
    "convert cnn.onnx --convert-to onnx-like-trt-network -o like.onnx",
    "debug build cnn.onnx --until 2 --fp16 --save-tactics r.json --artifacts r.json --check true",
    "debug precision cnn.onnx --mode bisect --fp16 --precision-constraints prefer --check true",
    "debug reduce cnn.onnx -o small.onnx --mode bisect --check false; run small.onnx --trt --onnxrt",
    "debug repeat --until 2 --check true",
    "surgeon extract cnn.onnx -o p.onnx --inputs r:auto:auto --outputs y:auto; run p.onnx --trt --onnxrt",
    "surgeon sanitize cnn.onnx -o s.onnx --fold-constants; run s.onnx --trt --onnxrt",
    "surgeon weight-strip cnn.onnx -o ws.onnx; surgeon weight-reconstruct ws.onnx -o wr.onnx;"
    "run wr.onnx --trt --onnxrt",
    "template trt-network cnn.onnx -o n.py; run n.py --model-type trt-network-script --trt",
    "template trt-config --fp16 --tf32 -o c.py; run cnn.onnx --trt --trt-config-script c.py",
]


def _models(rng=np.random.default_rng(0)):  # noqa: B008
    def weight(*shape):
        return (rng.standard_normal(shape) * 0.3).astype(np.float32)

    image, one = {"x": ["n", 3, 16, 16]}, {"s": np.float32(0.05), "z": np.int8(0)}
    conv = ("Conv", ["x", "w"], ["c"], {"pads": [1] * 4})
    pooled = [
        ("Relu", ["c"], ["r"], {}),
        ("GlobalAveragePool", ["r"], ["p"], {}),
        ("Flatten", ["p"], ["f"], {}),
    ]
    ends = [*pooled, ("Gemm", ["f", "v", "b"], ["y"], {})]
    kernel, dense = {"w": weight(8, 3, 3, 3)}, {"v": weight(8, 5), "b": weight(5)}
    yield "cnn", model([conv, *ends], image, ["y"], kernel | dense)
    heads = [
        ("MatMul", ["x", "w"], ["m"], {}),
        ("Softmax", ["m"], ["s"], {"axis": -1}),
        ("Add", ["s", "x"], ["y"], {}),
    ]
    yield "tokens", model(heads, {"x": ["b", "t", 8]}, ["y"], {"w": weight(8, 8)})
    lstm = ("LSTM", ["x", "w", "r"], ["", "y"], {"hidden_size": 4})
    yield "lstm", model([lstm], {"x": [6, 2, 3]}, ["y"], {"w": weight(1, 16, 3), "r": weight(1, 16, 4)})
    codes = [("QuantizeLinear", ["x", "s", "z"], ["q"], {}), ("DequantizeLinear", ["q", "s", "z"], ["d"], {})]
    codes.append(("Conv", ["d", "w"], ["y"], {}))
    yield "codes", model(codes, {"x": [1, 3, 8, 8]}, ["y"], kernel | one)
    results = [("Floor", ["x"], ["i"], {}), ("NonZero", ["i"], ["k"], {}), ("Cast", ["k"], ["y"], {"to": 1})]
    yield "found", model(results, {"x": [4, 5]}, ["y"])
    own = model([("Relu", ["x"], ["r"], {}), ("Twice", ["r"], ["y"], {})], {"x": [2, 3]}, ["y"])
    yield "plugin", onnx.shape_inference.infer_shapes(own)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    built = tmp_path_factory.mktemp("models")
    for name, result in _models():
        onnx.save(result, built / f"{name}.onnx")
    for name, text in (("network", NETWORK), ("data", DATA), ("plugin", PLUGIN)):
        (built / f"{name}.py").write_text(text)
    return built


def _polygraphy(commands, folder):
    environ = {**os.environ, "PYTHONPATH": str(Path(anyrt.__file__).parents[1])}
    for command in commands.split(";"):
        words = [sys.executable, "-m", "anyrt.compat", "-m", "polygraphy", *command.split()]
        done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("commands", RUNS)
def test_polygraphy_runs_models(commands, folder):
    _polygraphy(commands, folder)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("commands", OTHERS)
def test_polygraphy_inspects_converts_and_reduces_models(commands, folder):
    _polygraphy(commands, folder)
