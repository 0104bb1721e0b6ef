"""Parts of values: which parts of what a value is made of a part of it needs, and that part made of those.

Axes that are cut are followed through single elements, folds and sums of products, as far as they go along
others, and through what moves elements, where they stay axes.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TypeVar

from anyrt.core.dims import Dim, as_symbol, depends, linear
from anyrt.ir.compute import Contracted, Elements, Folded, is_each, only_moves
from anyrt.ir.graph import Value, apply
from anyrt.prims import build
from anyrt.prims.view import moving
from anyrt.schedule.hidden import hides
from anyrt.schedule.layout import keeps_order
from anyrt.schedule.positions import own, read

T = TypeVar("T")  # what is said of an axis that is cut
Range = tuple[Dim, Dim]  # begin and size


def operands(v: Value, cut: Mapping[int, T]) -> list[dict[int, T]] | None:
    """For each operand, which of its axes are cut where these axes of a value are; None where a part of the
    value needs other parts."""
    how = v.compute
    if isinstance(how, Contracted):
        found = _by_labels(how, cut)
    elif _is_along(v, cut):
        found = [{**cut} for _ in v.args]
    elif (axes := _moved(v)) is not None and cut.keys() <= axes.keys():
        found = [{axes[k]: told for k, told in cut.items()}]
    else:
        return None
    return [{k: t for k, t in c.items() if a.shape[k] != 1} for a, c in zip(v.args, found, strict=True)]


def _by_labels(how: Contracted, cut: Mapping[int, T]) -> list[dict[int, T]]:
    of = {how.out[k]: told for k, told in cut.items()}
    return [{k: of[x] for k, x in enumerate(labels) if x in of} for labels in (how.left, how.right)]


def part(v: Value, args: Sequence[Value], ranges: Mapping[int, Range]) -> Value:
    """The part of a value that its axes' ranges say, of these parts of its operands."""
    how = v.compute
    if not isinstance(how, Elements) or how.same:
        return apply(v.op, *args)
    shape = tuple(ranges[k][1] if k in ranges else d for k, d in enumerate(v.shape))
    axes = _view(v)
    if axes is None:
        return build.reshape(args[0], shape)
    return build.windows(args[0], [moving(start, terms) for start, terms in axes], shape)


def _is_along(v: Value, axes: Container[int]) -> bool:
    """True where parts along these axes are made of the same parts: not of all operands where some are
    factors of the sums that mend it."""
    how = v.compute
    if isinstance(how, Folded):
        return not any(k in axes for k in how.axes)
    return is_each(how) and not hides(v)


def _moved(v: Value) -> dict[int, int] | None:
    """The operand's axes that axes of a value are, where another shape, or a view, says how elements move."""
    if not only_moves(v.compute) or not (keeps_order(v) or _view(v)):
        return None
    at = own(v.shape)
    ((_, where, _),) = read(v, at)
    syms = ((k, sym) for k, d in enumerate(at) if (sym := as_symbol(d)) is not None)
    found = ((k, [n for n, i in enumerate(where) if depends(i, sym)]) for k, sym in syms)
    return {k: axes[0] for k, axes in found if len(axes) == 1 and where[axes[0]] == at[k]}


def _view(v: Value) -> list[tuple[Dim, list[tuple[int, Dim]]]] | None:
    """Where a value reads each axis of its operand, and the axes that move this, if another shape does not
    say it."""
    if keeps_order(v):
        return None
    at, found = own(v.shape), list[tuple[Dim, list[tuple[int, Dim]]]]()
    ((_, where, _),) = read(v, at)
    for start in where:
        terms: list[tuple[int, Dim]] = []
        for k, sym in ((k, sym) for k, d in enumerate(at) if (sym := as_symbol(d)) is not None):
            moves = linear(start, sym)
            if moves is None:
                return None
            terms += [(k, moves[0])] if moves[0] != 0 else []
            start = moves[1]
        found.append((start, terms))
    return found
