"""Fuse loops: two of the loops around a kernel's statements become one, whose counter is divided again.

    for i: 0 … 8                    for m: 0 … 24
      for j: 0 … 3         ->         y[8·(m mod 3) + m // 3] = …
        y[8j + i] = …

If all indices move with both as with one counter, no division is needed (collapse.py).
"""

from __future__ import annotations

from dataclasses import replace

from anyrt.core.dims import Sym, floordiv, mod
from anyrt.ir.kernel import Kernel
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import substituted
from anyrt.loops.nest import around, serial


def fuse_loops(kernel: Kernel, outer: Sym, inner: Sym, fused: Sym) -> Kernel | Fail:
    """The loop `fused`, with as many iterations as both together, innermost."""
    vars, body = around(kernel)
    if outer not in vars or inner not in vars:
        return Fail(f"{outer} and {inner} are not loops around the kernel's statements")
    assert inner.extent is not None, f"loop {inner} has no extent"
    values = {outer: floordiv(fused.dim, inner.extent), inner: mod(fused.dim, inner.extent)}
    rest = (v for v in vars if v not in values)
    return replace(kernel, body=serial([*rest, fused], substituted(body, values)))
