"""Constant factors of sums of products, in the order in which kernels read them.

A register tile reads, for each term of the sum, the lanes of a panel. So the constant is cut into panels of
32 lanes, which serve vectors of every width, each with its terms one behind the other; the graph has a view
of it with the old shape in its place. The terms of a window's position, its channels, come last, as what is
read beside them lies side by side then (schedule/layouts.py).

    w: [k, n]    ->    transpose(reshape(w': [n/32, k, 32]))

Of types that dots sum by words, the terms of a word lie side by side, where they fill words.

    w: [k, n]    ->    transpose(reshape(w': [n/32, k/4, 32, 4]))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from anyrt.core.dims import Dim
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.prim import Array
from anyrt.ir.rewrite import transformed
from anyrt.prims import build
from anyrt.prims.const import Blob, Const
from anyrt.prims.contract import Contract
from anyrt.prims.view import View
from anyrt.schedule.storage import PACKED

PANEL: Final = 32  # lanes
LEAST: Final = 64  # elements: fewer lie near the core in any order
WORD: Final = {DataType.INT8: 4, DataType.BF16: 2}  # terms in 32 bits


def pack_constants(graph: Graph) -> Graph:
    """The graph with every large constant factor in panels."""
    return transformed(graph, lambda old, new: _packed(new))


def _packed(value: Value) -> Value:
    match value.op, value.args:
        case Contract(left=left, right=right) as op, (a, b):
            first, second = _panels(a, left, b, right, op), _panels(b, right, a, left, op)
            return value if (first, second) == (a, b) else apply(op, first, second)
    return value


def _panels(value: Value, labels: Sequence[int], other: Value, others: Sequence[int], op: Contract) -> Value:
    """A constant in panels of the lanes that it alone has, and where there are none, with those innermost
    that move both factors; `value` itself where that gains nothing."""
    if not isinstance(value.op, Const) or value.op.blob.size < LEAST or value.dtype in PACKED:
        return value
    kept = [k for k, label in enumerate(labels) if label in op.out]
    alone = [k for k in kept if labels[k] not in others and value.shape[k] != 1]
    summed = [k for k in range(len(labels)) if k not in kept]
    windows = _window_labels(other, others)
    summed.sort(key=lambda k: labels[k] not in windows)
    both = sorted((k for k in kept if k not in alone), key=lambda k: value.shape[k] != 1)
    if not alone:
        return _stored(value, [*summed, *both]) if both and summed else value
    lane = next((k for k in reversed(alone) if _fills(value.shape[k])), alone[-1])
    rest = [k for k in alone if k != lane]
    return _in_panels(value, [*both, *rest], lane, summed) if summed else value


def _fills(size: Dim) -> bool:
    """Whether so many lanes are a panel or more."""
    return isinstance(size, int) and size >= PANEL


def _window_labels(value: Value, labels: Sequence[int]) -> frozenset[int]:
    """The labels that move along an axis together with others, which move the window as a whole."""
    if not isinstance(value.op, View):
        return frozenset()
    shared = (axis.terms[1:] for axis in value.op.axes)
    return frozenset(labels[out] for terms in shared for out, _ in terms)


def _stored(value: Value, order: Sequence[int]) -> Value:
    """The same elements, with their axes in another order in memory."""
    if list(order) == sorted(order):
        return value
    return _turned_back(_constant(value, _array(value).transpose(order)), order)


def _in_panels(value: Value, first: Sequence[int], lane: int, summed: Sequence[int]) -> Value:
    """The axes `first`, then panels of the lanes, then the terms, or words of them, then the lanes of a
    panel, then the terms of a word; the last panel is filled up with zeros."""
    at, array = len(first), _array(value).transpose([*first, lane, *summed])
    lanes, word = array.shape[at], WORD.get(value.dtype, 1)
    word = word if array.shape[-1] % word == 0 else 1
    size = min(PANEL, 1 << (lanes - 1).bit_length())
    count = -(-lanes // size)
    whole = array if lanes == count * size else _filled(array, at, count * size)
    *outer, terms = array.shape[at + 1 :]
    cut = whole.reshape(*array.shape[:at], count, size, *outer, terms // word, word)
    order = [*range(at + 1), *range(at + 2, cut.ndim - 1), at + 1, cut.ndim - 1]
    turned = _turned_back(_constant(value, cut.transpose(order)), order)
    joined = build.reshape(turned, whole.shape)
    some = build.slice_(joined, (0,) * array.ndim, array.shape, (1,) * array.ndim)
    return _turned_back(some if lanes != count * size else joined, [*first, lane, *summed])


def _filled(array: Array, axis: int, size: int) -> Array:
    """With zeros behind, as many along an axis as `size`."""
    whole = np.zeros((*array.shape[:axis], size, *array.shape[axis + 1 :]), array.dtype)
    whole[(*(slice(None),) * axis, slice(array.shape[axis]))] = array
    return whole


def _turned_back(value: Value, order: Sequence[int]) -> Value:
    """With axis `order[k]` where axis k is."""
    return build.transpose(value, [order.index(k) for k in range(len(order))])


def _array(value: Value) -> Array:
    assert isinstance(value.op, Const), "packed is what is constant"
    return value.op.blob.stored.reshape(value.op.shape)


def _constant(value: Value, array: Array) -> Value:
    """The array as a constant like `value`; its elements stay where they are until the plan is written."""
    assert isinstance(value.op, Const), "packed is what is constant"
    return apply(Const(Blob(array, value.dtype, value.op.blob.name), array.shape))
