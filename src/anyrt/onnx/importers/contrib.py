"""Operators of ONNX Runtime's domain com.microsoft on real numbers, which its optimiser creates by fusion."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from anyrt.api.compose.normalizations import wide
from anyrt.api.compose.sizes import Size, entries, larger, length
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import ActivationType, DataType, ReduceOperation, UnaryOperation
from anyrt.onnx.importers.attention import Scores, attended, heads_of, joined, positions
from anyrt.onnx.importers.products import general_product
from anyrt.onnx.importers.windows import convolution
from anyrt.onnx.node import Importer, Node, importer

DOMAIN = "com.microsoft"
A = ActivationType
FLOAT, INT32, INT64 = DataType.FLOAT, DataType.INT32, DataType.INT64
# Activations after a product, with their parameters and the defaults of these.
BEHIND: dict[str, tuple[ActivationType, tuple[float, ...]]] = {
    "Relu": (A.RELU, ()),
    "Tanh": (A.TANH, ()),
    "Sigmoid": (A.SIGMOID, ()),
    "LeakyRelu": (A.LEAKY_RELU, (0.01,)),
    "HardSigmoid": (A.HARD_SIGMOID, (0.2, 0.5)),
    "Elu": (A.ELU, (1.0,)),
    "Softplus": (A.SOFTPLUS, ()),
    "Softsign": (A.SOFTSIGN, ()),
    "Clip": (A.CLIP, (-3.4028235e38, 3.4028235e38)),
}
contrib: Callable[..., Callable[[Importer], Importer]] = partial(importer, domain=DOMAIN)


def activated(node: Node, x: Tensor, values: tuple[float, ...]) -> Tensor:
    """Apply the activation that the attribute `activation` names."""
    name = node.attr("activation", "")
    if not name:
        return x
    if name not in BEHIND:
        raise node.unsupported(f"activation {name}", f"one of {', '.join(BEHIND)}")
    kind, defaults = BEHIND[name]
    values = (*values, *defaults[len(values) :])
    named = dict(zip(("alpha", "beta"), values[: len(defaults)], strict=False))
    return node.layer("add_activation", x, kind, **named)


def biased(x: Tensor, bias: Tensor | None) -> Tensor:
    """The sum with a bias, if there is one."""
    return x if bias is None else x + bias


@contrib("Gelu", "BiasGelu")
def gelu(node: Node) -> Tensor:
    """GELU of the sum with a bias: x · Φ(x)."""
    return node.layer("add_activation", biased(node.input(0), node.optional(1)), A.GELU_ERF)


@contrib("FastGelu")
def fast_gelu(node: Node) -> Tensor:
    """The same, approximated with tanh."""
    return node.layer("add_activation", biased(node.input(0), node.optional(1)), A.GELU_TANH)


@contrib("QuickGelu")
def quick_gelu(node: Node) -> Tensor:
    """x · sigmoid(α x)."""
    x = node.input(0)
    return x * node.layer("add_activation", x * node.attr("alpha", 1.702), A.SIGMOID)


@contrib("FusedConv")
def fused_conv(node: Node) -> Tensor:
    """A convolution, an optional sum, and an activation."""
    params: tuple[float, ...] = node.attr("activation_params", ())
    return activated(node, biased(convolution(node), node.optional(3)), params)


@contrib("FusedGemm")
def fused_gemm(node: Node) -> Tensor:
    """Gemm and an activation."""
    names = ("activation_alpha", "activation_beta")
    return activated(node, general_product(node), tuple(node.attr(n, 0.0) for n in names if node.has(n)))


@contrib("FusedMatMul", "TransposeMatMul")
def fused_matmul(node: Node) -> Tensor:
    """α · A · B, whose operands may be transposed: their last two axes, or the first and the others."""
    a, b = node.input(0), node.input(1)
    if node.attr("transBatchA", 0):
        a = a.transpose(*range(1, a.rank - 1), 0, a.rank - 1)
    if node.attr("transBatchB", 0):
        b = b.transpose(*range(1, b.rank - 1), 0, b.rank - 1)
    y = node.matmul(a, b, bool(node.attr("transA", 0)), bool(node.attr("transB", 0)))
    alpha = node.attr("alpha", 1.0)
    return y if alpha == 1 else y * alpha


# ---- normalisation --------------------------------------------------------------------------------


def normalised(node: Node, x: Tensor, scale: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """Layer norm along the last axis."""
    rest = range(x.rank - 1)
    bias = node.constant(np.zeros(1), x.dtype) if bias is None else bias
    if bias.sizes != scale.sizes:
        bias = node.expand(bias, [length(scale, 0)])
    operands = (x, scale.unsqueeze(*rest), bias.unsqueeze(*rest))
    return node.layer("add_normalization", *operands, 1 << x.rank - 1, epsilon=eps)


def of_square(node: Node, x: Tensor, scale: Tensor, eps: float, axis: int = -1) -> tuple[Tensor, Tensor]:
    """RMS norm along the last axes, and its factor."""
    number = wide(x)
    axes = range(axis % x.rank, x.rank)
    mean = node.reduce(ReduceOperation.AVG, number * number, axes)
    by = node.unary(UnaryOperation.RECIP, node.unary(UnaryOperation.SQRT, mean + eps))
    return (number * by).cast(x.dtype) * scale, by


@contrib("SkipLayerNormalization")
def skip_layer_norm(node: Node) -> list[Tensor | None]:
    """Layer norm of a sum, and the sum."""
    x = biased(node.input(0) + node.input(1), node.optional(4))
    y = normalised(node, x, node.input(2), node.optional(3), node.attr("epsilon", 1e-12))
    return [y, None, None, x]


@contrib("SkipSimplifiedLayerNormalization")
def skip_rms_norm(node: Node) -> list[Tensor | None]:
    """RMS norm of a sum, and the sum."""
    x = biased(node.input(0) + node.input(1), node.optional(3))
    return [of_square(node, x, node.input(2), node.attr("epsilon", 1e-12))[0], None, None, x]


@importer("SimplifiedLayerNormalization")
def rms_norm(node: Node) -> list[Tensor]:
    """RMS norm, which ONNX Runtime defines in the domain of ONNX."""
    more = node.attr("epsilon", 1e-5), node.attr("axis", -1)
    return list(of_square(node, node.input(0), node.input(1), *more))


contrib("SimplifiedLayerNormalization")(rms_norm)


@contrib("EmbedLayerNormalization")
def embed_layer_norm(node: Node) -> list[Tensor | None]:
    """The normalised sum of embeddings of words, positions and segments, and the number of words in the
    mask."""
    ids, words, places, scale = (node.input(i) for i in (0, 2, 3, 5))
    segments, kinds, bias, mask, positions = (node.optional(i) for i in (1, 4, 6, 7, 8))
    at = node.counted(length(ids, 1)) if positions is None else positions
    x = node.gather(words, ids, 0) + node.gather(places, at, 0)
    if segments is not None and kinds is not None:
        x = x + node.gather(kinds, segments, 0)
    y = normalised(node, x, scale, bias, node.attr("epsilon", 1e-12))
    shown = ids.cast(INT32) * 0 if mask is None else mask.cast(INT32)
    return [y, node.reduce(ReduceOperation.SUM, shown, [1], keep=False), x]


# ---- attention ------------------------------------------------------------------------------------


def hidden_by(node: Node, mask: Tensor, keys: Tensor) -> Tensor:
    """The summand of a mask for scores: a large negative number for hidden keys. The mask is the number of
    keys, (batch,), or a mask of them, (batch, keys) or (batch, queries, keys), or one with heads."""
    if mask.rank == 1:
        seen = positions(node, keys, 3) < mask.cast(INT64).reshape((-1, 1, 1, 1))
    else:
        axes = {2: (1, 2), 3: (1,)}.get(mask.rank, ())
        seen = mask.unsqueeze(*axes) > 0 if mask.dtype is not DataType.BOOL else mask.unsqueeze(*axes)
    shown = seen.cast(FLOAT)
    return (1.0 - shown) * node.attr("mask_filter_value", -10000.0)


def added(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """The sum of the operands that are not None."""
    return b if a is None else biased(a, None if b is None else b.cast(a.dtype))


def limited(node: Node, q: Tensor, k: Tensor, past: Tensor | None, how: Scores, causal: bool) -> None:
    """Limit a query to keys up to its own position, which includes cached tokens."""
    how.causal = causal and past is None
    if causal and past is not None:
        rows = positions(node, q, 2) + (k.size(2) - q.size(2)).reshape((1, 1, 1, 1))
        how.seen.append(positions(node, k, 3) < rows + 1)


@contrib("Attention")
def attention(node: Node) -> list[Tensor | None]:
    """Projections, and attention over their heads."""
    x, weights = node.input(0), node.input(1)
    bias, mask, past, more = (node.optional(i) for i in range(2, 6))
    if bias is None or node.attr("do_rotary", 0) or node.optional(6) is not None:
        raise node.unsupported("rotary embedding, or a shared buffer", "export the model without this fusion")
    total, heads = weights.sizes[1], node.attr("num_heads", 0)
    sizes = node.attr("qkv_hidden_sizes", (total // 3,) * 3)
    every = node.matmul(x, weights) + bias
    q, k, v = (heads_of(node, part, heads) for part in _parts(node, every, sizes))
    if past is not None:
        before = [node.gather(past, node.constant([n], INT64), 0).squeeze(0) for n in range(2)]
        k, v = node.concat([before[0], k], 2), node.concat([before[1], v], 2)
    how = Scores(node.attr("scale", 0.0) or None)
    if mask is not None and mask.rank == 1 and mask.sizes[0] != x.sizes[0] > 0:
        raise node.unsupported("a mask of starts and ends", "use a mask of rank 2")
    how.bias = added(more, None if mask is None else hidden_by(node, mask, k))
    limited(node, q, k, past, how, bool(node.attr("unidirectional", 0)))
    y = joined(attended(node, q, k, v, how))
    return [y, node.concat([k.unsqueeze(0), v.unsqueeze(0)], 0)]


def _parts(node: Node, x: Tensor, sizes: tuple[int, ...]) -> list[Tensor]:
    """Parts of the last axis."""
    starts = np.cumsum([0, *sizes])
    lead: list[Size] = [length(x, k) for k in range(x.rank - 1)]
    none = [0] * (x.rank - 1)
    pairs = zip(starts.tolist(), sizes, strict=False)
    return [node.slice(x, [*none, start], [*lead, size]) for start, size in pairs]


@contrib("MultiHeadAttention")
def multi_head_attention(node: Node) -> list[Tensor | None]:
    """Multi-head attention; keys may be those of another sequence, or cached."""
    q, heads = node.input(0), node.attr("num_heads", 0)
    k, v, bias, mask, more, past, kept = (node.optional(i) for i in range(1, 8))
    if k is None or v is None:
        raise node.unsupported("queries, keys and values in one tensor", "pass them as three tensors")
    if bias is not None:
        width = q.sizes[2] if q.sizes[2] > 0 else bias.sizes[0] // 3
        parts = _parts(node, bias, (width, width, bias.sizes[0] - 2 * width))
        q = q + parts[0]
        k, v = (x + b if x.rank == 3 else x for x, b in zip((k, v), parts[1:], strict=True))
    q, k, v = (heads_of(node, x, heads) if x.rank == 3 else x for x in (q, k, v))
    if past is not None and kept is not None:
        k, v = node.concat([past, k], 2), node.concat([kept, v], 2)
    how = Scores(node.attr("scale", 0.0) or None)
    how.bias = added(more, None if mask is None else hidden_by(node, mask, k))
    limited(node, q, k, past, how, bool(node.attr("unidirectional", 0)))
    return [joined(attended(node, q, k, v, how)), k, v]


@contrib("RotaryEmbedding")
def rotary(node: Node) -> Tensor:
    """A RotaryEmbedding layer; a single position id is the position of the first token."""
    x, ids, cos, sin = (node.input(i) for i in range(4))
    flat, heads = x.rank == 3, node.attr("num_heads", 0)
    if flat:
        size = 2 * cos.sizes[1]
        y = heads_of(node, x, heads or x.sizes[2] // size)
    else:
        y = x
    if ids.rank == 1:
        ids = (node.counted(length(y, 2)) + ids.cast(INT64)).unsqueeze(0)
        ids = node.expand(ids, [length(y, 0), length(y, 2)])
    y = turned(node, y, ids, cos, sin)
    return joined(y) if flat else y


def turned(node: Node, x: Tensor, ids: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pairs of elements of each head, rotated by the angles of these positions."""
    pairs = bool(node.attr("interleaved", 0) or node.attr("rotary_interleaved", 0))
    layer = node.add("add_rotary_embedding", x, cos, sin, pairs, node.attr("rotary_embedding_dim", 0))
    return node.with_inputs(layer, {3: ids})


