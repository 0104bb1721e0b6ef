"""Sums and maxima of windows that slide along axes, one axis after another.

The maximum of windows of 3 x 3 is the maximum of three rows, and then of three columns of that result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from anyrt.core.dims import Dim
from anyrt.ir.graph import Shape, Value
from anyrt.ops._windows import Slide, Span, padded
from anyrt.prims.build import map_, reduce_, slice_, squeeze, windows
from anyrt.prims.reduce import lowest
from anyrt.prims.view import Axis

# The function of two elements, for each way of folding.
PAIRS: Final = {"sum": "add", "max": "max"}
# Longer windows are folded by a loop. Shorter ones are a chain, so that neighbouring windows are lanes of a
# vector: a loop over a window of three columns would use only three lanes.
LONGEST_CHAIN: Final = 16


def fold(fn: str, where: str, x: Value, by: Sequence[Slide], at: Sequence[Span]) -> Value:
    """`fn`, sum or max, of windows over the last axes of `x`, padded with the neutral element of `fn`.

    If there is only one window along every axis, the result is one fold of its elements."""
    border, lead = lowest(x.dtype) if fn == "max" else 0.0, x.type.rank - len(by)
    if all(span.count == 1 for span in at):
        shape = (*x.shape[:lead], *(each.size for each in by))
        steps = (*(1 for _ in x.shape[:lead]), *(each.dilation for each in by))
        covered = slice_(padded(where, x, at, border), (0,) * len(shape), shape, steps)
        return reduce_(fn, covered, range(lead, len(shape)))
    for axis, (each, span) in enumerate(zip(by, at, strict=True), lead):
        others = (Span(0, 0, 0, size) for size in x.shape[axis + 1 :])
        framed = padded(where, x, (span, *others), border)
        x = (_loop if each.size > LONGEST_CHAIN else _chain)(fn, framed, axis, each, span)
    return x


def _loop(fn: str, x: Value, axis: int, by: Slide, span: Span) -> Value:
    """The fold along one axis: the elements of a window are a last axis, which is reduced."""
    rank = x.type.rank
    axes = [Axis(0, k, by.stride, ((rank, by.dilation),)) if k == axis else Axis(0, k) for k in range(rank)]
    shape = (*_with(x.shape, axis, span.count), by.size)
    return squeeze(reduce_(fn, windows(x, axes, shape), (rank,)), (rank,))


def _chain(fn: str, x: Value, axis: int, by: Slide, span: Span) -> Value:
    """The fold along one axis: the first elements of all windows, with the second ones, and so on."""
    shape, none, ones = _with(x.shape, axis, span.count), (0,) * x.type.rank, (1,) * x.type.rank
    steps = _with(ones, axis, by.stride)
    places = (slice_(x, _with(none, axis, i * by.dilation), shape, steps) for i in range(by.size))
    return reduce(lambda a, b: map_(PAIRS[fn], a, b), places)


def _with(shape: Shape, axis: int, size: Dim) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])
