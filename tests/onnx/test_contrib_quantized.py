"""Operators of ONNX Runtime's own domain on quantized tensors, within one code of ONNX Runtime."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import anyrt
from tests.onnx.conftest import of_node

RNG = np.random.default_rng(10)
S, Z = np.float32(0.03), np.uint8(120)


def codes(*shape, dtype=np.uint8):
    """Random codes of the whole range."""
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.fixture
def near(run):
    """Run a node in AnyRT and in ONNX Runtime: codes differ by 1 at most, numbers by rounding."""

    def near_(op, inputs, constants=None, order=None, tol=1e-4, **attrs):
        got = run(op, inputs, constants, order=order, domain="com.microsoft", **attrs)
        names = order or [*inputs, *(constants or {})]
        node = helper.make_node(op, names, ["y0"], domain="com.microsoft", **attrs)
        model = of_node(node, inputs, constants or {}, 21)
        model.ir_version = 10
        (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, dict(inputs))
        assert got.dtype == expected.dtype
        tol = 1 if got.dtype.kind in "ui" else tol
        np.testing.assert_allclose(np.float64(got), np.float64(expected), rtol=0, atol=tol)

    return near_


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_two_tensors_of_codes_are_combined(near, op, dtype):
    zeros = {"az": dtype(3), "bz": dtype(7), "yz": dtype(9)}
    scales = {"as": S, "bs": 2 * S, "ys": 4 * S}
    order = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"]
    near(op, {"a": codes(3, 5, dtype=dtype), "b": codes(5, dtype=dtype)}, zeros | scales, order)


@pytest.mark.parametrize("op", ["QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"])
def test_functions_of_codes_give_codes(near, op):
    more = {"QLinearLeakyRelu": {"alpha": 0.2}, "QLinearSoftmax": {"axis": -1, "opset": 13}}.get(op, {})
    worth = {"s": S, "z": Z, "ys": np.float32(1 / 256), "yz": np.uint8(0)}
    near(op, {"x": codes(3, 5)}, worth, **more)


def test_codes_of_several_scales_are_joined(near):
    inputs = {"a": codes(2, 3), "b": codes(2, 4)}
    worth = {"ys": S, "yz": Z, "as": S, "az": Z, "bs": S / 2, "bz": np.uint8(3)}
    near("QLinearConcat", inputs, worth, ["ys", "yz", "a", "as", "az", "b", "bs", "bz"], axis=1)


@pytest.mark.parametrize("last", [0, 1])
def test_windows_of_codes_have_means(near, last):
    x = codes(1, 6, 7, 4)
    worth = {"s": S, "z": Z, "ys": S / 2, "yz": np.uint8(99)}
    near("QLinearGlobalAveragePool", {"x": x}, worth, channels_last=last)
    near("QLinearAveragePool", {"x": x}, worth, channels_last=last, kernel_shape=[2, 2], pads=[0, 1, 1, 0])


@pytest.mark.parametrize("coded", [True, False])
@pytest.mark.parametrize("columns", [False, True])
def test_general_products_of_codes(near, coded, columns):
    scale = np.full(6, S / 2) + np.arange(6) * 1e-3 if columns else np.array(S)
    inputs = {"bs": np.float32(scale), "bz": np.zeros(scale.shape, np.int8), "as": S, "az": Z}
    inputs |= {"b": codes(6, 5, dtype=np.int8), "c": RNG.integers(-99, 99, 6).astype(np.int32)}
    inputs |= {"ys": np.float32(0.5), "yz": Z} if coded else {}
    order = ["a", "as", "az", "b", "bs", "bz", "c", *(["ys", "yz"] if coded else [])]
    near("QGemm", {"a": codes(4, 5)}, inputs, order, transB=1, alpha=1.0)


@pytest.mark.parametrize("zero", [True, False])
def test_products_of_codes_become_numbers(near, zero):
    inputs = {"b": codes(6, 5, dtype=np.int8), "as": S, "bs": np.linspace(0.01, 0.02, 5, dtype=np.float32)}
    inputs |= {"az": Z, "bz": np.zeros(5, np.int8), "c": np.ones(5, np.float32)}
    order = ["a", "b", "as", "bs", *(["az", "bz"] if zero else ["", ""]), "c"]
    near("MatMulIntegerToFloat", {"a": codes(4, 6)}, {n: inputs[n] for n in order[1:] if n}, order)


def test_numbers_are_quantised_as_they_come(near):
    inputs = {"b": codes(6, 5, dtype=np.int8), "bs": np.float32([0.01]), "bz": np.array([0], np.int8)}
    near("DynamicQuantizeMatMul", {"a": RNG.standard_normal((4, 6)).astype(np.float32)}, inputs, tol=1e-3)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [None, "codes"])
@pytest.mark.parametrize("k", [64, 72])
def test_weights_of_a_few_bits_are_unpacked(near, bits, zeros, k):
    n, size = 10, 32
    blocks = -(-k // size)
    inputs = {"b": codes(n, blocks, size * bits // 8), "s": np.float32(RNG.uniform(0.01, 0.1, n * blocks))}
    if zeros:
        inputs["z"] = codes(n * -(-blocks * bits // 8))
    x = RNG.standard_normal((3, 5, k)).astype(np.float32)
    near("MatMulNBits", {"x": x}, inputs, K=k, N=n, bits=bits, block_size=size, tol=2e-2)


def few_bits(columns, rows, size, zeros):
    """Packed codes, scales and zero points of weights, and the numbers that they represent,
    (columns, rows)."""
    blocks = columns // size
    inputs = {"b": codes(rows, blocks, size // 2), "s": np.float32(RNG.uniform(0.01, 0.1, (rows, blocks)))}
    parts = np.stack([inputs["b"] & 15, inputs["b"] >> 4], -1).reshape(rows, blocks, size).astype(np.float64)
    zero = np.full((rows, blocks), 8.0)
    if zeros == "codes":
        packed = codes(rows, -(-blocks // 2))
        zero = np.stack([packed & 15, packed >> 4], -1).reshape(rows, -1)[:, :blocks].astype(np.float64)
        inputs["z"] = packed.reshape(-1)
    if zeros == "numbers":
        inputs["z"] = np.float32(RNG.uniform(0, 15, (rows, blocks)))
        zero = inputs["z"].astype(np.float64)
    weights = (parts - zero[..., None]) * inputs["s"][..., None].astype(np.float64)
    return {**inputs, "s": inputs["s"].reshape(-1)}, weights.reshape(rows, columns).T


@pytest.mark.parametrize("zeros", [None, "codes", "numbers"])
@pytest.mark.parametrize(("size", "columns"), [(16, 128), (32, 2016), (64, 64), (256, 1024)])
def test_one_row_meets_weights_of_four_bits_where_they_are_read(run, size, columns, zeros):
    values, weights = few_bits(columns, 37, size, zeros)
    x = RNG.standard_normal((1, columns)).astype(np.float32)
    got = run("MatMulNBits", {"x": x}, values, K=columns, N=37, block_size=size, domain="com.microsoft")
    room = np.abs(x.astype(np.float64)) @ np.abs(weights)
    assert np.all(np.abs(got - x.astype(np.float64) @ weights) <= 1e-6 * room)


@pytest.mark.parametrize("zeros", [None, "codes", "numbers"])
def test_plans_hold_four_bits_a_weight_and_nothing_is_stored_of_them(zeros):
    values, _ = few_bits(1024, 1024, 32, zeros)
    x = np.zeros((1, 1024), np.float32)
    node = helper.make_node(
        "MatMulNBits", ["x", *values], ["y"], domain="com.microsoft", K=1024, N=1024, block_size=32
    )
    builder = anyrt.Builder(anyrt.Logger())
    network = builder.create_network()
    model = of_node(node, {"x": x}, values, 21)
    assert anyrt.OnnxParser(network, anyrt.Logger()).parse(model.SerializeToString())
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    held = sum(a.nbytes for a in values.values())
    assert memoryview(plan).nbytes <= 1.1 * held + (1 << 16)  # all other constants have different sizes
    engine = anyrt.Runtime(anyrt.Logger()).deserialize_cuda_engine(plan)
    information = engine.create_engine_inspector().get_engine_information(anyrt.LayerInformationFormat.JSON)
    assert len(json.loads(information)["Layers"]) == 1
