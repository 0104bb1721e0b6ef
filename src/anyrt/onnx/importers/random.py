"""Random numbers of Fill layers, which are the same in each inference.

They have the distribution of other implementations and of ONNX's reference, but not the same numbers. Layers
draw float32; two of these form a float64 with 48 random bits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import partial

from anyrt.api.compose.normalizations import wide
from anyrt.api.compose.sizes import Size, lengths
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import CumulativeOperation, DataType, FillOperation, ReduceOperation, UnaryOperation
from anyrt.onnx.node import Argument, Node, importer
from anyrt.ops._types import FLOATS

D, F = DataType, FillOperation
# For each operation the attributes of its two parameters, with their defaults.
ENDS = {F.RANDOM_UNIFORM: (("low", 0.0), ("high", 1.0)), F.RANDOM_NORMAL: (("mean", 0.0), ("scale", 1.0))}


def _drawn(
    node: Node,
    op: FillOperation,
    sizes: Sequence[Size],
    ends: tuple[float, float] = (0.0, 1.0),
    draw: int = 0,
) -> Tensor:
    """float32 numbers; the seed of the layer has the bits of ONNX's seed, a float, and the number of the
    draw."""
    dims = node.dims(sizes)
    known = dims if isinstance(dims, tuple) else (0,)
    layer = node.add("add_fill", known, op, D.FLOAT, alpha=ends[0], beta=ends[1])
    if node.has("seed"):
        (bits,) = struct.unpack("<I", struct.pack("<f", float(node.attr("seed", 0.0))))
        layer.seed = draw << 32 | bits
    return node.with_inputs(layer, {0: dims} if isinstance(dims, Tensor) else {})


def _shares(node: Node, sizes: Sequence[Size], dtype: DataType, draw: int = 0) -> Tensor:
    """Uniform numbers from 0 to below 1, of FLOAT or DOUBLE."""
    if dtype is not D.DOUBLE:
        return _drawn(node, F.RANDOM_UNIFORM, sizes, draw=draw)
    coarse, fine = (_drawn(node, F.RANDOM_UNIFORM, sizes, draw=draw + k).cast(dtype) for k in range(2))
    return coarse + fine * 2.0**-24


def _drawn_double(node: Node, op: FillOperation, sizes: Sequence[Size], ends: tuple[float, float]) -> Tensor:
    u = _shares(node, sizes, D.DOUBLE)
    if op is F.RANDOM_UNIFORM:
        return u * (ends[1] - ends[0]) + ends[0]
    turn = _shares(node, sizes, D.DOUBLE, draw=2) * (2 * math.pi)
    radius = node.unary(UnaryOperation.SQRT, node.unary(UnaryOperation.LOG, 1.0 - u) * -2.0)
    return radius * node.unary(UnaryOperation.COS, turn) * ends[1] + ends[0]


def _random(op: FillOperation, like: bool, node: Node) -> Tensor:
    sizes = lengths(node.input(0)) if like else node.required("shape", (0,))
    usual = node.input(0).dtype if like and node.input(0).dtype in FLOATS | {D.DOUBLE} else D.FLOAT
    alpha, beta = (node.attr(name, default) for name, default in ENDS[op])
    dtype = node.dtype("dtype", usual)
    drawn = _drawn_double if dtype is D.DOUBLE else _drawn
    return drawn(node, op, sizes, (alpha, beta)).cast(dtype)


for _name, _op in (("Uniform", F.RANDOM_UNIFORM), ("Normal", F.RANDOM_NORMAL)):
    importer(f"Random{_name}")(partial(_random, _op, False))
    importer(f"Random{_name}Like")(partial(_random, _op, True))


@importer("Bernoulli")
def bernoulli(node: Node) -> Tensor:
    """1 with the probability of the element, otherwise 0."""
    x = node.input(0)
    chance = wide(x)
    return (_shares(node, lengths(x), chance.dtype) < chance).cast(node.dtype("dtype", x.dtype))


@importer("Multinomial")
def multinomial(node: Node) -> Tensor:
    """Classes drawn by logarithms of probabilities: the number of cumulative sums below a random number."""
    logits, count = wide(node.input(0)), node.attr("sample_size", 1)
    chances = node.layer("add_softmax", logits, axes=1 << 1)
    axis = node.constant(1, D.INT32)
    sums = node.layer("add_cumulative", chances, axis, CumulativeOperation.SUM, False, False)
    batch, classes = lengths(logits)
    drawn = _shares(node, [batch, count], logits.dtype).unsqueeze(2)
    below = (~(drawn < sums.unsqueeze(1))).cast(D.INT64)
    index = node.reduce(ReduceOperation.SUM, below, [2], keep=False)
    last = classes - 1  # a sum may be slightly below 1
    return index.minimum(last).cast(node.dtype("dtype", D.INT32))


@importer("Dropout")
def dropout(node: Node) -> list[Argument]:
    """The input and a mask of True; in training mode some elements are 0 and the others are scaled."""
    x, ratio, training = node.input(0), node.optional(1), node.optional(2)
    mask_type = D.BOOL if node.version >= 10 else x.dtype
    kept = node.full(lengths(x), node.constant(True))
    if training is None:
        return [node.layer("add_identity", x), kept.cast(mask_type)]
    share = node.constant(0.5, D.FLOAT) if ratio is None else wide(ratio)
    share = node.where_(training.reshape(()), share.reshape(()), node.constant(0.0, share.dtype))
    kept = ~(_shares(node, lengths(x), share.dtype) < share)
    whole = wide(x)
    y = node.where_(kept, whole / (1.0 - share).cast(whole.dtype), node.constant(0.0, whole.dtype))
    return [y.cast(x.dtype), kept]
