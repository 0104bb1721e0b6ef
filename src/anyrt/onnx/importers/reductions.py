"""Folds over axes, which the model knows, or a run.

Of axes that a run decides, each of size n becomes two: one that is kept, of size 1 or n, and one that is
folded, of size n or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from anyrt.api.compose.sizes import entries, flags, squeeze_by
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType, ReduceOperation, UnaryOperation
from anyrt.onnx.node import Node, importer

R, U, D = ReduceOperation, UnaryOperation, DataType
Axes: TypeAlias = Sequence[int]
Fold: TypeAlias = Callable[[Node, Tensor, Axes], Tensor]
MOST_AXES = 4  # that a run may choose among: a network has twice as many


def _plain(op: ReduceOperation, node: Node, x: Tensor, axes: Axes) -> Tensor:
    return node.reduce(op, x, axes)


def _norm_1(node: Node, x: Tensor, axes: Axes) -> Tensor:
    return node.reduce(R.SUM, node.unary(U.ABS, x), axes)


def _squares(node: Node, x: Tensor, axes: Axes) -> Tensor:
    return node.reduce(R.SUM, x * x, axes)


def _norm_2(node: Node, x: Tensor, axes: Axes) -> Tensor:
    return node.unary(U.SQRT, _squares(node, x, axes))


def _log_sum(node: Node, x: Tensor, axes: Axes) -> Tensor:
    return node.unary(U.LOG, node.reduce(R.SUM, x, axes))


def log_sum_exp(node: Node, x: Tensor, axes: Axes) -> Tensor:
    """log Σ exp x, with the largest x taken out, so that nothing overflows; what is infinite stays there."""
    most = node.reduce(R.MAX, x, axes)
    most = node.where_(node.unary(U.ISINF, most), node.like(0.0, x), most)
    return node.unary(U.LOG, node.reduce(R.SUM, node.unary(U.EXP, x - most), axes)) + most


# The fold, and what narrower types are computed in, where the fold alone would round or overflow.
FOLDS: dict[str, tuple[Fold, bool]] = {
    "ReduceSum": (partial(_plain, R.SUM), False),
    "ReduceProd": (partial(_plain, R.PROD), False),
    "ReduceMax": (partial(_plain, R.MAX), False),
    "ReduceMin": (partial(_plain, R.MIN), False),
    "ReduceMean": (partial(_plain, R.AVG), False),
    "ReduceL1": (_norm_1, False),
    "ReduceSumSquare": (_squares, False),
    "ReduceL2": (_norm_2, True),
    "ReduceLogSum": (_log_sum, True),
    "ReduceLogSumExp": (log_sum_exp, True),
}


def _reduced(name: str, node: Node) -> Tensor:
    fold, is_real = FOLDS[name]
    given, keep = node.input(0), bool(node.attr("keepdims", 1))
    x = given.cast(_wide(given, is_real))
    at = node.optional(1)
    if at is not None and at.sizes != (0,) and node.ints(at) is None:
        return _by_run(node, partial(fold, node), x, at, keep).cast(given.dtype)
    axes = () if at is not None and at.sizes == (0,) else node.axes(1)
    if not axes:
        axes = () if node.attr("noop_with_empty_axes", 0) else tuple(range(x.rank))
    y = fold(node, x, axes).cast(given.dtype)
    return y if keep else y.squeeze(*axes)


def _wide(x: Tensor, is_real: bool) -> DataType:
    """float32 for half types, float64 for integers, of what is computed with real numbers."""
    if x.is_float:
        return D.FLOAT if x.dtype in (D.HALF, D.BF16) else x.dtype
    return D.DOUBLE if is_real else x.dtype


def _by_run(
    node: Node, fold: Callable[[Tensor, Axes], Tensor], x: Tensor, axes: Tensor, keep: bool
) -> Tensor:
    if x.rank > MOST_AXES:
        raise node.unsupported(f"axes that a run decides, of {x.rank}", "make them constants of the model")
    if axes.sizes[0] < 0:
        raise node.unsupported("as many axes as a run decides", "give the vector of axes a known length")
    folded, one = flags(axes, x.rank).equal(1), node.constant([1] * x.rank, D.INT64)
    # A maximum is one term, whatever it is made of: products of sizes stay short.
    kept = entries(node.where_(folded, one, x.shape()).maximum(0))
    gone = entries(node.where_(folded, x.shape(), one).maximum(0))
    pairs = [size for pair in zip(kept, gone, strict=True) for size in pair]
    y = fold(x.reshape(pairs), range(1, 2 * x.rank, 2)).reshape(kept)
    return y if keep else squeeze_by(y, axes)


for _name in FOLDS:
    importer(_name)(partial(_reduced, _name))
