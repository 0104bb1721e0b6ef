"""Operators of ONNX Runtime's domain on quantized tensors: dequantize, compute, quantize."""

from __future__ import annotations

from collections.abc import Callable

from anyrt.api.compose.sizes import volume
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import ActivationType, DataType, ElementWiseOperation, ReduceOperation
from anyrt.onnx.importers.contrib import biased, contrib
from anyrt.onnx.importers.quantized import Grain, dequantized, measured, quantized, summed
from anyrt.onnx.importers.windows import averaged
from anyrt.onnx.node import Node

FLOAT = DataType.FLOAT


def real(node: Node, i: int, axis: int = 1) -> Tensor:
    """Dequantize inputs `i` to `i` + 2: codes, scale and zero point."""
    return dequantized(node, node.input(i), node.input(i + 1), node.optional(i + 2), grain=Grain(axis))


def coded(node: Node, y: Tensor, i: int, to: DataType) -> Tensor:
    """Quantize with input `i`, the scale, and the zero point after it."""
    zero = node.optional(i + 1)
    return quantized(node, y, node.input(i), zero, to if zero is None else zero.dtype)


def _two(op: ElementWiseOperation) -> Callable[[Node], Tensor]:
    def both(node: Node) -> Tensor:
        y = node.binary(op, real(node, 0), real(node, 3))
        return coded(node, y, 6, node.input(0).dtype)

    return both


contrib("QLinearAdd")(_two(ElementWiseOperation.SUM))
contrib("QLinearMul")(_two(ElementWiseOperation.PROD))


@contrib("QLinearSigmoid")
def qlinear_sigmoid(node: Node) -> Tensor:
    """The logistic function."""
    y = node.layer("add_activation", real(node, 0), ActivationType.SIGMOID)
    return coded(node, y, 3, node.input(0).dtype)


@contrib("QLinearLeakyRelu")
def qlinear_leaky_relu(node: Node) -> Tensor:
    """Leaky ReLU: negative numbers times a slope."""
    slope = node.attr("alpha", 0.01)
    y = node.layer("add_activation", real(node, 0), ActivationType.LEAKY_RELU, alpha=slope)
    return coded(node, y, 3, node.input(0).dtype)


@contrib("QLinearSoftmax")
def qlinear_softmax(node: Node) -> Tensor:
    """Softmax along one axis; before opset 13, over this and all later axes."""
    x = real(node, 0)
    axis = node.axis(x, default=-1)
    if node.attr("opset", 13) < 13:
        flat = x.reshape([volume(x, range(axis)), volume(x, range(axis, x.rank))])
        y = node.layer("add_softmax", flat, axes=2).reshape(x.shape())
    else:
        y = node.layer("add_softmax", x, axes=1 << axis)
    return coded(node, y, 3, node.input(0).dtype)


@contrib("QLinearConcat")
def qlinear_concat(node: Node) -> Tensor:
    """The concatenation of tensors with different scales."""
    parts = [real(node, i) for i in range(2, len(node.arguments), 3)]
    y = node.concat(parts, node.axis(parts[0]))
    return coded(node, y, 0, node.input(2).dtype)


def _channels_last(node: Node, x: Tensor, make: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply `make`, which computes with (N, C, …), to a tensor whose channels may be last."""
    if not node.attr("channels_last", 0):
        return make(x)
    y = make(x.transpose(0, x.rank - 1, *range(1, x.rank - 1)))
    return y.transpose(0, *range(2, x.rank), 1)


@contrib("QLinearAveragePool")
def qlinear_average_pool(node: Node) -> Tensor:
    """The mean of each window."""
    y = _channels_last(node, real(node, 0), lambda x: averaged(node, x))
    return coded(node, y, 3, node.input(0).dtype)


@contrib("QLinearGlobalAveragePool")
def qlinear_global_average_pool(node: Node) -> Tensor:
    """The mean of each channel."""
    y = _channels_last(node, real(node, 0), lambda x: node.reduce(ReduceOperation.AVG, x, range(2, x.rank)))
    return coded(node, y, 3, node.input(0).dtype)


@contrib("QLinearWhere")
def qlinear_where(node: Node) -> Tensor:
    """A selection by a condition."""
    y = node.where_(node.input(0), real(node, 1), real(node, 4))
    return coded(node, y, 7, node.input(1).dtype)


@contrib("QLinearReduceMean")
def qlinear_reduce_mean(node: Node) -> Tensor:
    """The mean over axes."""
    x = real(node, 0)
    axes, keep = node.attr("axes", tuple(range(x.rank))), bool(node.attr("keepdims", 1))
    return coded(node, node.reduce(ReduceOperation.AVG, x, axes, keep), 3, node.input(0).dtype)


# ---- products -------------------------------------------------------------------------------------


@contrib("QGemm")
def qgemm(node: Node) -> Tensor:
    """α · A · B + C of quantized tensors; quantized if an output scale is present."""
    a, a_zero, b, b_zero = (node.input(i) for i in (0, 2, 3, 5))
    a = a.transpose(1, 0) if node.attr("transA", 0) else a
    b = b.transpose(1, 0) if node.attr("transB", 0) else b
    sums, bias = summed(node, a, a_zero, b, b_zero), node.optional(6)
    worth = node.input(1).reshape((1,)) * node.input(4).reshape((-1,)) * node.attr("alpha", 1.0)
    y = biased(sums, bias).cast(FLOAT) * worth
    return y if node.optional(7) is None else coded(node, y, 7, a.dtype)


@contrib("MatMulIntegerToFloat")
def matmul_integer_to_float(node: Node) -> Tensor:
    """The matrix product of codes, times the scales, plus a bias."""
    sums = summed(node, node.input(0), node.optional(4), node.input(1), node.optional(5)).cast(FLOAT)
    worth = node.input(2).cast(FLOAT).reshape((1,)) * node.input(3).cast(FLOAT).reshape((-1,))
    return biased((sums * worth).cast(node.input(2).dtype), node.optional(6))


@contrib("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(node: Node) -> Tensor:
    """The same for numbers that are quantized dynamically."""
    codes, scale, zero = measured(node, node.input(0))
    sums = summed(node, codes, zero, node.input(1), node.optional(3)).cast(FLOAT)
    worth = node.input(2).reshape((-1,)) * scale.reshape((1,))
    return biased(sums * worth, node.optional(4))
