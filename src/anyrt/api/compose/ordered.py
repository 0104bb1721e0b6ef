"""What the order of elements decides: the largest ones, where they lie, folds up to each; elements at places.

values, places = top(layers, x, TopKOperation.MAX, 5, axis=1)
"""

from __future__ import annotations

import numpy as np

from anyrt.api.compose.layers import INT64, Layers
from anyrt.api.compose.sizes import Size, window
from anyrt.api.compose.tensor import Tensor
from anyrt.core.dtype import is_packed
from anyrt.core.enums import (
    CumulativeOperation,
    DataType,
    ElementWiseOperation,
    GatherMode,
    ReduceOperation,
    ScatterMode,
    TopKOperation,
)
from anyrt.ops.topk import ALL, MOST

D = DataType
# Types that are ordered as others.
ORDERED = {D.INT8: D.INT32, D.UINT8: D.INT32, D.INT16: D.INT32, D.UINT16: D.INT32, D.UINT32: D.INT64}
SIGN = np.array(-(2**63), np.int64)
# What stores do with what is there, by ONNX's words.
REDUCTIONS = {
    "none": ReduceOperation.NONE,
    "add": ReduceOperation.SUM,
    "mul": ReduceOperation.PROD,
    "max": ReduceOperation.MAX,
    "min": ReduceOperation.MIN,
}


def top(layers: Layers, x: Tensor, op: TopKOperation, k: Size, axis: int) -> list[Tensor]:
    """The `k` largest or smallest elements along an axis in order, and where they are, int64."""
    if isinstance(k, int):
        return _known(layers, x, op, k, axis)
    layer = layers.add("add_topk", _ordered(x), op, 1, 1 << axis, INT64)
    layer.set_input(1, k.cast(D.INT32).reshape(()).it)
    values, at = layers.outputs(layer)
    return [_restored(values, x.dtype), at]


def _known(layers: Layers, x: Tensor, op: TopKOperation, k: int, axis: int) -> list[Tensor]:
    """More than a layer chooses are the beginning of all of them, sorted."""
    if k == 0:
        return [window(y, axis, 0, 0) for y in (x, layers.expand(layers.constant([0], INT64), x.shape()))]
    limit = ALL if k > MOST else k
    values, at = layers.outputs(layers.add("add_topk", _ordered(x), op, limit, 1 << axis, INT64))
    results = [_restored(values, x.dtype), at]
    return [window(y, axis, 0, k) for y in results] if limit == ALL and k != x.sizes[axis] else results


def best(layers: Layers, x: Tensor, op: TopKOperation, axis: int) -> Tensor:
    """Where along an axis, whose size becomes 1, the largest or smallest element is; the first of equals."""
    return layers.outputs(layers.add("add_topk", _ordered(x), op, 1, 1 << axis, INT64))[1]


def _ordered(x: Tensor) -> Tensor:
    """Elements of a type that is sorted, in the order of `x`."""
    if x.dtype is D.UINT64:
        return _flipped(x.cast(INT64))
    return x.cast(ORDERED.get(x.dtype, x.dtype))


def _restored(x: Tensor, dtype: DataType) -> Tensor:
    return (_flipped(x) if dtype is D.UINT64 else x).cast(dtype)


def _flipped(x: Tensor) -> Tensor:
    """Numbers with the other sign bit, which orders those without a sign."""
    return x.layers.binary(ElementWiseOperation.BIT_XOR, x, x.layers.constant(SIGN))


def cumulative(
    layers: Layers,
    x: Tensor,
    axis: int,
    op: CumulativeOperation = CumulativeOperation.SUM,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Of each element the fold of all up to it, without itself if `exclusive`. Bytes count as integers."""
    wide = D.INT32 if x.dtype in (D.INT8, D.UINT8) else x.dtype
    at = layers.constant(axis, D.INT32)
    return layers.layer("add_cumulative", x.cast(wide), at, op, exclusive, reverse).cast(x.dtype)


def gather_elements(layers: Layers, x: Tensor, at: Tensor, axis: int) -> Tensor:
    """An element for each index along an axis."""
    return layers.layer("add_gather_v2", x, at, GatherMode.ELEMENT, axis=axis)


def scatter(
    layers: Layers,
    x: Tensor,
    at: Tensor,
    updates: Tensor,
    reduction: ReduceOperation = ReduceOperation.NONE,
    axis: int | None = None,
) -> Tensor:
    """A copy with elements stored, or combined with what is there: where indices along `axis` say, or at
    tuples of indices without one."""
    if is_packed(x.dtype):  # elements that share bytes cannot be stored one by one
        wide = D.HALF if x.is_float else D.INT8
        return scatter(layers, x.cast(wide), at, updates.cast(wide), reduction, axis).cast(x.dtype)
    mode, more = (ScatterMode.ND, {}) if axis is None else (ScatterMode.ELEMENT, {"axis": axis})
    return layers.layer("add_scatter", x, at, updates, mode, reduction=reduction, **more)
