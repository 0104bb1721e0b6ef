"""How wide a vector loop over statements should be, and what a tile of it may hold."""

from __future__ import annotations

from collections.abc import Iterable

from anyrt.core.dims import Sym, linear
from anyrt.ir.kernel import BITS, Alu, Cast, Expr, Load, Scalar, Space, Stmt
from anyrt.ir.statements import expressions, parts


def lanes_for(body: Iterable[Stmt], vector_bits: int) -> int:
    """Lanes that fill a vector with the widest type computed; indices do not count, they are 32 bits wide."""
    widest = 8
    for x in parts(expressions(body)):
        if isinstance(x, Load | Alu | Cast) and x.type is not Scalar.BOOL:
            widest = max(widest, BITS[x.type])
    return max(2, vector_bits // widest)


def walks(x: Expr, tile: Sym) -> bool:
    """True when every load either walks memory with `tile` or does not move with it."""
    moves = [
        linear(e.index, tile) for e in parts([x]) if isinstance(e, Load) and e.buffer.space is not Space.TABLE
    ]
    return all(m is not None and m[0] in (0, 1) for m in moves)
