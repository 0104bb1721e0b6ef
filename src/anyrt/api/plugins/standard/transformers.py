"""Layers of transformers: attention in several forms, embeddings, products with fixed weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as product_of
from typing import Any

import numpy as np

from anyrt.api.compose.ordered import gather_elements
from anyrt.api.compose.sizes import length, window
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.standard._part import FLOAT, INT32, INT64, Part
from anyrt.api.plugins.standard._record import Field, Standard
from anyrt.api.plugins.standard.normalizations import TYPE, layer_norm
from anyrt.core.enums import (
    AttentionIOForm,
    AttentionNormalizationOp,
    DataType,
    GatherMode,
    ReduceOperation,
    UnaryOperation,
)
from anyrt.core.errors import NotSupportedError, ShapeError
from anyrt.ops._record import Array

PACKED = AttentionIOForm.PACKED_NHD


def qkv_to_context(part: Part) -> Tensor:
    """Multi-head attention of interleaved queries, keys and values: (tokens, batch, 3 · hidden, 1, 1), or
    packed, (tokens of all sequences, 3 · hidden, 1, 1), with start positions."""
    heads, each = split_heads(part)
    if "var_seqlen" in part.names and part.whole("var_seqlen"):
        return _packed(part, heads, each)
    return _padded(part, heads, each)


def split_heads(part: Part) -> tuple[int, int]:
    """The number of heads, and the size of each."""
    hidden, heads = part.whole("hidden_size"), part.whole("num_heads")
    if hidden % heads:
        raise ShapeError("AR118", part.where, f"hidden_size {hidden}", f"a multiple of {heads} heads")
    return heads, hidden // heads


def _split(part: Part, x: Tensor, lead: int, heads: int, each: int) -> list[Tensor]:
    """Scaled queries, keys and values: the leading axes, heads, entries of a head."""
    if x.sizes[lead] not in (3 * heads * each, -1):
        got, wanted = f"{x.sizes[lead]} entries in axis {lead}", f"{3 * heads * each}, 3 times hidden_size"
        raise ShapeError("AR123", part.where, got, wanted)
    y = x.reshape([*(length(x, k) for k in range(lead)), heads, 3, each])
    query, key, value = (window(y, lead + 1, k, 1).squeeze(lead + 1) for k in range(3))
    return [query * (1.0 / np.sqrt(each)), key, value]


def _padded(part: Part, heads: int, each: int) -> Tensor:
    x = part.of_rank(0, 3, 4, 5)
    operands = [v.transpose(1, 2, 0, 3) for v in _split(part, x, 2, heads, each)]
    layer = _attention(part, operands)
    if part.whole("has_mask"):
        if part.optional(1) is None or part.inputs[1].rank != 1:
            do = "pass the sequence lengths, (batch), as the second input"
            raise NotSupportedError("AR901", part.where, "has_mask without a mask input", "a mask input", do)
        places = part.counted(length(x, 0)).cast(INT32).unsqueeze(0)
        shown = (places < part.inputs[1].unsqueeze(1)).unsqueeze(1, 2)
        every = [length(x, 1), 1, length(x, 0), length(x, 0)]
        layer.mask = part.expand(shown, every).it
    y = part.tensor(layer.get_output(0)).transpose(2, 0, 1, 3)
    return y.reshape([length(x, 0), length(x, 1), heads * each, *[1] * (x.rank - 3)])


def _packed(part: Part, heads: int, each: int) -> Tensor:
    """Attention of packed sequences; the third input has their start positions and the total length."""
    x = part.of_rank(0, 2, 3, 4)
    if part.optional(2) is None:
        raise ShapeError(
            "AR123", part.where, "no third input", "the start positions of the sequences, (batch + 1)"
        )
    y = attended(part, _split(part, x, 1, heads, each), part.inputs[2])
    return y.reshape([length(x, 0), heads * each, *[1] * (x.rank - 2)])


def attended(part: Part, operands: Sequence[Tensor], starts: Tensor) -> Tensor:
    """Attention within each sequence; queries, keys and values are (tokens, heads, entries)."""
    layer = _attention(part, operands)
    layer.query_form = layer.key_value_form = PACKED
    layer.query_lengths = layer.key_value_lengths = starts.cast(INT32).it
    return part.tensor(layer.get_output(0))


def _attention(
    part: Part, operands: Sequence[Tensor]
) -> Any:  # Any: attributes are generated from the record
    network: Any = part.network  # so are its methods
    query, key, value = (v.it for v in operands)
    layer = network.add_attention(query, key, value, AttentionNormalizationOp.SOFTMAX, False)
    layer.name = f"{part.where}.attention"
    return layer


def embedding(part: Part) -> list[Tensor]:
    """The normalized sum of the embeddings of tokens, token types and positions, and the number of unmasked
    tokens of each sequence. Tokens, token types and mask: (tokens, batch).

    The second output is an input of CustomQKVToContextPluginDynamic, which accepts these counts for all
    types; mha_type_id has no effect. AR901 for full_mask, which returns a packed mask in TensorRT."""
    if part.whole("full_mask"):
        do = "set full_mask to 0"
        raise NotSupportedError("AR901", part.where, "a packed mask", "sequence lengths", do)
    tokens, kinds, mask = (part.of_rank(k, 2) for k in range(3))
    gamma, beta = (part.array(f"{EMBEDDINGS}layernorm_{n}").reshape(-1) for n in ("gamma", "beta"))
    word, kind, place = tables(part)
    places = window(place, 0, 0, length(tokens, 0)).unsqueeze(1)
    sums = part.gather(word, tokens, 0) + part.gather(kind, kinds, 0) + places
    y = layer_norm(part, sums, gamma, beta)
    count = part.reduce(ReduceOperation.SUM, (~mask.equal(0)).cast(INT32), [0], keep=False)
    return [y.cast(DataType.HALF if part.whole("output_fp16") else FLOAT).unsqueeze(3, 4), count]


def tables(part: Part) -> list[Tensor]:
    """The embedding tables of tokens, token types and positions."""
    size = part.array(f"{EMBEDDINGS}layernorm_gamma").size
    named = (f"{EMBEDDINGS}{n}_embeddings" for n in ("word", "token_type", "position"))
    return [part.constant(part.array(n).reshape(-1, size), FLOAT) for n in named]


def product(part: Part) -> Tensor:
    """A matrix product with fixed weights over the third axis; the axes after it have size 1."""
    x = part.of_rank(0, 3, 4, 5)
    out = part.whole("out_dims")
    weights = part.array("W").reshape(-1)
    if weights.size % out or x.sizes[2] not in (weights.size // out, -1):
        got = f"{weights.size} weights for {x.sizes[2]} entries and {out} results"
        raise ShapeError("AR123", part.where, got, "a multiple of out_dims, for the size of axis 2")
    flat = x.reshape([length(x, 0), length(x, 1), weights.size // out])
    y = part.matmul(flat, part.constant(weights.reshape(-1, out), x.dtype))
    return y.unsqueeze(*range(3, x.rank))


# ---- attention of other kinds -----------------------------------------------------------------------


def disentangled(part: Part) -> Tensor:
    """Disentangled attention scores: content to content, content to position and position to content, with
    logarithmic buckets of distances; times a factor."""
    content, to_place, from_place = (part.of_rank(k, 3) for k in range(3))
    rows = part.counted(length(content, 1)).unsqueeze(1)
    distance = rows - part.counted(length(content, 2)).unsqueeze(0)
    span = part.whole("span")
    table, far = part.constant(buckets(span), INT64), 2 * span + 1
    bucket = part.gather(table, distance.maximum(-far).minimum(far) + far, 0).unsqueeze(0)
    every = [length(content, k) for k in range(3)]
    there = gather_elements(part, to_place, part.expand(bucket, every), 2)
    turned = part.expand(bucket.transpose(0, 2, 1), [every[0], every[2], every[1]])
    back = gather_elements(part, from_place, turned, 2).transpose(0, 2, 1)
    return (content + there + back) * part.real("factor")


def buckets(span: int) -> Array:
    """The bucket of each distance from −(2 · span + 1) to 2 · span + 1; larger distances share the last
    one."""
    far = np.arange(-(2 * span + 1), 2 * span + 2)
    half = span // 2
    if half < 1:
        return np.asarray(np.clip(far + span, 0, 2 * span - 1))
    widths = (half - 1) / (np.log(max(2 * span - 1, half + 1)) - np.log(half)) * (1 - 1e-7)
    steps = np.ceil((np.log(np.maximum(np.abs(far), half)) - np.log(half)) * widths) + half
    bucket = np.where(np.abs(far) <= half, far, np.sign(far) * steps)
    return np.asarray(np.clip(bucket + span, 0, 2 * span - 1), np.int64)


def deformable_attention(part: Part) -> Tensor:
    """Weighted sums of bilinear samples of several maps; values: (batch, positions of all maps, heads,
    entries), places: (batch, queries, heads, maps, points, 2)."""
    values, sizes, starts, places, weights = (part.of_rank(k, r) for k, r in enumerate((4, 2, 1, 6, 5)))
    batch, queries, heads, maps, points = (length(places, k) for k in range(5))
    y = values.transpose(0, 2, 1, 3)
    flat = [batch, heads, queries * maps * points]
    sums = None
    for share, index in _neighbours(part, places.cast(FLOAT), sizes, starts):
        weight = (weights.cast(FLOAT) * share).transpose(0, 2, 1, 3, 4).reshape(flat).unsqueeze(3)
        at = index.transpose(0, 2, 1, 3, 4).reshape(flat).unsqueeze(3)
        samples = (
            part.layer("add_gather_v2", y, at.cast(INT64), GatherMode.ND, num_elementwise_dims=2).cast(FLOAT)
            * weight
        )
        sums = samples if sums is None else sums + samples
    assert sums is not None, "there are four neighbours"
    each = sums.reshape([batch, heads, queries, maps * points, length(values, 3)])
    total = part.reduce(ReduceOperation.SUM, each, [3], keep=False)
    return total.transpose(0, 2, 1, 3).cast(values.dtype)


def _neighbours(part: Part, places: Tensor, sizes: Tensor, starts: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The weight of each of four neighbours, 0 outside the map, and its position among those of all maps."""
    column, row = (window(places, 5, k, 1).squeeze(5) for k in (0, 1))
    high, wide = (window(sizes.cast(FLOAT), 1, k, 1).reshape([1, 1, 1, length(sizes, 0), 1]) for k in (0, 1))
    first = starts.cast(FLOAT).reshape([1, 1, 1, length(starts, 0), 1])
    y, x = row * high - 0.5, column * wide - 0.5
    top, left = (part.unary(UnaryOperation.FLOOR, v) for v in (y, x))
    for dy, dx in product_of((0.0, 1.0), repeat=2):
        at_y, at_x = top + dy, left + dx
        share = (1.0 - absolute(part, y - at_y)) * (1.0 - absolute(part, x - at_x))
        inside = ~(at_y < 0.0) & (at_y < high) & ~(at_x < 0.0) & (at_x < wide)
        index = first + at_y.maximum(0.0).minimum(high - 1.0) * wide + at_x.maximum(0.0).minimum(wide - 1.0)
        yield part.where_(inside, share, part.like(0.0, share)), index


