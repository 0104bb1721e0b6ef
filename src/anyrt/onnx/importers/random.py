"""Random numbers: those of Fill layers, which each run gives again.

Only their distribution is that of other implementations' numbers, and of those of ONNX's reference.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial

from anyrt.core.enums import CumulativeOperation, DataType, FillOperation, ReduceOperation
from anyrt.onnx.node import Given, Node, importer
from anyrt.onnx.sizes import Size, lengths
from anyrt.onnx.tensor import Tensor
from anyrt.ops._types import FLOATS

D, F = DataType, FillOperation
# For each operation the attributes that give its two numbers, with what they are where left out.
ENDS = {F.RANDOM_UNIFORM: (("low", 0.0), ("high", 1.0)), F.RANDOM_NORMAL: (("mean", 0.0), ("scale", 1.0))}


def _drawn(
    node: Node, op: FillOperation, sizes: Sequence[Size], alpha: float = 0.0, beta: float = 1.0
) -> Tensor:
    """float32 numbers; the bits of ONNX's seed, a float, are the layer's."""
    dims = node.dims(sizes)
    known = dims if isinstance(dims, tuple) else (0,)
    layer = node.add("add_fill", known, op, D.FLOAT, alpha=alpha, beta=beta)
    if node.has("seed"):
        (layer.seed,) = struct.unpack("<I", struct.pack("<f", float(node.attr("seed", 0.0))))
    return node.with_inputs(layer, {0: dims} if isinstance(dims, Tensor) else {})


def _random(op: FillOperation, like: bool, node: Node) -> Tensor:
    sizes = lengths(node.input(0)) if like else node.required("shape", (0,))
    usual = node.input(0).dtype if like and node.input(0).dtype in FLOATS | {D.DOUBLE} else D.FLOAT
    alpha, beta = (node.attr(name, default) for name, default in ENDS[op])
    return _drawn(node, op, sizes, alpha, beta).cast(node.dtype("dtype", usual))


for _name, _op in (("Uniform", F.RANDOM_UNIFORM), ("Normal", F.RANDOM_NORMAL)):
    importer(f"Random{_name}")(partial(_random, _op, False))
    importer(f"Random{_name}Like")(partial(_random, _op, True))


@importer("Bernoulli")
def bernoulli(node: Node) -> Tensor:
    """1 as often as an element says, else 0."""
    x = node.input(0)
    return (_drawn(node, F.RANDOM_UNIFORM, lengths(x)) < x.cast(D.FLOAT)).cast(node.dtype("dtype", x.dtype))


@importer("Multinomial")
def multinomial(node: Node) -> Tensor:
    """Classes of logarithms of probabilities: how many of the running sums lie below a random number."""
    logits, count = node.input(0).cast(D.FLOAT), node.attr("sample_size", 1)
    chances = node.layer("add_softmax", logits, axes=1 << 1)
    axis = node.constant(1, D.INT32)
    sums = node.layer("add_cumulative", chances, axis, CumulativeOperation.SUM, False, False)
    batch, classes = lengths(logits)
    drawn = _drawn(node, F.RANDOM_UNIFORM, [batch, count]).unsqueeze(2)
    below = (~(drawn < sums.unsqueeze(1))).cast(D.INT64)
    found = node.reduce(ReduceOperation.SUM, below, [2], keep=False)
    last = classes - 1  # a sum may end a little below 1
    return found.minimum(last).cast(node.dtype("dtype", D.INT32))


@importer("Dropout")
def dropout(node: Node) -> list[Given]:
    """The same elements and a mask of True; in training some are 0 and all others larger."""
    x, ratio, training = node.input(0), node.optional(1), node.optional(2)
    mask_type = D.BOOL if node.version >= 10 else x.dtype
    kept = node.full(lengths(x), node.constant(True))
    if training is None:
        return [node.layer("add_identity", x), kept.cast(mask_type)]
    share = node.constant(0.5, D.FLOAT) if ratio is None else ratio.cast(D.FLOAT)
    share = node.where_(training.reshape(()), share.reshape(()), node.constant(0.0, D.FLOAT))
    kept = ~(_drawn(node, F.RANDOM_UNIFORM, lengths(x)) < share)
    y = node.where_(kept, x.cast(D.FLOAT) / (1.0 - share), node.constant(0.0, D.FLOAT))
    return [y.cast(x.dtype), kept]
