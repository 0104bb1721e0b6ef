"""Codes of 4 bits that one row is multiplied by, in the order in which a kernel takes bytes apart.

Two codes lie in a byte. Of neighbours, one vector would hold every second one, and so would need the same of
the row. Instead each block of terms with one scale is cut in two halves, and a byte holds one code of each:
what is multiplied by the low codes of a vector of bytes lies side by side, and so does the other half.

    y[n] = Σ x[k] · s[n, k/32] · w[n, k]   ->   y[n] = Σ x[b, h, i] · s[n, b] · w'[n, b, i, h]

A row alone is read once for each weight: so what codes stand for is computed where it is read, and nothing of
it is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final, TypeAlias, TypeVar

from anyrt.core.dtype import is_packed
from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import transformed
from anyrt.prims import build
from anyrt.prims.closed import constant
from anyrt.prims.const import Const
from anyrt.prims.contract import Contract
from anyrt.prims.map import Map
from anyrt.prims.reshape import Reshape
from anyrt.prims.view import View

T = TypeVar("T")
Labels: TypeAlias = tuple[int, ...]
Side: TypeAlias = tuple[Value, Labels]
LEAST: Final = 16  # codes of half a block: the lanes of the widest vector of float32


@dataclass(frozen=True, slots=True)
class Halves:
    """Sizes of the axes that terms are cut into, and which of these says the half of a byte."""

    parts: tuple[int, int, int]
    axis: int


def split_codes(graph: Graph) -> Graph:
    """The graph with the sum of every such product in blocks of two halves."""
    return transformed(graph, lambda old, new: _split(new))


def _split(value: Value) -> Value:
    if not isinstance(value.op, Contract):
        return value
    op = value.op
    left, right = ((arg, labels) for arg, labels in zip(value.args, (op.left, op.right), strict=True))
    if (found := _halved(left, right, op.out)) is not None:
        (a, first), (b, second) = found
    elif (found := _halved(right, left, op.out)) is not None:
        (b, second), (a, first) = found
    else:
        return value
    return apply(Contract(first, second, op.out, op.dtype, op.hides), a, b)


def _halved(row: Side, coded: Side, out: Labels) -> tuple[Side, Side] | None:
    """Both sides of a product with their terms cut; None where there are several rows, or no codes."""
    (a, labels), (b, others) = row, coded
    summed = [label for label in others if label not in out]
    alone = [d for label, d in zip(labels, a.shape, strict=True) if label not in others]
    if len(summed) != 1 or summed[0] not in labels or any(d != 1 for d in alone):
        return None
    at, place = others.index(summed[0]), labels.index(summed[0])
    halves = _halves(b, at)
    if halves is None:
        return None
    new = tuple(range(1 + max((*labels, *others)), 4 + max((*labels, *others))))
    factor = build.reshape(a, _cut(a.shape, place, halves.parts))
    return (factor, _cut(labels, place, new)), (_blocks(b, at, halves), _cut(others, at, new))


def _leaves(value: Value) -> Iterator[Value]:
    """What an operand is computed of, element by element."""
    todo = [value]
    while todo:
        v = todo.pop()
        if isinstance(v.op, Map):
            todo += v.args
        else:
            yield v


def _halves(value: Value, at: int) -> Halves | None:
    """How the terms of an operand are cut that lie along axis `at`; None where it is made of no codes, or its
    blocks are too short."""
    leaves, terms = [*_leaves(value)], value.shape[at]
    codes = [v for v in leaves if _is_codes(v) and v.shape[at] == terms]
    if not codes or not isinstance(terms, int):
        return None
    size = gcd(terms, *(_block(v, at) for v in leaves if v not in codes))
    if size % (2 * LEAST) == 0:
        return Halves((terms // size, 2, size // 2), 1)
    # Shorter blocks are held whole, beside those of the other half of all terms.
    return Halves((2, terms // size // 2, size), 0) if size % LEAST == terms // size % 2 == 0 else None


def _is_codes(value: Value) -> bool:
    return is_packed(value.dtype) and isinstance(value.op, Const)


def _block(value: Value, at: int) -> int:
    """How many terms along an axis have one element of a value in common."""
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


def _blocks(value: Value, at: int, halves: Halves) -> Value:
    """An operand with its terms in blocks, its codes in bytes of two halves."""
    if isinstance(value.op, Map):
        return apply(value.op, *(_blocks(v, at, halves) for v in value.args))
    split = build.reshape(value, _cut(value.shape, at, (1, 1, 1) if value.shape[at] == 1 else halves.parts))
    if not _is_codes(value) or value.shape[at] == 1:
        return split
    last = at + halves.axis
    order = [*(k for k in range(split.type.rank) if k != last), last]
    return build.transpose(
        constant(build.transpose(split, order)), [order.index(k) for k in range(len(order))]
    )
