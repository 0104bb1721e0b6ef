"""A rule that replaces a gather at known, evenly spaced positions by a slice.

    gather(x, [3])     ->     x[3:4]

Exporters write the slices of a stack, such as the joined caches of all layers, with a constant index. A slice
is read in place; the operand of a gather is stored first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from anyrt.core.enums import DataType
from anyrt.ir.graph import Value
from anyrt.ir.prim import Array
from anyrt.ir.rewrite import Bind, Fail, Rule, op
from anyrt.passes.examples import Below
from anyrt.prims import build
from anyrt.prims.const import Const
from anyrt.prims.gather import Gather
from anyrt.prims.view import Axis, View

MANY: Final = 1 << 16  # positions that are examined


def _known(at: Value, axis: int) -> list[int] | None:
    """The positions along an axis, if they are constants and the same along all other axes."""
    source, axes = (at.args[0], at.op.axes) if isinstance(at.op, View) else (at, _own(at.type.rank))
    array, count = _elements(source), at.shape[axis]
    if array is None or not isinstance(count, int) or count > MANY or 0 in at.shape:
        return None
    sides = zip(axes, array.shape, strict=True)
    where = [_along(a, axis, count) if n > 1 else (0,) * count for a, n in sides]
    known = [w for w in where if w is not None]
    return [int(array[p]) for p in zip(*known, strict=True)] if len(known) == len(where) else None


def _elements(value: Value) -> Array | None:
    """The elements of a constant whose elements are fixed."""
    if not isinstance(value.op, Const) or not value.op.blob.is_known:
        return None
    return value.op.blob.data.reshape(value.op.shape)


def _own(rank: int) -> tuple[Axis, ...]:
    """The axes of a view that moves nothing."""
    return tuple(Axis(0, k) for k in range(rank))


def _along(moved: Axis, axis: int, count: int) -> tuple[int, ...] | None:
    """The start and step of a view along an axis, None if others move it, too."""
    steps = [step for out, step in moved.terms if out == axis]
    if len(steps) != len(moved.terms) or not all(isinstance(n, int) for n in (moved.start, *steps)):
        return None
    start, step = moved.start, sum(s for s in steps if isinstance(s, int))
    return tuple(start + step * i for i in range(count)) if isinstance(start, int) else None


def _step(places: Sequence[int]) -> int | None:
    """The common distance of neighbours."""
    steps = {b - a for a, b in pairwise(places)} or {1}
    return steps.pop() if len(steps) == 1 and 0 not in steps else None


def _sliced(x: Value, at: Value, axis: int, out: Value) -> Value | Fail:
    places, length = _known(at, axis), x.shape[axis]
    if places is None or not isinstance(length, int):
        return Fail("positions or the axis are known while running only")
    step = _step(places)
    if step is None:
        return Fail("positions are not as far apart as one another")
    if min(places) < 0 or max(places) >= length:
        return Fail("a position lies outside")
    starts, strides = [0] * x.type.rank, [1] * x.type.rank
    starts[axis], strides[axis] = places[0], step
    cut = build.slice_(x, starts, out.shape, strides)
    same = x.shape[:axis] == at.shape[:axis] and x.shape[axis + 1 :] == at.shape[axis + 1 :]
    return cut if same and cut.type == out.type else Fail("sizes are only known to be equal while running")


def _example(draw: Below) -> Value:
    x = build.param("x", (2 + draw(3), 3, 2), DataType.FLOAT)
    at = build.const(np.array([[[draw(2)]]]), DataType.INT64)
    return build.gather(x, build.expand(at, (1, 3, 2)), 0)


KNOWN_POSITIONS: Final = Rule(
    "elements at known positions",
    find=lambda x, at: op(Gather, x, at, axis=Bind("axis")),
    make=_sliced,
    example=_example,
)
