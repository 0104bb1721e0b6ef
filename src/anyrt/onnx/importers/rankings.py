"""TopK, ArgMax, ArgMin, and cumulative operators."""

from __future__ import annotations

from functools import partial

import numpy as np

from anyrt.api.compose.ordered import best, cumulative, top
from anyrt.api.compose.sizes import length
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import (
    CumulativeOperation,
    DataType,
    ReduceOperation,
    TopKOperation,
)
from anyrt.onnx.node import Node, importer

INT64 = DataType.INT64


@importer("TopK")
def top_k(node: Node) -> list[Tensor]:
    """The k largest or smallest elements along an axis, and their positions; `k` is an attribute until opset
    9."""
    x = node.input(0)
    axis = node.axis(x, default=-1)
    op = TopKOperation.MAX if node.attr("largest", 1) else TopKOperation.MIN
    if node.version < 10:
        return top(node, x, op, node.required("k", 1), axis)
    known = node.ints(node.input(1))
    return top(node, x, op, node.input(1) if known is None else known[0], axis)


def _best(op: TopKOperation, node: Node) -> Tensor:
    x = node.input(0)
    axis, last = node.axis(x), bool(node.attr("select_last_index", 0))
    at = where_equal(node, x, op, axis, last) if last else best(node, x, op, axis)
    return at if node.attr("keepdims", 1) else at.squeeze(axis)


def where_equal(node: Node, x: Tensor, op: TopKOperation, axis: int, last: bool = False) -> Tensor:
    """The position of the largest or smallest element along an axis, the first or last of equal ones, by
    comparison with the extreme. It also works for empty axes; NaN, which equals nothing, ranks after all
    others."""
    if x.is_float:
        x = node.where_(x.equal(x), x, node.like(-np.inf if op is TopKOperation.MAX else np.inf, x))
    fold, pick, none = ReduceOperation, ReduceOperation.MAX if last else ReduceOperation.MIN, -1
    most = node.reduce(fold.MAX if op is TopKOperation.MAX else fold.MIN, x, [axis])
    count = node.counted(length(x, axis))
    place = count.reshape([-1 if k == axis else 1 for k in range(x.rank)])
    far = node.like(none if last else np.iinfo(np.int64).max, place)
    return node.reduce(pick, node.where_(x.equal(most), place, far), [axis])


importer("ArgMax")(partial(_best, TopKOperation.MAX))
importer("ArgMin")(partial(_best, TopKOperation.MIN))


def _cumulative(op: CumulativeOperation, node: Node) -> Tensor:
    x, axis = node.input(0), node.input(1)
    known = node.ints(axis)
    if known is not None:
        return _along(node, x, op, known[0] % x.rank)
    chosen = axis.reshape((1,) * x.rank)
    y = _along(node, x, op, 0)
    for k in range(1, x.rank):  # all of them are computed, and one is selected
        here = chosen.equal(k) | chosen.equal(k - x.rank)
        y = node.where_(here, _along(node, x, op, k), y)
    return y


def _along(node: Node, x: Tensor, op: CumulativeOperation, axis: int) -> Tensor:
    exclusive, reverse = (bool(node.attr(name, 0)) for name in ("exclusive", "reverse"))
    return cumulative(node, x, axis, op, exclusive, reverse)


importer("CumSum")(partial(_cumulative, CumulativeOperation.SUM))
importer("CumProd")(partial(_cumulative, CumulativeOperation.PROD))
