"""How much a piece of a kernel does: elements stored and folded, which is about as many nanoseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anyrt.core.dims import Dim, Sym, add, mul, substitute, symbols
from anyrt.ir.kernel import Fold, For, If, Stmt, Store


def work(body: Iterable[Stmt], usual: Callable[[Dim], int]) -> Dim:
    """Turns of the stores and folds in statements, which may depend on open sizes; of branches, which are
    alternatives, those of the one that is longest at the usual sizes."""
    total: Dim = 0
    branches: list[Dim] = [0]
    for stmt in body:
        match stmt:
            case For(var=var, body=inner):
                total = add(total, mul(_turns(var), work(inner, usual)))
            case If(body=inner):
                branches.append(work(inner, usual))
            case Store() | Fold():
                total = add(total, 1)
            case _:
                pass
    return add(total, max(branches, key=usual))


def _turns(var: Sym) -> Dim:
    """Turns of a loop, of a piece's loop for the first piece; at least one where that is known."""
    extent = var.extent or 0
    turns = substitute(extent, {s: 0 for s in symbols(extent) if s.extent is not None})
    return max(1, turns) if isinstance(turns, int) else turns
