"""Quantized ONNX models: every type, granularity and zero point; sums of products are exact."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

import anyrt
from anyrt.api.model.state import state_of
from anyrt.api.model.weights import SHORT
from tests.onnx.conftest import of_node

RNG = np.random.default_rng(6)
TYPES = {
    np.uint8: (0, 255), np.int8: (-128, 127), np.uint16: (0, 65535), np.int16: (-32768, 32767),
    ml_dtypes.uint4: (0, 15), ml_dtypes.int4: (-8, 7), ml_dtypes.uint2: (0, 3), ml_dtypes.int2: (-2, 1),
}  # fmt: skip


def split(inputs, constant):
    """The first operand as an input; the others as constants, or as inputs."""
    first, *rest = inputs
    return ({first: inputs[first]}, {n: inputs[n] for n in rest}) if constant else (inputs, {})


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("constant", [True, False])
def test_numbers_are_rounded_to_even_and_kept_within_the_type(run, dtype, constant):
    low, high = TYPES[dtype]
    x, zero = np.float32([[-9e5, -1.5, -0.5, 0], [0.5, 1.25, 2.5, 9e5]]), np.array([low + 1], dtype)
    inputs = {"x": x, "s": np.float32([0.5]), "z": zero}
    got = run("QuantizeLinear", *split(inputs, constant), opset=25)
    expected = np.clip(np.rint(x / 0.5) + low + 1, low, high)
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got.astype(np.int64), expected)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", [*TYPES, np.int32])
@pytest.mark.parametrize("constant", [True, False])
def test_codes_less_their_zero_are_worth_so_many_steps(run, dtype, constant):
    low, high = TYPES.get(dtype, (-1000, 1000))
    q, zero = RNG.integers(low, high + 1, (3, 5)), RNG.integers(low, high + 1, 5)
    inputs = {"q": q.astype(dtype), "s": np.float32([0.5, 1, 2, 0.25, 4]), "z": zero.astype(dtype)}
    got = run("DequantizeLinear", *split(inputs, constant), opset=25, axis=-1)
    np.testing.assert_array_equal(got, (q - zero).astype(np.float32) * inputs["s"])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, ml_dtypes.int4])
@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_have_scales_of_their_own(agrees, dtype, axis):
    x = RNG.standard_normal((4, 6)).astype(np.float32)
    shape = (2, 6) if axis == 0 else (4, 3)
    scale, zero = np.exp2(RNG.integers(-4, -1, shape)).astype(np.float32), np.ones(shape, dtype)
    for constant in (True, False):
        values = split({"x": x, "s": scale, "z": zero}, constant)
        agrees("QuantizeLinear", *values, axis=axis, block_size=2)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_narrow_floats_are_rounded_to_the_nearest_and_kept_finite(run, dtype):
    x, t = np.float32([0.3, -2.7, 5.1, 1e9, -1e9]), np.dtype(getattr(ml_dtypes, dtype))
    got = run("QuantizeLinear", {"x": x}, {"s": np.float32(0.5), "z": np.zeros((), t)}, opset=25)
    most = float(ml_dtypes.finfo(t).max)
    expected = np.clip(x / np.float32(0.5), -most, most).astype(t)
    np.testing.assert_array_equal(got.astype(np.float32), expected.astype(np.float32))
    back = run("DequantizeLinear", {"x": got}, {"s": np.float32(0.5)}, opset=25)
    np.testing.assert_array_equal(back, got.astype(np.float32) * np.float32(0.5))


def test_numbers_without_axes_and_without_a_zero_become_uint8(run):
    assert run("QuantizeLinear", {"x": np.float32(7.6)}, {"s": np.float32(2)}) == np.uint8(4)
    assert run("DequantizeLinear", {"x": np.uint8(200)}, {"s": np.float32(2)}) == np.float32(400)


@pytest.mark.parametrize("a", [np.int8, np.uint8])
@pytest.mark.parametrize("b", [np.int8, np.uint8])
def test_sums_of_products_of_codes_are_exact_beyond_what_floats_hold(run, a, b):
    x, w = (RNG.integers(100, 127, s).astype(t) for s, t in (((3, 4000), a), ((4000, 5), b)))
    za, zb = RNG.integers(0, 9, 3).astype(a), RNG.integers(0, 9, 5).astype(b)
    expected = (np.int64(x) - np.int64(za)[:, None]) @ (np.int64(w) - np.int64(zb))
    got = run("MatMulInteger", {"x": x}, {"w": w, "za": za, "zb": zb}, dynamic=("x",))
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("zeros", [(), ("zx",), ("zx", "zw")])
def test_borders_of_integer_convolutions_are_worth_nothing(run, zeros):
    x, w = RNG.integers(0, 256, (1, 4, 6, 7)).astype(np.uint8), RNG.integers(0, 256, (6, 2, 3, 3))
    inputs = {"w": w.astype(np.uint8), "zx": np.uint8(117), "zw": RNG.integers(0, 99, 6).astype(np.uint8)}
    used = {n: inputs[n] for n in ("w", *zeros)}
    got = run("ConvInteger", {"x": x}, used, pads=[1, 0, 2, 1], group=2)
    less = w - (np.int64(inputs["zw"]).reshape(-1, 1, 1, 1) if "zw" in zeros else 0)
    plain = {"x": np.float32(x) - np.float32(117 if "zx" in zeros else 0)}
    expected = run("Conv", plain, {"w": less.astype(np.float32)}, pads=[1, 0, 2, 1], group=2)
    np.testing.assert_array_equal(got, expected)


def test_a_quantised_convolution_is_within_a_code_of_the_real_one(run):
    x, w = RNG.integers(0, 256, (1, 3, 8, 8)).astype(np.uint8), RNG.integers(-127, 127, (5, 3, 3, 3))
    scales = {"sx": np.float32(0.02), "sw": np.float32([0.01, 0.02, 0.03, 0.01, 0.04]), "sy": np.float32(0.4)}
    inputs = {"zx": np.uint8(100), "w": w.astype(np.int8), "zw": np.zeros(5, np.int8), "zy": np.uint8(120)}
    order = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"]
    more = {"b": RNG.integers(-900, 900, 5).astype(np.int32)}
    got = run("QLinearConv", {"x": x}, {**scales, **inputs, **more}, order=order, pads=[1] * 4)
    real = {"x": (np.float32(x) - 100) * scales["sx"]}
    each = scales["sw"].reshape(-1, 1, 1, 1)
    bias = more["b"].astype(np.float32) * scales["sx"] * scales["sw"]
    y = run("Conv", real, {"w": w.astype(np.float32) * each, "b": bias}, pads=[1] * 4)
    np.testing.assert_allclose(np.int64(got), np.clip(np.rint(y / 0.4) + 120, 0, 255), atol=1)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_products_of_whole_numbers_are_whole(run, dtype):
    a, b = (RNG.integers(0, 9, s).astype(dtype) for s in ((2, 3, 4), (4, 5)))
    got = run("MatMul", {"a": a, "b": b})
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, a @ b)


def test_codes_of_numbers_that_are_known_are_those_that_a_run_gives(run):
    x = np.float32(
        [-5, 4, -4.5]
    )  # -4.5 · 255 / 9 lies between two codes, -4.5 by the scale in float32 does not
    codes = np.rint(x / (np.float32(9) / np.float32(255))) + 142
    assert run("DynamicQuantizeLinear", {"x": x}, outputs=3)[0].tolist() == codes.tolist()
    assert run("DynamicQuantizeLinear", {}, {"x": x}, outputs=3)[0].tolist() == codes.tolist()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_codes_of_bytes_are_made_and_read_by_layers_of_their_own(dtype):
    """Otherwise their products would be products of numbers."""
    text = """<ir_version: 9, opset_import: ["": 17]> agraph (float[4] x) => (float[4] y)
    <float s = {0.5}, KIND z = {3}> { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }"""
    model = onnx.parser.parse_model(text.replace("KIND", np.dtype(dtype).name))
    network = anyrt.Builder(anyrt.Logger()).create_network()
    assert anyrt.OnnxParser(network, anyrt.Logger()).parse(model.SerializeToString())
    types = {layer.type for layer in network}
    assert {anyrt.LayerType.QUANTIZE, anyrt.LayerType.DEQUANTIZE} <= types


READERS = {
    "only numbers": ("y", "y = DequantizeLinear(q, s, z)", 0),
    "numbers twice": ("y", "a = DequantizeLinear(q, s, z)  b = DequantizeLinear(q, t, z)  y = Add(a, b)", 0),
    "a zero of the run": ("y", "w = Cast <to: int = 2> (v)  y = DequantizeLinear(q, s, w)", 0),
    "an output": ("q, float[4] y", "y = DequantizeLinear(q, s, z)", 1),
    "no zero": ("y", "y = DequantizeLinear(q, s)", 1),
    "codes": ("y", "y = DequantizeLinear(q, s, z)  m = Max(q, z)", 1),
    "a node that moves into a branch": (
        "y",
        "u = If (c) <then_branch = g () => (float[1] r) { r = Identity(t) }, "
        "else_branch = h () => (float r) { r = Squeeze(t) }>  k = Abs(u)  y = DequantizeLinear(q, k, z)",
        1,
    ),
    "a branch": (
        "y",
        "y = DequantizeLinear(q, s, z)  u = If (c) <then_branch = g () => (uint8[4] r) { r = Identity(q) }, "
        "else_branch = h () => (uint8[4] r) { r = Max(q, z) }>",
        1,
    ),
}


@pytest.mark.parametrize("readers", READERS)
def test_codes_of_uint8_that_are_read_as_numbers_stay_int8(readers):
    outputs, nodes, unsigned = READERS[readers]
    kind = "uint8[4]" if outputs.startswith("q") else "float[4]"
    text = f"""<ir_version: 9, opset_import: ["": 21]>
    agraph (float[4] x, int32[1] v, bool c) => ({kind} {outputs})
    <float s = {{0.5}}, float t = {{0.25}}, uint8 z = {{3}}> {{ q = QuantizeLinear(x, s, z)  {nodes} }}"""
    model = onnx.parser.parse_model(text)
    network = (builder := anyrt.Builder(anyrt.Logger())).create_network()
    parser = anyrt.OnnxParser(network, anyrt.Logger())
    assert parser.parse(model.SerializeToString()), [parser.get_error(i) for i in range(parser.num_errors)]
    casts = [x for x in network if x.type is anyrt.LayerType.CAST and x.get_output(0).name == "q"]
    assert len(casts) == unsigned
    x = np.array([-3, 0.4, 7.5, 1000], np.float32)
    given = {"x": x, "v": np.array([3], np.int32), "c": np.array(True)}
    engine = anyrt.Runtime(anyrt.Logger()).deserialize_cuda_engine(
        builder.build_serialized_network(network, builder.create_builder_config())
    )
    got = engine.run(**given)
    expected = onnx.reference.ReferenceEvaluator(model).run(None, given)
    for name, array in zip([o.name for o in model.graph.output], expected, strict=True):
        np.testing.assert_array_equal(got[name], array)


def test_int8_codes_with_a_zero_of_uint8_are_refused():
    text = """<ir_version: 9, opset_import: ["": 17]> agraph (float[4] x) => (float[4] y)
    <float s = {0.5}, int8 z = {3}, uint8 w = {3}>
    { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, w) }"""
    network = anyrt.Builder(anyrt.Logger()).create_network()
    parser = anyrt.OnnxParser(network, anyrt.Logger(anyrt.Logger.INTERNAL_ERROR))
    assert not parser.parse(onnx.parser.parse_model(text).SerializeToString())
    assert "AR203" in parser.get_error(0).desc()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_products_of_codes_are_rounded_once_by_a_layer_and_give_the_codes_that_onnx_says(run, dtype):
    """Kernels recognise the codes of Quantize: other spellings take twice as many instructions."""
    low, high = TYPES[dtype]
    a, b = (RNG.integers(low, high + 1, s).astype(dtype) for s in ((3, 16), (16, 5)))
    zeros = {"za": dtype(3), "zb": dtype(7), "zy": dtype(100)}
    scales = {"sa": np.float32(0.02), "sb": np.float32(0.3), "sy": np.float32(7.1)}
    order = ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"]
    got = run("QLinearMatMul", {"a": a}, {**scales, **zeros, "b": b}, order=order)
    sums = np.float32((a.astype(np.int32) - 3) @ (b.astype(np.int32) - 7))
    steps = np.rint(sums * (scales["sa"] * scales["sb"] / scales["sy"]))
    assert len(np.unique(steps)) > 8
    np.testing.assert_array_equal(got, np.clip(steps + 100, low, high).astype(dtype))
    node = onnx.helper.make_node("QLinearMatMul", order, ["y"])
    network = anyrt.Builder(anyrt.Logger()).create_network()
    model = of_node(node, {"a": a}, {**scales, **zeros, "b": b}, 21)
    assert anyrt.OnnxParser(network, anyrt.Logger()).parse(model.SerializeToString())
    assert anyrt.LayerType.QUANTIZE in {layer.type for layer in network}


def test_a_build_looks_at_layers_with_many_scales_once():
    """Their numbers are stored in fields of the message, and zero points of uint8 are new arrays."""
    many = SHORT  # more bytes than are compared
    text = """<ir_version: 9, opset_import: ["": 17]> agraph (float[2, MANY] x) => (float[2, MANY] y)
    { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }"""
    model = onnx.parser.parse_model(text.replace("MANY", str(many)))
    scales = onnx.helper.make_tensor("s", onnx.TensorProto.FLOAT, [many], np.full(many, 0.5))
    zeros = onnx.helper.make_tensor("z", onnx.TensorProto.UINT8, [many], np.full(many, 3, np.uint8))
    model.graph.initializer.extend((scales, zeros))
    network = anyrt.Builder(anyrt.Logger()).create_network()
    assert anyrt.OnnxParser(network, anyrt.Logger()).parse(model.SerializeToString())
    state = state_of(network)
    assert state.expansion.holds_of(state.inputs, state.layers)
