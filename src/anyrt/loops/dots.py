"""Dots: neighbouring terms of a sum of narrow numbers become words, which one instruction multiplies and adds
(words.py).

    for k: 0 … 64                              for w: 0 … 16
      acc += x[k] · w[k, n]           ->         acc += dot4(word x[4w …], word w[4w …, n])

A float16 is the sum of two bfloat16; two words hold both parts of a term, and two dots their four products.
If such a sum is not finite, it is computed again from the original factors, since parts of an infinity would
give products of infinity and 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from anyrt.core.dims import Sym, add, ceildiv, floordiv, mul
from anyrt.ir.buffer import Buffer, Scalar, Space
from anyrt.ir.intervals import interval
from anyrt.ir.kernel import (
    Alloc,
    Alu,
    Expr,
    Fold,
    For,
    If,
    Intrinsic,
    Kernel,
    Load,
    Loop,
    Op,
    Stmt,
    Store,
    alu,
    const,
    load,
)
from anyrt.ir.rewrite import Fail
from anyrt.ir.visit import Rewrite
from anyrt.loops.nest import Names, reserve, serial
from anyrt.loops.product import Product, Sums, at_sums, before_loop, tile_sums
from anyrt.loops.words import OFFSET, halves, word

LOWER: Final = 0xFFFF  # the lower half of a word
SHORT: Final = 1 << 15
CHAINS: Final = (4, 2)  # sums at once, of each register


def dots(kernel: Kernel, names: Names, row: Sym, dot: Intrinsic) -> Kernel:
    """The sums of the tiles with these rows over words of terms."""

    def change(sums: Sums) -> tuple[Stmt, ...]:
        *outer, last = sums.summed
        number = names.var(ceildiv(last.extent or 0, dot.parts), "w")
        ((first, second),) = sums.factors
        words = (word(x, last, number, dot.parts) for x in (first, second))
        folds = (replace(sums.folds[0], value=alu(dot, *words)),)
        return (replace(sums, summed=(*outer, number), folds=folds).statement,)

    return at_sums(kernel, row, change)


def dots_of_halves(kernel: Kernel, row: Sym, dot: Intrinsic) -> Kernel:
    """The sums of the tiles with these rows over words of the two parts of each term, by dots of bfloat16."""

    def change(sums: Sums) -> tuple[Stmt, ...]:
        ((first, second),) = sums.factors
        both, others = halves(first)[0], halves(second)[1]
        folds = tuple(replace(sums.folds[0], value=alu(dot, both, x)) for x in others)
        return (replace(sums, folds=folds).statement,)

    return at_sums(kernel, row, change)


def short_products(kernel: Kernel, row: Sym, dot: Intrinsic) -> Kernel | Fail:
    """The sums of the tiles with these rows by dots of two integers of 16 bits, one of which is 0: one
    instruction multiplies and adds if terms are not contiguous."""
    sums = tile_sums(kernel, row)
    factors, value = sums.factors, sums.folds[0].value
    plain = isinstance(value, Alu) and value.op is Op.MUL and len(factors) == 1
    if not plain or not all(map(_is_short, factors[0])):
        return Fail("its factors may have more than 16 bits")
    first, second = factors[0]
    fold = replace(sums.folds[0], value=alu(dot, first, second & LOWER))
    return at_sums(kernel, row, lambda sums: (replace(sums, folds=(fold,)).statement,))


def _is_short(x: Expr) -> bool:
    known = interval(x) if x.type is Scalar.I32 else None
    return known is not None and known[0] >= -SHORT and known[1] < SHORT


def unsigned(
    kernel: Kernel, names: Names, before: Sym, row: Sym, lane: Sym, panel: tuple[int, int], dot: Intrinsic
) -> Kernel | Fail:
    """Dots of bytes by an instruction with unsigned first words: the first factor's bytes are stored in
    scratch with 128 added, and the excess `less` of each sum is computed before the loop `before`, for the
    lanes of a `panel`, which has so many lanes and registers."""
    count, registers = panel
    sums = tile_sums(kernel, row)
    ((first, second),) = sums.factors
    value = sums.folds[0].value
    if not isinstance(value, Alu) or not isinstance(value.op, Intrinsic) or value.op.first is not Scalar.I8:
        return Fail("it sums no words of bytes")
    if not isinstance(first, Load) or first.buffer.space is not Space.SCRATCH:
        return Fail("its rows are not in scratch")
    kernel, less = reserve(kernel, names.name("less"), second.type, count)
    body = _offsets(sums, names, Store(less, lane.dim, sums.begin.value), dot)
    fold = replace(sums.folds[0], value=alu(dot, first, second))
    begin = replace(sums.begin, value=load(less, lane.dim))
    kernel = at_sums(kernel, row, lambda sums: (replace(sums, begin=begin, folds=(fold,)).statement,))
    kernel = before_loop(kernel, before, (For(lane, Loop.VECTOR, body, registers),))
    return replace(kernel, body=_offset(kernel.body, first.buffer))


def _offsets(sums: Sums, names: Names, store: Store, dot: Intrinsic) -> tuple[Stmt, ...]:
    """The stored value, less 128 times the sum of the second factor's bytes; in several sums, since one would
    wait for its own latency."""
    sizes = (
        (v, n)
        for n in CHAINS
        for v in reversed(sums.summed)
        if isinstance(v.extent, int) and not v.extent % n
    )
    var, count = next(sizes, (sums.summed[-1], 1))
    turn, chain = names.var(floordiv(var.extent or 0, count), var.name[:1]), names.var(count, "c")
    at = Rewrite({var: add(mul(turn.dim, count), chain.dim)})
    total = replace(sums.begin.buffer, name=names.name("acc"), size=count)
    term = Fold(total, Op.ADD, alu(dot, const(OFFSET, Scalar.I32), at.expr(sums.factors[0][1])), chain.dim)
    loops = serial([turn if v is var else v for v in sums.summed], (For(chain, Loop.UNROLL, (term,)),))
    less = reduce(lambda x, k: x - load(total, k), range(count), store.value)
    return (Alloc(total, const(0, Scalar.I32)), *loops, replace(store, value=less))


def _offset(body: Sequence[Stmt], buffer: Buffer) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Store) and stmt.buffer == buffer:
            out.append(replace(stmt, value=stmt.value ^ OFFSET))
        else:
            out.append(replace(stmt, body=_offset(stmt.body, buffer)) if isinstance(stmt, For | If) else stmt)
    return tuple(out)


def finite(kernel: Kernel, names: Names, row: Sym, factors: Product) -> Kernel:
    """Sums that tiles left in scratch, recomputed if one of them is not finite."""

    def change(sums: Sums) -> tuple[Stmt, ...]:
        (stored,) = sums.then
        assert isinstance(stored, Store), "tiles leave sums in scratch"
        e = names.var(row.extent or 0, "e")
        at = Rewrite({row: e.dim})
        odd, total = (replace(sums.begin.buffer, name=names.name(n), size=1) for n in ("odd", "acc"))
        place = at.dim(stored.index)
        look = For(sums.lane, Loop.VECTOR, (Fold(odd, Op.ADD, load(stored.buffer, place) * 0.0),))
        is_odd = alu(Op.NE, load(odd, 0), load(odd, 0))
        term = Fold(total, Op.ADD, at.expr(factors.first) * at.expr(factors.second))
        sum = (Alloc(total, sums.begin.value), *serial(factors.summed, (term,)))
        again = For(sums.lane, Loop.VECTOR, (*sum, Store(stored.buffer, place, load(total, 0))))
        return (
            sums.statement,
            Alloc(odd, const(0.0, Scalar.F32)),
            For(e, Loop.SERIAL, (look,)),
            If(is_odd, (For(e, Loop.SERIAL, (again,)),)),
        )

    return at_sums(kernel, row, change)
