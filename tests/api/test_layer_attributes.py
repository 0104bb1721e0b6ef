"""Every attribute of every layer: assigned after `add_*`, it reads back and changes the result."""

import numpy as np
import pytest

import anyrt as trt
from anyrt.ops import OPS

CUBIC, LINEAR = trt.InterpolationMode.CUBIC, trt.InterpolationMode.LINEAR
HALF_PIXEL = trt.ResizeCoordinateTransformation.HALF_PIXEL
SUM = trt.ElementWiseOperation.SUM
PAIR = [1, 3]  # mean 2, variance 1
SQUARE = [[1, 2], [3, 4]]
WIDE = [[[[1, 2, 3, 4]]]]  # (1, 1, 1, 4)
ROW = [[[1, 3, 5]]]  # (1, 1, 3)
IMAGE = [[[[1], [2]], [[3], [4]]]]  # (1, 2, 2, 1)
UNIT = np.ones(1, np.float32)
ONE = [[[1]]]


def of(*values):
    return np.float32(values)


def constant(net, array):
    return net.add_constant(array.shape, array).get_output(0)


def norm(net, x, axes, **attributes):
    one = np.ones((1, x.shape[1], *(1,) * (len(x.shape) - 2)), np.float32)
    layer = net.add_normalization_v2(x, constant(net, one), constant(net, 0 * one), axes)
    return configured(layer, **attributes)


def configured(layer, **attributes):
    for name, value in attributes.items():
        setattr(layer, name, value)
    return layer


def resize(net, x, size, mode=trt.InterpolationMode.NEAREST, **attributes):
    return configured(net.add_resize(x), shape=size, resize_mode=mode, **attributes)


def cropped(begin, end, size):
    """A part of a row, and the padding beyond it."""

    def add(net, x):
        layer = resize(net, x, (size,), LINEAR)
        layer.set_input(3, constant(net, of(begin, end)))
        return layer

    return add


def activation(kind):
    return lambda net, x: net.add_activation(x, kind)


def scattered(net, x):
    last, five = constant(net, np.array([[1]], np.int32)), constant(net, of([5]))
    return net.add_scatter(x, last, five, trt.ScatterMode.ELEMENT)


def summed(net, x):
    axis = net.add_constant((), np.array(1, np.int32)).get_output(0)
    return net.add_cumulative(x, axis, trt.CumulativeOperation.SUM, False, False)


def top(net, x):
    return net.add_topk(x, trt.TopKOperation.MAX, 1, 0b10)


# As corners, two squares side by side; as centers and sizes, two that overlap.
CROSSED = [[[0, 0, 4, 4], [4, 0, 8, 4]]]


def suppressed(net, x):
    scores = net.add_constant((1, 2, 1), np.float32([0.75, 0.5])).get_output(0)
    return net.add_nms(x, scores, net.add_constant((), np.array(9, np.int32)).get_output(0))


def reduced(net, x):
    return net.add_reduce(x, trt.ReduceOperation.SUM, 0b10, False)


def squared(net, x):
    return net.add_matrix_multiply(x, trt.MatrixOperation.NONE, x, trt.MatrixOperation.NONE)


def sliced(net, x):
    return net.add_slice(x, (0,), (2,), (1,))


def filled(net, x):
    return configured(net.add_fill((3,), trt.FillOperation.LINSPACE), alpha=1.0, beta=0.5)


def sampled(at):
    """A point of an image one row high."""
    return lambda net, x: net.add_grid_sample(x, constant(net, np.float32([[[[at, 0]]]])))


def lrn(net, x):
    return net.add_lrn(x, 1, 1, 1, 1)


def padded(net, x):
    return net.add_padding_nd(x, (0, 0), (0, 0))


def largest(net, x):
    return net.add_pooling_nd(x, trt.PoolingType.MAX, (1, 2))


def averages(**attributes):
    def add(net, x):
        return configured(net.add_pooling_nd(x, trt.PoolingType.AVERAGE, (1, 2)), **attributes)

    return add


def channels(net, x):
    return net.add_scale(x, trt.ScaleMode.CHANNEL, scale=of(10, 100))


def uniform(net, x):
    return net.add_scale(x, trt.ScaleMode.UNIFORM, shift=of(1))


def convolved(maps, shape, *kernel, **attributes):
    return lambda net, x: configured(net.add_convolution_nd(x, maps, shape, of(*kernel)), **attributes)


def spread(maps, shape, *kernel, **attributes):
    return lambda net, x: configured(net.add_deconvolution_nd(x, maps, shape, of(*kernel)), **attributes)


def half_pixel(mode, *size):
    return lambda net, x: resize(net, x, size, mode, coordinate_transformation=HALF_PIXEL)


def attention(net, x):
    return net.add_attention(x, x, x, trt.AttentionNormalizationOp.SOFTMAX, False)


def rotated(net, x):
    cos, sin = (constant(net, np.full((1, 1, 2), n, np.float32)) for n in (0, 1))
    return net.add_rotary_embedding(x, cos, sin, False, 0)


def cached(net, x):
    at = constant(net, np.int32([1]))
    return net.add_kv_cache_update(x, constant(net, np.float32([[[[5]]]])), at, trt.KVCacheMode.LINEAR)


