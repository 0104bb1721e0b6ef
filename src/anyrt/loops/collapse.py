"""Collapse: neighbouring loops become one if every index moves with both as with one counter.

for i: 0 … 8                          for k: 0 … 64
  for j: 0 … 8             ->           y[k] = x[k]
    y[8i + j] = x[8i + j]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyrt.core.dims import Dim, Sym, linear, mul
from anyrt.ir.kernel import For, Kernel, Loop, Stmt
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import indices
from anyrt.ir.visit import substituted
from anyrt.loops.nest import Names, changed, changed_in, serial


def collapse(kernel: Kernel, names: Names) -> Kernel | Fail:
    """Collapses all neighbouring serial loops, the innermost first; loops of one iteration vanish."""
    return changed(kernel, _collapsed(kernel.body, names), "no index moves with two loops as with one")


def _collapsed(body: tuple[Stmt, ...], names: Names) -> tuple[Stmt, ...]:
    """Statements, with the loops in them collapsed."""

    def at(stmt: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(stmt, For) or stmt.kind is not Loop.SERIAL:
            return None
        return _loop(replace(stmt, body=_collapsed(stmt.body, names)), names)

    return changed_in(body, at)


def _loop(loop: For, names: Names) -> tuple[Stmt, ...]:
    """A loop together with a loop that is its only statement."""
    if loop.var.extent == 1:
        return substituted(loop.body, {loop.var: 0})
    inner = loop.body[0] if len(loop.body) == 1 else None
    if not isinstance(inner, For) or inner.kind is not Loop.SERIAL:
        return (loop,)
    if not all(_moves_as_one(d, loop.var, inner.var) for d in indices(inner.body)):
        return (loop,)
    collapsed = names.var(mul(loop.var.extent or 0, inner.var.extent or 0))
    body = substituted(inner.body, {loop.var: 0, inner.var: collapsed.dim})
    return _loop(For(collapsed, Loop.SERIAL, body), names)


def nested(loops: Sequence[Sym], kind: Loop, body: tuple[Stmt, ...], names: Names) -> tuple[Stmt, ...]:
    """`body` in loops, the innermost of this kind, merged with those around it if possible."""
    *outer, last = loops
    while outer and all(_moves_as_one(d, outer[-1], last) for d in indices(body)):
        var = outer.pop()
        one = names.var(mul(var.extent or 0, last.extent or 0))
        body, last = substituted(body, {var: 0, last: one.dim}), one
    return serial(outer, (For(last, kind, body),))


def _moves_as_one(dim: Dim, outer: Sym, inner: Sym) -> bool:
    a, b = linear(dim, outer), linear(dim, inner)
    return a is not None and b is not None and inner.extent is not None and a[0] == mul(b[0], inner.extent)
