"""The names of the kernels of a padded convolution state their roles, and layers get the sums of
their times."""

import json
from pathlib import Path

import numpy as np
import pytest

import anyrt as trt
from anyrt.cli.script import build_script

JSON, ONELINE = trt.LayerInformationFormat.JSON, trt.LayerInformationFormat.ONELINE
NETWORK = """
import numpy as np
import anyrt as trt


def define(network):
    x = network.add_input("x", trt.float32, (1, 16, 32, 32))
    weights, bias = np.ones((16, 16, 3, 3), np.float32), np.zeros(16, np.float32)
    layer = network.add_convolution_nd(x, 16, (3, 3), weights, bias)
    layer.padding_nd, layer.name = (1, 1), "conv1"
    relu = network.add_activation(layer.get_output(0), trt.ActivationType.TANH)
    relu.name = "act1"
    layer = network.add_convolution_nd(relu.get_output(0), 16, (3, 3), weights, bias)
    layer.padding_nd, layer.name = (1, 1), "conv2"
    network.mark_output(layer.get_output(0))
"""


class Times(trt.IProfiler):
    def __init__(self):
        trt.IProfiler.__init__(self)
        self.times = {}

    def report_layer_time(self, layer_name, ms):
        self.times[layer_name] = self.times.get(layer_name, 0.0) + ms


def test_kernels_say_their_roles(tmp_path):
    (tmp_path / "net.py").write_text(NETWORK)
    plan = build_script(Path(tmp_path / "net.py"), "define")
    context = trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan).create_execution_context()
    context.profiler = profiler = Times()
    arrays = {n: np.ones((1, 16, 32, 32), np.float32) for n in context.engine}
    for name, array in arrays.items():
        context.set_tensor_address(name, array)
    context.execute_async_v3(0)
    assert {"conv1: border", "conv2: border", "conv2: products"} <= profiler.times.keys()
    inspector = context.engine.create_engine_inspector()
    assert "LayerTimes" not in inspector.get_engine_information(JSON)
    inspector.execution_context = context
    totals = json.loads(inspector.get_engine_information(JSON))["LayerTimes"]
    assert {"conv1", "conv2", "act1"} == totals.keys()
    assert sum(totals.values()) == pytest.approx(sum(profiler.times.values()))
    parts = [profiler.times[n] for n in ("conv2: border", "conv2: products")]
    assert totals["conv2"] >= sum(parts)
    assert f"\nconv2: {totals['conv2']:.4f} ms\n" in inspector.get_engine_information(ONELINE)