def mixed(**attributes):
    """One token of one number through one expert: gate and up double it, down leaves it unchanged."""

    def add(net, x):
        two, one = constant(net, of(2).reshape(1, 1, 1)), constant(net, of(1).reshape(1, 1, 1))
        layer = net.add_moe(x, constant(net, np.int32([[[0]]])), one)
        layer.set_gated_weights(two, two, one, trt.MoEActType.NONE)
        return configured(layer, **attributes)

    return add


def gathered(axis, *indices):
    return lambda net, x: net.add_gather(x, constant(net, np.int32(indices)), axis)


def quantized(*scale, shape=(), **attributes):
    def add(net, x):
        step = constant(net, of(*scale).reshape(shape))
        return configured(net.add_quantize(x, step), **attributes)

    return add


def dequantized(*scale, shape=(), **attributes):
    def add(net, x):
        codes = net.add_quantize(x, constant(net, of(1))).get_output(0)
        return configured(net.add_dequantize(codes, constant(net, of(*scale).reshape(shape))), **attributes)

    return add


def block_scaled(net, x):
    return net.add_dynamic_quantize(x, 1, 2, trt.fp8, trt.float32)


def hot(net, x):
    one, depth = constant(net, np.int32([1])), net.add_constant((), np.array(2, np.int32)).get_output(0)
    return net.add_one_hot(one, x, depth, 0)


def turned(batch, axis):
    def add(net, x):
        layer = net.add_reverse_sequence(x, constant(net, np.int32([2, 1])))
        return configured(layer, batch_axis=batch, sequence_axis=axis)

    return add


TWO = [[[[1], [3]]]]  # queries, keys and values of size 1; their weights are those of (1, 3) and (3, 9)
SEEN = [[[[2.761594], [2.995055]]]]
FOUR = [[[[1, 2, 3, 4]]]]

