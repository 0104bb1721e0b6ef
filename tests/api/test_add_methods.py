"""Every `add_*` method of an operator: results of its layer, its class, its type and its signature."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.ops import OPS

ONE, FOUR = np.ones((1, 1), np.float32), np.full((1, 1), 4, np.float32)
ADD = trt.ElementWiseOperation.SUM
NONE, TRANSPOSE, VECTOR = trt.MatrixOperation
MASK = np.array([[True, False]])
FILL = [(0, 1), (1, 2), (1, 1)]  # start, shape, stride: the second column, and one outside the tensor


def constant(net, array):
    return net.add_constant(array.shape, array).get_output(0)


def axes(net, *values):
    return constant(net, np.int32(values))


def depth(net, n):
    return net.add_constant((), np.array(n, np.int32)).get_output(0)


def mixed(net, x, add):
    """One token of [1, 3] through expert 1 of two, with the weight one half: half of up(x) · gate(x)."""
    experts, scores = constant(net, np.int32([[[1]]])), constant(net, np.float32([[[0.5]]]))
    weights = constant(net, np.float32([np.zeros((2, 2)), np.diag([2, 4])]))
    down = constant(net, np.float32([np.zeros((2, 2)), np.diag([6, 0.5])]))
    layer = add(net.add_unsqueeze(x, axes(net, 0)).get_output(0), experts, scores)
    layer.set_gated_weights(weights, weights, down, trt.MoEActType.NONE)
    return layer


def resized(net, x):
    layer = net.add_resize(input=x)
    layer.shape = (1, 4)
    return layer


def shaped(x, shape):
    x.shape = shape
    return x


def normalized(method):
    return lambda net, x: getattr(net, method)(
        input=x, scale=constant(net, ONE), bias=constant(net, FOUR), axesMask=0b10
    )


def convolved(method):
    return lambda net, x: getattr(net, method)(
        *(four(net, x), 2, (1, 2)), kernel=np.float32([[[[0, 8]]], [[[1, 9]]]]), bias=np.float32([0, 0])
    )


def attended(method, causal):
    def add(net, x):
        q, k, v = (net.add_identity(four(net, x)).get_output(0) for _ in range(3))
        softmax = trt.AttentionNormalizationOp.SOFTMAX
        return getattr(net, method)(query=q, key=k, value=v, norm_op=softmax, **causal)

    return add


# x is [[1, 3]], of shape (1, 2); every parameter is passed by keyword.
CASES = {
    "add_activation": (
        lambda net, x: net.add_activation(input=x, type=trt.ActivationType.SOFTSIGN),
        [[0.5, 0.75]],
    ),
    "add_attention": (attended("add_attention", {"causal": False}), [[[[1, 3]]]]),
    "add_attention_v2": (
        attended("add_attention_v2", {"causal_kind": trt.CausalMaskKind.LOWER_RIGHT}),
        [[[[1, 3]]]],
    ),
    "add_cast": (lambda net, x: net.add_cast(input=x, to_type=trt.bool), [[True, True]]),
    "add_concatenation": (lambda net, x: net.add_concatenation(inputs=[x, x]), [[1, 3], [1, 3]]),
    "add_convolution": (convolved("add_convolution"), [[[[24]], [[28]]]]),
    "add_convolution_nd": (convolved("add_convolution_nd"), [[[[24]], [[28]]]]),
    "add_constant": (lambda net, x: net.add_constant(shape=(1, 1), weights=FOUR), [[4]]),
    "add_deconvolution": (convolved("add_deconvolution"), [[[[0, 8, 24]], [[1, 12, 27]]]]),
    "add_deconvolution_nd": (convolved("add_deconvolution_nd"), [[[[0, 8, 24]], [[1, 12, 27]]]]),
    "add_dequantize": (
        lambda net, x: net.add_dequantize(
            input=constant(net, np.int8([[-2, 5]])), scale=constant(net, FOUR), output_type=trt.bfloat16
        ),
        [[-8, 20]],
    ),
    "add_dynamic_quantize": (
        lambda net, x: net.add_dynamic_quantize(
            input=x, axis=1, block_size=2, output_type=trt.fp4, scale_type=trt.fp8
        ),
        [[2, 6]],
    ),
    "add_dynamic_quantize_v2": (
        lambda net, x: net.add_dynamic_quantize_v2(
            input=x, block_shape=(1, -1), output_type=trt.int8, scale_type=trt.float32
        ),
        [[42, 127]],
    ),
    "add_einsum": (lambda net, x: net.add_einsum(inputs=[x, x], equation="ij,kj->ik"), [[10]]),
    "add_elementwise": (lambda net, x: net.add_elementwise(input1=x, input2=x, op=ADD), [[2, 6]]),
    "add_gather": (
        lambda net, x: net.add_gather(input=x, indices=axes(net, 1, -2, 2), axis=1),
        [[3, 1, 0]],
    ),
    "add_gather_v2": (
        lambda net, x: net.add_gather_v2(input=x, indices=axes(net, 0, 1), mode=trt.GatherMode.ND),
        3,
    ),
    "add_grid_sample": (
        lambda net, x: net.add_grid_sample(
            input=four(net, x), grid=constant(net, np.zeros((1, 1, 1, 2), "f"))
        ),
        [[[[2]]]],
    ),
    "add_fill": (
        lambda net, x: net.add_fill(shape=(3,), op=trt.FillOperation.LINSPACE, output_type=trt.int32),
        [0, 1, 2],
    ),
    "add_dist_collective": (
        lambda net, x: net.add_dist_collective(
            input=x,
            dist_collective_op=trt.CollectiveOperation.ALL_REDUCE,
            reduce_op=trt.ReduceOperation.SUM,
            root=-1,
            groups=None,
        ),
        [[1, 3]],
    ),
    "add_identity": (lambda net, x: net.add_identity(input=x), [[1, 3]]),
    "add_lrn": (
        lambda net, x: net.add_lrn(input=four(net, x), window=1, alpha=1, beta=1, k=1),
        [[[[0.5, 0.3]]]],
    ),
    "add_matrix_multiply": (
        lambda net, x: net.add_matrix_multiply(input0=x, op0=NONE, input1=x, op1=TRANSPOSE),
        [[10]],
    ),
    "add_kv_cache_update": (
        lambda net, x: net.add_kv_cache_update(
            cache=shaped(x, (1, 1, 1, 2)),
            update=constant(net, np.float32([[[[7, 8]]]])),
            write_indices=axes(net, 0),
            cache_mode=trt.KVCacheMode.LINEAR,
        ),
        [[[[7, 8]]]],
    ),
    "add_normalization": (normalized("add_normalization"), [[3, 5]]),
    "add_normalization_v2": (normalized("add_normalization_v2"), [[3, 5]]),
    "add_one_hot": (
        lambda net, x: net.add_one_hot(
            indices=axes(net, 1, -2), values=constant(net, np.float32([5, 6])), depth=depth(net, 3), axis=0
        ),
        [[5, 5], [6, 6], [5, 5]],
    ),
    "add_padding": (
        lambda net, x: net.add_padding(input=four(net, x), pre_padding=(1, -1), post_padding=(0, 2)),
        [[[[0, 0, 0], [3, 0, 0]]]],
    ),
    "add_padding_nd": (
        lambda net, x: net.add_padding_nd(input=four(net, x), pre_padding=(0, 1), post_padding=(1, 0)),
        [[[[0, 1, 3], [0, 0, 0]]]],
    ),
    "add_parametric_relu": (
        lambda net, x: net.add_parametric_relu(input=negated(net, x), slopes=constant(net, FOUR)),
        [[-4, -12]],
    ),
    "add_pooling": (
        lambda net, x: net.add_pooling(input=four(net, x), type=trt.PoolingType.AVERAGE, window_size=(1, 2)),
        [[[[2]]]],
    ),
    "add_pooling_nd": (
        lambda net, x: net.add_pooling_nd(
            input=four(net, x), type=trt.PoolingType.MAX, window_size=trt.Dims((1, 2))
        ),
        [[[[3]]]],
    ),
    "add_quantize": (
        lambda net, x: net.add_quantize(input=x, scale=constant(net, ONE / 50), output_type=trt.int8),
        [[50, 127]],
    ),
    "add_ragged_softmax": (
        lambda net, x: net.add_ragged_softmax(input=x, bounds=axes(net, [1])),
        [[1, 0]],
    ),
    "add_cumulative": (
        lambda net, x: net.add_cumulative(
            input=x,
            axis=constant(net, np.array(1, np.int32)),
            op=trt.CumulativeOperation.SUM,
            exclusive=False,
            reverse=True,
        ),
        [[4, 3]],
    ),
    "add_scatter": (
        lambda net, x: net.add_scatter(
            data=x,
            indices=constant(net, np.array([[0, -1]], np.int32)),
            updates=constant(net, np.array([[5, 6]], np.float32)),
            mode=trt.ScatterMode.ELEMENT,
        ),
        [[5, 6]],
    ),
    "add_topk": (
        lambda net, x: net.add_topk(
            input=x, op=trt.TopKOperation.MAX, k=1, axes=2, indices_type=trt.DataType.INT64
        ),
        [[3]],
    ),
    "add_moe": (
        lambda net, x: mixed(
            *(net, x),
            lambda tokens, experts, scores: net.add_moe(
                hidden_states=tokens,
                selected_experts_for_tokens=experts,
                scores_for_selected_experts=scores,
            ),
        ),
        [[[12, 36]]],
    ),
    "add_nms": (
        lambda net, x: net.add_nms(
            boxes=constant(net, np.float32([[[0, 0, 4, 4], [0, 1, 4, 4], [5, 5, 9, 9]]])),
            scores=constant(net, np.float32([[[0.5], [0.75], [0.25]]])),
            max_output_boxes_per_class=constant(net, np.array(9, np.int32)),
            indices_type=trt.DataType.INT64,
        ),
        [[0, 0, 1], [0, 0, 2]],
    ),
    "add_non_zero": (
        lambda net, x: net.add_non_zero(input=x, indices_type=trt.DataType.INT64),
        [[0, 0], [0, 1]],
    ),
    "add_reduce": (
        lambda net, x: net.add_reduce(input=x, op=trt.ReduceOperation.SUM, axes=2, keep_dims=False),
        [4],
    ),
    "add_resize": (resized, [[1, 1, 3, 3]]),
    "add_rotary_embedding": (
        lambda net, x: net.add_rotary_embedding(
            *(four(net, x), constant(net, 0 * ONE[None]), constant(net, ONE[None])),
            interleaved=True,
            rotary_embedding_dim=2,
        ),
        [[[[-3, 1]]]],
    ),
    "add_scale": (
        lambda net, x: net.add_scale(
            input=four(net, x), mode=trt.ScaleMode.UNIFORM, shift=ONE, scale=FOUR, power=2 * ONE
        ),
        [[[[25, 169]]]],
    ),
    "add_scale_nd": (
        lambda net, x: net.add_scale_nd(
            *(four(net, x), trt.ScaleMode.CHANNEL), scale=np.float32([10, 100]), channel_axis=3
        ),
        [[[[10, 300]]]],
    ),
    "add_reverse_sequence": (
        lambda net, x: net.add_reverse_sequence(
            input=constant(net, np.float32([[4], [8]])), sequence_lens=axes(net, 2)
        ),
        [[8], [4]],
    ),
    "add_select": (
        lambda net, x: net.add_select(
            condition=constant(net, MASK), then_input=x, else_input=constant(net, FOUR)
        ),
        [[1, 4]],
    ),
    "add_shape": (lambda net, x: net.add_shape(input=x), [1, 2]),
    "add_shuffle": (lambda net, x: transposed(net.add_shuffle(input=x)), [[1], [3]]),
    "add_slice": (lambda net, x: net.add_slice(input=x, start=(0, 1), shape=(1, 1), stride=(1, 1)), [[3]]),
    "add_softmax": (lambda net, x: net.add_softmax(input=x), [[1, 1]]),
    "add_squeeze": (lambda net, x: net.add_squeeze(input=x, axes=axes(net, 0)), [1, 3]),
    "add_unary": (lambda net, x: net.add_unary(input=x, op=trt.UnaryOperation.NEG), [[-1, -3]]),
    "add_unsqueeze": (lambda net, x: net.add_unsqueeze(input=x, axes=axes(net, 0)), [[[1, 3]]]),
}
OPERATORS = {method.name: op for op in OPS.values() for method in op.methods if op.outputs}


def four(net, x):
    return net.add_unsqueeze(x, axes(net, 0, 1)).get_output(0)


def negated(net, x):
    return net.add_unary(x, trt.UnaryOperation.NEG).get_output(0)


def transposed(layer):
    layer.first_transpose = (1, 0)
    return layer


# Tested in test_assertion, test_control and tests/plugins.
OTHERS = {
    *("add_assertion", "add_loop", "add_if_conditional"),
    *("add_plugin", "add_plugin_v2", "add_plugin_v3"),
}


def test_the_cases_are_of_methods_that_have_an_operator():
    """test_derived_layers tests operators without a case here, by their records."""
    methods = {n for n in dir(trt.INetworkDefinition) if n.startswith("add_") and n != "add_input"}
    finished = {n for n in methods if hasattr(trt.INetworkDefinition, n)}
    assert set(CASES) <= finished - OTHERS == set(OPERATORS)


@pytest.mark.parametrize("name", CASES)
def test_the_layer_computes(name, log):
    builder = trt.Builder(log)
    net = builder.create_network()
    add, want = CASES[name]
    y = add(net, net.add_input("x", trt.float32, (1, 2))).get_output(0)
    y.name = "y"
    net.mark_output(y)
    engine = builder.build_engine_with_config(net, builder.create_builder_config())
    got = engine.run(x=np.float32([1, 3]).reshape(engine.get_tensor_shape("x")))["y"]
    assert got.shape == np.shape(want)
    assert all(n in (-1, m) for n, m in zip(y.shape, got.shape, strict=True))  # -1: data-dependent
    assert np.allclose(got.astype(float), want, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_the_layer_has_its_class_and_type(name, net):
    built = CASES[name][0](net, net.add_input("x", trt.float32, (1, 2)))
    op, last = OPERATORS[name], net.get_layer(net.num_layers - 1)
    layer = last if op.scope is None else net.get_layer(net.num_layers - 2)
    assert isinstance(layer, trt.ILayer)
    assert (layer.__class__, type(built)) == (getattr(trt, op.cls), getattr(trt, op.owner))
    assert trt.ILayer.type.__get__(layer) is op.layer
    assert built == (last if op.scope is None else getattr(last, op.scope.attribute))
    assert built.num_outputs == (len(op.outputs) if op.asked is None else 1)
