"""Weights of few bits: their codes stay a constant, and the terms of a sum are divided into blocks.

A weight is a code times a scale, which the terms of a block share. With an axis for the blocks and one for
the terms of a block, codes and scales are separate constants:

    y[m, n] = Σ x[m, k] · s[n, k/32] · w[n, k]   ->   y[m, n] = Σ x[m, b, i] · (s[n, b, 0] · w[n, b, i])

Kernels extract codes from words (passes/pack_constants.py). For few rows they multiply the sum of a block by
its scale, for many they decode a panel of weights (backends/cpu/strategies/contraction.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import Final, TypeAlias, TypeVar

from anyrt.core.dtype import bits, is_packed
from anyrt.core.enums import DataType
from anyrt.ir.graph import Graph, Value, apply, users, walk
from anyrt.ir.rewrite import transformed
from anyrt.passes.facts import volume
from anyrt.passes.pack_constants import window_labels
from anyrt.prims import build
from anyrt.prims.closed import constant
from anyrt.prims.const import Const
from anyrt.prims.contract import Contract
from anyrt.prims.gather import Gather
from anyrt.prims.map import CAST, Map, fn_of
from anyrt.prims.reshape import Reshape
from anyrt.prims.view import View

T = TypeVar("T")
Labels: TypeAlias = tuple[int, ...]
Side: TypeAlias = tuple[Value, Labels]
WORD: Final = 32  # bits
SMALL: Final = 1 << 16  # codes of 8 bits: fewer codes gain nothing over numbers
EIGHT: Final = frozenset({DataType.INT8, DataType.UINT8})
BYTES: Final = {
    DataType.INT4: DataType.INT8,
    DataType.INT2: DataType.INT8,
    DataType.UINT4: DataType.UINT8,
    DataType.UINT2: DataType.UINT8,
}


def split_codes(graph: Graph) -> Graph:
    """The graph with the terms of every such product in blocks."""
    return transformed(graph, lambda old, new: _split(new))


def coded_bytes(graph: Graph) -> frozenset[Value]:
    """Numbers of 8-bit codes that only products and lookups of rows read: their codes stay codes, too."""
    known: dict[Value, bool] = {}
    for v in graph.values:
        known[v] = isinstance(v.op, Const) or (bool(v.args) and all(known[a] for a in v.args))
    reads = {**users(graph), **{v: () for _, v in graph.outputs}}  # an output is read by no product
    casts = (v for v in known if known[v] and v.dtype is DataType.FLOAT and fn_of(v) == CAST)
    return frozenset(v for v in casts if _are_codes(v.args[0]) and _is_decoded(v, known, reads))


def _is_decoded(value: Value, known: Mapping[Value, bool], reads: Mapping[Value, Sequence[Value]]) -> bool:
    """True for weights that, with their scales, only products with other factors and lookups of rows read."""
    todo = [value]
    while todo:
        v = todo.pop()
        for user in reads[v]:
            if not known[user] and (_looks_up(user, v) or _takes(user, v)):
                continue
            if not known[user] or not isinstance(user.op, Map | View | Reshape):
                return False
            todo.append(user)
        if not reads[v]:
            return False
    return True


def _looks_up(user: Value, table: Value) -> bool:
    """True if an inference reads some elements of the table, as embeddings do."""
    return isinstance(user.op, Gather) and table is not user.args[1]


def _takes(user: Value, value: Value) -> bool:
    """True for sums of float32 along one axis of weights that are not over windows of an image."""
    op = user.op
    if not isinstance(op, Contract):
        return False
    is_left = user.args[0] is value
    mine, others = (op.left, op.right) if is_left else (op.right, op.left)
    other = user.args[1] if is_left else user.args[0]
    summed = [label for label in mine if label not in op.out]
    return op.dtype is DataType.FLOAT and len(summed) == 1 and not window_labels(other, others)


def _split(value: Value) -> Value:
    if not isinstance(value.op, Contract) or value.op.dtype is not DataType.FLOAT:
        return value
    op = value.op
    left, right = ((arg, labels) for arg, labels in zip(value.args, (op.left, op.right), strict=True))
    for rows, coded in ((left, right), (right, left)):
        split = _blocked(rows, coded, op)
        if split is not None:
            return split
    args = [_numbers(arg) for arg in value.args]
    return value if args == list(value.args) else apply(op, *args)


def _numbers(value: Value) -> Value:
    """The values of 8-bit codes that are not multiplied as codes, as numbers."""
    leaves = [v for v in walk([value]) if not v.args]
    decoded = any(map(_are_bytes, leaves)) and all(isinstance(v.op, Const) for v in leaves)
    return constant(value) if decoded else value


def _blocked(rows: Side, coded: Side, op: Contract) -> Value | None:
    """The product with its terms in blocks; None without codes, or if blocks fill no words."""
    (a, labels), (b, others) = rows, _as_stored(coded)
    summed = [label for label in others if label not in op.out]
    if len(summed) != 1 or summed[0] not in labels:
        return None
    at, place = others.index(summed[0]), labels.index(summed[0])
    size = _size(b, at)
    if size is None:
        return None
    terms = b.shape[at]
    assert isinstance(terms, int), "constants have known sizes"
    new = (1 + max((*labels, *others, *op.out)), summed[0])
    factor = build.reshape(a, _cut(a.shape, place, (terms // size, size)))
    first, second = _cut(labels, place, new), _cut(others, at, new)
    return apply(Contract(first, second, op.out, op.dtype, op.hides), factor, _blocks(b, at, size))


def _as_stored(side: Side) -> Side:
    """An operand with the transpositions before it replaced by labels."""
    value, labels = side
    while isinstance(value.op, View):
        (of,) = value.args
        outs = [
            a.out for a in value.op.axes if a.out is not None and not a.more and (a.start, a.step) == (0, 1)
        ]
        if sorted(outs) != [*range(value.type.rank)] or [value.shape[k] for k in outs] != list(of.shape):
            break
        value, labels = of, tuple(labels[k] for k in outs)
    return value, labels


def _leaves(value: Value) -> Iterator[Value]:
    """The operands of an elementwise function."""
    todo = [value]
    while todo:
        v = todo.pop()
        if isinstance(v.op, Map):
            todo += v.args
        else:
            yield v


def _size(value: Value, at: int) -> int | None:
    """The terms of a block of an operand whose terms are along axis `at`; None if it does not depend only on
    kept codes and constants, or blocks fill no words."""
    leaves, terms = [*_leaves(value)], value.shape[at]
    codes = [v for v in leaves if _is_codes(v) and v.shape[at] == terms]
    if not isinstance(value.op, Map) or len(codes) != 1 or not isinstance(terms, int):
        return None
    rest = [v for v in leaves if v is not codes[0]]
    if any(v.shape[at] not in (1, terms) or not _is_known(v) for v in rest):
        return None
    size = gcd(terms, *(_block(v, at) for v in rest))
    return size if size % (WORD // bits(codes[0].dtype)) == 0 else None


def _is_codes(value: Value) -> bool:
    """True for constants of few bits, and for large ones of 8."""
    return (is_packed(value.dtype) and isinstance(value.op, Const)) or _are_bytes(value)


def _are_bytes(value: Value) -> bool:
    return isinstance(value.op, Const) and _are_codes(value)


def _are_codes(value: Value) -> bool:
    """True for many bytes, as they are stored or computed once, such as unsigned ones less 128."""
    return value.dtype in EIGHT and isinstance(value.op, Const | Map) and volume(value.shape) > SMALL


def _is_known(value: Value) -> bool:
    """True for constants, moved perhaps."""
    while isinstance(value.op, View | Reshape):
        (value,) = value.args
    return isinstance(value.op, Const)


def _block(value: Value, at: int) -> int:
    """How many terms along an axis share one element of a value."""
    terms = value.shape[at]
    if terms == 1:
        return 0  # any number
    view = value.args[0] if isinstance(value.op, Reshape) else value
    if not isinstance(view.op, View):
        return 1
    last = at if view is value else at + 1
    size = view.shape[last] if last < len(view.shape) else 1
    blocks = () if view is value else (view.shape[at],)
    fits = view.shape == (*value.shape[:at], *blocks, size, *value.shape[at + 1 :])
    moves = any(out == last and step != 0 for axis in view.op.axes for out, step in axis.terms)
    return size if fits and isinstance(size, int) and not moves else 1


def _cut(items: Sequence[T], at: int, parts: tuple[T, ...]) -> tuple[T, ...]:
    return (*items[:at], *parts, *items[at + 1 :])


def _blocks(value: Value, at: int, size: int) -> Value:
    """An operand with its terms in blocks of this size; the elements that they share, once per block."""
    if isinstance(value.op, Map):
        return apply(value.op, *(_blocks(v, at, size) for v in value.args))
    terms = value.shape[at]
    assert isinstance(terms, int), "constants have known sizes"
    if _is_codes(value) and terms != 1:
        assert isinstance(value.op, Const), "codes are constants"
        shape = tuple(d for d in _cut(value.shape, at, (terms // size, size)) if isinstance(d, int))
        return apply(Const(value.op.blob, shape))
    blocks = max(1, terms // size)
    whole = build.reshape(value, _cut(value.shape, at, (blocks, terms // blocks)))
    sizes = _cut(value.shape, at, (blocks, 1))
    each = build.slice_(whole, [0] * len(sizes), sizes, [1] * len(sizes))
    # Zero points are few, and vectors load bytes directly.
    return constant(build.cast(each, BYTES[each.dtype]) if each.dtype in BYTES else each)