# (class, attribute): the input x, the layer, the value to assign, the output before and after; None:
# rejected.
CASES = {
    ("IActivationLayer", "type"): (
        *([-1, 1, 3], activation(trt.ActivationType.RELU), trt.ActivationType.SOFTSIGN),
        *([0, 1, 3], [-0.5, 0.5, 0.75]),
    ),
    ("IActivationLayer", "alpha"): (
        *([-2, 3], activation(trt.ActivationType.LEAKY_RELU), 0.5, [0, 3], [-1, 3]),
    ),
    ("IActivationLayer", "beta"): (
        *([-2, 3], activation(trt.ActivationType.HARD_SIGMOID), 0.25, [0, 0], [0.25, 0.25]),
    ),
    ("IAttention", "norm_op"): (
        *(TWO, attention, trt.AttentionNormalizationOp.NONE, SEEN, [[[[10], [30]]]]),
    ),
    ("IAttention", "causal"): (TWO, attention, True, SEEN, [[[[1], [2.995055]]]]),
    ("IAttention", "causal_kind"): (
        *(TWO, attention, trt.CausalMaskKind.UPPER_LEFT, SEEN, [[[[1], [2.995055]]]]),
    ),
    ("IAttention", "normalization_quantize_to_type"): (TWO, attention, trt.int8, SEEN, None),
    ("IAttention", "query_form"): (TWO, attention, trt.AttentionIOForm.PACKED_NHD, SEEN, None),
    ("IAttention", "key_value_form"): (TWO, attention, trt.AttentionIOForm.PACKED_NHD, SEEN, None),
    ("ICastLayer", "to_type"): (
        *([-2.7, 0, 3.5], lambda net, x: net.add_cast(x, trt.int32), trt.bool),
        *([-2, 0, 3], [True, False, True]),
    ),
    ("ICastLayer", "saturate"): (
        *([90000, 1], lambda net, x: net.add_cast(x, trt.fp8e5m2fnuz), False),
        *([57344, 1], [float("nan"), 1]),
    ),
    ("ICastLayer", "bits"): (
        *([1.0, -2.0], lambda net, x: net.add_cast(x, trt.int32), True, [1, -2], [0x3F800000, -(1 << 30)]),
    ),
    ("IConcatenationLayer", "axis"): (
        *([PAIR], lambda net, x: net.add_concatenation([x, x]), 1, [PAIR, PAIR], [[1, 3, 1, 3]]),
    ),
    ("IConstantLayer", "shape"): (
        *([0], lambda net, x: net.add_constant((2,), of(1, 3)), (2, 1), [1, 3], [[1], [3]]),
    ),
    ("IConstantLayer", "weights"): (
        *([0], lambda net, x: net.add_constant((2,), of(1, 3)), of(5, 6), [1, 3], [5, 6]),
    ),
    ("IConvolutionLayer", "num_output_maps"): (
        *([[PAIR]], convolved(2, (1,), 1, 10), 1, [[PAIR, [10, 30]]], None),
    ),
    ("IConvolutionLayer", "kernel_size_nd"): ([[PAIR]], convolved(1, (2,), 1, 2), (1,), [[[7]]], None),
    ("IConvolutionLayer", "kernel"): ([[PAIR]], convolved(1, (2,), 1, 2), of(0, 1), [[[7]]], [[[3]]]),
    ("IConvolutionLayer", "bias"): ([[PAIR]], convolved(1, (2,), 1, 2), of(5), [[[7]]], [[[12]]]),
    ("IConvolutionLayer", "padding_mode"): (
        *([[PAIR]], convolved(1, (2,), 1, 2), trt.PaddingMode.SAME_LOWER, [[[7]]], [[[2, 7]]]),
    ),
    ("IConvolutionLayer", "pre_padding"): ([[PAIR]], convolved(1, (2,), 1, 2), (1,), [[[7]]], [[[2, 7]]]),
    ("IConvolutionLayer", "post_padding"): ([[PAIR]], convolved(1, (2,), 1, 2), (1,), [[[7]]], [[[7, 3]]]),
    ("IConvolutionLayer", "padding_nd"): ([[PAIR]], convolved(1, (2,), 1, 2), (1,), [[[7]]], [[[2, 7, 3]]]),
    ("IConvolutionLayer", "stride_nd"): ([[PAIR]], convolved(1, (1,), 1), (2,), [[PAIR]], [[[1]]]),
    ("IConvolutionLayer", "dilation_nd"): (
        *([[[1, 3, 5]]], convolved(1, (2,), 1, 2), (2,), [[[7, 13]]], [[[11]]]),
    ),
    ("IConvolutionLayer", "num_groups"): (
        *([[[1], [3]]], convolved(2, (1,), 1, 10), 2, None, [[[1], [30]]]),
    ),
    ("IDeconvolutionLayer", "num_output_maps"): (
        *([[PAIR]], spread(2, (1,), 1, 10), 1, [[PAIR, [10, 30]]], None),
    ),
    ("IDeconvolutionLayer", "kernel_size_nd"): ([[PAIR]], spread(1, (2,), 1, 2), (1,), [[[1, 5, 6]]], None),
    ("IDeconvolutionLayer", "kernel"): (
        *([[PAIR]], spread(1, (2,), 1, 2), of(0, 1), [[[1, 5, 6]]], [[[0, 1, 3]]]),
    ),
    ("IDeconvolutionLayer", "bias"): ([[PAIR]], spread(1, (2,), 1, 2), of(5), [[[1, 5, 6]]], [[[6, 10, 11]]]),
    ("IDeconvolutionLayer", "padding_mode"): (
        *([[PAIR]], spread(1, (2,), 1, 2), trt.PaddingMode.SAME_LOWER, [[[1, 5, 6]]], [[[5, 6]]]),
    ),
    ("IDeconvolutionLayer", "pre_padding"): (
        *([[PAIR]], spread(1, (2,), 1, 2), (1,), [[[1, 5, 6]]], [[[5, 6]]]),
    ),
    ("IDeconvolutionLayer", "post_padding"): (
        *([[PAIR]], spread(1, (2,), 1, 2), (1,), [[[1, 5, 6]]], [[[1, 5]]]),
    ),
    ("IDeconvolutionLayer", "padding_nd"): (
        *([[PAIR]], spread(1, (2,), 1, 2), (1,), [[[1, 5, 6]]], [[[5]]]),
    ),
    ("IDeconvolutionLayer", "stride_nd"): (
        *([[PAIR]], spread(1, (2,), 1, 2), (2,), [[[1, 5, 6]]], [[[1, 2, 3, 6]]]),
    ),
    ("IDeconvolutionLayer", "dilation_nd"): (
        *([[PAIR]], spread(1, (2,), 1, 2), (2,), [[[1, 5, 6]]], [[[1, 3, 2, 6]]]),
    ),
    ("IDeconvolutionLayer", "num_groups"): (*([[[1], [3]]], spread(2, (1,), 1, 10), 2, None, [[[1], [30]]]),),
    ("IEinsumLayer", "equation"): (
        *([[1, 2], [3, 4]], lambda net, x: net.add_einsum([x], "ij->ji"), "ij->j", [[1, 3], [2, 4]], [4, 6]),
    ),
    ("IElementWiseLayer", "op"): (
        *(PAIR, lambda net, x: net.add_elementwise(x, x, SUM), trt.ElementWiseOperation.PROD, [2, 6], [1, 9]),
    ),
    ("IFillLayer", "shape"): (PAIR, filled, (2,), [1, 1.5, 2], [1, 1.5]),
    ("IFillLayer", "operation"): (
        *(PAIR, lambda net, x: configured(filled(net, x), beta=1), trt.FillOperation.RANDOM_UNIFORM),
        *([1, 2, 3], [1, 1, 1]),
    ),
    ("IFillLayer", "alpha"): (PAIR, filled, -2, [1, 1.5, 2], [-2, -1.5, -1]),
    ("IFillLayer", "beta"): (PAIR, filled, 3.0, [1, 1.5, 2], [1, 4, 7]),
    ("IFillLayer", "to_type"): (
        *(PAIR, lambda net, x: configured(filled(net, x), alpha=2049), trt.float16),
        *([2049, 2049.5, 2050], [2048, 2050, 2050]),
    ),
    ("IFillLayer", "seed"): (
        *(PAIR, lambda net, x: configured(net.add_fill((2,), trt.FillOperation.RANDOM_UNIFORM), seed=1), 2),
        *([0.28539, 0.91830], [0.54020, 0.81530]),
    ),
    ("IGridSampleLayer", "interpolation_mode"): (
        *(WIDE, sampled(0.2), trt.InterpolationMode.NEAREST, [[[[2.9]]]], [[[[3]]]]),
    ),
    ("IGridSampleLayer", "align_corners"): (WIDE, sampled(0.2), True, [[[[2.9]]]], [[[[2.8]]]]),
    ("IGridSampleLayer", "sample_mode"): (WIDE, sampled(1.125), trt.SampleMode.CLAMP, [[[[1]]]], [[[[4]]]]),
    ("IMatrixMultiplyLayer", "op0"): (
        *(
            [[1, 2], [3, 4]],
            squared,
            trt.MatrixOperation.TRANSPOSE,
            [[7, 10], [15, 22]],
            [[10, 14], [14, 20]],
        ),
    ),
    ("IMatrixMultiplyLayer", "op1"): (
        *([[1, 2], [3, 4]], squared, trt.MatrixOperation.TRANSPOSE, [[7, 10], [15, 22]], [[5, 11], [11, 25]]),
    ),
    ("IGatherLayer", "mode"): (
        *(SQUARE, gathered(0, [1, 0], [0, 0]), trt.GatherMode.ELEMENT),
        *([[[3, 4], [1, 2]], [[1, 2], [1, 2]]], [[3, 2], [1, 2]]),
    ),
    ("IGatherLayer", "axis"): (SQUARE, gathered(0, 1), 1, [[3, 4]], [[2], [4]]),
    ("IGatherLayer", "num_elementwise_dims"): (
        *(SQUARE, gathered(1, [1], [0]), 1, [[[2], [1]], [[4], [3]]], [[2], [3]]),
    ),
    ("ILRNLayer", "window_size"): (*([[[1]], [[3]]], lrn, 3, [[[0.5]], [[0.3]]], [[[3 / 13]], [[9 / 13]]]),),
    ("ILRNLayer", "alpha"): ([[[1]], [[3]]], lrn, 3, [[[0.5]], [[0.3]]], [[[1 / 4]], [[3 / 28]]]),
    ("ILRNLayer", "beta"): ([[[1]], [[3]]], lrn, 2, [[[0.5]], [[0.3]]], [[[1 / 4]], [[3 / 100]]]),
    ("ILRNLayer", "k"): ([[[1]], [[3]]], lrn, 3, [[[0.5]], [[0.3]]], [[[1 / 4]], [[3 / 12]]]),
    ("IKVCacheUpdateLayer", "update_form"): (
        *(TWO, cached, trt.AttentionIOForm.PACKED_NHD, [[[[1], [5]]]], None),
    ),
    ("IMoELayer", "activation_type"): (ONE, mixed(), trt.MoEActType.SILU, [[[4]]], [[[3.523188]]]),
    ("IMoELayer", "quantization_to_type"): (ONE, mixed(), trt.fp8, [[[4]]], None),
    ("IMoELayer", "quantization_block_shape"): (ONE, mixed(), (1, 1, 1, 16), [[[4]]], None),
    ("IMoELayer", "dyn_q_output_scale_type"): (ONE, mixed(), trt.float32, [[[4]]], None),
    ("IMoELayer", "swiglu_param_limit"): (ONE, mixed(), 1.5, [[[4]]], [[[2.25]]]),
    ("IMoELayer", "swiglu_param_alpha"): (
        *(ONE, mixed(activation_type=trt.MoEActType.SILU), 0.0, [[[3.523188]]], [[[2]]]),
    ),
    ("IMoELayer", "swiglu_param_beta"): (ONE, mixed(), 1.0, [[[4]]], [[[6]]]),
    ("INormalizationLayer", "compute_precision"): (  # float16 cannot represent 2049
        *([[2048, 2049], [1, 3]], lambda net, x: norm(net, x, 0b10), trt.float16),
        *([[-1, 1], [-1, 1]], [[0, 0], [-1, 1]]),
    ),
    ("INormalizationLayer", "axes"): (
        *([PAIR, PAIR], lambda net, x: norm(net, x, 0b10), 0b01, [[-1, 1], [-1, 1]], [[0, 0], [0, 0]]),
    ),
    ("INormalizationLayer", "epsilon"): (
        *([PAIR], lambda net, x: norm(net, x, 0b10), 3, [[-1, 1]], [[-0.5, 0.5]]),
    ),
    ("INormalizationLayer", "num_groups"): (
        *([[[1], [3], [5], [7]]], lambda net, x: norm(net, x, 0b100), 2),
        *([[[0], [0], [0], [0]]], [[[-1], [1], [-1], [1]]]),
    ),
    ("IRotaryEmbeddingLayer", "interleaved"): (
        *(FOUR, rotated, True, [[[[-3, -4, 1, 2]]]], [[[[-2, 1, -4, 3]]]]),
    ),
    ("IRotaryEmbeddingLayer", "rotary_embedding_dim"): (FOUR, rotated, 2, [[[[-3, -4, 1, 2]]]], None),
    ("ICumulativeLayer", "op"): (SQUARE, summed, trt.CumulativeOperation.SUM, *[[[1, 3], [3, 7]]] * 2),
    ("ICumulativeLayer", "exclusive"): (SQUARE, summed, True, [[1, 3], [3, 7]], [[0, 1], [0, 3]]),
    ("ICumulativeLayer", "reverse"): (SQUARE, summed, True, [[1, 3], [3, 7]], [[3, 2], [7, 4]]),
    ("IScatterLayer", "mode"): (
        *([[1], [2]], lambda net, x: configured(scattered(net, x), axis=1), trt.ScatterMode.ND),
        *([[1], [2]], [[1], [5]]),
    ),
    ("IScatterLayer", "axis"): ([[1], [2]], scattered, 1, [[1], [5]], [[1], [2]]),
    ("IScatterLayer", "reduction"): (
        *([[1], [2]], scattered, trt.ReduceOperation.SUM, [[1], [5]], [[1], [7]]),
    ),
    ("ITopKLayer", "op"): (SQUARE, top, trt.TopKOperation.MIN, [[2], [4]], [[1], [3]]),
    ("ITopKLayer", "k"): (SQUARE, top, 2, [[2], [4]], [[2, 1], [4, 3]]),
    ("ITopKLayer", "axes"): (SQUARE, top, 0b01, [[2], [4]], [[3, 4]]),
    ("ITopKLayer", "indices_type"): (SQUARE, top, trt.DataType.INT64, *[[[2], [4]]] * 2),
    ("IReduceLayer", "op"): (SQUARE, reduced, trt.ReduceOperation.PROD, [3, 7], [2, 12]),
    ("IReduceLayer", "axes"): (SQUARE, reduced, 0b01, [3, 7], [4, 6]),
    ("IQuantizeLayer", "to_type"): ([1.5, 99, -3], quantized(0.5), trt.int4, [3, 127, -6], [3, 7, -6]),
    ("IQuantizeLayer", "axis"): (
        *(SQUARE, quantized(1, 0.5, shape=2, axis=0), 1, [[1, 2], [6, 8]], [[1, 4], [3, 8]]),
    ),
    ("IQuantizeLayer", "block_shape"): (
        *(SQUARE, quantized(1, 0.5, shape=(1, 2)), (1, 2), [[1, 4], [3, 8]], None),
    ),
    ("IDequantizeLayer", "to_type"): ([100], dequantized(1.001), trt.float16, [100.1], [100.125]),
    ("IDequantizeLayer", "axis"): (
        *(SQUARE, dequantized(1, 0.5, shape=2, axis=0), 1, [[1, 2], [1.5, 2]], [[1, 1], [3, 2]]),
    ),
    ("IDequantizeLayer", "block_shape"): (
        *(SQUARE, dequantized(1, 0.5, shape=(1, 2)), (1, 2), [[1, 1], [3, 2]], None),
    ),
    ("IDynamicQuantizeLayer", "to_type"): ([PAIR], block_scaled, trt.int8, [[144, 448]], [[42, 127]]),
    ("IDynamicQuantizeLayer", "scale_type"): ([PAIR], block_scaled, trt.e8m0, [[144, 448]], [[128, 384]]),
    ("IDynamicQuantizeLayer", "axis"): ([PAIR, PAIR], block_scaled, 0, [[144, 448]] * 2, [[448, 448]] * 2),
    ("IDynamicQuantizeLayer", "block_size"): ([PAIR], block_scaled, 1, [[144, 448]], [[448, 448]]),
    ("IDynamicQuantizeLayer", "block_shape"): ([PAIR], block_scaled, (1, 1), [[144, 448]], [[448, 448]]),
    ("IReduceLayer", "keep_dims"): (SQUARE, reduced, True, [3, 7], [[3], [7]]),
    ("IOneHotLayer", "axis"): (PAIR, hot, 1, [[1], [3]], [[1, 3]]),
    ("IPaddingLayer", "pre_padding_nd"): ([[[PAIR]]], padded, (0, 1), [[[PAIR]]], [[[[0, *PAIR]]]]),
    ("IPaddingLayer", "post_padding_nd"): ([[[PAIR]]], padded, (1, -1), [[[PAIR]]], [[[[1], [0]]]]),
    ("IPoolingLayer", "type"): (ROW, largest, trt.PoolingType.AVERAGE, [[[3, 5]]], [[[2, 4]]]),
    ("IPoolingLayer", "indices_type"): (ROW, largest, trt.DataType.INT64, *[[[[3, 5]]]] * 2),
    ("IPoolingLayer", "window_size_nd"): (ROW, largest, (1, 3), [[[3, 5]]], [[[5]]]),
    ("IPoolingLayer", "stride_nd"): (ROW, largest, (1, 2), [[[3, 5]]], [[[3]]]),
    ("IPoolingLayer", "dilation_nd"): (ROW, averages(), (1, 2), [[[2, 4]]], [[[3]]]),
    ("IPoolingLayer", "padding_mode"): (
        *(ROW, averages(stride_nd=(1, 2)), trt.PaddingMode.SAME_LOWER, [[[2]]], [[[1, 4]]]),
    ),
    ("INMSLayer", "bounding_box_format"): (
        *(CROSSED, suppressed, trt.BoundingBoxFormat.CENTER_SIZES, [[0, 0, 0], [0, 0, 1]], [[0, 0, 0]]),
    ),
    ("INMSLayer", "topk_box_limit"): (CROSSED, suppressed, 1, [[0, 0, 0], [0, 0, 1]], [[0, 0, 0]]),
    ("INMSLayer", "indices_type"): (CROSSED, suppressed, trt.DataType.INT64, *[[[0, 0, 0], [0, 0, 1]]] * 2),
    ("INonZeroLayer", "indices_type"): (
        *(PAIR, lambda net, x: net.add_non_zero(x), trt.DataType.INT64, [[0, 1]], [[0, 1]]),
    ),
    ("IPoolingLayer", "pre_padding"): (ROW, averages(), (0, 1), [[[2, 4]]], [[[1, 2, 4]]]),
    ("IPoolingLayer", "post_padding"): (ROW, averages(), (0, 1), [[[2, 4]]], [[[2, 4, 5]]]),
    ("IPoolingLayer", "padding_nd"): (ROW, averages(), (0, 1), [[[2, 4]]], [[[1, 2, 4, 5]]]),
    ("IPoolingLayer", "blend_factor"): (
        *(ROW, averages(type=trt.PoolingType.MAX_AVERAGE_BLEND), 0.5, [[[3, 5]]], [[[2.5, 4.5]]]),
    ),
    ("IPoolingLayer", "average_count_excludes_padding"): (
        *(ROW, averages(padding_nd=(0, 1)), False, [[[1, 2, 4, 5]]], [[[0.5, 2, 4, 2.5]]]),
    ),
    ("IResizeLayer", "resize_mode"): (
        *([0, 4], lambda net, x: resize(net, x, (4,)), LINEAR, [0, 0, 4, 4], [0, 2, 4, 4]),
    ),
    ("IResizeLayer", "shape"): ([0, 4], lambda net, x: resize(net, x, (4,)), (1,), [0, 0, 4, 4], [0]),
    ("IResizeLayer", "scales"): (
        *([0, 4], lambda net, x: configured(net.add_resize(x), scales=(2,)), [1], [0, 0, 4, 4], [0, 4]),
    ),
    ("IResizeLayer", "coordinate_transformation"): (
        *([0, 4], lambda net, x: resize(net, x, (4,), LINEAR), HALF_PIXEL, [0, 2, 4, 4], [0, 1, 3, 4]),
    ),
    ("IResizeLayer", "selector_for_single_pixel"): (
        *([0, 4], half_pixel(LINEAR, 1), trt.ResizeSelector.UPPER, [2], [0]),
    ),
    ("IResizeLayer", "nearest_rounding"): (
        *([0, 4], lambda net, x: resize(net, x, (4,)), trt.ResizeRoundMode.CEIL, [0, 0, 4, 4], [0, 4, 4, 4]),
    ),
    # Weights of the four taps at a quarter: -27, 225, 67 and -9 of 256 with a = -0.75.
    ("IResizeLayer", "cubic_coeff"): (
        *([[0, 4]], half_pixel(CUBIC, 1, 4), 0),
        *([[-27 / 64, 58 / 64, 4 - 58 / 64, 4 + 27 / 64]], [[0, 40 / 64, 4 - 40 / 64, 4]]),
    ),
    ("IResizeLayer", "exclude_outside"): (
        *([[0, 4]], half_pixel(CUBIC, 1, 4), True),
        *([[-27 / 64, 58 / 64, 4 - 58 / 64, 4 + 27 / 64]],),
        *([[4 * -27 / 198, 4 * 67 / 292, 4 * 225 / 292, 4 * 225 / 198]],),
    ),
    # Eight elements become two, of which each reaches twice as far: weights 1, 3, 5, 7, 7, 5, … of 32.
    ("IResizeLayer", "antialias"): (
        *([[0] * 4 + [32] * 4], half_pixel(LINEAR, 1, 2), True, [[0, 32]], [[1 + 3, 32 - 1 - 3]]),
    ),
    ("IResizeLayer", "extrapolation_value"): (PAIR, cropped(0, 2, size=3), 7.0, [1, 3, 0], [1, 3, 7]),
    ("IReverseSequenceLayer", "batch_axis"): (
        *([SQUARE, SQUARE], turned(2, 1), 0, [[[3, 2], [1, 4]]] * 2, [[[3, 4], [1, 2]], SQUARE]),
    ),
    ("IReverseSequenceLayer", "sequence_axis"): (
        *([SQUARE, SQUARE], turned(0, 1), 2, [[[3, 4], [1, 2]], SQUARE], [[[2, 1], [4, 3]], SQUARE]),
    ),
    ("IScaleLayer", "mode"): (
        *(IMAGE, lambda net, x: net.add_scale(x, trt.ScaleMode.UNIFORM, scale=of(10, 100))),
        *(trt.ScaleMode.CHANNEL, None, [[[[10], [20]], [[300], [400]]]]),
    ),
    ("IScaleLayer", "shift"): (*([[[PAIR]]], uniform, of(5), [[[[2, 4]]]], [[[[6, 8]]]]),),
    ("IScaleLayer", "scale"): ([[[PAIR]]], uniform, of(10), [[[[2, 4]]]], [[[[11, 31]]]]),
    ("IScaleLayer", "power"): ([[[PAIR]]], uniform, of(2), [[[[2, 4]]]], [[[[4, 16]]]]),
    ("IScaleLayer", "channel_axis"): (
        *(IMAGE, channels, 2, [[[[10], [20]], [[300], [400]]]], [[[[10], [200]], [[30], [400]]]]),
    ),
    ("IShuffleLayer", "first_transpose"): (
        *(SQUARE, lambda net, x: configured(net.add_shuffle(x), reshape_dims=(4,)), (1, 0)),
        *([1, 2, 3, 4], [1, 3, 2, 4]),
    ),
    ("IShuffleLayer", "reshape_dims"): (
        *(SQUARE, lambda net, x: net.add_shuffle(x), (4,), SQUARE, [1, 2, 3, 4]),
    ),
    ("IShuffleLayer", "second_transpose"): (
        *([1, 2, 3, 4], lambda net, x: configured(net.add_shuffle(x), reshape_dims=(2, 2)), (1, 0)),
        *(SQUARE, [[1, 3], [2, 4]]),
    ),
    ("IShuffleLayer", "zero_is_placeholder"): (
        *([[], []], lambda net, x: configured(net.add_shuffle(x), reshape_dims=(0, 0)), False, [[], []], []),
    ),
    ("ISliceLayer", "start"): ([1, 2, 3, 4], sliced, (2,), [1, 2], [3, 4]),
    ("ISliceLayer", "shape"): ([1, 2, 3, 4], sliced, (3,), [1, 2], [1, 2, 3]),
    ("ISliceLayer", "stride"): ([1, 2, 3, 4], sliced, (2,), [1, 2], [1, 3]),
    ("ISliceLayer", "mode"): (
        *([1, 2, 3, 4], lambda net, x: net.add_slice(x, (3,), (2,), (1,)), trt.SampleMode.WRAP),
        *(None, [4, 1]),
    ),
    ("ISliceLayer", "axes"): (
        *(SQUARE, lambda net, x: net.add_slice(x, (1,), (1,), (1,)), (1,), None, [[2], [4]]),
    ),
    ("ISoftMaxLayer", "axes"): (
        *([[0, 0], [0, 0], [0, 0], [0, 0]], lambda net, x: net.add_softmax(x), 0b10),
        *([[0.25, 0.25]] * 4, [[0.5, 0.5]] * 4),
    ),
    ("IUnaryLayer", "op"): (
        *(PAIR, lambda net, x: net.add_unary(x, trt.UnaryOperation.NEG), trt.UnaryOperation.ABS),
        *([-1, -3], [1, 3]),
    ),
}
ATTRIBUTES = {(op.owner, spec.name): spec for op in OPS.values() for spec in op.specs()}


