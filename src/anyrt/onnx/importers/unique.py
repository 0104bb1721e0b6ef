"""Unique elements or slices: sorted, or in the order of their first occurrence.

Positions are sorted by value, and each value that differs from the previous one begins a group. The number of
groups is a data-dependent size.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyrt.api.compose.sizes import length, positions, volume
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import CumulativeOperation, DataType, ReduceOperation, ScatterMode, TopKOperation
from anyrt.onnx.node import Node, importer
from anyrt.ops._types import INTS, REALS

INT64 = DataType.INT64
ALL = -1  # in place of a count
FAR = 2**31  # more columns than there are
RANKED = REALS | INTS


@importer("Unique")
def unique(node: Node) -> Sequence[Tensor]:
    """The unique elements, their first positions, the inverse indices, and their counts."""
    x = node.input(0)
    axis = node.axis(x) if node.has("axis") else 0
    rows = x if node.has("axis") else x.reshape((-1,))
    flat = rows.rank == 1
    order, new = _ranked_elements(node, rows) if flat else _ranked_slices(node, rows, axis)
    n = length(rows, axis)
    begin = node.layer("add_non_zero", new, INT64).squeeze(0)
    group = _sums(node, new.cast(INT64)) - 1  # for each element in sorted order
    first = node.gather(order, begin, 0)
    if not node.attr("sorted", 1):
        appears = _stored(node, node.full([n], node.constant(0, INT64)), first, first * 0 + 1)
        number = _sums(node, appears) - 1
        group = node.gather(number, node.gather(first, group, 0), 0)
        first = node.layer("add_non_zero", appears, INT64).squeeze(0)
    inverse = _stored(node, node.full([n], node.constant(0, INT64)), order, group)
    counts = _stored(node, first * 0, inverse, inverse * 0 + 1, ReduceOperation.SUM)
    return node.gather(rows, first, axis), first, inverse, counts


def _ranked_elements(node: Node, x: Tensor) -> tuple[Tensor, Tensor]:
    """Positions in ascending order of the elements, and whether each differs from the one before."""
    ranking = node.add("add_topk", _ranking(x), TopKOperation.MIN, ALL, 1, INT64)
    values, order = node.outputs(ranking)
    before = node.gather(values, (positions(node, length(x, 0)) - 1).maximum(0), 0)
    same = values.equal(before)
    if x.is_float:
        same = same | ~(values.equal(values) | before.equal(before))  # NaN counts as one number
    return order, _begins(node, ~same)


def _ranked_slices(node: Node, x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The same for slices, which are compared by their first difference."""
    turned = _ranking(x.transpose(axis, *(k for k in range(x.rank) if k != axis)))
    n = length(x, axis)
    rows = turned.reshape([n, volume(turned, range(1, turned.rank))])
    one, other = rows.unsqueeze(1), rows.unsqueeze(0)
    column = positions(node, length(rows, 1)) * 2
    far = node.constant([[[FAR]]], INT64)
    where = node.where_(one < other, column, node.where_(one > other, column + 1, far))
    first = node.reduce(ReduceOperation.MIN, where, [2], keep=False)
    place = positions(node, n)
    earlier = place.unsqueeze(1) < place.unsqueeze(0)
    unequal = first < FAR  # the minimum of no columns is beyond that, too
    less = (first - first // 2 * 2).equal(0) & unequal | ~unequal & earlier
    rank = node.reduce(ReduceOperation.SUM, less.cast(INT64), [0], keep=False)
    order = _stored(node, place * 0, rank, place)
    before = node.gather(order, (place - 1).maximum(0), 0)
    differs = ~node.gather(rows, order, 0).equal(node.gather(rows, before, 0))
    return order, _begins(
        node, node.reduce(ReduceOperation.MAX, differs.cast(INT64), [1], keep=False).equal(1)
    )


def _ranking(x: Tensor) -> Tensor:
    """Convert to a type that TopK supports."""
    return x if x.dtype in RANKED else x.cast(DataType.FLOAT if x.is_float else INT64)


def _begins(node: Node, differs: Tensor) -> Tensor:
    """Mark the beginning of each group; the first element also begins one."""
    return differs | positions(node, length(differs, 0)).equal(0)


def _sums(node: Node, x: Tensor) -> Tensor:
    """Cumulative sums."""
    return node.layer("add_cumulative", x, node.constant(0, INT64), CumulativeOperation.SUM, False, False)


def _stored(
    node: Node, x: Tensor, at: Tensor, values: Tensor, reduction: ReduceOperation = ReduceOperation.NONE
) -> Tensor:
    """A vector with `values` stored at the positions `at`."""
    return node.layer("add_scatter", x, at, values, ScatterMode.ELEMENT, axis=0, reduction=reduction)
