"""Transformers on packed sequences, without padding: embeddings, and the variants with channels before the
tokens, (1, hidden, tokens, 1), the layout of TensorRT's int8 kernels.

fields = [trt.PluginField("hidden_size", np.int32([64])), trt.PluginField("num_heads", np.int32([4]))]
creator = registry.get_creator("CustomQKVToContextPluginDynamic", "3", "")
"""

from __future__ import annotations

import numpy as np

from anyrt.api.compose.sizes import length, window
from anyrt.api.compose.tensor import Tensor
from anyrt.api.plugins.standard._part import FLOAT, INT32, Part
from anyrt.api.plugins.standard._record import Field, Standard
from anyrt.api.plugins.standard.normalizations import checked_axis, layer_norm
from anyrt.api.plugins.standard.transformers import EMBEDDINGS, QKV, TABLES, attended, split_heads, tables
from anyrt.core.enums import DataType, ReduceOperation
from anyrt.core.errors import ShapeError


def embedding(part: Part) -> list[Tensor]:
    """The normalized sum of the embeddings of tokens, token types and positions, (tokens, hidden, 1, 1), and
    the lengths of the sequences, an input of CustomQKVToContextPluginDynamic. Inputs: tokens, token types,
    the start positions of the sequences and the total length, (batch + 1), and the maximum length.

    Versions 3 and 5 return the sum before normalization in place of the lengths."""
    tokens, kinds, starts = (part.of_rank(k, 1) for k in range(3))
    places = _places(part, length(tokens, 0), starts.cast(INT32))
    each = zip(tables(part), (tokens, kinds, places), strict=True)
    word, kind, place = (part.gather(table, rows, 0) for table, rows in each)
    sums = word + kind + place
    gamma, beta = (part.array(f"{EMBEDDINGS}layernorm_{n}").reshape(-1) for n in ("gamma", "beta"))
    dtype = DataType.HALF if part.whole("output_fp16") else FLOAT
    y, sums = (v.cast(dtype).unsqueeze(2, 3) for v in (layer_norm(part, sums, gamma, beta), sums))
    if part.version in ("3", "5"):
        return [y, sums]
    count = length(starts, 0)
    return [y, (window(starts, 0, 1, count - 1) - window(starts, 0, 0, count - 1)).cast(INT32)]


def _places(part: Part, count: int | Tensor, starts: Tensor) -> Tensor:
    """The position of each token in its sequence: its distance from the last of `starts` before it."""
    at = part.counted(count).cast(INT32)
    begun = ~(at.unsqueeze(1) < starts.unsqueeze(0))
    earlier = part.where_(begun, starts.unsqueeze(0), part.like(0, starts.unsqueeze(0)))
    return at - part.reduce(ReduceOperation.MAX, earlier, [1], keep=False)


def skip_layer_norm(part: Part) -> list[Tensor]:
    """Layer normalization of the sum of two tensors (1, hidden, tokens, 1); in versions 4 and 8 also the
    sum."""
    x, skip = part.of_rank(0, 4), part.of_rank(1, 4)
    gamma, beta = (part.array(n).reshape(-1) for n in ("gamma", "beta"))
    checked_axis(part, x, gamma.size, 1)
    sums = (x + skip).transpose(0, 2, 3, 1)
    results = [layer_norm(part, sums, gamma, beta, axis=3), sums]
    return [y.transpose(0, 3, 1, 2) for y in results[: 2 if part.version in ("4", "8") else 1]]


def qkv_to_context(part: Part) -> Tensor:
    """Multi-head attention of (1, 3 · hidden, tokens, 1): all queries, all keys, all values. The second input
    has the start positions of the sequences and the total length."""
    x, (heads, each) = part.of_rank(0, 4), split_heads(part)
    if x.sizes[1] not in (3 * heads * each, -1):
        got = f"{x.sizes[1]} entries in axis 1"
        raise ShapeError("AR123", part.where, got, f"{3 * heads * each}, 3 times hidden_size")
    rows = x.transpose(0, 2, 3, 1).reshape([length(x, 2), 3, heads, each])
    query, key, value = (window(rows, 1, k, 1).squeeze(1) for k in range(3))
    y = attended(part, [query * (1.0 / np.sqrt(each)), key, value], part.inputs[1])
    y = y.reshape([1, length(x, 2), 1, heads * each])
    return y.transpose(0, 3, 1, 2)


NORMS = (Field("beta", None, needed=True), Field("gamma", None, needed=True))
LOOKUPS = (Field("output_fp16", 0, 0, 1), *TABLES)
EMBED, SKIP, ATTEND = (f"Custom{n}PluginDynamic" for n in ("EmbLayerNorm", "SkipLayerNorm", "QKVToContext"))
PLUGINS = (
    Standard(EMBED, embedding, LOOKUPS, ("2", "3", "4", "5"), v3=("4", "5"), inputs=(4, 4), outputs=2),
    Standard(SKIP, skip_layer_norm, NORMS, ("3", "7"), v3=("7",), inputs=(2, 2)),
    Standard(SKIP, skip_layer_norm, NORMS, ("4", "8"), v3=("8",), inputs=(2, 2), outputs=2),
    Standard(ATTEND, qkv_to_context, QKV, ("3", "6"), v3=("6",), inputs=(3, 3)),
)
