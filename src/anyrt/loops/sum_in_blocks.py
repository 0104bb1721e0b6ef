"""Sum in blocks: a long sum becomes the sum of its block sums.

The rounding error of a sum of n terms grows with n: a million equal numbers added one by one have an error of
a hundredth. In blocks of b it grows with b + n / b (Higham, "Accuracy and Stability of Numerical Algorithms",
2002, section 4.2).

                                          for b: 0 … 8
                                            part = 0
    for r: 0 … 4096                ->       for j: 0 … 512
      acc += x[r]                             part += x[512b + j]
                                            acc += part
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from anyrt.core.dims import bounds
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.kernel import Alloc, Fold, For, Kernel, Loop, Op, Stmt, const, load
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import substituted
from anyrt.loops.nest import Estimate, Names, Nest, changed, changed_in, moves, nest_of, serial
from anyrt.loops.split import pieces


def sum_in_blocks(kernel: Kernel, names: Names, estimate: Estimate, terms: int, lanes: int) -> Kernel | Fail:
    """Every sum of float32 that may have more than `terms` terms for each of its accumulators: one in a
    vector loop, which has a sum in each lane, otherwise `lanes`."""

    def at(stmt: Stmt, size: int = terms * lanes) -> tuple[Stmt, ...] | None:
        nest = nest_of(stmt)
        if nest is not None:
            return _blocks(nest, names, estimate, size) or (stmt,)
        if isinstance(stmt, For) and stmt.kind is Loop.VECTOR:
            return (replace(stmt, body=changed_in(stmt.body, lambda s: at(s, terms))),)
        return None

    return changed(kernel, changed_in(kernel.body, at), "no sum is that long")


def _is_sum(fold: Fold) -> bool:
    return fold.op is Op.ADD and fold.buffer.type is Scalar.F32 and fold.index == 0


def _long(nest: Nest, size: int) -> int | None:
    """The innermost loop that exceeds `size` terms, unless those inside depend on it."""
    most = [bounds(v.extent or 0)[1] for v in nest.vars]
    at = next((k for k in reversed(range(len(most))) if prod(most[k:]) > size), None)
    if at is None or moves([v.extent or 0 for v in nest.vars[at + 1 :]], nest.vars[at]):
        return None
    return at


def _sums(nest: Nest) -> list[Fold]:
    """The sums that a nest contains; none if it contains anything else."""
    folds = [s for s in nest.body if isinstance(s, Fold) and _is_sum(s)]
    return folds if len(folds) == len(nest.body) else []


def _blocks(nest: Nest, names: Names, estimate: Estimate, size: int) -> tuple[Stmt, ...]:
    """The nest with its innermost loop that exceeds `size` terms divided; () if there is none."""
    folds, at = _sums(nest), _long(nest, size)
    if not folds or at is None:
        return ()
    inside = nest.vars[at + 1 :]
    turns = max(1, size // prod(map(estimate, inside)))
    block, within, value = pieces(names, nest.vars[at].extent or 0, turns, "i", "b")
    parts = {f.buffer: Buffer(names.name("part"), Scalar.F32, Space.REGISTER) for f in folds}
    moved = substituted([replace(f, buffer=parts[f.buffer]) for f in folds], {nest.vars[at]: value})
    turn = (
        *(Alloc(part, const(0.0, Scalar.F32)) for part in parts.values()),
        *serial((within, *inside), moved),
        *(Fold(whole, Op.ADD, load(part, 0)) for whole, part in parts.items()),
    )
    return serial((*nest.vars[:at], block), turn)
