"""Largest elements and their positions, cumulative folds, gather and scatter of elements.

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
# Types that are sorted as a wider type.
ORDERED = {D.INT8: D.INT32, D.UINT8: D.INT32, D.INT16: D.INT32, D.UINT16: D.INT32, D.UINT32: D.INT64}
SIGN = np.array(-(2**63), np.int64)
# The reductions of a scatter, by their ONNX names.
REDUCTIONS = {
    "none": ReduceOperation.NONE,
    "add": ReduceOperation.SUM,
    "mul": ReduceOperation.PROD,
    "max": ReduceOperation.MAX,
    "min": ReduceOperation.MIN,
}


def top(layers: Layers, x: Tensor, op: TopKOperation, k: Size, axis: int) -> list[Tensor]:
    """The `k` largest or smallest elements along an axis in order, and their positions, int64."""
    if isinstance(k, int):
        return _known(layers, x, op, k, axis)
    layer = layers.add("add_topk", _ordered(x), op, 1, 1 << axis, INT64)
    layer.set_input(1, k.cast(D.INT32).reshape(()).it)
    values, at = layers.outputs(layer)
    return [_restored(values, x.dtype), at]


def _known(layers: Layers, x: Tensor, op: TopKOperation, k: int, axis: int) -> list[Tensor]:
    """If `k` is above the limit of the layer, the first `k` of all elements, sorted."""
    if k == 0:
        return [window(y, axis, 0, 0) for y in (x, layers.expand(layers.constant([0], INT64), x.shape()))]
    limit = ALL if k > MOST else k
    values, at = layers.outputs(layers.add("add_topk", _ordered(x), op, limit, 1 << axis, INT64))
    results = [_restored(values, x.dtype), at]
    return [window(y, axis, 0, k) for y in results] if limit == ALL and k != x.sizes[axis] else results


def best(layers: Layers, x: Tensor, op: TopKOperation, axis: int) -> Tensor:
    """The position of the largest or smallest element along an axis, which keeps size 1; ties: the first."""
    return layers.outputs(layers.add("add_topk", _ordered(x), op, 1, 1 << axis, INT64))[1]


def _ordered(x: Tensor) -> Tensor:
    """`x` in a type that can be sorted, with the same order."""
    if x.dtype is D.UINT64:
        return _flipped(x.cast(INT64))
    return x.cast(ORDERED.get(x.dtype, x.dtype))


def _restored(x: Tensor, dtype: DataType) -> Tensor:
    return (_flipped(x) if dtype is D.UINT64 else x).cast(dtype)


def _flipped(x: Tensor) -> Tensor:
    """Numbers with the sign bit inverted, which orders unsigned numbers."""
    return x.layers.binary(ElementWiseOperation.BIT_XOR, x, x.layers.constant(SIGN))


def cumulative(
    layers: Layers,
    x: Tensor,
    axis: int,
    op: CumulativeOperation = CumulativeOperation.SUM,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """The fold of all elements up to each one, without itself if `exclusive`. Bytes are folded as int32."""
    wide = D.INT32 if x.dtype in (D.INT8, D.UINT8) else x.dtype
    at = layers.constant(axis, D.INT32)
    return layers.layer("add_cumulative", x.cast(wide), at, op, exclusive, reverse).cast(x.dtype)


def gather_elements(layers: Layers, x: Tensor, at: Tensor, axis: int) -> Tensor:
    """One element for each index along an axis."""
    return layers.layer("add_gather_v2", x, at, GatherMode.ELEMENT, axis=axis)


def scatter(
    layers: Layers,
    x: Tensor,
    at: Tensor,
    updates: Tensor,
    reduction: ReduceOperation = ReduceOperation.NONE,
    axis: int | None = None,
) -> Tensor:
    """A copy with elements stored, or combined with the old ones: at indices along `axis`, or at index tuples
    if `axis` is None."""
    if is_packed(x.dtype):  # elements that share bytes cannot be stored one by one
        wide = D.HALF if x.is_float else D.INT8
        return scatter(layers, x.cast(wide), at, updates.cast(wide), reduction, axis).cast(x.dtype)
    mode, more = (ScatterMode.ND, {}) if axis is None else (ScatterMode.ELEMENT, {"axis": axis})
    return layers.layer("add_scatter", x, at, updates, mode, reduction=reduction, **more)
