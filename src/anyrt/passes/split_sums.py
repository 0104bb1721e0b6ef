"""Long sums of products with few results, divided into partial sums for threads.

Threads share rows and lanes of a product. If there are few of these and the sum is long, it is divided into
equal partial sums, which another kernel adds, always in the same order.

    mk,kn->mn     ->     sum over s of (msk,skn->smn)

The number of parts depends on sizes and the tiles of the machine, so results depend neither on threads nor on
timing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from anyrt.core.dtype import is_float, wide
from anyrt.core.machine import REFERENCE, Machine
from anyrt.ir.graph import Graph, Value, apply
from anyrt.ir.rewrite import transformed
from anyrt.prims import build
from anyrt.prims.contract import Contract
from anyrt.prims.view import View

FEW: Final = 8  # tiles, from which threads have enough of them
ITEMS: Final = 16  # for sums with fewer
LEAST: Final = 512  # terms of a part
FLOAT: Final = 4  # bytes
READ: Final = 1 << 18  # elements of both factors, from which reading them pays for a second kernel
DONE: Final = 1 << 22  # products, from which summing them does


@dataclass(frozen=True, slots=True)
class _Split:
    """A label with its size, divided into parts of so many terms, and the remainder."""

    label: int
    parts: int
    terms: int
    rest: int


def split_sums(graph: Graph, machine: Machine = REFERENCE) -> Graph:
    """The graph with long sums of products, where they have few results, in parts."""
    return transformed(graph, lambda old, new: _in_parts(new, machine))


def _in_parts(value: Value, machine: Machine) -> Value:
    op = value.op
    if not isinstance(op, Contract):
        return value
    if _is_windowed(value):  # loops know more of it
        return value
    split = _split(op, value, machine)
    if split is None:
        return value
    dtype = wide(op.dtype) if is_float(op.dtype) else op.dtype
    of, label = split.terms * split.parts, 1 + max(*op.left, *op.right)
    sides = tuple(zip(value.args, (op.left, op.right), strict=True))
    a, b = (_cut(_some(x, labels, split.label, 0, of), labels, split) for x, labels in sides)
    left, right = (_labels(labels, split.label, label) for labels in (op.left, op.right))
    each = apply(Contract(left, right, (label, *op.out), dtype, op.hides), a, b)
    whole = build.reshape(build.reduce_("sum", each, (0,)), value.shape)
    if split.rest:
        a, b = (_some(x, labels, split.label, of, split.rest) for x, labels in sides)
        whole = build.map_("add", whole, apply(replace(op, dtype=dtype), a, b))
    return build.cast(whole, op.dtype)


def _is_windowed(value: Value) -> bool:
    return any(isinstance(a.op, View) and any(a.op.windows) for a in value.args)


def _sizes(op: Contract, value: Value) -> dict[int, int]:
    """Those of all loops; none if some are dynamic, or empty."""
    sizes = op.sizes(tuple(a.type for a in value.args))
    known = {k: d for k, d in sizes.items() if isinstance(d, int) and d}
    return known if len(known) == len(sizes) else {}


def _split(op: Contract, value: Value, machine: Machine) -> _Split | None:
    """How to divide the longest loop of the sum, None if that gains nothing."""
    sizes = _sizes(op, value)
    if not sizes:
        return None
    left, right, out = set(op.left), set(op.right), set(op.out)
    summed = (left & right) - out

    def turns(labels: Iterable[int]) -> int:
        return prod(sizes[k] for k in labels)

    rows, lanes = turns((left - right) & out), turns((right - left) & out)
    tiles = turns(left & right & out) * -(-rows // machine.tile_rows) * -(-lanes // machine.panel)
    is_long = turns(left) + turns(right) >= READ or turns(sizes) >= DONE
    if not summed or tiles >= FEW or not is_long:
        return None
    label = max(summed, key=lambda k: (sizes[k], k))
    most = min(-(-ITEMS // tiles), sizes[label] // LEAST)
    return _parts(label, sizes[label], most, machine.line_bytes // FLOAT) if most > 1 else None


def _parts(label: int, size: int, most: int, line: int) -> _Split:
    """About `most` parts of whole cache lines, without a remainder if possible."""
    even = [n for n in range(most, 2 * most) if size % (n * line) == 0]
    parts = even[0] if even else most
    terms = size // parts // line * line
    return _Split(label, parts, terms, size - parts * terms)


def _some(value: Value, labels: Sequence[int], label: int, start: int, size: int) -> Value:
    """The elements from `start` on along the axis of a label."""
    axis, rank = labels.index(label), value.type.rank
    if value.shape[axis] == size:
        return value
    first = tuple(start if k == axis else 0 for k in range(rank))
    shape = tuple(size if k == axis else d for k, d in enumerate(value.shape))
    return build.slice_(value, first, shape, (1,) * rank)


def _cut(value: Value, labels: Sequence[int], split: _Split) -> Value:
    """With parts × terms where the axis was."""
    axis = labels.index(split.label)
    return build.reshape(value, (*value.shape[:axis], split.parts, split.terms, *value.shape[axis + 1 :]))


def _labels(labels: Sequence[int], label: int, parts: int) -> tuple[int, ...]:
    axis = labels.index(label)
    return (*labels[:axis], parts, *labels[axis:])
