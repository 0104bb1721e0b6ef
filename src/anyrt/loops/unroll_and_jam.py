"""Unroll and jam: an item of the parallel loop becomes two or more rows, whose loops run as one.

The latency of one row's sum is hidden by the other row's. It is for rows that are too long for batches
(distribute.py) and short enough for their latencies to count.

    parallel p: 0 … 64                    parallel p: 0 … 32
      vector r: acc += x[64p + r]    ->     vector r: acc += x[64·2p + r]; accb += x[64(2p + 1) + r]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from anyrt.core.dims import Dim, Sym, add, floordiv, minimum, mul
from anyrt.core.dimvalues import substitute
from anyrt.ir.kernel import For, If, Kernel, Let, Stmt
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import allocations
from anyrt.ir.visit import substituted
from anyrt.loops.nest import Names, lets_of, reserve, scratch_of

TWINS = "abcd"  # suffixes of register names


def unroll_and_jam(kernel: Kernel, names: Names, count: int = 2) -> Kernel | Fail:
    """`count` rows per item, 4 at most; if the last item has fewer, one of them is repeated."""
    rows = kernel.var.extent or 0
    if rows == 1:
        return Fail("there is one row")
    item = names.var(floordiv(add(rows, count - 1), count), "p")
    lets, rest = lets_of(kernel)
    scratch = scratch_of(rest)
    all_lets = _at(lets, {kernel.var: mul(item.dim, count)})
    copies: list[Sequence[Stmt]] = [rest]
    for k in range(1, count):
        row = minimum(add(mul(item.dim, count), k), add(rows, -1))
        others = {s.var: names.var(s.var.extent or 0) for s in lets}
        all_lets += (replace(s, var=others[s.var]) for s in _at(lets, {kernel.var: row}))
        own = {s.buffer: replace(s.buffer, name=f"{s.buffer.name}{TWINS[k]}") for s in allocations(rest)}
        for b in scratch:
            kernel, own[b] = reserve(kernel, names.name("twin"), b.stored, b.size)
        copies.append(substituted(rest, {var: other.dim for var, other in others.items()}, own))
    return replace(kernel, var=item, body=(*all_lets, *_joined(copies)), work=mul(kernel.work, count))


def _at(lets: Sequence[Let], values: Mapping[Sym, Dim]) -> list[Let]:
    return [replace(s, value=substitute(s.value, values)) for s in lets]


def _joined(copies: Sequence[Sequence[Stmt]]) -> tuple[Stmt, ...]:
    """Loops and branches that run alike are merged."""
    out: list[Stmt] = []
    for alike in zip(*copies, strict=True):
        heads, first = {_head(s) for s in alike}, alike[0]
        if isinstance(first, For | If) and len(heads) == 1:
            body = _joined([s.body for s in alike if isinstance(s, For | If)])
            out.append(replace(first, body=body))
        else:
            out += alike
    return tuple(out)


def _head(stmt: Stmt) -> Stmt:
    """A loop or branch without its body; any other statement itself."""
    return replace(stmt, body=()) if isinstance(stmt, For | If) else stmt
