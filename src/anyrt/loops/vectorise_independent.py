"""Vectorise independent: a loop whose iterations are independent becomes a vector loop.

    for i: 0 … n                            vector i: 0 … n
      best[i] = max(best[i], x[i])    ->      best[i] = max(best[i], x[i])

It is an innermost loop, or within an item one whose iterations fold loops into a register of their own. An
iteration may store to several rows of a buffer, as long as the loop does not run along one into another, and
read its own stores; folds of all iterations must not depend on their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from anyrt.core.dims import Dim, Sym, add, always_le, depends, mul
from anyrt.ir.buffer import Buffer
from anyrt.ir.kernel import Alloc, Fold, For, Kernel, Loop, Op, Stmt, Store
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import expressions, stores
from anyrt.ir.visit import loads
from anyrt.loops.nest import around, changed, changed_in, stride

ANY_ORDER = (Op.MIN, Op.MAX, Op.AND, Op.OR)


def vectorise_independent(kernel: Kernel) -> Kernel | Fail:
    """Every such loop, at any depth."""
    items = around(kernel)[0]

    def at(stmt: Stmt) -> tuple[Stmt, ...] | None:
        match stmt:
            case For(var=var, kind=Loop.SERIAL, body=body) if _is_independent(body, var, var in items):
                return (replace(stmt, kind=Loop.VECTOR),)
        return None

    return changed(kernel, changed_in(kernel.body, at), "the turns of each innermost loop need one another")


def _is_independent(body: Sequence[Stmt], var: Sym, is_item: bool) -> bool:
    """True if no iteration depends on another one; loops inside may only fold for their own iteration."""
    own = {s.buffer for s in body if isinstance(s, Alloc)}
    inner = [s for s in body if isinstance(s, For)]
    if inner and (is_item or not own or any(loop.kind is not Loop.SERIAL for loop in inner)):
        return False
    flat = [x for s in body for x in (s.body if isinstance(s, For) else (s,))]
    if not all(_is_any_order(s) for s in flat if not isinstance(s, Fold) or s.buffer not in own):
        return False
    folded = {s.buffer for s in flat if isinstance(s, Fold)} - own
    stored: dict[Buffer, list[Dim]] = {}
    for store in stores(flat):
        stored.setdefault(store.buffer, []).append(store.index)
    read = loads(expressions(flat))
    if any(x.buffer in folded or x.index not in stored.get(x.buffer, (x.index,)) for x in read):
        return False
    return all(_have_places(places, var) for places in stored.values())


def _have_places(places: Sequence[Dim], var: Sym) -> bool:
    """True if each iteration has separate positions."""
    alike = all(a == b or _lie_apart(a, b, var) for a, b in combinations(places, 2))
    return alike and all(_moves(at, var) for at in places)


def _lie_apart(at: Dim, row: Dim, var: Sym) -> bool:
    """True if no iteration stores to one of two positions if another iteration stores to the other."""
    step, between = stride(at, var), add(at, mul(row, -1))
    if step is None or depends(between, var) or not always_le(1, step):
        return False
    reach = mul(step, var.extent or 0)
    return always_le(reach, between) or always_le(reach, mul(between, -1))


def _moves(at: Dim, var: Sym) -> bool:
    """True if each iteration, or the only one, has separate positions."""
    return var.extent == 1 or stride(at, var) not in (0, None)


def _is_any_order(stmt: Stmt) -> bool:
    """True if iterations are independent of order, as far as they do not store to one position."""
    match stmt:
        case Alloc() | Store():
            return True
        case Fold(op=op, value=value):
            return op in ANY_ORDER or (op is Op.ADD and not value.type.is_float)
    return False
