"""The outputs of a network do not depend on which tensors are marked: each tensor is rounded to its type."""

import numpy as np
import onnx.parser
import pytest

import anyrt as trt
from anyrt.plan.file import read_plan
from tests.native import lower_plan

STRONG = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
EXCESS, FP16 = trt.BuilderFlag.EXCESS_PRECISION, trt.BuilderFlag.FP16
PROD, SUM, CEIL = trt.ElementWiseOperation.PROD, trt.ElementWiseOperation.SUM, trt.UnaryOperation.CEIL
NONE = trt.MatrixOperation.NONE


def ceiling(log, *flags, strong=STRONG, also=(), dtype=trt.float16, x=1e-4):
    """The ceiling of x · x, a product that a half type cannot represent."""
    builder = trt.Builder(log)
    network, config = builder.create_network(strong), builder.create_builder_config()
    source = network.add_input("x", dtype, (1,))
    product = network.add_elementwise(source, source, PROD).get_output(0)
    y = network.add_unary(product, CEIL).get_output(0)
    product.name, y.name = "product", "y"
    for tensor in (y, *(product for _ in also)):
        network.mark_output(tensor)
    for flag in flags:
        config.set_flag(flag)
    return builder.build_engine_with_config(network, config).run(x=np.array([x], np.float16))["y"].item()


def test_a_ceiling_is_the_same_where_its_operand_is_an_output_too(log):
    assert (ceiling(log), ceiling(log, also=["product"])) == (0, 0)


@pytest.mark.parametrize(("strong", "flag"), [(STRONG, EXCESS), (0, EXCESS), (0, FP16)])
def test_excess_precision_is_kept_where_a_flag_allows_it(log, strong, flag):
    assert ceiling(log, flag, strong=strong) == 1


def test_a_weakly_typed_network_without_flags_rounds(log):
    assert ceiling(log, strong=0) == 0


@pytest.mark.parametrize("size", [7, 64])
def test_masked_attention_in_layers_of_half_types_hides_values(log, size):
    builder = trt.Builder(log)
    network = builder.create_network(STRONG)
    q, k, mask, v = (network.add_input(n, trt.float16, (1, size, size)) for n in ("q", "k", "mask", "v"))
    scores = network.add_matrix_multiply(q, NONE, k, NONE).get_output(0)
    softmax = network.add_softmax(network.add_elementwise(scores, mask, SUM).get_output(0))
    softmax.axes = 0b100
    network.mark_output(network.add_matrix_multiply(softmax.get_output(0), NONE, v, NONE).get_output(0))
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    zeros, values = (np.full((1, size, size), x, np.float16) for x in (0, 1))
    hidden = np.where(np.arange(size) < size - 1, zeros, -np.inf).astype(np.float16)
    values[0, -1] = np.nan
    (y,) = engine.run(q=zeros, k=zeros, mask=hidden, v=values).values()
    np.testing.assert_allclose(y, 1, rtol=2**-10)


ONNX = """
<ir_version: 10, opset_import: ["" : 21]>
chain (float16[4, 9] x) => (float16[4, 9] y) {
    squares = Mul(x, x)
    thirds = Div(squares, x)
    up = Ceil(thirds)
    wide = Cast<to = 1>(squares)
    root = Sqrt(wide)
    back = Cast<to = 10>(root)
    y = Sub(up, back)
}
"""


@pytest.mark.parametrize("flag", [None, EXCESS])
def test_an_onnx_model_computes_the_same_whatever_is_marked(log, flag):
    x, actual = np.linspace(1e-4, 3, 36, dtype=np.float16).reshape(4, 9), []
    for marks in (False, True):
        builder = trt.Builder(log)
        network, config = builder.create_network(), builder.create_builder_config()
        model = onnx.parser.parse_model(ONNX)
        assert trt.OnnxParser(network, log).parse(model.SerializeToString())
        for i in range(network.num_layers if marks else 0):
            tensor = network.get_layer(i).get_output(0)
            if not tensor.is_network_output:
                network.mark_output(tensor)
        if flag is not None:
            config.set_flag(flag)
        actual.append(builder.build_engine_with_config(network, config).run(x=x)["y"])
    squares = x * x
    expected = np.ceil(squares / x) - np.sqrt(squares.astype(np.float32)).astype(np.float16)
    assert np.array_equal(*actual) == np.array_equal(actual[0], expected) == (flag is None)


def test_results_in_a_loop_are_rounded_in_every_iteration(log):
    builder = trt.Builder(log)
    network, config = builder.create_network(STRONG), builder.create_builder_config()
    x = network.add_input("x", trt.float16, (8,))
    loop = network.add_loop()
    loop.add_trip_limit(network.add_constant((), np.array(5, np.int32)).get_output(0), trt.TripLimit.COUNT)
    state = loop.add_recurrence(x)
    squared = network.add_elementwise(state.get_output(0), x, PROD).get_output(0)
    state.set_input(1, network.add_elementwise(squared, x, SUM).get_output(0))
    network.mark_output(loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0))
    values = np.linspace(-1, 1, 8, dtype=np.float16)
    (y,) = builder.build_engine_with_config(network, config).run(x=values).values()
    expected = values
    for _ in range(5):
        expected = expected * values + values  # NumPy rounds after each of them
    np.testing.assert_array_equal(y, expected)


def test_attention_rounds_its_result_where_it_makes_it(log):
    builder = trt.Builder(log)
    network = builder.create_network(STRONG)
    q, k, v = (network.add_input(n, trt.float16, (1, 8, 512, 64)) for n in "qkv")
    attention = network.add_attention(q, k, v, trt.AttentionNormalizationOp.SOFTMAX, False)
    network.mark_output(attention.get_output(0))
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    assert len(lower_plan(read_plan(bytes(plan))).module.kernels) == 1
