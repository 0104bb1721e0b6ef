"""Sizes, axes and positions that are numbers where they are known, and tensors of one element where not.

n = length(x, 0)                # 3, or an int64 tensor of shape (1,)
y = x.reshape([n * 2, -1])
Axes that a run decides, as many as are known now, become flags: what they do to sizes is arithmetic, which
the compiler keeps symbolic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from anyrt.api.compose.layers import Layers
from anyrt.api.compose.tensor import Tensor
from anyrt.core.enums import DataType, ReduceOperation
from anyrt.core.errors import GraphError
from anyrt.ir.graph import Value
from anyrt.ir.prim import Array
from anyrt.ir.reference import widen
from anyrt.prims.const import Const

Size: TypeAlias = int | Tensor
INT64 = DataType.INT64
SHORT = 64  # elements of a vector that is looked at
MANY = 1024  # elements of a vector of which each becomes a layer


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
    x = layers.brief((x if x.rank == 1 else x.reshape((1,))).cast(INT64))
    if _count(x, "sizes") > MANY:
        raise GraphError("AR417", layers.where, f"a vector of {x.sizes[0]} sizes", f"at most {MANY}")
    known = layers.symbols(x)
    elements = [None] * x.sizes[0] if known is None else known.tolist()
    return [e if isinstance(e, int) else layers.slice(x, [i], [1]) for i, e in enumerate(elements)]


def numbers(x: Tensor) -> list[float] | None:
    """The elements of a short vector that is made of constants alone; None for another one."""
    array = _computed(x.layers.value(x))
    return None if array is None else [float(e) for e in array.reshape(-1).tolist()]


def _computed(value: Value) -> Array | None:
    shape = tuple(d for d in value.shape if isinstance(d, int))
    if len(shape) < len(value.shape) or prod(shape) > SHORT:
        return None
    if isinstance(value.op, Const):
        return widen(value.op.blob.array.reshape(shape), value.dtype)
    args = [_computed(a) for a in value.args]
    ready = tuple(a for a in args if a is not None)
    result = value.op.ref(ready, shape) if len(ready) == len(args) > 0 else None
    return None if isinstance(result, tuple) else result


def larger(a: Size, b: Size) -> Size:
    """The larger one of two."""
    if isinstance(a, int):
        return max(a, b) if isinstance(b, int) else b.maximum(a)
    return a.maximum(b)


def smaller(a: Size, b: Size) -> Size:
    """The smaller one of two."""
    if isinstance(a, int):
        return min(a, b) if isinstance(b, int) else b.minimum(a)
    return a.minimum(b)


def if_negative(x: Size, a: Size, b: Size) -> Size:
    """`a` where `x` is below 0, else `b`."""
    if isinstance(x, int):
        return a if x < 0 else b
    layers = x.layers
    return layers.where_(x < 0, _tensor(layers, a), _tensor(layers, b))


def _tensor(layers: Layers, x: Size) -> Tensor:
    return layers.constant([x], INT64) if isinstance(x, int) else x


def stack(layers: Layers, sizes: Sequence[Size]) -> Tensor:
    """Sizes as one int64 vector."""
    dims = layers.dims(sizes)
    return dims if isinstance(dims, Tensor) else layers.constant(dims, INT64)


def counted(start: Size, end: Size, step: Size) -> Size:
    """How many numbers there are from `start` to before `end`."""
    sign = if_negative(step, -1, 1)
    apart = larger(step * sign, 1)  # which says that it is not negative
    return larger(((end - start) * sign + (apart - 1)) // apart, 0)


def positions(layers: Layers, n: Size, dtype: DataType = INT64) -> Tensor:
    """0, 1, 2, … as a vector of `n` elements."""
    return layers.counted(n).cast(dtype)


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
    targets: list[Size] = [1] * rank
    targets[rank - len(sizes) :] = sizes
    return x.layers.expand(x, [_met(n, m) for n, m in zip(lengths(x), targets, strict=True)])


def _met(n: Size, m: Size) -> Size:
    """The size of an axis of `n` elements that meets one of `m`."""
    if n == 1 or m == 1:
        return m if n == 1 else n
    if isinstance(n, int) or isinstance(m, int):
        return n if isinstance(n, int) else m
    return n.layers.where_(n.equal(1), m, n)


def flags(axes: Tensor, rank: int) -> Tensor:
    """1 for each of `rank` axes that is among `axes`, 0 for others: int64 of shape (rank,)."""
    return axes.layers.reduce(ReduceOperation.MAX, _among(axes, rank), [0], keep=False)


def _among(axes: Tensor, rank: int) -> Tensor:
    """Whether each of `axes` is each of `rank` axes: 1 or 0, (count, rank)."""
    axes = axes.cast(INT64).reshape((-1, 1))
    places = axes.layers.constant(np.arange(rank)[None], INT64)
    return axes.equal(places).cast(INT64) + axes.equal(places - rank).cast(INT64)


def spread(values: Sequence[Size], axes: Tensor | Sequence[int] | None, rest: Sequence[Size]) -> list[Size]:
    """What `values` say of `axes`, all if None, which a run may choose; for the other axes, `rest`."""
    out, rank = list(rest), len(rest)
    if not isinstance(axes, Tensor):
        for axis, value in zip(range(rank) if axes is None else axes, values, strict=True):
            out[axis] = value
        return out
    layers, column = axes.layers, stack(axes.layers, values).reshape((-1, 1))
    # As sums of products these sizes have few terms; a selection would have each of them several times.
    changes = _among(axes, rank) * (column - stack(layers, rest))
    return entries(layers.reduce(ReduceOperation.SUM, changes, [0], keep=False) + stack(layers, rest))


def lengths_along(x: Tensor, axes: Tensor | Sequence[int]) -> list[Size]:
    """The sizes of these axes, which a run may choose."""
    if not isinstance(axes, Tensor):
        return [length(x, axis) for axis in axes]
    chosen = _among(axes, x.rank) * x.shape()
    # A maximum is one term, whatever it is made of: products with it stay short.
    return entries(x.layers.reduce(ReduceOperation.SUM, chosen, [1], keep=False).maximum(0))


def squeeze_by(x: Tensor, axes: Tensor) -> Tensor:
    """`x` without these axes of size 1; a run may decide which, not how many."""
    known = x.layers.ints(axes)
    if known is not None:
        return x.squeeze(*known)
    chosen = _chosen(flags(axes, x.rank), x.rank - _count(axes, "axes"))
    return x.reshape(_largest(chosen * x.shape().reshape((-1, 1)), 0))


def unsqueeze_by(x: Tensor, axes: Tensor) -> Tensor:
    """`x` with axes of size 1 at these places of the result; a run may decide where, not how many."""
    known = x.layers.ints(axes)
    if known is not None:
        return x.unsqueeze(*known)
    new = flags(axes, x.layers.axes_of(x.rank + _count(axes, "axes")))
    return x.reshape(_largest(_chosen(new, x.rank) * x.shape().reshape((1, -1)), 1).maximum(new))


def _count(x: Tensor, what: str) -> int:
    """How many elements a vector has, which a rank follows from."""
    if x.sizes[0] < 0:
        got, wanted = f"a vector of {what} whose own length is open", "a vector whose length is known"
        raise GraphError("AR417", x.layers.where, got, wanted)
    return x.sizes[0]


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
