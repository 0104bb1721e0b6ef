"""Dimensions implied by weights: models that leave them dynamic run with the implied size, and report other
sizes."""

import re

import ml_dtypes
import numpy as np
import pytest
from onnx import helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

import anyrt
from anyrt.api.model.state import state_of
from anyrt.core.errors import ShapeError
from tests.messages import values_in_order

BF16 = ml_dtypes.bfloat16
# The operators on x, whose dimension "k" can only equal that of the weights; the weights' shapes.
FORMS = {
    "MatMul": ("y = MatMul(x, w)", "float", "m, k", (3, 15), {"w": (15, 8)}),
    "MatMul, right": ("y = MatMul(w, x)", "float", "k, n", (15, 3), {"w": (8, 15)}),
    "MatMul of bfloat16": ("y = MatMul(x, w)", "bfloat16", "m, k", (3, 15), {"w": (15, 8)}),
    "MatMul of float16": ("y = MatMul(x, w)", "float16", "m, k", (3, 15), {"w": (15, 8)}),
    "MatMul of a product": ("a = MatMul(x, w) b = MatMul(x, v) y = Add(a, b)", "float", "m, k", (3, 15),
                            {"w": (15, 8), "v": (15, 8)}),
    "Gemm": ("y = Gemm <transB = 1> (x, w)", "float", "m, k", (3, 15), {"w": (8, 15)}),
    "Einsum": ('y = Einsum <equation = "mk,kn->mn"> (x, w)', "float", "m, k", (3, 15), {"w": (15, 8)}),
    "Conv": ("y = Conv(x, w)", "float", "b, k, h, w", (1, 3, 9, 9), {"w": (8, 3, 3, 3)}),
    "Conv in groups": ("y = Conv <group = 2> (x, w)", "float", "b, k, h", (1, 6, 9), {"w": (8, 3, 3)}),
    "ConvTranspose": ("y = ConvTranspose(x, w)", "float", "b, k, h", (1, 3, 9), {"w": (3, 5, 3)}),
    "Concat": ("c = Concat <axis = 0> (x, w) y = MatMul(c, v)", "float", "m, k", (3, 15),
               {"w": (2, 15), "v": (15, 8)}),
    "MatMulInteger": ("y = MatMulInteger(x, w, z)", "uint8", "m, k", (3, 15), {"w": (15, 8), "z": ()}),
    "QLinearMatMul": ("y = QLinearMatMul(x, f, z, w, f, z, f, z)", "uint8", "m, k", (3, 15),
                      {"w": (15, 8), "z": (), "f": None}),
    "ConvInteger": ("y = ConvInteger(x, w, z)", "uint8", "b, k, h, w", (1, 3, 9, 9),
                    {"w": (8, 3, 3, 3), "z": ()}),
    "Q/DQ": ("q = QuantizeLinear(x, f, i) d = DequantizeLinear(q, f, i) w = DequantizeLinear(j, f, i) "
             "y = MatMul(d, w)", "float", "m, k", (3, 15), {"j": (15, 8), "i": (), "f": None}),
    "Q/DQ and Conv": ("q = QuantizeLinear(x, f, i) d = DequantizeLinear(q, f, i) "
                      "w = DequantizeLinear(j, f, i) y = Conv(d, w)", "float", "b, k, h, w", (1, 3, 9, 9),
                      {"j": (8, 3, 3, 3), "i": (), "f": None}),
}  # fmt: skip
TYPES = {"float": np.float32, "bfloat16": BF16, "float16": np.float16, "uint8": np.uint8}


def weights(shapes, dtype):
    """Small numbers: of x's type; j and i as int8, f a scale, and zero points even, so that ties stay."""
    rng = np.random.default_rng(0)
    for name, shape in shapes.items():
        kind = np.int8 if name in "ij" else np.float32 if name == "f" else dtype
        number = {None: 0.25, (): 2}.get(shape)
        yield name, np.array(rng.integers(0, 3, shape) if number is None else number).astype(kind)


def model(name):
    """The model, its input with valid sizes, and the axis of "k"."""
    text, kind, sizes, shape, shapes = FORMS[name]
    result = parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21]> g ({kind}[{sizes}] x) => (y) {{ {text} }}'
    )
    for called, array in weights(shapes, TYPES[kind]):
        result.graph.initializer.append(
            helper.make_tensor(called, 16, array.shape, array.tobytes(), raw=True)
            if array.dtype == BF16
            else numpy_helper.from_array(array, called)
        )
    x = np.random.default_rng(1).integers(0, 5, shape).astype(TYPES[kind])
    return result, x, sizes.split(", ").index("k")


@pytest.mark.parametrize("name", FORMS)
def test_a_size_that_weights_imply_is_a_number_to_all_passes(name):
    values, x, _ = model(name)
    session = anyrt.load(values)
    np.testing.assert_allclose(
        np.float64(session.run({"x": x})["y"]),
        np.float64(ReferenceEvaluator(values).run(None, {"x": x})[0]),
        rtol=1e-2 if x.dtype == BF16 else 1e-3,
    )
    assert session.inputs[0].shape == (-1,) * x.ndim  # as the model says
    if "Conv" not in name:  # without images, any size is valid
        text = state_of(session.engine).loaded.plan.graph_text.split("follow")[0]
        assert re.findall(r"\bk\b", text) == ["k"]  # the symbol itself, and no size


@pytest.mark.parametrize("name", FORMS)
def test_another_size_than_weights_imply_is_rejected(name):
    values, x, axis = model(name)
    session = anyrt.load(values)
    with pytest.raises(ShapeError, match=values_in_order(f"x.shape[{axis}] = {x.shape[axis] + 1}")):
        session.run({"x": np.concatenate([x, x.take([0], axis)], axis)})


def test_a_sum_that_must_be_as_long_as_what_is_joined_to_it_is_an_output():
    nodes = [
        helper.make_node("Add", ["y", "x"], ["s"]),
        helper.make_node("Concat", ["c", "s"], ["o"], axis=0),
    ]
    feeds = {"x": ["a", "b", 1], "y": ["b", "b", "d"]}
    inputs = [helper.make_tensor_value_info(name, 1, sizes) for name, sizes in feeds.items()]
    outputs = [helper.make_tensor_value_info(name, 1, None) for name in "os"]
    weights = [numpy_helper.from_array(np.ones((2, 3, 1), np.float32), "c")]
    session = anyrt.load(helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, weights)))
    one = np.ones((3, 3, 1), np.float32)
    results = session.run({"x": one[:1], "y": one})
    assert [results[name].shape for name in "os"] == [(5, 3, 1), (3, 3, 1)]
