"""What a network computes does not depend on what is marked: each tensor is rounded to its type."""

import numpy as np
import pytest

import anyrt as trt

STRONG = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
EXCESS, FP16 = trt.BuilderFlag.EXCESS_PRECISION, trt.BuilderFlag.FP16
PROD, SUM, CEIL = trt.ElementWiseOperation.PROD, trt.ElementWiseOperation.SUM, trt.UnaryOperation.CEIL
NONE = trt.MatrixOperation.NONE


def ceiling(log, *flags, strong=STRONG, also=(), dtype=trt.float16, x=1e-4):
    """The ceiling of x · x, a product that a half type does not hold."""
    builder = trt.Builder(log)
    network, config = builder.create_network(strong), builder.create_builder_config()
    given = network.add_input("x", dtype, (1,))
    product = network.add_elementwise(given, given, PROD).get_output(0)
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
