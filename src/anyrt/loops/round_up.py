"""Round up: the loops of a tile get the full extents of the tile, and the loops of its sum become one.

    for i: 0 … min(32, 50 − 32t)               for i: 0 … 32
      for j: 0 … 20                              for j: 0 … 32
        acc = 0                                    acc = 0
        for k: 0 … 3                   ->          for w: 0 … 16
          for l: 0 … 5                               acc += rows[16i + w] · panel[32w + j]
            acc += rows[16i + 5k + l] · …          tile[32i + j] = acc
        tile[32i + j] = acc

It is for instructions that sum and store only whole tiles (tensorize.py): elements behind the last row or
lane in scratch are summed and ignored, and the words behind the last one are zeros.
"""

from __future__ import annotations

from dataclasses import replace

from anyrt.core.dims import (
    FLOORDIV,
    MOD,
    Atom,
    Dim,
    Fn,
    Sym,
    add,
    ceildiv,
    floordiv,
    linear,
    mod,
    mul,
    product,
    total,
)
from anyrt.core.dims import Expr as Index
from anyrt.ir.buffer import Scalar, Space
from anyrt.ir.kernel import Expr, Kernel, Load, Stmt, load
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import Rewrite, written
from anyrt.loops.nest import Names, flat
from anyrt.loops.product import Sums, at_sums, multiplying, tile_sums
from anyrt.loops.words import counted


def round_up(
    kernel: Kernel, names: Names, row: Sym, sizes: tuple[int, int], deep: int, packed: tuple[bool, bool]
) -> Kernel | Fail:
    """The tiles whose rows are called `row`, of `sizes` rows and lanes, over a multiple of `deep` words.
    `packed`: which factors are padded only in scratch, those of rows and those of lanes."""
    sums = tile_sums(kernel, row)
    factors = [x for both in sums.factors for x in zip(both, packed, strict=True)]
    if not all(_is_whole(x, copied) for x, copied in factors):
        return Fail("its terms are not words in whole tiles")
    if any(b.space is not Space.SCRATCH for s in sums.then for b in written(s)):
        return Fail("its results are not stored through scratch")

    def change(sums: Sums) -> tuple[Stmt, ...]:
        one = names.var(mul(ceildiv(flat(sums.summed)[1], deep), deep), "w")

        def by_one(x: Expr) -> Expr:
            assert isinstance(x, Load), "whole tiles are loaded"
            at = counted(x.index, sums.summed, one.dim)
            assert at is not None, "whole tiles lie evenly"
            return load(x.buffer, _in_one_block(at, sums.lane, sizes[1]), x.word)

        pairs = zip(sums.folds, sums.factors, strict=True)
        folds = tuple(multiplying(s, by_one(a), by_one(b)) for s, (a, b) in pairs)
        i, j = replace(sums.row, extent=sizes[0]), replace(sums.lane, extent=sizes[1])
        rounded = replace(sums, row=i, lane=j, summed=(one,), folds=folds).statement
        return Rewrite({sums.row: i.dim, sums.lane: j.dim}).body((rounded,))

    return at_sums(kernel, row, change)


def _is_whole(x: Expr, packed: bool) -> bool:
    if not isinstance(x, Load) or x.type is not Scalar.I32:
        return False
    return x.buffer.space is Space.SCRATCH or not packed


def _in_one_block(at: Dim, lane: Sym, size: int) -> Dim:
    """An index of panels that tiles of `size` lanes divide evenly, so that all lanes of a tile are in the
    panel of its first one."""

    def part(a: Atom) -> Dim:
        x, by = a.args if isinstance(a, Fn) and a.op in (FLOORDIV, MOD) else (0, 0)
        moved = linear(x, lane)
        even = moved is not None and moved[0] == 1 and mod(moved[1], size) == mod(by, size) == 0
        if moved is None or not even or not isinstance(a, Fn):
            return Index((((a,), 1),))
        return floordiv(moved[1], by) if a.op == FLOORDIV else add(mod(moved[1], by), lane.dim)

    return at if isinstance(at, int) else total(product((c, *map(part, m))) for m, c in at.terms)
