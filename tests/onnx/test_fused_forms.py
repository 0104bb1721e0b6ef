"""Patterns of several nodes that exporters write compile to the kernels of the fused form."""

import numpy as np
import pytest
from onnx import numpy_helper, parser

import anyrt as trt
from anyrt.plan.file import read_plan
from anyrt.plan.report import parse_report

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
RANDOM = np.random.default_rng(0)
FORMS = {
    "gelu": ("x[8,64]", "a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half)", 1),
    "silu": ("x[8,64]", "a = Sigmoid(x) y = Mul(x, a)", 1),
    "hard swish": ("x[8,64]", "a = HardSigmoid<alpha = 0.1666667, beta = 0.5>(x) y = Mul(x, a)", 1),
    "softmax": ("x[8,64]", "m = ReduceMax<axes = [1]>(x) a = Sub(x, m) b = Exp(a)"
                           " s = ReduceSum(b, last) y = Div(b, s)", 1),
    "layer norm": ("x[8,64]", "m = ReduceMean<axes = [1]>(x) a = Sub(x, m) b = Pow(a, two)"
                   " v = ReduceMean<axes = [1]>(b) e = Add(v, small) r = Sqrt(e) y = Div(a, r)", 1),
    "rms norm": ("x[8,64]", "b = Pow(x, two) v = ReduceMean<axes = [1]>(b) e = Add(v, small) r = Sqrt(e)"
                 " i = Reciprocal(r) y = Mul(x, i)", 1),
    "group norm": ("x[1,16,8,8]", "a = Reshape(x, groups) b = InstanceNormalization(a, ones, zeros)"
                   " s = Shape(x) c = Reshape(b, s) d = Mul(c, gain) y = Add(d, gain)", 1),
    "channel shuffle": ("x[1,16,8,8]", "a = Reshape(x, halves) b = Transpose<perm = [0,2,1,3,4]>(a)"
                        " y = Reshape(b, whole)", 1),
    "normalised product": ("x[8,64]", "a = MatMul(x, w) b = Add(a, bias) c = BatchNormalization(b, bias,"
                           " bias, bias, positive) r = Relu(c) y = Add(r, x)", 1),
}  # fmt: skip
WEIGHTS = {
    "root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5), "two": np.float32(2),
    "small": np.float32(1e-5), "last": np.array([1]), "groups": np.array([0, 4, -1]),
    "ones": np.ones(4, np.float32), "zeros": np.zeros(4, np.float32), "gain": np.ones((16, 1, 1), np.float32),
    "halves": np.array([1, 2, 8, 8, 8]), "whole": np.array([1, 16, 8, 8]),
    "w": RANDOM.standard_normal((64, 64), np.float32), "bias": RANDOM.random(64, np.float32),
    "positive": RANDOM.random(64, np.float32) + 1,
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_decomposed_forms_have_the_kernels_of_fused_ones(form):
    values, nodes, kernels = FORMS[form]
    shape = values.removeprefix("x")
    model = parser.parse_model(f"{HEAD}g (float{shape} x) => (float{shape} y) {{ {nodes} }}")
    used = {n for node in model.graph.node for n in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(a), n) for n, a in WEIGHTS.items() if n in used
    )
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    network = builder.create_network()
    assert trt.OnnxParser(network, builder.logger).parse(model.SerializeToString())
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    assert len(parse_report(read_plan(plan).plan.report).kernels) == kernels
