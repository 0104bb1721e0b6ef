"""The outputs of a node are rounded once, however many layers implement it."""

import ml_dtypes
import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import anyrt
from anyrt.api.model.state import state_of
from anyrt.ir.graph import walk
from tests.networks import engine
from tests.onnx.conftest import of_node

DICE = np.random.default_rng(0)


def halves(*shape, dtype=np.float16):
    return DICE.standard_normal(shape).astype(dtype)


def exact(op, inputs, **attributes):
    """The operator's result for these numbers in float64."""
    node = helper.make_node(op, [*inputs], ["y"], **attributes)
    wide = {n: x.astype(np.float64) for n, x in inputs.items()}
    (result,) = ReferenceEvaluator(of_node(node, wide, {}, 21)).run(None, wide)
    return result


def steps(got, expected):
    """The error of results, in halves of the last place of the largest."""
    unit = ml_dtypes.finfo(got.dtype).eps / 2 * np.abs(expected).max()
    return np.abs(got.astype(np.float64) - expected).max() / unit


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_gemm_rounds_the_sum_of_both_products_once(run, dtype):
    inputs = {n: halves(*s, dtype=dtype) for n, s in (("a", (5, 33)), ("b", (33, 7)), ("c", (7,)))}
    wide = {n: x.astype(np.float64) for n, x in inputs.items()}
    expected = np.float32(1.3) * (wide["a"] @ wide["b"]) + np.float32(0.7) * wide["c"]
    assert np.array_equal(run("Gemm", inputs, alpha=1.3, beta=0.7), expected.astype(dtype))


@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_iterations_of_recurrences_round_only_the_factors_of_their_products(run, op, gates):
    shapes = {"x": (6, 2, 9), "w": (1, gates * 5, 9), "r": (1, gates * 5, 5), "b": (1, gates * 10)}
    inputs = {n: halves(*s) for n, s in shapes.items()}
    assert steps(run(op, inputs, hidden_size=5), exact(op, inputs, hidden_size=5)) < 1.2


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_attention_rounds_its_weights_and_its_result_alone(run, dtype):
    inputs = {n: halves(2, 3, 40, 16, dtype=dtype) for n in ("q", "k", "v")}
    q, k, v = (x.astype(np.float64) for x in inputs.values())
    weights = np.exp(q @ k.swapaxes(2, 3) / 4)
    weights /= weights.sum(3, keepdims=True)
    expected = weights @ v
    # Each weight is a factor of the second product, with an error of half its last place at most.
    off = np.abs(run("Attention", inputs, opset=23).astype(np.float64) - expected)
    half_a_place = float(ml_dtypes.finfo(dtype).eps) / 2
    assert np.all(off <= 1.05 * half_a_place * (weights @ np.abs(v) + np.abs(expected)))
    assert np.any(off > 0)


@pytest.fixture
def network():
    """Gemm with an alpha that half types cannot represent, as a node "n": a product, a constant, a product, a
    sum."""
    node = helper.make_node("Gemm", ["a", "b", "c"], ["y"], name="n", alpha=1.3)
    strong = 1 << anyrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED
    network = anyrt.Builder(anyrt.Logger()).create_network(strong)
    model = of_node(node, {n: halves(4, 4) for n in "abc"}, {}, 21)
    assert anyrt.OnnxParser(network, anyrt.Logger()).parse(model.SerializeToString())
    return network


def test_layers_of_a_node_read_what_is_not_rounded_and_all_others_what_is(network):
    state = state_of(network)
    value, tensors = state.expansion.value, [t for layer in state.layers for t in layer.outputs]
    assert [value(t).op.fn for t in tensors] == ["to_half"] * 4
    assert value(tensors[0]) not in set(walk([value(tensors[2])]))
    behind = network.add_unary(tensors[0].it, anyrt.UnaryOperation.NEG)
    assert value(tensors[0]) in set(walk([value(state_of(behind.get_output(0)))]))


def test_layers_of_a_node_show_their_names_and_types(network):
    results = [(layer.name, layer.get_output(0).dtype) for layer in network]
    assert results == [(name, anyrt.float16) for name in ("n", "n.1", "n.2", "n.3")]


def test_marks_inside_a_node_change_no_result(network):
    a, b, c = (halves(4, 4) for _ in "abc")
    network.mark_output(network.get_layer(2).get_output(0))
    results = [*engine(network).run(a=a, b=b, c=c).values()]
    product = np.float32(1.3) * (a.astype(np.float64) @ b.astype(np.float64))
    assert [x.tolist() for x in results] == [x.astype(np.float16).tolist() for x in (product + c, product)]
