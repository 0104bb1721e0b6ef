"""Normalisation by means and variances, or by norms; half types are computed with in float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anyrt.api.compose.sizes import lengths
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType, ReduceOperation, SampleMode, UnaryOperation
from anyrt.onnx.node import Given, Node, importer
from anyrt.ops._types import FLOATS
from anyrt.ops.lrn import WIDEST

R, U, D = ReduceOperation, UnaryOperation, DataType


def wide(x: Tensor) -> Tensor:
    """float64 as it is, else float32."""
    return x if x.dtype is D.DOUBLE else x.cast(D.FLOAT)


def _staged(node: Node, x: Tensor) -> Tensor:
    """As moments are computed: in float64 where the node asks for it, or says nothing and has numbers of
    float64, which ONNX would make float32; else in float32, as between all layers of a node."""
    return x.cast(D.DOUBLE if node.dtype("stash_type", x.dtype) is D.DOUBLE else D.FLOAT)


def _moments(node: Node, x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Means, what is left without them, and the mean of the squares of that."""
    centre = node.reduce(R.AVG, x, axes)
    rest = x - centre
    return centre, rest, node.reduce(R.AVG, rest * rest, axes)


def _inverse(node: Node, variance: Tensor) -> Tensor:
    """1 / √(variance + ε)."""
    return node.unary(U.RECIP, node.unary(U.SQRT, variance + node.attr("epsilon", 1e-5)))


def _bits(axes: Sequence[int]) -> int:
    return sum(1 << a for a in axes)


def _is_native(node: Node, x: Tensor) -> bool:
    """Whether a normalisation layer computes it, which has float32 for its first stage."""
    asked = node.dtype("stash_type", x.dtype)
    return x.dtype in FLOATS and asked is not D.DOUBLE and node.attr("epsilon", 1e-5) > 0


def _column(v: Tensor, x: Tensor) -> Tensor:
    """One number for each channel of `x`, in its type; of all elements of a batch, as it is."""
    v = v.cast(x.dtype)
    return v.reshape([1, -1, *(1,) * (x.rank - 2)][: max(x.rank, 1)]) if v.rank == 1 else v


MOST_CHANNELS = 1024  # that LRN looks at: each is a layer


@importer("BatchNormalization")
def batch_normalization(node: Node) -> list[Given]:
    """Each channel by a mean and a variance that are given, or, in training, by its own."""
    given = node.input(0)
    x = wide(given)
    scale, shift, mean, variance = (_column(node.input(i), x) for i in range(1, 5))
    trains = node.attr("training_mode", 0) != 0 if node.version >= 14 else any(node.outputs_named[1:])
    if not trains:
        factor = scale * _inverse(node, variance)
        return [(x * factor + (shift - mean * factor)).cast(given.dtype)]
    own, rest, spread = _moments(node, x, [a for a in range(x.rank) if a != 1])
    y = rest * (scale * _inverse(node, spread)) + shift
    momentum = node.attr("momentum", 0.9)
    running = [
        (old * momentum + new * (1 - momentum)).reshape((-1,)).cast(node.input(i).dtype)
        for i, old, new in ((3, mean, own), (4, variance, spread))
    ]
    saved = [v.reshape((-1,)).cast(given.dtype) for v in (own, spread)]
    return [y.cast(given.dtype), *running, *saved]


@importer("InstanceNormalization")
def instance_normalization(node: Node) -> Tensor:
    """Each channel of each batch by its own mean and variance."""
    x = node.input(0)
    scale, shift = (_column(node.input(i), x) for i in (1, 2))
    axes = range(2, x.rank)
    if _is_native(node, x) and axes:
        return node.layer(
            "add_normalization", x, scale, shift, _bits(axes), epsilon=node.attr("epsilon", 1e-5)
        )
    _, rest, variance = _moments(node, wide(x), axes)
    return (rest * _inverse(node, variance)).cast(x.dtype) * scale + shift


