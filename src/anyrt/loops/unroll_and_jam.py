"""Unroll and jam: an item of the parallel loop becomes two rows, whose loops run as one.

While one row's sum is still being added up, the other row's is too. For rows that are too long for batches
(distribute.py) and short enough for their latencies to count.

    parallel p: 0 … 64                    parallel p: 0 … 32
      vector r: acc += x[64p + r]    ->     vector r: acc += x[64·2p + r]; accb += x[64(2p + 1) + r]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyrt.core.dims import add, floordiv, minimum, mul, substitute
from anyrt.ir.buffer import Space
from anyrt.ir.kernel import For, If, Kernel, Let, Stmt
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import allocations, buffers_of
from anyrt.ir.visit import substituted
from anyrt.loops.nest import Names, reserve


def unroll_and_jam(kernel: Kernel, names: Names) -> Kernel | Fail:
    """Two rows an item; a last one without a partner comes twice."""
    rows = kernel.var.extent or 0
    if rows == 1:
        return Fail("there is one row")
    item = names.var(floordiv(add(rows, 1), 2), "p")
    lets = [s for s in kernel.body if isinstance(s, Let)]
    rest = [s for s in kernel.body if not isinstance(s, Let)]
    first, second = mul(item.dim, 2), minimum(add(mul(item.dim, 2), 1), add(rows, -1))
    others = {s.var: names.var(s.var.extent or 0) for s in lets}
    both = [Let(s.var, substitute(s.value, {kernel.var: first})) for s in lets]
    both += [Let(others[s.var], substitute(s.value, {kernel.var: second})) for s in lets]
    own = {r: replace(r, name=f"{r.name}b") for r in (s.buffer for s in allocations(rest))}
    for b in sorted((b for b in buffers_of(rest) if b.space is Space.SCRATCH), key=lambda b: b.name):
        kernel, own[b] = reserve(kernel, names.name("twin"), b.stored, b.size)
    twin = substituted(rest, {var: other.dim for var, other in others.items()}, own)
    return replace(kernel, var=item, body=(*both, *_joined(rest, twin)), work=mul(kernel.work, 2))


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
