"""Normalizations and activations."""

from __future__ import annotations

import numpy as np

from anyrt.api.compose.normalizations import Moments, group_normalized, instance_normalized, layer_normalized
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.standard._part import FLOAT, Part
from anyrt.api.plugins.standard._record import Field, Standard
from anyrt.core.enums import ActivationType, ReduceOperation, UnaryOperation
from anyrt.core.errors import ShapeError

EPSILON = float(np.finfo(np.float32).eps)  # which the plug-ins of BERT add to variances


def instance_normalization(part: Part) -> Tensor:
    """Instance normalization, then LeakyReLU if the field relu is set."""
    x = part.of_rank(0, 3, 4, 5)
    scale, bias = (part.constant(part.array(n), x.dtype) for n in ("scales", "bias"))
    y = instance_normalized(part, x, scale, bias, Moments(part.real("epsilon")))
    slope = part.real("alpha")
    return leaky(part, y, slope) if part.whole("relu") else y


def leaky(part: Part, x: Tensor, slope: float) -> Tensor:
    """LeakyReLU with this slope."""
    return part.activation(ActivationType.LEAKY_RELU, x, alpha=slope)


def leaky_relu(part: Part) -> Tensor:
    """LeakyReLU as a plug-in."""
    return leaky(part, part.inputs[0], part.real("negSlope"))


def clip(part: Part) -> Tensor:
    """The input, clipped to a range."""
    low, high = part.real("clipMin"), part.real("clipMax")
    return part.activation(ActivationType.CLIP, part.inputs[0], alpha=low, beta=high)


def group_normalization(part: Part) -> Tensor:
    """Group normalization."""
    groups = part.whole("num_groups")
    x = part.of_rank(0, 3, 4, 5)
    if x.sizes[1] % groups and x.sizes[1] > 0:
        raise ShapeError("AR118", part.where, f"{x.sizes[1]} channels", f"a multiple of {groups} groups")
    _, scale, shift = part.inputs
    return group_normalized(part, x, scale, shift, groups, Moments(part.real("eps")))


def normalize(part: Part) -> Tensor:
    """L2 normalization over channels or whole images, times weights."""
    x = part.of_rank(0, 3, 4)
    channels = x.rank - 3
    axes = range(channels, x.rank) if part.whole("acrossSpatial") else (channels,)
    real = x.cast(FLOAT)
    squares = part.reduce(ReduceOperation.SUM, real * real, axes) + part.real("eps")
    weights = part.array("weights").astype(np.float32)
    factor = weights[:1] if part.whole("channelShared") else weights
    scale = part.constant(factor.reshape([-1 if k == channels else 1 for k in range(x.rank)]))
    return (real / part.unary(UnaryOperation.SQRT, squares) * scale).cast(x.dtype)


def gelu(part: Part) -> Tensor:
    """GELU with the tanh approximation, after the bias if there is one."""
    x = with_bias(part, part.inputs[0])
    return part.activation(ActivationType.GELU_TANH, x)


def with_bias(part: Part, x: Tensor) -> Tensor:
    """`x` plus the field `bias`, if that is set."""
    bias = part.array("bias").reshape(-1)
    if not bias.size:
        return x
    axis = hidden(part, x, bias.size)
    return x + part.constant(bias.reshape([-1 if k == axis else 1 for k in range(x.rank)]), x.dtype)


def hidden(part: Part, x: Tensor, size: int) -> int:
    """The axis of `x` to which weights belong: the last one of their size, otherwise the third."""
    axes = [k for k in range(x.rank) if x.sizes[k] == size] or [min(2, x.rank - 1)]
    return checked_axis(part, x, size, axes[-1])


def checked_axis(part: Part, x: Tensor, size: int, axis: int) -> int:
    """`axis`; ShapeError AR123 if `x` has another size there."""
    if x.sizes[axis] not in (size, -1):
        wanted = f"{size}, the number of weights"
        raise ShapeError("AR123", part.where, f"{x.sizes[axis]} entries in axis {axis}", wanted)
    return axis


def skip_layer_norm(part: Part) -> Tensor:
    """Layer normalization of the sum of two tensors and a bias."""
    x = with_bias(part, part.inputs[0] + part.inputs[1])
    gamma, beta = (part.array(n).reshape(-1) for n in ("gamma", "beta"))
    return layer_norm(part, x, gamma, beta)


def layer_norm(part: Part, x: Tensor, gamma: np.ndarray, beta: np.ndarray, axis: int | None = None) -> Tensor:
    """Layer normalization over the axis of the weights and the trailing axes of size 1."""
    if axis is None:
        axis = hidden(part, x, gamma.size)
    shape = gamma.size, *[1] * (x.rank - axis - 1)
    scale, shift = (part.constant(w.reshape(shape), x.dtype) for w in (gamma, beta))
    return layer_normalized(part, x, scale, shift, range(axis, x.rank), Moments(EPSILON))[0]


INSTANCE = (
    Field("epsilon", 1e-5, 0.0),
    Field("scales", None, needed=True),
    Field("bias", None, needed=True),
    Field("relu", 0, 0, 1),
    Field("alpha", 0.0),
)
TYPE = Field("type_id", 0, 0, 2)
PLUGINS = (
    Standard("InstanceNormalization_TRT", instance_normalization, INSTANCE, ("1", "2", "3"), v3=("3",)),
    Standard(
        "GroupNormalizationPlugin",
        group_normalization,
        (Field("eps", 1e-5, 0.0), Field("num_groups", 1, 1)),
        inputs=(3, 3),
    ),
    Standard(
        "Normalize_TRT",
        normalize,
        (
            Field("weights", None, needed=True),
            Field("acrossSpatial", 0, 0, 1),
            Field("channelShared", 0, 0, 1),
            Field("nbWeights", 1),
            Field("eps", 1e-10, 0.0),
        ),
    ),
    Standard("LReLU_TRT", leaky_relu, (Field("negSlope", 0.0),)),
    Standard("Clip_TRT", clip, (Field("clipMin", 0.0), Field("clipMax", 0.0))),
    Standard("CustomGeluPluginDynamic", gelu, (TYPE, Field("bias", None)), ("1", "2"), v3=("2",)),
    Standard(
        "CustomSkipLayerNormPluginDynamic",
        skip_layer_norm,
        (
            TYPE,
            Field("ld", 0, 0),
            Field("beta", None, needed=True),
            Field("gamma", None, needed=True),
            Field("bias", None),
        ),
        ("1", "2", "5", "6"),
        v3=("5", "6"),
        inputs=(2, 2),
    ),
)
