"""Terms of narrow products padded with zeros to whole words.

Instructions sum four products of bytes, or two of bfloat16, at a time (loops/words.py). An image has three
channels: with a fourth channel of zeros the sums are the same, with four thirds of the products in a quarter
of the instructions.

    contract(window of x: [n, 3, h, w], w: [k, 3, 7, 7])   ->   the same of [n, 4, h, w] and [k, 4, 7, 7]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import isfinite
from typing import Final

from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import transformed
from anyrt.passes.pack_constants import LEAST, WORD, window_labels
from anyrt.prims import build
from anyrt.prims.const import Const
from anyrt.prims.contract import Contract
from anyrt.prims.pad import Pad
from anyrt.prims.view import Axis, View

MOST: Final = Fraction(4, 3)  # times as many products: machines without such instructions compute them, too


def fill_words(graph: Graph) -> Graph:
    """The graph with terms of narrow constant factors in whole words."""
    return transformed(graph, lambda old, new: _filled(new))


def _filled(value: Value) -> Value:
    match value.op, value.args:
        case Contract(left=left, right=right) as op, (a, b):
            short = (_short(b, right, a, left, op), _short(a, left, b, right, op))
            label = next((x for x in short if x is not None), None)
            if label is not None:
                return apply(op, _longer(a, left.index(label)), _longer(b, right.index(label)))
    return value


def _short(
    value: Value, labels: Sequence[int], other: Value, others: Sequence[int], op: Contract
) -> int | None:
    """The label of the terms of a constant that form words, if they do not fill whole words."""
    if not isinstance(value.op, Const) or value.op.blob.size < LEAST or value.dtype not in WORD:
        return None
    windows = window_labels(other, others)
    summed = [k for k in labels if k not in op.out and k not in windows and k in others]
    size = value.shape[labels.index(summed[0])] if len(summed) == 1 else None
    if not isinstance(size, int) or size % WORD[value.dtype] == 0:
        return None
    if other.shape[others.index(summed[0])] != size:
        return None  # data determine that of the other factor, and each inference checks that both are equal
    return summed[0] if _whole(size, value) <= size * MOST else None


def _whole(size: int, value: Value) -> int:
    word = WORD[value.dtype]
    return -(-size // word) * word


def _longer(value: Value, axis: int) -> Value:
    """The value padded with zeros along an axis: in the source of a window, not in each window."""
    size = value.shape[axis]
    assert isinstance(size, int), "what fills words has a known size"
    more = _whole(size, value) - size
    if isinstance(value.op, View):
        (source,) = value.args
        at = [k for k, a in enumerate(value.op.axes) if a == Axis(0, axis)]
        if len(at) == 1 and source.shape[at[0]] == size:
            shape = tuple(d + more if k == axis else d for k, d in enumerate(value.shape))
            return apply(replace(value.op, shape=shape), _padded(source, at[0], more))
    return _padded(value, axis, more)


def _padded(value: Value, axis: int, more: int) -> Value:
    match value.op, value.args:
        case Pad(lo=lo, hi=hi, value=border), (inner,) if lo[axis] == hi[axis] == 0 and isfinite(border):
            return build.pad(inner, lo, [more if k == axis else d for k, d in enumerate(hi)], border)
    none = [0] * value.type.rank
    return build.pad(value, none, [more if k == axis else 0 for k in range(value.type.rank)], 0.0)
