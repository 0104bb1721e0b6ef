"""Normalisation by means and variances, or by norms; half types are computed in float32."""

from __future__ import annotations

import numpy as np

from anyrt.api.compose.normalizations import (
    Moments,
    column,
    group_normalized,
    instance_normalized,
    layer_normalized,
    moments,
    wide,
)
from anyrt.api.compose.sizes import lengths
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType, ReduceOperation, SampleMode, UnaryOperation
from anyrt.onnx.node import Argument, Node, importer
from anyrt.ops._types import FLOATS
from anyrt.ops.lrn import WIDEST

R, U, D = ReduceOperation, UnaryOperation, DataType


def _moments_of(node: Node, x: Tensor) -> Moments:
    """The type for moments; float64 stays, which ONNX would convert to float32, unless the node specifies
    another type."""
    return Moments(node.attr("epsilon", 1e-5), node.dtype("stash_type", x.dtype))


MOST_CHANNELS = 1024  # maximum number of channels of LRN, each of which is a layer


@importer("BatchNormalization")
def batch_normalization(node: Node) -> list[Argument]:
    """Normalise each channel by the given mean and variance or, in training mode, by its own."""
    data = node.input(0)
    x = wide(data)
    by = _moments_of(node, x)
    scale, shift, mean, variance = (column(node.input(i), x) for i in range(1, 5))
    trains = node.attr("training_mode", 0) != 0 if node.version >= 14 else any(node.outputs_named[1:])
    if not trains:
        factor = scale * by.inverse(variance)
        return [(x * factor + (shift - mean * factor)).cast(data.dtype)]
    own, rest, spread = moments(x, [a for a in range(x.rank) if a != 1])
    y = rest * (scale * by.inverse(spread)) + shift
    momentum = node.attr("momentum", 0.9)
    running = [
        (old * momentum + new * (1 - momentum)).reshape((-1,)).cast(node.input(i).dtype)
        for i, old, new in ((3, mean, own), (4, variance, spread))
    ]
    saved = [v.reshape((-1,)).cast(data.dtype) for v in (own, spread)]
    return [y.cast(data.dtype), *running, *saved]


@importer("InstanceNormalization")
def instance_normalization(node: Node) -> Tensor:
    """Normalise each channel of each batch element by its own mean and variance."""
    x, scale, shift = (node.input(i) for i in range(3))
    return instance_normalized(node, x, scale, shift, _moments_of(node, x))


@importer("GroupNormalization")
def group_normalization(node: Node) -> Tensor:
    """Normalise groups of channels by their means and variances; scales are per group until opset 20."""
    x, scale, shift = (node.input(i) for i in range(3))
    groups = node.required("num_groups", 1)
    return group_normalized(node, x, scale, shift, groups, _moments_of(node, x), node.version >= 21)


@importer("LayerNormalization")
def layer_normalization(node: Node) -> list[Argument]:
    """Normalise the axes from one on by their mean and variance, which are outputs, too."""
    x, scale, shift = node.input(0), node.input(1), node.optional(2)
    axes = range(node.axis(x, default=-1), x.rank)
    asked = any(node.outputs_named[1:])
    y, *more = layer_normalized(node, x, scale, shift, axes, _moments_of(node, x), asked)
    stash = node.dtype("stash_type", D.FLOAT)
    return [y, *(v.cast(stash) for v in more)]


@importer("RMSNormalization")
def rms_normalization(node: Node) -> Tensor:
    """Normalise the axes from one on by the root of their mean square; the result has the type of the
    scale."""
    tensor, scale = node.input(0), node.input(1)
    by = _moments_of(node, tensor)
    x = by.staged(tensor)
    inverse = by.inverse(node.reduce(R.AVG, x * x, range(node.axis(x, default=-1), x.rank)))
    return (x * inverse).cast(tensor.dtype).cast(scale.dtype) * scale


@importer("MeanVarianceNormalization")
def mean_variance_normalization(node: Node) -> Tensor:
    """Normalise axes by their mean and standard deviation."""
    _, rest, variance = moments(wide(node.input(0)), node.attr("axes", (0, 2, 3)))
    return (rest / (node.unary(U.SQRT, variance) + 1e-9)).cast(node.input(0).dtype)


@importer("LpNormalization")
def lp_normalization(node: Node) -> Tensor:
    """Divide by the sum of magnitudes, or by the root of the sum of squares; 0 stays 0."""
    x = node.input(0)
    axes, y = [node.axis(x, default=-1)], wide(x)
    if node.attr("p", 2) == 1:
        norm = node.reduce(R.SUM, node.unary(U.ABS, y), axes)
    else:
        norm = node.unary(U.SQRT, node.reduce(R.SUM, y * y, axes))
    return node.where_(norm.equal(0.0), node.like(0.0, y), y / norm).cast(x.dtype)


@importer("LRN")
def lrn(node: Node) -> Tensor:
    """Divide by a power of the mean square of neighbouring channels."""
    x, size = node.input(0), node.required("size", 1)
    alpha, beta, bias = node.attr("alpha", 1e-4), node.attr("beta", 0.75), node.attr("bias", 1.0)
    if x.dtype in FLOATS and size % 2 and size <= WIDEST and x.rank == 4 and beta >= 0.01 and bias >= 1e-5:
        return node.layer("add_lrn", x, size, alpha, beta, bias)
    if not 0 < size <= MOST_CHANNELS:
        raise node.unsupported(f"size {size}", f"use 1 to {MOST_CHANNELS}")
    y = wide(x)
    squares, sizes = y * y, lengths(x)
    total = node.like(0.0, y)
    for k in range(size):
        start = [0, k - (size - 1) // 2, *(0,) * (x.rank - 2)]
        total = total + node.slice(squares, start, sizes, mode=SampleMode.FILL)
    return (y / (total * (alpha / size) + bias) ** np.float64(beta)).cast(x.dtype)
