"""Sum in blocks: a long sum becomes one of the sums of its blocks.

What a sum of n terms may lose by rounding grows with n, for terms of one sign as much as that: a million
equal numbers added one by one are off by a hundredth. In blocks of b it grows with b + n / b (Higham,
"Accuracy and Stability of Numerical Algorithms", 2002, section 4.2).

                                          for b: 0 … 8
                                            part = 0
    for r: 0 … 4096                ->       for j: 0 … 512
      acc += x[r]                             part += x[512b + j]
                                            acc += part
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from anyrt.core.dims import bounds
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import Alloc, Fold, For, If, Kernel, Loop, Op, Stmt, const, load
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import substituted
from anyrt.loops.nest import Estimate, Names, Nest, changed, moves, nest_of, serial
from anyrt.loops.strip_mine import strips_of


def sum_in_blocks(kernel: Kernel, names: Names, estimate: Estimate, terms: int, lanes: int) -> Kernel | Fail:
    """Every sum of float32 that may be of more terms than `terms` for each of its accumulators: one in
    a vector loop, which has a sum in each lane, else `lanes`."""

    def each(body: Sequence[Stmt], size: int) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in body:
            nest = nest_of(stmt)
            if nest is not None:
                out += _blocks(nest, names, estimate, size) or (stmt,)
            elif isinstance(stmt, For | If):
                across = isinstance(stmt, For) and stmt.kind is Loop.VECTOR
                out.append(replace(stmt, body=each(stmt.body, terms if across else size)))
            else:
                out.append(stmt)
        return tuple(out)

    return changed(kernel, each(kernel.body, terms * lanes), "no sum is that long")


def _blocks(nest: Nest, names: Names, estimate: Estimate, size: int) -> tuple[Stmt, ...]:
    """The nest with the innermost of its loops that goes beyond `size` terms cut; () where none does."""
    folds = [s for s in nest.body if isinstance(s, Fold) and s.op is Op.ADD and s.buffer.type is Scalar.F32]
    if len(folds) < len(nest.body) or any(f.index != 0 for f in folds):
        return ()
    most = [bounds(v.extent or 0)[1] for v in nest.vars]
    at = next((k for k in reversed(range(len(most))) if prod(most[k:]) > size), None)
    if at is None:
        return ()
    inside = nest.vars[at + 1 :]
    if moves([v.extent or 0 for v in inside], nest.vars[at]):
        return ()
    block, within, value = strips_of(nest.vars[at], max(1, size // prod(map(estimate, inside))), names)
    parts = {f.buffer: Buffer(names.name("part"), Scalar.F32, Space.REGISTER) for f in folds}
    moved = substituted([replace(f, buffer=parts[f.buffer]) for f in folds], {nest.vars[at]: value})
    turn = (
        *(Alloc(part, const(0.0, Scalar.F32)) for part in parts.values()),
        *serial((within, *inside), moved),
        *(Fold(whole, Op.ADD, load(part, 0)) for whole, part in parts.items()),
    )
    return serial((*nest.vars[:at], block), turn)
