"""Attention and rotary embedding of ONNX; the operators of ONNX Runtime use the same functions.

If the Attention layer supports all attributes, the node is one layer. Otherwise it becomes scores, their
mask, softmax, and the product with the values, which the compiler computes a few rows at a time, like the
layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anyrt.api.compose.normalizations import wide
from anyrt.api.compose.sizes import Size, length
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import (
    ActivationType,
    AttentionNormalizationOp,
    DataType,
    ReduceOperation,
    UnaryOperation,
)
from anyrt.onnx.node import Node, importer

FLOAT, BOOL = DataType.FLOAT, DataType.BOOL
LEAST = float(np.finfo(np.float32).min)
NATIVE = frozenset({FLOAT, DataType.HALF, DataType.BF16})


@dataclass(slots=True)
class Scores:
    """The parameters of attention in addition to its operands, which are (batch, heads, tokens, head size).

    seen: masks that are True if a query attends to a key; bias: is added to scores; both broadcast to (batch,
    heads, queries, keys). causal: a query attends to keys up to its own position. asked: the stage of scores
    that is an output: 0: products, 1: capped, 2: with the bias, 3: after softmax.
    """

    scale: float | None = None
    cap: float = 0.0
    causal: bool = False
    bias: Tensor | None = None
    seen: list[Tensor] = field(default_factory=list)
    asked: int | None = None
    shown: Tensor | None = None


def attended(node: Node, q: Tensor, k: Tensor, v: Tensor, how: Scores) -> Tensor:
    """Attention: softmax of the scores, times the values; several query heads may share one key head."""
    scale = how.scale or (1.0 / math.sqrt(q.sizes[3]) if q.sizes[3] > 0 else None)
    q = q * _scale_of(node, q) if scale is None else q * scale
    if _is_layer(q, k, v, how):
        return _layer(node, q, k, v, how.causal)
    if how.causal:
        rows, columns = positions(node, q, 2), positions(node, k, 3)
        how.seen.append(columns < rows + 1)
    group, shape = _group(node, q, k), [length(q, 0), length(q, 1), length(q, 2), length(k, 2)]
    if group > 1:
        q = q.reshape([shape[0], length(k, 1), group, shape[2], length(q, 3)])
        k, v = k.unsqueeze(2), v.unsqueeze(2)
    scores = node.matmul(q, k, turn_b=True)
    scores = scores.reshape(shape) if group > 1 else scores
    weights = _weights(node, scores, how).cast(v.dtype)
    if group == 1:
        return node.matmul(weights, v)
    each = weights.reshape([shape[0], length(k, 1), group, shape[2], shape[3]])
    return node.matmul(each, v).reshape([*shape[:3], length(v, 4)])


def _scale_of(node: Node, q: Tensor) -> Tensor:
    """1 / √ of a dynamic head size."""
    root = node.unary(UnaryOperation.SQRT, q.size(3).cast(wide(q).dtype))
    return node.unary(UnaryOperation.RECIP, root).cast(q.dtype).reshape((1, 1, 1, 1))


def _group(node: Node, q: Tensor, k: Tensor) -> int:
    """The number of query heads for each key head."""
    many, few = q.sizes[1], k.sizes[1]
    if min(many, few) < 0:
        if many != few:
            raise node.unsupported(
                "a dynamic number of heads", "set the attributes q_num_heads and kv_num_heads"
            )
        return 1
    if few == 0 or many % few:
        raise node.unsupported(f"{many} query heads for {few} key heads", "use a multiple of the key heads")
    return many // few


def _is_layer(q: Tensor, k: Tensor, v: Tensor, how: Scores) -> bool:
    """Whether the Attention layer supports all parameters."""
    plain = how.bias is None and not how.seen and not how.cap and how.asked is None
    same = k.sizes[3] == v.sizes[3] and min(q.sizes[1], k.sizes[1], q.sizes[3], k.sizes[3], v.sizes[3]) > 0
    return plain and same and q.dtype in NATIVE and {k.dtype, v.dtype} == {q.dtype}


def _layer(node: Node, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    network: Any = node.network  # its methods are derived from the records
    layer = network.add_attention(q.it, k.it, v.it, AttentionNormalizationOp.SOFTMAX, causal)
    layer.name = f"{node.where}.attention"
    return node.tensor(layer.get_output(0))


def _weights(node: Node, scores: Tensor, how: Scores) -> Tensor:
    """Softmax over keys; 0 for queries that attend to none."""
    stages = [scores]
    scores = scores.cast(FLOAT) if scores.dtype in NATIVE else scores
    if how.cap:
        scores = node.layer("add_activation", scores / how.cap, ActivationType.TANH) * how.cap
    stages.append(scores)
    if how.bias is not None:
        scores = scores + how.bias.cast(scores.dtype)
    for condition in how.seen:
        scores = node.where_(condition, scores, node.like(-math.inf, scores))
    stages.append(scores)
    if how.bias is None and not how.seen:
        weights = node.layer("add_softmax", scores, axes=1 << scores.rank - 1)
    else:
        weights = _safe(node, scores)
    stages.append(weights)
    if how.asked is not None:
        how.shown = stages[how.asked].cast(stages[0].dtype)
    return weights


def _safe(node: Node, scores: Tensor) -> Tensor:
    """A divisor that is not 0: if a query attends to a key, its largest score adds 1 to the sum; otherwise
    all exponentials are 0."""
    axis = [scores.rank - 1]
    most = node.reduce(ReduceOperation.MAX, scores, axis).maximum(LEAST)
    powers = node.unary(UnaryOperation.EXP, scores - most)
    return powers / node.reduce(ReduceOperation.SUM, powers, axis).maximum(1.0)


def positions(node: Node, x: Tensor, axis: int) -> Tensor:
    """The positions of tokens along an axis of scores, (1, 1, tokens, 1) or (1, 1, 1, tokens)."""
    return node.counted(length(x, 2)).reshape([-1 if k == axis else 1 for k in range(4)])


# ---- heads ----------------------------------------------------------------------------------------


def heads_of(node: Node, x: Tensor, heads: int) -> Tensor:
    """(batch, tokens, heads · size) as (batch, heads, tokens, size)."""
    if x.sizes[2] >= 0 and (heads < 1 or x.sizes[2] % heads):
        raise node.unsupported(
            f"{heads} heads of {x.sizes[2]} elements", "use a number of heads that divides the elements"
        )
    size: Size = x.sizes[2] // heads if x.sizes[2] >= 0 else x.size(2) // heads
    return x.reshape([length(x, 0), length(x, 1), heads, size]).transpose(0, 2, 1, 3)


def joined(x: Tensor) -> Tensor:
    """(batch, heads, tokens, size) as (batch, tokens, heads · size)."""
    return x.transpose(0, 2, 1, 3).reshape([length(x, 0), length(x, 2), length(x, 1) * length(x, 3)])


@importer("Attention")
def attention(node: Node) -> list[Tensor | None]:
    """The result, keys and values with the cached ones, and scores if they are requested."""
    q, k, v = (node.input(i) for i in range(3))
    flat = q.rank == 3
    if flat:
        few = node.attr("kv_num_heads", 0)
        q, k, v = (heads_of(node, x, n) for x, n in ((q, node.attr("q_num_heads", 0)), (k, few), (v, few)))
    past, kept = (node.optional(4), node.optional(5)), node.optional(6)
    offset: Size | None = None if past[0] is None else length(past[0], 2)
    if past[0] is not None and past[1] is not None:
        k, v = (node.concat([a, b], 2) for a, b in ((past[0], k), (past[1], v)))
    if kept is not None and past[0] is None:
        offset = kept.cast(DataType.INT64).reshape((-1, 1, 1, 1)) - q.size(2)
    shown = len(node.outputs_named) > 3 and bool(node.outputs_named[3])
    how = Scores(
        node.attr("scale", 0.0) or None,
        node.attr("softcap", 0.0),
        asked=node.attr("qk_matmul_output_mode", 0) if shown else None,
    )
    _limit(node, q, k, offset, how)
    if kept is not None:
        how.seen.append(positions(node, k, 3) < kept.cast(DataType.INT64).reshape((-1, 1, 1, 1)))
    _mask(node, k, how)
    y = attended(node, q, k, v, how)
    return [joined(y) if flat else y, k, v, how.shown]


def _limit(node: Node, q: Tensor, k: Tensor, offset: Size | None, how: Scores) -> None:
    """The keys to which a query attends by its position."""
    causal = bool(node.attr("is_causal", 0))
    left, right = node.attr("left_window_size", -1), node.attr("right_window_size", -1)
    how.causal = causal and offset is None
    right = 0 if causal and offset is not None else right
    if left < 0 and right < 0:
        return
    rows, columns = positions(node, q, 2), positions(node, k, 3)
    if offset is not None:
        if not isinstance(offset, int) and offset.rank != 4:
            offset = offset.reshape((1, 1, 1, 1))
        rows = rows + offset
    if left >= 0:
        how.seen.append(rows < columns + (left + 1))
    if right >= 0:
        how.seen.append(columns < rows + (right + 1))


def _mask(node: Node, k: Tensor, how: Scores) -> None:
    mask = node.optional(3)
    if mask is None:
        return
    if node.version >= 24 and (mask.sizes[-1] != k.sizes[2] or mask.sizes[-1] < 0):
        mask = _widened(node, mask, k)
    mask = mask.unsqueeze(*range(4 - mask.rank))
    if mask.dtype is BOOL:
        how.seen.append(mask)
    else:
        how.bias = mask


def _widened(node: Node, mask: Tensor, k: Tensor) -> Tensor:
    """Extend a mask for fewer keys; the other keys are hidden."""
    if mask.sizes[-1] == 1:
        return mask
    at = node.counted(length(k, 2))
    there = at < mask.size(mask.rank - 1)
    wide = node.gather(mask, at.minimum(mask.size(mask.rank - 1) - 1), mask.rank - 1)
    if mask.dtype is BOOL:
        return wide & there
    return node.where_(there, wide, node.like(-math.inf, wide))


@importer("RotaryEmbedding")
def rotary_embedding(node: Node) -> Tensor:
    """A RotaryEmbedding layer."""
    x, ids = node.input(0), node.optional(3)
    flat = x.rank == 3
    x = heads_of(node, x, node.attr("num_heads", 0)) if flat else x
    more = bool(node.attr("interleaved", 0)), node.attr("rotary_embedding_dim", 0)
    layer = node.add("add_rotary_embedding", x, node.input(1), node.input(2), *more)
    y = node.with_inputs(layer, {3: ids})
    return joined(y) if flat else y