def absolute(part: Part, x: Tensor) -> Tensor:
    """The absolute value."""
    return part.unary(UnaryOperation.ABS, x)


EMBEDDINGS = "bert_embeddings_"
QKV = (
    TYPE,
    Field("hidden_size", 0, 1, needed=True),
    Field("num_heads", 0, 1, needed=True),
    Field("has_mask", 0, 0, 1),
    Field("dq_probs", 1 / 127, 0.0),
    Field("var_seqlen", 0, 0, 1),
    Field("use_int8_scale_max", 1, 0, 1),
)
TABLES = tuple(
    Field(f"{EMBEDDINGS}{n}", None, needed=True)
    for n in (
        "layernorm_beta",
        "layernorm_gamma",
        "word_embeddings",
        "token_type_embeddings",
        "position_embeddings",
    )
)
PLUGINS = (
    Standard(
        "CustomQKVToContextPluginDynamic",
        qkv_to_context,
        QKV,
        ("1", "2", "4", "5"),
        v3=("4", "5"),
        inputs=(1, 4),
    ),
    Standard(
        "CustomEmbLayerNormPluginDynamic",
        embedding,
        (
            Field("output_fp16", 0, 0, 1),
            Field("full_mask", 0, 0, 1),
            Field("mha_type_id", 0, 0, 2),
            *TABLES,
        ),
        ("1", "6"),
        v3=("6",),
        inputs=(3, 3),
        outputs=2,
    ),
    Standard(
        "CustomFCPluginDynamic",
        product,
        (Field("out_dims", 0, 1, needed=True), TYPE, Field("W", None, needed=True)),
        ("1", "2"),
        v3=("2",),
    ),
    Standard(
        "DisentangledAttention_TRT",
        disentangled,
        (Field("span", 0, 1, needed=True), Field("factor", 0.0, needed=True)),
        ("1", "2"),
        v3=("2",),
        inputs=(3, 3),
    ),
    Standard(
        "MultiscaleDeformableAttnPlugin_TRT",
        deformable_attention,
        (),
        ("1", "2"),
        v3=("2",),
        inputs=(5, 5),
    ),
)