def computed(log, x, add, name, *value):
    """The output of an engine for `x` with the layer's attribute assigned; None if the build fails."""
    builder = trt.Builder(log)
    net = builder.create_network()
    layer = add(net, net.add_input("x", trt.float32, np.shape(x)))
    for given_value in value:
        setattr(layer, name, given_value)
    layer.get_output(0).name = "y"
    net.mark_output(layer.get_output(0))
    engine = builder.build_engine_with_config(net, builder.create_builder_config())
    return engine and engine.run(x=np.float32(x))["y"].astype(float).tolist()


def same(a, b):
    if None in (a, b):
        return a == b
    return np.shape(a) == np.shape(b) and np.allclose(a, b, atol=1e-4, equal_nan=True)


# Tested below, in test_attention and in test_assertion.
OTHERS = {
    *("is_v2", "decomposable", "cache_mode", "message"),
    *("dist_collective_op", "reduce_op", "root", "groups"),
}


def test_the_cases_are_of_attributes_of_layers():
    """test_derived_layers tests attributes without a case here, by their records."""
    assert set(CASES) <= {key for key in ATTRIBUTES if key[1] not in OTHERS}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("cls", "name"), CASES)
def test_an_attribute_changes_what_is_computed(cls, name, log):
    x, add, value, before, after = CASES[cls, name]
    assert same(computed(log, x, add, name), before)
    assert same(computed(log, x, add, name, value), after)


