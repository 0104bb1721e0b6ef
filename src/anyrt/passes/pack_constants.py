"""Constant factors of products, in the order in which kernels read them.

A register tile reads, for each term of the sum, the lanes of a panel. The constant is therefore cut into
panels of as many lanes as the machine prefers, such as 32, each with its terms one behind the other; the
graph has a view of it with the old shape in its place. The terms of a window's position, its channels, come
last, since the other operand has them contiguous (schedule/layouts.py).

    w: [k, n]    ->    transpose(reshape(w': [n/32, k, 32]))

If dots sum the type by words, the terms of a word are contiguous, as far as they fill words.

    w: [k, n]    ->    transpose(reshape(w': [n/32, k/4, 32, 4]))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

import numpy as np

from anyrt.core.dims import Dim, add, mul
from anyrt.core.dtype import bits
from anyrt.core.enums import DataType
from anyrt.core.machine import REFERENCE, Machine
from anyrt.ir.graph import Graph, Shape, Value, apply, walk
from anyrt.ir.prim import Array
from anyrt.ir.rewrite import transformed
from anyrt.prims import build
from anyrt.prims.closed import constant
from anyrt.prims.const import Blob, Const
from anyrt.prims.contract import Contract
from anyrt.prims.map import CAST, Map, fn_of
from anyrt.prims.reshape import Reshape
from anyrt.prims.view import View
from anyrt.schedule.storage import PACKED

BYTES: Final = 4  # of a word
EIGHT: Final = frozenset({DataType.INT8, DataType.UINT8})
LEAST: Final = 64  # elements: fewer stay near the core in any order
WORD: Final = {DataType.INT8: 4, DataType.BF16: 2} | {t: 32 // bits(t) for t in PACKED}  # terms in 32 bits


def pack_constants(graph: Graph, machine: Machine = REFERENCE) -> Graph:
    """The graph with every large constant factor in panels."""
    return transformed(graph, lambda old, new: _packed(new, machine))


def _packed(value: Value, machine: Machine) -> Value:
    match value.op, value.args:
        case Contract(left=left, right=right) as op, (a, b):
            first, second = _panels(a, left, b, right, op, machine), _panels(b, right, a, left, op, machine)
            return value if (first, second) == (a, b) else apply(op, first, second)
    return value


def _panels(
    value: Value, labels: Sequence[int], other: Value, others: Sequence[int], op: Contract, machine: Machine
) -> Value:
    """A constant in panels of the lanes that it alone has, and if there are none, with the labels innermost
    that move both factors; `value` itself if that gains nothing. In an elementwise function of constants, as
    of codes and their scales (passes/split_codes.py), each of these is packed."""
    if isinstance(value.op, Map) and _is_known(value):
        return _each_leaf(value, lambda v: _panels(v, labels, other, others, op, machine))
    if not isinstance(value.op, Const) or value.op.blob.size < LEAST or value.op.is_part:
        return value
    kept = [k for k, label in enumerate(labels) if label in op.out]
    alone = [k for k in kept if labels[k] not in others and value.shape[k] != 1]
    summed = [k for k in range(len(labels)) if k not in kept]
    windows = window_labels(other, others)
    summed.sort(key=lambda k: labels[k] not in windows)
    both = sorted((k for k in kept if k not in alone), key=lambda k: value.shape[k] != 1)
    if not alone:
        return _stored(value, [*summed, *both]) if both and summed else value
    lane = next((k for k in reversed(alone) if _fills(value.shape[k], machine.panel)), alone[-1])
    rest = [k for k in alone if k != lane]
    if not summed:
        return value
    word = _word(value, op, machine.sums_bytes and _are_codes(other, others, op))
    return _in_panels(value, [*both, *rest], lane, summed, machine.panel, word)


def _word(value: Value, op: Contract, by_codes: bool) -> int:
    """How many terms are contiguous. 8-bit codes of numbers are contiguous only beside codes, which dots
    multiply by them."""
    if op.dtype is DataType.FLOAT and value.dtype in EIGHT:
        return BYTES if by_codes else 1
    return WORD.get(value.dtype, 1)


def _are_codes(value: Value, labels: Sequence[int], op: Contract) -> bool:
    """True for rows of int8 times a scale that neighbouring terms share, with the terms last."""
    source = _stored_as(value)
    if fn_of(source) != "mul" or labels[-1] in op.out:
        return False
    pairs = (source.args, source.args[::-1])
    return any(_is_int8(_stored_as(codes)) and _repeats(scale, value.shape) for codes, scale in pairs)


def _repeats(scale: Value, shape: Shape) -> bool:
    """True for a value that is the same along the last axis of this shape."""
    while scale.shape != (*shape[:-1], 1) and not _is_spread(scale, shape):
        if not isinstance(scale.op, Reshape):
            return False
        (scale,) = scale.args
    return True


def _is_spread(value: Value, shape: Shape) -> bool:
    last = len(shape) - 1
    reads = isinstance(value.op, View) and all(out != last for a in value.op.axes for out, _ in a.terms)
    return reads and value.shape == shape


def _stored_as(value: Value) -> Value:
    """The same elements in their order."""
    while isinstance(value.op, Reshape):
        (value,) = value.args
    return value


def _is_int8(value: Value) -> bool:
    return fn_of(value) == CAST and value.args[0].dtype is DataType.INT8


def _is_known(value: Value) -> bool:
    """True for elementwise functions of constants; chains of these are as long as networks."""
    return all(isinstance(v.op, Map | Const) for v in walk([value]))


def _each_leaf(value: Value, change: Callable[[Value], Value]) -> Value:
    """An elementwise function with its constants replaced."""
    return (
        apply(value.op, *(_each_leaf(v, change) for v in value.args))
        if isinstance(value.op, Map)
        else (change(value))
    )


def _fills(size: Dim, panel: int) -> bool:
    """Whether so many lanes are a panel or more."""
    return isinstance(size, int) and size >= panel


def window_labels(value: Value, labels: Sequence[int]) -> frozenset[int]:
    """The labels that move along an axis together with others, which move the window as a whole."""
    windows = value.op.windows if isinstance(value.op, View) else ()
    return frozenset(labels[out] for moving in windows for out in moving[1:])


def _stored(value: Value, order: Sequence[int]) -> Value:
    """The same elements, with their axes in another order in memory."""
    if list(order) == sorted(order):
        return value
    return _turned_back(_moved(value, partial(_ordered, order)), order)


def _in_panels(
    value: Value, first: Sequence[int], lane: int, summed: Sequence[int], panel: int, word: int
) -> Value:
    """The axes `first`, then panels of the lanes, then the terms, or words of them, then the lanes of a
    panel, then the terms of a word; the last panel is padded with zeros. If a byte holds several codes, a
    word's first four terms are the first codes of its four bytes: a shift and a mask give a word of
    neighbouring terms in bytes, as dots read them."""
    outer = [*first, lane, *summed]
    shape, at = [d for k in outer if isinstance(d := value.shape[k], int)], len(first)
    word = word if shape[-1] % word == 0 else 1
    size = min(panel, 1 << (shape[at] - 1).bit_length())
    count = -(-shape[at] // size)
    whole = (*shape[:at], count * size, *shape[at + 1 :])
    parts = (word // BYTES, BYTES) if value.dtype in PACKED and word > 1 else (word,)
    cut = (*shape[:at], count, size, *shape[at + 1 : -1], shape[-1] // word, *parts)
    inner = len(cut) - len(parts)
    order = [*range(at + 1), *range(at + 2, inner), at + 1, *range(len(cut) - 1, inner - 1, -1)]
    panels = _moved(value, partial(_cut, outer, whole, cut, order))
    joined = build.reshape(_turned_back(panels, order), whole)
    return _turned_back(build.slice_(joined, [0] * len(shape), shape, [1] * len(shape)), outer)


X = TypeVar("X", Array, Value)


@dataclass(frozen=True, slots=True)
class _Moves(Generic[X]):
    """The moves of elements: of arrays, or of values, as weights record their moves."""

    transpose: Callable[[X, Sequence[int]], X]
    reshape: Callable[[X, tuple[int, ...]], X]
    fill: Callable[[X, tuple[int, ...]], X]


def _ordered(order: Sequence[int], x: X, moves: _Moves[X]) -> X:
    return moves.transpose(x, order)


def _cut(
    outer: Sequence[int],
    whole: tuple[int, ...],
    cut: tuple[int, ...],
    order: Sequence[int],
    x: X,
    moves: _Moves[X],
) -> X:
    filled = moves.fill(moves.transpose(x, outer), whole)
    return moves.transpose(moves.reshape(filled, cut), order)


class _Move(Protocol):
    def __call__(self, x: X, moves: _Moves[X], /) -> X: ...


def _moved(value: Value, move: _Move) -> Value:
    """The constant with its elements elsewhere, under the same name."""
    assert isinstance(value.op, Const), "packed is what is constant"
    blob = value.op.blob
    if blob.origin is not None:
        return constant(move(value, VALUES), blob.name)
    array = move(blob.stored.reshape(value.op.shape), ARRAYS)  # it stays in place until a plan is written
    return apply(Const(Blob(array, value.dtype, blob.name), array.shape))


def _turned_back(value: Value, order: Sequence[int]) -> Value:
    """With axis `order[k]` where axis k is."""
    return build.transpose(value, [order.index(k) for k in range(len(order))])


def _filled(array: Array, shape: tuple[int, ...]) -> Array:
    """Padded with zeros."""
    if array.shape == shape:
        return array
    whole = np.zeros(shape, array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    return whole


def _padded(value: Value, shape: tuple[int, ...]) -> Value:
    """Padded with zeros."""
    behind = [add(to, mul(d, -1)) for to, d in zip(shape, value.shape, strict=True)]
    return build.pad(value, [0] * len(shape), behind, 0.0)


ARRAYS: Final[_Moves[Array]] = _Moves(np.transpose, np.reshape, _filled)
VALUES: Final[_Moves[Value]] = _Moves(build.transpose, build.reshape, _padded)
