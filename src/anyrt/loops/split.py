"""Split: a loop becomes several nested loops, whose counters together give its counter.

for m: 0 … 56                   for t: 0 … 4
  y[m] = …             ->         for i: 0 … 14
                                    y[14t + i] = …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyrt.core.dims import Dim, Sym, add, ceildiv, minimum, mod, mul
from anyrt.ir.kernel import For, Kernel, Stmt
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import substituted
from anyrt.loops.nest import Names, around, at_loop, serial, turn


def split(kernel: Kernel, var: Sym, loops: Sequence[Sym], value: Dim) -> Kernel | Fail:
    """`loops` in place of the loop `var`, whose value is `value`. A missing loop has one iteration."""
    vars, body = around(kernel)
    if var not in vars:
        if var.extent != 1:
            return Fail(f"{var} is not a loop around the kernel's statements")
        return replace(kernel, body=serial([*vars, *loops], body))
    at = vars.index(var)
    order = [*vars[:at], *loops, *vars[at + 1 :]]
    return replace(kernel, body=serial(order, substituted(body, {var: value})))


def split_within(
    kernel: Kernel, around: Sym, var: Sym, outer: Sequence[Sym], inner: Sym, value: Dim
) -> Kernel:
    """`inner` in place of the loop `var`, whose value is `value`, and the loops `outer` around the loop
    `around`, which contains it."""

    def within(loop: For) -> tuple[Stmt, ...]:
        return (replace(loop, var=inner, body=substituted(loop.body, {loop.var: value})),)

    def change(loop: For) -> tuple[Stmt, ...]:
        new = at_loop((loop,), var, within)
        return (loop,) if new == (loop,) else serial(outer, new)

    return replace(kernel, body=at_loop(kernel.body, around, change))


def pieces(names: Names, count: Dim, size: int, stem: str, block: str = "") -> tuple[Sym, Sym, Dim]:
    """(chunk, within, value): `count` iterations in chunks of `size`, named `block` and `stem`."""
    chunk = names.var(ceildiv(count, size), block or f"{stem}c")
    left = add(count, mul(turn(chunk), -size))
    within = names.var(size if mod(count, size) == 0 else minimum(size, left), stem)
    return chunk, within, add(mul(turn(chunk), size), turn(within))


def several(vars: Sequence[Sym]) -> tuple[Sym, ...]:
    """Those of more than one iteration."""
    return tuple(v for v in vars if v.extent != 1)
