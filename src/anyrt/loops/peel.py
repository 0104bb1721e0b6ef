"""Peel: the last iterations of a loop, if they are fewer, get loops of their own.

    for t: 0 … 4                               for t: 0 … 4
      for i: 0 … min(14, 50 − 14t)      ->       if 14t + 14 ≤ 50: for i: 0 … 14
        …                                        if not: for i: 0 … 8
                                                   …

The extents of these loops are then known, and they can be unrolled. If the total number is dynamic, the
remainder is processed a few at a time: either the last one is repeated if it is no multiple (`Left.again`),
or by ever fewer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from anyrt.core.dims import Dim, Sym, add, ceildiv, floordiv, minimum, mul
from anyrt.ir.kernel import Expr, For, If, Kernel, Op, Stmt, alu, index
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import substituted
from anyrt.loops.nest import Names, at_loop, changed, serial


@dataclass(frozen=True, slots=True)
class Left:
    """How the remainder of a dynamic number is processed: repeatedly in groups of each size in `few`;
    `again`: with the last iteration repeated, if some are missing."""

    few: tuple[int, ...]
    again: bool


def peel(
    kernel: Kernel, names: Names, var: Sym, size: int, first: Dim, count: Dim, left: Left
) -> Kernel | Fail:
    """The loop `var` over `size` iterations from `first` on, or fewer at the end of `count`, as one over
    exactly that number, and others over the remainder."""
    whole = alu(Op.LE, index(add(first, size)), index(count))

    def change(loop: For) -> tuple[Stmt, ...]:
        if loop.var.extent == size:
            return (loop,)
        full = _turns(loop, size)
        if isinstance(count, int):
            rest = _turns(loop, count % size)
        else:
            rest = _rest(loop, names, first, count, minimum(size - 1, add(count, mul(first, -1))), left)
        return If(whole, full), If(alu(Op.NOT, whole), rest)

    return changed(kernel, at_loop(kernel.body, var, change), "all its turns are there")


def specialize(kernel: Kernel, var: Sym, inner: Sym, whole: Expr, sizes: tuple[int, int]) -> Kernel | Fail:
    """The loops `var`, except for the remainder of a dynamic number, for each of two extents of the loops
    `inner` in them: the first if these are `whole`, the other elsewhere."""

    def change(loop: For) -> tuple[Stmt, ...]:
        full, rest = (at_loop((loop,), inner, partial(_turns, count=n)) for n in sizes)
        return If(whole, full), If(alu(Op.NOT, whole), rest)

    return changed(kernel, at_loop(kernel.body, var, change, branches=False), "it has no such loops")


def _turns(loop: For, count: int, value: Callable[[Dim], Dim] = lambda at: at) -> tuple[Stmt, ...]:
    """A loop of this extent; `value`: the original counter."""
    own = replace(loop.var, extent=count)
    return (replace(loop, var=own, body=substituted(loop.body, {loop.var: value(own.dim)})),)


def _rest(loop: For, names: Names, first: Dim, count: Dim, many: Dim, left: Left) -> tuple[Stmt, ...]:
    """`many` iterations."""
    start: Dim = 0
    body: list[Stmt] = []
    for few in left.few:
        part = names.var((ceildiv if left.again else floordiv)(many, few), "r")
        begin = add(start, mul(part.dim, few))

        def value(at: Dim, begin: Dim = begin) -> Dim:
            if not left.again:
                return add(begin, at)
            return add(minimum(add(first, add(begin, at)), add(count, -1)), mul(first, -1))

        body += serial([part], _turns(loop, few, value))
        done = mul(part.extent or 0, few)
        start, many = add(start, done), add(many, mul(done, -1))
    return tuple(body)
