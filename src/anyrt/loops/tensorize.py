"""Tensorize: loops that equal the definition of an instruction are marked with its name, and the target
writes the instruction.

    vector j: 0 … 32                           vector j: 0 … 32 by amx_int8
      acc[16] = 0                                acc[16] = 0
      for w: 0 … 32                    ->        for w: 0 … 32
        unroll i: 0 … 16                           unroll i: 0 … 16
          acc[i] += dot4(x[32i + w], …)              acc[i] += dot4(x[32i + w], …)
      unroll e: tile[32e + j] = acc[e]           unroll e: tile[32e + j] = acc[e]

The loops stay, as the definition: the interpreter executes them, and a target without the instruction
compiles them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from anyrt.core.dims import Sym
from anyrt.ir.kernel import For, Kernel, Loop, Stmt
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import loops
from anyrt.loops.nest import at_loop, changed, changed_in

Named: TypeAlias = Callable[
    [For], str | Fail
]  # the instruction for a loop, or how the loop differs from its definition


def tensorize(kernel: Kernel, lane: Sym, row: Sym, name: Named) -> Kernel | Fail:
    """The loops over `lane` that contain one over `row`, marked with their instructions, all or none."""
    why: list[str] = []

    def change(loop: For) -> tuple[Stmt, ...]:
        if all(s.var.name != row.name for s in loops(loop.body)):
            return (loop,)
        intrinsic = name(loop)
        why.extend([intrinsic.reason] if isinstance(intrinsic, Fail) else [])
        return (loop if isinstance(intrinsic, Fail) else replace(loop, intrinsic=intrinsic),)

    body = at_loop(kernel.body, lane, change)
    return Fail(why[0]) if why else changed(kernel, body, "it has no such loops")


def overlap(kernel: Kernel, name: Named) -> Kernel | Fail:
    """Serial loops whose iterations the target can overlap."""

    def at(stmt: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(stmt, For) or stmt.kind is not Loop.SERIAL:
            return None
        intrinsic = name(stmt)
        return (replace(stmt, intrinsic=intrinsic),) if isinstance(intrinsic, str) else None

    return changed(kernel, changed_in(kernel.body, at), "no loop has iterations that overlap")