@pytest.mark.parametrize(("cls", "name"), CASES)
def test_an_attribute_reads_back_and_only_its_class_has_it(cls, name, net):
    x, add, value, *_ = CASES[cls, name]
    layer = add(net, net.add_input("x", trt.float32, np.shape(x)))
    setattr(layer, name, value)
    result = getattr(layer, name)
    shown = [*result][: len(value)] if np.ndim(value) else result
    assert (type(layer).__name__, np.array_equal(shown, value)) == (cls, True)
    assert name == "type" or not hasattr(trt.ILayer, name)


DEFAULTS = {
    "IActivationLayer": {"alpha": 0, "beta": 0},
    "IConvolutionLayer": {
        "pre_padding": (0, 0),
        "post_padding": (0, 0),
        "padding_nd": (0, 0),
        "stride_nd": (1, 1),
        "dilation_nd": (1, 1),
        "padding_mode": trt.PaddingMode.EXPLICIT_ROUND_DOWN,
        "num_groups": 1,
    },
    "IDeconvolutionLayer": {
        "pre_padding": (0, 0),
        "post_padding": (0, 0),
        "padding_nd": (0, 0),
        "stride_nd": (1, 1),
        "dilation_nd": (1, 1),
        "padding_mode": trt.PaddingMode.EXPLICIT_ROUND_DOWN,
        "num_groups": 1,
    },
    "INormalizationLayer": {"epsilon": 1e-5, "num_groups": 1, "compute_precision": trt.float32},
    "IPoolingLayer": {
        "stride_nd": (1, 1),
        "pre_padding": (0, 0),
        "post_padding": (0, 0),
        "padding_nd": (0, 0),
        "padding_mode": trt.PaddingMode.EXPLICIT_ROUND_DOWN,
        "blend_factor": 0,
        "average_count_excludes_padding": True,
    },
    "IQuantizeLayer": {"to_type": trt.int8, "axis": -1},
    "IResizeLayer": {
        "resize_mode": trt.InterpolationMode.NEAREST,
        "scales": [],
        "coordinate_transformation": trt.ResizeCoordinateTransformation.ASYMMETRIC,
        "selector_for_single_pixel": trt.ResizeSelector.FORMULA,
        "nearest_rounding": trt.ResizeRoundMode.FLOOR,
        "cubic_coeff": -0.75,
        "exclude_outside": False,
    },
    "IShuffleLayer": {"zero_is_placeholder": True},
    "ISliceLayer": {"mode": trt.SampleMode.STRICT_BOUNDS},
}


