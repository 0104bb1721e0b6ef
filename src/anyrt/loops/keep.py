"""Keep: if a kernel stores back the value that it has read, it neither reads nor stores.

    for b: 0 … 2                                          for b: 0 … 2
      for h: 0 … 8                                          for p: 0 … 99
        for p: 0 … 99                            ->           if w[b] == p
          y[b, h, p] = select(w[b] == p, x[b, h],               for h: 0 … 8
                              y[b, h, p])                         y[b, h, p] = x[b, h]

An output in the memory of an input has few new elements. Loops that do not affect the condition move inside,
so that many unchanged elements are skipped at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from anyrt.core.dims import Sym
from anyrt.ir.kernel import Alu, Expr, If, Kernel, Load, Op, Store, alu, free_symbols
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import parts
from anyrt.loops.nest import around, serial


@dataclass(frozen=True, slots=True)
class Kept:
    """`store` stores a new value if `condition` holds, which depends on the loops over `outer`."""

    condition: Expr
    store: Store
    outer: tuple[Sym, ...]
    inner: tuple[Sym, ...]


def keeps(kernel: Kernel) -> bool:
    """True if a kernel of serial loops stores back some of its loads."""
    return not isinstance(_kept(kernel), Fail)


def keep(kernel: Kernel) -> Kernel | Fail:
    """The kernel that stores only new elements."""
    kept = _kept(kernel)
    if isinstance(kept, Fail):
        return kept
    new = If(kept.condition, serial(kept.inner, (kept.store,)))
    return replace(kernel, body=serial(kept.outer, (new,)))


def _kept(kernel: Kernel) -> Kept | Fail:
    """How a kernel of serial loops around one store skips unchanged elements."""
    vars, body = around(kernel)
    match body:
        case [Store(value=Alu(op=Op.SELECT, args=(condition, a, b))) as store]:
            there = [_is_there(store, x) for x in (a, b)]
        case _:
            return Fail("it stores no selection")
    if there == [False, False]:
        return Fail("it stores no element unchanged")
    condition, new = (alu(Op.NOT, condition), b) if there[0] else (condition, a)
    deciding = frozenset[Sym]().union(*map(free_symbols, parts([condition])))
    inner = tuple(v for v in vars if v not in deciding)
    if not inner:
        return Fail("each element has its own condition")
    return Kept(condition, replace(store, value=new), tuple(v for v in vars if v in deciding), inner)


def _is_there(store: Store, value: Expr) -> bool:
    """True for a load of the element that is stored."""
    return isinstance(value, Load) and (value.buffer, value.index) == (store.buffer, store.index)
