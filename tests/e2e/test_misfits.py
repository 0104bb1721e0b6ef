"""Errors for dimensions that do not fit a layer name the layer and its input shapes, at build time and at run
time."""

import re

import pytest

import anyrt as trt
from anyrt.api.edge.quiet import Refused
from tests.messages import diagnostic

LAYERS = {
    "AR112": lambda network, x, s: network.add_parametric_relu(x, s),
    "AR119": lambda network, x, s: network.add_normalization(x, s, s, 1 << 2 | 1 << 3),
}


@pytest.mark.parametrize("code", LAYERS)
def test_an_inference_reports_the_layer_and_the_sizes_that_do_not_fit(code, tmp_path, monkeypatch):
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path))
    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    builder = trt.Builder(logger)
    network, config = builder.create_network(), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (2, 6, 4, 4))
    s = network.add_input("s", trt.float32, (1, -1, 1, 1))
    layer = LAYERS[code](network, x, s)
    layer.name = "mine"
    network.mark_output(layer.get_output(0))
    profile = builder.create_optimization_profile()
    profile.set_shape("s", (1, 1, 1, 1), (1, 6, 1, 1), (1, 9, 1, 1))
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    context = trt.Runtime(logger).deserialize_cuda_engine(plan).create_execution_context()
    for fits in (1, 6):
        context.set_input_shape("s", (1, fits, 1, 1))
        assert context.infer_shapes() == []
    context.set_input_shape("s", (1, 5, 1, 1))
    with pytest.raises(Refused) as error:
        context.infer_shapes()
    assert re.match(diagnostic(code, "mine (", "s.shape[1] = 5", 1), str(error.value))
