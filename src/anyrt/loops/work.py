"""How much a piece of a kernel does: elements stored and folded, which is about as many nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable

from anyrt.ir.kernel import Fold, For, If, Stmt, Store
from anyrt.loops.nest import Estimate


def work(body: Iterable[Stmt], estimate: Estimate) -> int:
    """Turns of the stores and folds in statements; of branches, which are alternatives, the longest."""
    total, branches = 0, [0]
    for stmt in body:
        match stmt:
            case For(var=var, body=inner):
                total += estimate(var) * work(inner, estimate)
            case If(body=inner):
                branches.append(work(inner, estimate))
            case Store() | Fold():
                total += 1
            case _:
                pass
    return total + max(branches)
