"""Reductions over static or data-dependent axes.

Each of up to four data-dependent axes, of size n, becomes two axes: one that is kept, of size 1 or n, and one
that is reduced, of size n or 1. More axes are reduced one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from anyrt.api.compose.sizes import Size, entries, flags, lengths, squeeze_by
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType, ReduceOperation, UnaryOperation
from anyrt.onnx.node import Node, importer

R, U, D = ReduceOperation, UnaryOperation, DataType
Axes: TypeAlias = Sequence[int]
Fold: TypeAlias = Callable[[Node, Tensor, Axes], Tensor]
Each: TypeAlias = Callable[[Node, Tensor], Tensor]
MOST_AXES = 4  # data-dependent axes that are reduced at once: the network has twice as many


def _plain(op: ReduceOperation, node: Node, x: Tensor, axes: Axes) -> Tensor:
    return node.reduce(op, x, axes)


def _same(node: Node, x: Tensor) -> Tensor:
    return x


def _magnitude(node: Node, x: Tensor) -> Tensor:
    return node.unary(U.ABS, x)


def _square(node: Node, x: Tensor) -> Tensor:
    return x * x


def _root(node: Node, x: Tensor) -> Tensor:
    return node.unary(U.SQRT, x)


def _logarithm(node: Node, x: Tensor) -> Tensor:
    return node.unary(U.LOG, x)


def log_sum_exp(node: Node, x: Tensor, axes: Axes) -> Tensor:
    """log Σ exp x, relative to the largest x, so that nothing overflows; an infinite maximum is kept."""
    most = node.reduce(R.MAX, x, axes)
    most = node.where_(node.unary(U.ISINF, most), node.like(0.0, x), most)
    return node.unary(U.LOG, node.reduce(R.SUM, node.unary(U.EXP, x - most), axes)) + most


class Way(NamedTuple):
    """A reduction: the function of each element, the reduction, which may reduce axes one after the other,
    and the function of each result. `is_real`: narrow types are computed in wider ones, since they would
    round or overflow."""

    first: Each
    fold: Fold
    last: Each
    is_real: bool = False

    def whole(self, node: Node, x: Tensor, axes: Axes) -> Tensor:
        """Apply the reduction."""
        return self.last(node, self.fold(node, self.first(node, x), axes))


SUM = partial(_plain, R.SUM)
FOLDS = {
    "ReduceSum": Way(_same, SUM, _same),
    "ReduceProd": Way(_same, partial(_plain, R.PROD), _same),
    "ReduceMax": Way(_same, partial(_plain, R.MAX), _same),
    "ReduceMin": Way(_same, partial(_plain, R.MIN), _same),
    "ReduceMean": Way(_same, partial(_plain, R.AVG), _same),
    "ReduceL1": Way(_magnitude, SUM, _same),
    "ReduceSumSquare": Way(_square, SUM, _same),
    "ReduceL2": Way(_square, SUM, _root, True),
    "ReduceLogSum": Way(_same, SUM, _logarithm, True),
    "ReduceLogSumExp": Way(_same, log_sum_exp, _same, True),
}


def _reduced(name: str, node: Node) -> Tensor:
    way = FOLDS[name]
    data, keep = node.input(0), bool(node.attr("keepdims", 1))
    x = data.cast(_wide(data, way.is_real))
    at = node.optional(1)
    if at is not None and at.sizes != (0,) and node.ints(at) is None:
        return _by_run(node, way, x, at, keep).cast(data.dtype)
    axes = () if at is not None and at.sizes == (0,) else node.axes(1)
    if not axes:
        axes = () if node.attr("noop_with_empty_axes", 0) else tuple(range(x.rank))
    y = way.whole(node, x, axes).cast(data.dtype)
    return y if keep else y.squeeze(*axes)


def _wide(x: Tensor, is_real: bool) -> DataType:
    """Convert half types to float32, and integers to float64, for computations with real numbers."""
    if x.is_float:
        return D.FLOAT if x.dtype in (D.HALF, D.BF16) else x.dtype
    return D.DOUBLE if is_real else x.dtype


def _by_run(node: Node, way: Way, x: Tensor, axes: Tensor, keep: bool) -> Tensor:
    if axes.sizes[0] < 0:
        raise node.unsupported("a data-dependent number of axes", "use a vector of axes with a static length")
    folded, one = flags(axes, x.rank).equal(1), node.constant([1] * x.rank, D.INT64)
    # A maximum is one term in products of sizes, which stay short.
    kept = entries(node.where_(folded, one, x.shape()).maximum(0))
    if x.rank > MOST_AXES:
        if way is FOLDS["ReduceMean"] and not x.is_float:  # a mean of truncated means differs
            raise node.unsupported(
                f"{x.dtype.name} with data-dependent axes of rank {x.rank}",
                "make the axes constants of the model",
            )
        y = _one_by_one(node, way, x, entries(one - folded.cast(D.INT64)), kept)
    else:
        gone = entries(node.where_(folded, x.shape(), one).maximum(0))
        pairs = [size for pair in zip(kept, gone, strict=True) for size in pair]
        y = way.whole(node, x.reshape(pairs), range(1, 2 * x.rank, 2)).reshape(kept)
    return y if keep else squeeze_by(y, axes)


def _one_by_one(node: Node, way: Way, x: Tensor, starts: Sequence[Size], kept: Sequence[Size]) -> Tensor:
    """For each axis, select either its reduction or the original elements: a network does not support enough
    axes for pairs of all, and products of all sizes have too many terms."""
    y, whole = way.first(node, x), lengths(x)
    for axis in range(x.rank):
        both = node.concat([way.fold(node, y, (axis,)), y], axis)
        start = [*[0] * axis, starts[axis], *[0] * (x.rank - axis - 1)]
        y = node.slice(both, start, [*kept[: axis + 1], *whole[axis + 1 :]])
    return way.last(node, y)


for _name in FOLDS:
    importer(_name)(partial(_reduced, _name))
