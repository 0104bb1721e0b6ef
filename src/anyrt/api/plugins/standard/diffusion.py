"""Layers of diffusion models: normalizations, gates, sequences as images, multi-head attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from anyrt.api.compose.normalizations import Moments, group_normalized, layer_normalized
from anyrt.api.compose.sizes import length, window
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.standard._part import FLOAT, Part
from anyrt.api.plugins.standard._record import Field, Standard
from anyrt.core.enums import ActivationType, AttentionNormalizationOp, UnaryOperation
from anyrt.core.errors import ShapeError

GROUPS = 32
ROOT = 1.4140625  # the square root of 2 in half precision


def group_norm(part: Part) -> Tensor:
    """Group normalization with 32 groups, then SiLU if bSwish is set."""
    x = part.of_rank(0, 4)
    if x.sizes[1] % GROUPS and x.sizes[1] > 0:
        raise ShapeError("AR118", part.where, f"{x.sizes[1]} channels", f"a multiple of {GROUPS} groups")
    y, scale, shift = (v.cast(FLOAT) for v in part.inputs)
    y = group_normalized(part, y, scale, shift, GROUPS, Moments(part.real("epsilon")))
    if part.whole("bSwish"):
        y = y * part.activation(ActivationType.SIGMOID, y)
    return y.cast(x.dtype)


def layer_norm(part: Part) -> Tensor:
    """Layer normalization over the axes from `axis` on."""
    x, scale, bias = part.inputs
    axes = range(part.axis("axis", x), x.rank)
    last = [x.sizes[k] for k in axes]
    scale, bias = (v.cast(x.dtype).reshape(last if min(last) >= 0 else v.shape()) for v in (scale, bias))
    return layer_normalized(part, x, scale, bias, axes, Moments(part.real("epsilon")))[0]


def split_gelu(part: Part) -> Tensor:
    """The first half of the last axis times GELU of the second half."""
    x = part.of_rank(0, 3).cast(FLOAT)
    half = length(x, 2) // 2
    first, gate = window(x, 2, 0, half), window(x, 2, half, half)
    share = part.unary(UnaryOperation.ERF, gate / ROOT) + 1.0
    return (share * gate * 0.5 * first).cast(part.inputs[0].dtype)


def sequence_as_image(part: Part) -> Tensor:
    """The sum of a sequence, a bias for each channel and another sequence, with channels first."""
    x, bias, other = part.of_rank(0, 3), part.of_rank(1, 1), part.of_rank(2, 3)
    rows, columns = part.whole("height"), part.whole("width")
    if x.sizes[1] not in (rows * columns, -1):
        raise ShapeError("AR123", part.where, f"a sequence of {x.sizes[1]}", f"{rows} × {columns} places")
    y = (x + bias + other).transpose(0, 2, 1)
    return y.reshape([length(x, 0), length(x, 2), rows, columns])


def flash_attention(part: Part) -> Tensor:
    """Attention of (batch, tokens, heads, 3, entries): interleaved queries, keys and values."""
    return _attention(part, _each(part, part.of_rank(0, 5), 3))


def cross_attention(part: Part) -> Tensor:
    """Attention of queries, (batch, tokens, heads, entries), with interleaved keys and values."""
    return _attention(part, [part.of_rank(0, 4), *_each(part, part.of_rank(1, 5), 2)])


def _each(part: Part, x: Tensor, count: int) -> list[Tensor]:
    if x.sizes[3] not in (count, -1):
        raise ShapeError("AR123", part.where, f"{x.sizes[3]} tensors side by side", f"{count}")
    return [window(x, 3, k, 1).squeeze(3) for k in range(count)]


def _attention(part: Part, operands: list[Tensor]) -> Tensor:
    """Attention of operands of shape (batch, tokens, heads, entries), with a result of this shape."""
    query, key, value = (x.transpose(0, 2, 1, 3) for x in operands)
    entries = query.sizes[3]
    if entries < 1:
        raise ShapeError(
            "AR123",
            part.where,
            f"{entries} entries of a head",
            "a static dimension",
            "make only other dimensions dynamic",
        )
    network: Any = part.network  # its methods are generated from records
    query = query * float(1.0 / np.sqrt(entries))
    layer = network.add_attention(query.it, key.it, value.it, AttentionNormalizationOp.SOFTMAX, False)
    layer.name = f"{part.where}.attention"
    return part.tensor(layer.get_output(0)).transpose(0, 2, 1, 3)


EPSILON = Field("epsilon", 1e-5, 0.0)
PLUGINS = (
    Standard("GroupNorm", group_norm, (EPSILON, Field("bSwish", 0, 0, 1)), inputs=(3, 3)),
    Standard("LayerNorm", layer_norm, (EPSILON, Field("axis", -1)), inputs=(3, 3)),
    Standard("SplitGeLU", split_gelu),
    Standard(
        "SeqLen2Spatial",
        sequence_as_image,
        (Field("height", 0, 1, needed=True), Field("width", 0, 1, needed=True)),
        inputs=(3, 3),
    ),
    Standard("fMHA_V2", flash_attention),
    Standard("fMHCA", cross_attention, inputs=(2, 2)),
)
