"""Decomposes operators into which PyTorch fuses its layers for inference to operators that ONNX has.

`nn.TransformerEncoderLayer` and `nn.MultiheadAttention` call these fused operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

# Any: PyTorch's operators and tensors; PyTorch is not installed during type checks.


def _attention(
    query: Any,
    key: Any,
    value: Any,
    embed_dim: int,
    num_head: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Any, Any]:
    """Self-attention; also returns the weights if they are needed."""
    batch, length, _ = query.shape
    qkv = F.linear(query, qkv_weight, qkv_bias).view(batch, length, 3, num_head, embed_dim // num_head)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    scores = (q * (embed_dim // num_head) ** -0.5) @ k.transpose(-2, -1)
    if mask is not None:
        hidden = mask.to(torch.bool)
        if mask_type == 1:  # a mask of the keys of each batch element
            hidden = hidden[:, None, None, :]
        scores = scores.masked_fill(hidden, float("-inf"))
    weights = scores.softmax(-1)
    mixed = (weights @ v).transpose(1, 2).reshape(batch, length, embed_dim)
    if need_weights and average_attn_weights:
        weights = weights.mean(1)
    return F.linear(mixed, proj_weight, proj_bias), weights if need_weights else query.new_empty((0,))


def _encoder_layer(
    src: Any,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    ffn_weight_1: Any,
    ffn_bias_1: Any,
    ffn_weight_2: Any,
    ffn_bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """A layer of a transformer encoder."""
    qkv, proj = (qkv_weight, qkv_bias), (proj_weight, proj_bias)
    first, second = (norm_weight_1, norm_bias_1, eps), (norm_weight_2, norm_bias_2, eps)

    def attend(x: Any) -> Any:
        return _attention(
            x, x, x, embed_dim, num_heads, *qkv, *proj, mask, need_weights=False, mask_type=mask_type
        )[0]

    def feed(x: Any) -> Any:
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    def norm(x: Any, by: Any) -> Any:
        return F.layer_norm(x, (embed_dim,), *by)

    if norm_first:
        x = src + attend(norm(src, first))
        return x + feed(norm(x, second))
    x = norm(src + attend(src), first)
    return norm(x + feed(x), second)


FUSED: dict[Any, Callable[..., object]] = {
    torch.ops.aten._native_multi_head_attention.default: _attention,
    torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,
}
