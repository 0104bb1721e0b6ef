"""What the order of elements decides: the largest ones, where they lie, and folds up to each element."""

from __future__ import annotations

from functools import partial

import numpy as np

from anyrt.api.compose.sizes import length, window
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import (
    CumulativeOperation,
    DataType,
    ElementWiseOperation,
    ReduceOperation,
    TopKOperation,
)
from anyrt.onnx.node import Node, importer
from anyrt.ops.topk import ALL, MOST

D, INT64 = DataType, DataType.INT64
# Types that are ordered as others.
ORDERED = {D.INT8: D.INT32, D.UINT8: D.INT32, D.INT16: D.INT32, D.UINT16: D.INT32, D.UINT32: D.INT64}
SIGN = np.array(-(2**63), np.int64)


@importer("TopK")
def top_k(node: Node) -> list[Tensor]:
    """The k largest or smallest along an axis, and where they are; `k` is an attribute until opset 9."""
    x = node.input(0)
    axis = node.axis(x, default=-1)
    op = TopKOperation.MAX if node.attr("largest", 1) else TopKOperation.MIN
    if node.version < 10:
        return _known(node, x, op, node.required("k", 1), axis)
    known = node.ints(node.input(1))
    if known is not None:
        return _known(node, x, op, known[0], axis)
    layer = node.add("add_topk", _ordered(node, x), op, 1, 1 << axis, INT64)
    layer.set_input(1, node.input(1).cast(D.INT32).reshape(()).it)
    values, at = node.outputs(layer)
    return [_restored(node, values, x.dtype), at]


def _known(node: Node, x: Tensor, op: TopKOperation, k: int, axis: int) -> list[Tensor]:
    """More than a layer chooses are the beginning of all of them, sorted."""
    if k == 0:
        return [window(y, axis, 0, 0) for y in (x, node.expand(node.constant([0], INT64), x.shape()))]
    given = ALL if k > MOST else k
    values, at = node.outputs(node.add("add_topk", _ordered(node, x), op, given, 1 << axis, INT64))
    found = [_restored(node, values, x.dtype), at]
    return [window(y, axis, 0, k) for y in found] if given == ALL and k != x.sizes[axis] else found


def _ordered(node: Node, x: Tensor) -> Tensor:
    """Elements of a type that is sorted, in the order of `x`."""
    if x.dtype is D.UINT64:
        return node.binary(ElementWiseOperation.BIT_XOR, x.cast(INT64), node.constant(SIGN))
    return x.cast(ORDERED.get(x.dtype, x.dtype))


def _restored(node: Node, x: Tensor, dtype: DataType) -> Tensor:
    if dtype is D.UINT64:
        return node.binary(ElementWiseOperation.BIT_XOR, x, node.constant(SIGN)).cast(dtype)
    return x.cast(dtype)


def _best(op: TopKOperation, node: Node) -> Tensor:
    x = node.input(0)
    axis, last = node.axis(x), bool(node.attr("select_last_index", 0))
    at = best(node, x, op, axis, last)
    return at if node.attr("keepdims", 1) else at.squeeze(axis)


def best(node: Node, x: Tensor, op: TopKOperation, axis: int, last: bool = False) -> Tensor:
    """Where along an axis the largest or smallest element is, the first of equal ones, or the last."""
    if last:
        return where_equal(node, x, op, axis, last)
    return node.outputs(node.add("add_topk", _ordered(node, x), op, 1, 1 << axis, INT64))[1]


def where_equal(node: Node, x: Tensor, op: TopKOperation, axis: int, last: bool = False) -> Tensor:
    """The same by comparison with the extreme, also where there is none; NaN, which equals nothing, is behind
    all others."""
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
    for k in range(1, x.rank):  # each of them is made, of which one is chosen
        here = chosen.equal(k) | chosen.equal(k - x.rank)
        y = node.where_(here, _along(node, x, op, k), y)
    return y


def _along(node: Node, x: Tensor, op: CumulativeOperation, axis: int) -> Tensor:
    """Bytes count as integers."""
    wide = D.INT32 if x.dtype in (D.INT8, D.UINT8) else x.dtype
    flags = (bool(node.attr(name, 0)) for name in ("exclusive", "reverse"))
    at = node.constant(axis, D.INT32)
    return node.layer("add_cumulative", x.cast(wide), at, op, *flags).cast(x.dtype)


importer("CumSum")(partial(_cumulative, CumulativeOperation.SUM))
importer("CumProd")(partial(_cumulative, CumulativeOperation.PROD))