@contrib("GroupQueryAttention")
def group_query_attention(node: Node) -> list[Tensor | None]:
    """Causal attention with a cache, of which each batch element has filled a part."""
    q = node.input(0)
    k, v, past, kept = (node.optional(i) for i in range(1, 5))
    heads, few = node.attr("num_heads", 0), node.attr("kv_num_heads", 0)
    if node.optional(11) is not None or node.attr("smooth_softmax", 0) > 0:
        raise node.unsupported("an attention sink", "export the model without it")
    if k is None or v is None:
        size = q.sizes[2] // (heads + 2 * few)
        q, k, v = _parts(node, q, (heads * size, few * size, few * size))
    q, k, v = (heads_of(node, x, n) for x, n in ((q, heads), (k, few), (v, few)))
    filled = node.input(5).cast(INT64).reshape((-1, 1)) + 1
    before = (filled - q.size(2)).maximum(0)  # cached tokens of each batch element
    if node.attr("do_rotary", 0):
        ids = node.optional(9)
        ids = before + node.counted(length(q, 2)).unsqueeze(0) if ids is None else ids
        q, k = (turned(node, x, ids, node.input(7), node.input(8)) for x in (q, k))
    if past is not None and kept is not None:
        total = entries(node.input(6))[0]
        k, v = (cached(node, a, b, before, total) for a, b in ((past, k), (kept, v)))
    how = Scores(node.attr("scale", 0.0) or None, node.attr("softcap", 0.0), bias=node.optional(10))
    rows = positions(node, q, 2) + before.reshape((-1, 1, 1, 1))
    columns = positions(node, k, 3)
    how.seen.append(columns < rows + 1)
    if (window := node.attr("local_window_size", -1)) > 0:
        how.seen.append(rows < columns + window)
    return [joined(attended(node, q, k, v, how)), k, v]


def cached(node: Node, past: Tensor, new: Tensor, before: Tensor, total: Size) -> Tensor:
    """The cache with new tokens after the cached ones; `before`: the number of the latter, (batch, 1)."""
    most = length(past, 2)
    size = larger(total, most) if isinstance(most, int) else most.maximum(total)
    at = node.counted(size).unsqueeze(0)
    moved = at - before + past.size(2)
    last = past.size(2) + new.size(2) - 1
    place = node.where_(at < before, at, moved.minimum(last))
    both = node.concat([past, new], 2)
    return node.layer("add_gather", both, place, 2, num_elementwise_dims=1)