@importer("GroupNormalization")
def group_normalization(node: Node) -> Tensor:
    """Groups of channels by their own means and variances; scales were those of groups until opset 20."""
    x, groups = node.input(0), node.required("num_groups", 1)
    axes = range(2, x.rank)
    if _is_native(node, x) and axes and groups > 1:
        method = "add_normalization_v2" if node.version >= 21 else "add_normalization"
        scale, shift = (_column(node.input(i), x) for i in (1, 2))
        more = {"num_groups": groups, "epsilon": node.attr("epsilon", 1e-5)}
        return node.layer(method, x, scale, shift, _bits(axes), **more)
    batch, channels, *rest = lengths(x)
    apart = _staged(node, x).reshape([batch, groups, channels // groups, *rest])
    _, rests, variance = _moments(node, apart, range(2, apart.rank))
    y = rests * _inverse(node, variance)
    inner = [-1 if node.version >= 21 else 1, *(1,) * len(rest)]
    scale, shift = (node.input(i).cast(y.dtype).reshape([1, groups, *inner]) for i in (1, 2))
    return (y * scale + shift).cast(x.dtype).reshape(x.shape())


@importer("LayerNormalization")
def layer_normalization(node: Node) -> list[Given]:
    """The axes from one on by their mean and variance, which are outputs, too."""
    x, scale, shift = node.input(0), node.input(1), node.optional(2)
    axes = range(node.axis(x, default=-1), x.rank)
    alike = (
        shift is not None and -1 not in scale.sizes and scale.sizes == shift.sizes and scale.rank <= x.rank
    )
    if alike and shift is not None and _is_native(node, x) and not any(node.outputs_named[1:]):
        _, one, other = node.aligned(x, scale, shift)
        epsilon = node.attr("epsilon", 1e-5)
        return [node.layer("add_normalization", x, one, other, _bits(axes), epsilon=epsilon)]
    centre, rest, variance = _moments(node, _staged(node, x), axes)
    inverse = _inverse(node, variance)
    y = (rest * inverse).cast(x.dtype) * scale
    stash = node.dtype("stash_type", D.FLOAT)
    return [y if shift is None else y + shift, centre.cast(stash), inverse.cast(stash)]


@importer("RMSNormalization")
def rms_normalization(node: Node) -> Tensor:
    """The axes from one on by the root of their mean square; the result has the type of the scale."""
    x, scale = _staged(node, node.input(0)), node.input(1)
    axes = range(node.axis(x, default=-1), x.rank)
    inverse = _inverse(node, node.reduce(R.AVG, x * x, axes))
    return (x * inverse).cast(node.input(0).dtype).cast(scale.dtype) * scale


@importer("MeanVarianceNormalization")
def mean_variance_normalization(node: Node) -> Tensor:
    """Axes by their mean and standard deviation."""
    _, rest, variance = _moments(node, wide(node.input(0)), node.attr("axes", (0, 2, 3)))
    return (rest / (node.unary(U.SQRT, variance) + 1e-9)).cast(node.input(0).dtype)


@importer("LpNormalization")
def lp_normalization(node: Node) -> Tensor:
    """Divided by the sum of what elements are, or the root of that of their squares; 0 stays 0."""
    x = node.input(0)
    axes, y = [node.axis(x, default=-1)], wide(x)
    if node.attr("p", 2) == 1:
        norm = node.reduce(R.SUM, node.unary(U.ABS, y), axes)
    else:
        norm = node.unary(U.SQRT, node.reduce(R.SUM, y * y, axes))
    return node.where_(norm.equal(0.0), node.like(0.0, y), y / norm).cast(x.dtype)


@importer("LRN")
def lrn(node: Node) -> Tensor:
    """Divided by a power of the mean square of the channels around."""
    x, size = node.input(0), node.required("size", 1)
    alpha, beta, bias = node.attr("alpha", 1e-4), node.attr("beta", 0.75), node.attr("bias", 1.0)
    if x.dtype in FLOATS and size % 2 and size <= WIDEST and x.rank == 4 and beta >= 0.01 and bias >= 1e-5:
        return node.layer("add_lrn", x, size, alpha, beta, bias)
    if not 0 < size <= MOST_CHANNELS:
        raise node.unsupported(f"size {size}", f"give 1 to {MOST_CHANNELS}")
    y = wide(x)
    squares, sizes = y * y, lengths(x)
    total = node.like(0.0, y)
    for k in range(size):
        start = [0, k - (size - 1) // 2, *(0,) * (x.rank - 2)]
        total = total + node.slice(squares, start, sizes, mode=SampleMode.FILL)
    return (y / (total * (alpha / size) + bias) ** np.float64(beta)).cast(x.dtype)
