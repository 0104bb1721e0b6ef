"""Two rows at a time: while one row's sum is still being added up, the other row's is too.

For rows that are too long for batches (batches.py) and short enough for their latencies to count: a row's
neighbour needs the same loops over other memory, so that the loops of both run as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from anyrt.core.dims import Sym
from anyrt.ir.kernel import Buffer, For, If, Stmt
from anyrt.ir.statements import allocations
from anyrt.ir.visit import substituted


def paired(
    body: Sequence[Stmt], rows: Sequence[Sym], others: Sequence[Sym], twins: Mapping[Buffer, Buffer]
) -> tuple[Stmt, ...]:
    """`body`, which computes the row at `rows`, for that and for the one at `others`, whose scratch the
    `twins` are."""
    values = {a: b.dim for a, b in zip(rows, others, strict=True)}
    registers = (s.buffer for s in allocations(body))
    own = {**twins, **{r: replace(r, name=f"{r.name}b") for r in registers}}
    return _joined(body, substituted(body, values, own))


def _joined(first: Sequence[Stmt], second: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Loops and branches that run alike run as one."""
    out: list[Stmt] = []
    for a, b in zip(first, second, strict=True):
        match a, b:
            case For(), For() if (a.var, a.kind) == (b.var, b.kind):
                out.append(For(a.var, a.kind, _joined(a.body, b.body)))
            case If(), If() if a.condition == b.condition:
                out.append(If(a.condition, _joined(a.body, b.body)))
            case _:
                out += [a, b]
    return tuple(out)
