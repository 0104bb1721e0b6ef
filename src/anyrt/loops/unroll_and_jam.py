"""Unroll and jam: an item of the parallel loop becomes two rows or more, whose loops run as one.

While one row's sum is still being added up, the other row's is too. For rows that are too long for batches
(distribute.py) and short enough for their latencies to count.

    parallel p: 0 … 64                    parallel p: 0 … 32
      vector r: acc += x[64p + r]    ->     vector r: acc += x[64·2p + r]; accb += x[64(2p + 1) + r]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyrt.core.dims import add, floordiv, minimum, mul
from anyrt.core.dimvalues import substitute
from anyrt.ir.buffer import Space
from anyrt.ir.kernel import For, If, Kernel, Let, Stmt
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import allocations, buffers_of
from anyrt.ir.visit import substituted
from anyrt.loops.nest import Names, reserve

TWINS = "abcd"  # behind names of registers


def unroll_and_jam(kernel: Kernel, names: Names, count: int = 2) -> Kernel | Fail:
    """`count` rows an item, 4 at most; where the last one has fewer, one of them comes several times."""
    rows = kernel.var.extent or 0
    if rows == 1:
        return Fail("there is one row")
    item = names.var(floordiv(add(rows, count - 1), count), "p")
    lets = [s for s in kernel.body if isinstance(s, Let)]
    rest = [s for s in kernel.body if not isinstance(s, Let)]
    scratch = sorted((b for b in buffers_of(rest) if b.space is Space.SCRATCH), key=lambda b: b.name)
    all_lets = [Let(s.var, substitute(s.value, {kernel.var: mul(item.dim, count)})) for s in lets]
    copies: list[Sequence[Stmt]] = [rest]
    for k in range(1, count):
        row = minimum(add(mul(item.dim, count), k), add(rows, -1))
        others = {s.var: names.var(s.var.extent or 0) for s in lets}
        all_lets += [Let(others[s.var], substitute(s.value, {kernel.var: row})) for s in lets]
        own = {r: replace(r, name=f"{r.name}{TWINS[k]}") for r in (s.buffer for s in allocations(rest))}
        for b in scratch:
            kernel, own[b] = reserve(kernel, names.name("twin"), b.stored, b.size)
        copies.append(substituted(rest, {var: other.dim for var, other in others.items()}, own))
    return replace(kernel, var=item, body=(*all_lets, *_joined(copies)), work=mul(kernel.work, count))


def _joined(copies: Sequence[Sequence[Stmt]]) -> tuple[Stmt, ...]:
    """Loops and branches that run alike run as one."""
    out: list[Stmt] = []
    for alike in zip(*copies, strict=True):
        match alike[0]:
            case For() as a if all(isinstance(b, For) and (a.var, a.kind) == (b.var, b.kind) for b in alike):
                out.append(For(a.var, a.kind, _joined([b.body for b in alike if isinstance(b, For)])))
            case If() as a if all(isinstance(b, If) and a.condition == b.condition for b in alike):
                out.append(If(a.condition, _joined([b.body for b in alike if isinstance(b, If)])))
            case _:
                out += alike
    return tuple(out)
