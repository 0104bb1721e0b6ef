"""Sizes, axes and positions that are numbers where they are known, and tensors of one element where not.

n = length(x, 0)                # 3, or an int64 tensor of shape (1,)
y = x.reshape([n * 2, -1])
Axes that a run decides, as many as are known now, become flags: what they do to sizes is arithmetic, which
the compiler keeps symbolic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from anyrt.core.enums import DataType, ReduceOperation
from anyrt.core.errors import GraphError
from anyrt.ir.symbolic import known
from anyrt.onnx.tensor import Tensor

Size: TypeAlias = int | Tensor
INT64 = DataType.INT64
NEVER = np.iinfo(np.int64).max  # an end that means: as far as there is something


def length(x: Tensor, axis: int) -> Size:
    """The size of one axis."""
    n = x.sizes[axis]
    return n if n >= 0 else x.size(axis)


def lengths(x: Tensor) -> list[Size]:
    """The size of each axis."""
    return [length(x, axis) for axis in range(x.rank)]


def volume(x: Tensor, axes: Iterable[int]) -> Size:
    """How many elements these axes have."""
    many: Size = 1
    for axis in axes:
        many = many * length(x, axis)
    return many


def entries(x: Tensor) -> list[Size]:
    """The elements of an integer vector, or of a single number."""
    layers = x.layers
    x = (x if x.rank == 1 else x.reshape((1,))).cast(INT64)
    if x.sizes[0] < 0:
        do = "a vector whose length is known"
        raise GraphError("AR417", layers.where, "a vector of sizes whose own length is open", do)
    found = known(x.it._network._expansion.value(x.it))
    elements = [None] * x.sizes[0] if found is None else found.tolist()
    return [e if isinstance(e, int) else layers.slice(x, [i], [1]) for i, e in enumerate(elements)]


def larger(a: Size, b: int) -> Size:
    """The larger one of two."""
    return max(a, b) if isinstance(a, int) else a.maximum(b)


def smaller(a: Size, b: Size) -> Size:
    """The smaller one of two."""
    if isinstance(a, int):
        return min(a, b) if isinstance(b, int) else b.minimum(a)
    return a.minimum(b)


def window(x: Tensor, axis: int, start: Size, size: Size, step: Size = 1) -> Tensor:
    """`size` positions of one axis."""
    axis %= x.rank
    wholes = lengths(x)
    starts: list[Size] = [0] * x.rank
    steps: list[Size] = [1] * x.rank
    starts[axis], wholes[axis], steps[axis] = start, size, step
    return x.layers.slice(x, starts, wholes, steps)


def broadcast_to(x: Tensor, sizes: Sequence[Size]) -> Tensor:
    """`x` as it meets a tensor of these sizes: repeated where it has size 1."""
    rank = max(x.rank, len(sizes))
    x = x.unsqueeze(*range(rank - x.rank))
    wanted: list[Size] = [1] * rank
    wanted[rank - len(sizes) :] = sizes
    return x.layers.expand(x, [_met(n, m) for n, m in zip(lengths(x), wanted, strict=True)])


def _met(n: Size, m: Size) -> Size:
    """The size of an axis of `n` elements that meets one of `m`."""
    if n == 1 or m == 1:
        return m if n == 1 else n
    if isinstance(n, int) or isinstance(m, int):
        return n if isinstance(n, int) else m
    return n.layers.where_(n.equal(1), m, n)


def flags(axes: Tensor, rank: int) -> Tensor:
    """1 for each of `rank` axes that is among `axes`, 0 for others: int64 of shape (rank,)."""
    layers, axes = axes.layers, axes.cast(INT64).reshape((-1, 1))
    places = layers.constant(np.arange(rank)[None], INT64)
    among = (axes.equal(places) | axes.equal(places - rank)).cast(INT64)
    return layers.reduce(ReduceOperation.MAX, among, [0], keep=False)


def squeeze_by(x: Tensor, axes: Tensor) -> Tensor:
    """`x` without these axes of size 1; a run may decide which, not how many."""
    found = x.layers.ints(axes)
    if found is not None:
        return x.squeeze(*found)
    chosen = _chosen(flags(axes, x.rank), x.rank - axes.sizes[0])
    return x.reshape(_largest(chosen * x.shape().reshape((-1, 1)), 0))


def unsqueeze_by(x: Tensor, axes: Tensor) -> Tensor:
    """`x` with axes of size 1 at these places of the result; a run may decide where, not how many."""
    found = x.layers.ints(axes)
    if found is not None:
        return x.unsqueeze(*found)
    new = flags(axes, x.rank + axes.sizes[0])
    return x.reshape(_largest(_chosen(new, x.rank) * x.shape().reshape((1, -1)), 1).maximum(new))


def _chosen(flagged: Tensor, count: int) -> Tensor:
    """Which of the axes without a flag each of them is: (rank, count), 1 or 0."""
    layers, rank = flagged.layers, flagged.sizes[0]
    triangle = layers.constant(np.tri(rank, k=-1), INT64)
    before = layers.reduce(ReduceOperation.SUM, triangle * (1 - flagged), [1])
    # A flag moves the number of its axis beyond all; a product with 1 or 0 would be of more terms.
    place = before + flagged.reshape((-1, 1)) * rank
    return place.equal(layers.constant(np.arange(count)[None], INT64)).cast(INT64)


def _largest(sizes: Tensor, axis: int) -> Tensor:
    """Over an axis of which one entry is not 0; of sums, volumes would be products of many terms."""
    return sizes.layers.reduce(ReduceOperation.MAX, sizes, [axis], keep=False)