def test_attributes_start_at_the_documented_defaults(net):
    x = net.add_input("x", trt.float32, (1, 2, 3, 4))
    layers = [
        *(net.add_activation(x, trt.ActivationType.RELU), norm(net, x, 0b1100), net.add_resize(x)),
        *(net.add_shuffle(x), net.add_slice(x, (0,), (1,), (1,))),
        net.add_convolution_nd(x, 1, (3, 4), np.ones(24, np.float32)),
        net.add_deconvolution_nd(x, 1, (3, 4), np.ones(24, np.float32)),
        net.add_pooling_nd(x, trt.PoolingType.MAX, (2, 2)),
        net.add_quantize(x, x),
    ]
    results = {type(v).__name__: {n: getattr(v, n) for n in DEFAULTS[type(v).__name__]} for v in layers}
    assert results == DEFAULTS
    unset = [layers[2].shape, layers[3].reshape_dims, layers[4].axes]
    assert [dims.rank for dims in unset] == [-1, -1, -1]


def test_padding_is_both_paddings_and_shows_the_first(net):
    layer = net.add_convolution_nd(
        net.add_input("x", trt.float32, (1, 1, 5, 5)), 1, (2, 2), np.ones(4, np.float32)
    )
    layer.padding_nd = (1, 2)
    assert [layer.pre_padding, layer.post_padding, layer.padding_nd] == [(1, 2)] * 3
    layer.pre_padding = (0, 1)
    assert [layer.pre_padding, layer.post_padding, layer.padding_nd] == [(0, 1), (1, 2), (0, 1)]


