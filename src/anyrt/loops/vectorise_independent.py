"""Vectorise independent: a loop whose turns need nothing of one another becomes a vector loop.

    for i: 0 … n                            vector i: 0 … n
      best[i] = max(best[i], x[i])    ->      best[i] = max(best[i], x[i])

It is an innermost one, or within an item one whose turns fold loops into a register of their own. A turn may
store to several rows of a buffer, as long as the loop runs along none of them into another one, and read what
it stores itself; what all turns fold into must come out the same in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from anyrt.core.dims import Dim, Sym, add, always_le, depends, mul
from anyrt.ir.buffer import Buffer
from anyrt.ir.kernel import Alloc, Fold, For, If, Kernel, Load, Loop, Op, Stmt, Store
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import expressions
from anyrt.ir.visit import parts
from anyrt.loops.nest import around, changed, stride

ANY_ORDER = (Op.MIN, Op.MAX, Op.AND, Op.OR)


def vectorise_independent(kernel: Kernel) -> Kernel | Fail:
    """Every such loop, wherever it stands."""
    made = _block(kernel.body, around(kernel)[0])
    return changed(kernel, made, "the turns of each innermost loop need one another")


def _block(body: Iterable[Stmt], items: Sequence[Sym]) -> tuple[Stmt, ...]:
    return tuple(_stmt(s, items) for s in body)


def _stmt(stmt: Stmt, items: Sequence[Sym]) -> Stmt:
    match stmt:
        case For(var=var, kind=Loop.SERIAL, body=body) if _is_independent(body, var, var in items):
            return replace(stmt, kind=Loop.VECTOR)
        case For(body=body) | If(body=body):
            inside = _block(body, items)
            return stmt if inside == body else replace(stmt, body=inside)
        case _:
            return stmt


def _is_independent(body: Sequence[Stmt], var: Sym, is_item: bool) -> bool:
    own = {s.buffer for s in body if isinstance(s, Alloc)}
    inner = [s for s in body if isinstance(s, For)]
    flat = [x for s in body for x in (s.body if isinstance(s, For) else (s,))]
    if (inner and (is_item or not own)) or any(loop.kind is not Loop.SERIAL for loop in inner):
        return False
    stored: dict[Buffer, tuple[Dim, ...]] = {}
    for stmt in flat:
        match stmt:
            case Alloc():
                pass
            case Store(buffer=buffer, index=at) if _moves(at, var):
                rows = stored.get(buffer, ())
                if not all(at == row or _lie_apart(at, row, var) for row in rows):
                    return False
                stored[buffer] = (*rows, at)
            case Fold(buffer=buffer) if buffer in own or _is_any_order(stmt):
                pass
            case _:
                return False
    folded = {s.buffer for s in flat if isinstance(s, Fold)} - own
    loads = [x for x in parts(expressions(flat)) if isinstance(x, Load)]
    return not any(x.buffer in folded or x.index not in stored.get(x.buffer, (x.index,)) for x in loads)


def _lie_apart(at: Dim, row: Dim, var: Sym) -> bool:
    """True where no turn stores to one what another turn stores to the other."""
    step, between = stride(at, var), add(at, mul(row, -1))
    if step is None or depends(between, var) or not always_le(1, step):
        return False
    reach = mul(step, var.extent or 0)
    return always_le(reach, between) or always_le(reach, mul(between, -1))


def _moves(at: Dim, var: Sym) -> bool:
    """True where each turn, or the only one, has a place of its own."""
    return var.extent == 1 or stride(at, var) not in (0, None)


def _is_any_order(fold: Fold) -> bool:
    return fold.op in ANY_ORDER or (fold.op is Op.ADD and not fold.value.type.is_float)
