"""Parts of values: the parts of operands that a part of a value needs, and the part computed from them.

Cut axes are followed through elementwise functions, folds and sums of products along other axes, and through
moves that preserve the axes.
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

T = TypeVar("T")  # the cut of an axis
Range = tuple[Dim, Dim]  # begin and size


def operands(v: Value, cut: Mapping[int, T]) -> list[dict[int, T]] | None:
    """For each operand, its axes that correspond to these cut axes of a value; None if a part of the value
    needs other parts."""
    how = v.compute
    if isinstance(how, Contracted):
        cuts = _by_labels(how, cut)
    elif _is_along(v, cut):
        cuts = [{**cut} for _ in v.args]
    elif (axes := _moved(v)) is not None and cut.keys() <= axes.keys():
        cuts = [{axes[k]: part for k, part in cut.items()}]
    else:
        return None
    return [{k: t for k, t in c.items() if a.shape[k] != 1} for a, c in zip(v.args, cuts, strict=True)]


def _by_labels(how: Contracted, cut: Mapping[int, T]) -> list[dict[int, T]]:
    of = {how.out[k]: part for k, part in cut.items()}
    return [{k: of[x] for k, x in enumerate(labels) if x in of} for labels in (how.left, how.right)]


def part(v: Value, args: Sequence[Value], ranges: Mapping[int, Range]) -> Value:
    """The part of a value at these ranges of its axes, computed from parts of its operands."""
    how = v.compute
    if not isinstance(how, Elements) or how.same:
        return apply(v.op, *args)
    shape = tuple(ranges[k][1] if k in ranges else d for k, d in enumerate(v.shape))
    axes = _view(v)
    if axes is None:
        return build.reshape(args[0], shape)
    return build.windows(args[0], [moving(start, terms) for start, terms in axes], shape)


def _is_along(v: Value, axes: Container[int]) -> bool:
    """True if parts along these axes need the same parts of all operands; false if some are factors of the
    sums that mend the value."""
    how = v.compute
    if isinstance(how, Folded):
        return not any(k in axes for k in how.axes)
    return is_each(how) and not hides(v)


def _moved(v: Value) -> dict[int, int] | None:
    """The operand's axes that correspond to axes of a value, for a reshape or view."""
    if not only_moves(v.compute) or not (keeps_order(v) or _view(v)):
        return None
    at = own(v.shape)
    ((_, where, _),) = read(v, at)
    syms = ((k, sym) for k, d in enumerate(at) if (sym := as_symbol(d)) is not None)
    sources = ((k, [n for n, i in enumerate(where) if depends(i, sym)]) for k, sym in syms)
    return {k: axes[0] for k, axes in sources if len(axes) == 1 and where[axes[0]] == at[k]}


def _view(v: Value) -> list[tuple[Dim, list[tuple[int, Dim]]]] | None:
    """The index at which a value reads each axis of its operand, and the axes that move it, unless it is a
    reshape."""
    if keeps_order(v):
        return None
    at, starts = own(v.shape), list[tuple[Dim, list[tuple[int, Dim]]]]()
    ((_, where, _),) = read(v, at)
    for start in where:
        terms: list[tuple[int, Dim]] = []
        for k, sym in ((k, sym) for k, d in enumerate(at) if (sym := as_symbol(d)) is not None):
            moves = linear(start, sym)
            if moves is None:
                return None
            terms += [(k, moves[0])] if moves[0] != 0 else []
            start = moves[1]
        starts.append((start, terms))
    return starts
