"""The work of a part of a kernel: elements stored and folded, which is about its nanoseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from anyrt.core.dims import Dim, Sym, add, mul
from anyrt.core.dimvalues import substitute
from anyrt.ir.kernel import Fold, For, If, Kernel, Let, Stmt, Store
from anyrt.ir.visit import statements


def work(kernel: Kernel, usual: Callable[[Dim], int]) -> Dim:
    """Iterations of the stores and folds of an item, which may depend on dynamic sizes, and in a strip on the
    facts about that; of branches, which are alternatives, the longest one at the typical sizes."""
    counters = [s.var for s in statements(kernel.body) if isinstance(s, For | Let)]
    return _work(kernel.body, dict.fromkeys((kernel.var, *counters), 0), usual)


def _work(body: Iterable[Stmt], first: Mapping[Sym, Dim], usual: Callable[[Dim], int]) -> Dim:
    total: Dim = 0
    branches: list[Dim] = [0]
    for stmt in body:
        match stmt:
            case For(var=var, body=inner):
                total = add(total, mul(_turns(var, first), _work(inner, first, usual)))
            case If(body=inner):
                branches.append(_work(inner, first, usual))
            case Store() | Fold():
                total = add(total, 1)
            case _:
                pass
    return add(total, max(branches, key=usual))


def _turns(var: Sym, first: Mapping[Sym, Dim]) -> Dim:
    """Iterations of a loop, of a piece's loop for the first piece; at least one if that is known."""
    turns = substitute(var.extent or 0, first)
    return max(1, turns) if isinstance(turns, int) else turns