SELU_PARAMETERS = (1.6732632423543772, 1.0507009873554805)


@pytest.mark.parametrize(
    ("function", "pair", "want"),
    [
        (trt.ActivationType.SOFTPLUS, (1, 1), [0.126928, 0.693147, 2.126928]),
        (trt.ActivationType.SELU, SELU_PARAMETERS, [-1.520166, 0, 2.101402]),
        (trt.ActivationType.ELU, (0, 0), [0, 0, 2]),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_activations_without_parameters_are_what_they_are_by_themselves(log, function, pair, want):
    def add(net, x):
        layer = net.add_activation(x, trt.ActivationType.RELU)
        layer.type = function
        assert (layer.alpha, layer.beta) == pair
        return layer

    assert same(computed(log, [-2, 0, 2], add, "alpha"), want)


def test_a_parameter_that_is_set_to_0_is_0(log):
    assert same(computed(log, [-2, 2], activation(trt.ActivationType.SOFTPLUS), "alpha", 0), [0, 0])


@pytest.mark.parametrize(("rank", "axis"), [(4, 1), (5, 2), (8, 5)])
def test_scale_and_concatenation_choose_their_axis_by_the_rank(net, rank, axis):
    x = net.add_input("x", trt.float32, (2,) * rank)
    assert net.add_scale(x, trt.ScaleMode.UNIFORM).channel_axis == axis
    assert net.add_concatenation([x]).axis == axis


def test_is_v2_says_how_normalization_was_added_and_how_many_coefficients_it_takes(net, log):
    x = net.add_input("x", trt.float32, (1, 4, 3, 1))
    each = [constant(net, np.ones((1, n, 1, 1), np.float32)) for n in (2, 4)]
    first = configured(net.add_normalization(x, each[0], each[0], 0b1100), num_groups=2)
    second = configured(net.add_normalization_v2(x, each[1], each[1], 0b1100), num_groups=2)
    assert (first.is_v2, second.is_v2) == (False, True)
    assert [layer.get_output(0).shape.rank for layer in (first, second)] == [4, 4]
    first.set_input(1, each[1])
    assert (first.get_output(0).shape.rank, "AR119" in log.lines[0]) == (-1, True)
    with pytest.raises(AttributeError):
        second.is_v2 = False


def test_compute_precision_takes_two_types(net, log):
    layer = norm(net, net.add_input("x", trt.float32, (2, 2)), 0b10)
    layer.compute_precision = trt.float16
    assert (layer.compute_precision, layer.get_output(0).dtype) == (trt.float16, trt.float32)
    layer.compute_precision = trt.bfloat16
    assert (layer.get_output(0).shape.rank, "AR304" in log.lines[0]) == (-1, True)
