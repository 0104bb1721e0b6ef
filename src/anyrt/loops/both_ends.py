"""Both ends: the first and the last block for which a condition holds, found by testing as few blocks as
possible.

first = 0
for block: 0 … n
  if first = block
    any = …                          # of the block
    first = any ? block : block + 1
behind = n                           # and the same from the other end
"""

from __future__ import annotations

from anyrt.core.dims import Sym, add, mul
from anyrt.ir.buffer import Buffer
from anyrt.ir.kernel import Expr, For, If, Loop, Op, Stmt, Store, alu, cast, const, index, load, select
from anyrt.ir.visit import substituted


def from_both_ends(
    block: Sym, look: tuple[Stmt, ...], any: Buffer, first: Buffer, behind: Buffer
) -> tuple[Stmt, ...]:
    """`look` stores to `any` a value other than 0 if the condition holds for `block`. Then `first` has the
    first such block, or the number of blocks, and `behind` the one behind the last, or 0."""
    blocks, number = block.extent or 0, any.stored
    holds = alu(Op.NE, load(any, 0), const(0, number))
    back = Sym(f"{block.name}.back", extent=blocks)
    left = add(blocks, mul(back.dim, -1))

    def until(var: Sym, place: Buffer, turn: Expr, step: int, body: tuple[Stmt, ...]) -> Stmt:
        chosen = Store(place, 0, select(holds, turn, turn + step))
        return For(var, Loop.SERIAL, (If(alu(Op.EQ, load(place, 0), turn), (*body, chosen)),))

    turned = substituted(look, {block: add(left, -1)})
    return (
        Store(first, 0, const(0, number)),
        until(block, first, cast(index(block.dim), number), 1, look),
        Store(behind, 0, cast(index(blocks), number)),
        until(back, behind, cast(index(left), number), -1, turned),
    )
