"""Accumulate: the sums of a tile stay in registers, those of neighbouring lanes in vectors.

for i: 0 … 14                              vector j: 0 … 32 (two registers)
  for j: 0 … 32                              acc[14] = 0
    acc = 0                                  for k: …
    for k: …                       ->          unroll i: 0 … 14
      acc += x[i, k] · w[k, j]                   acc[i] += x[i, k] · w[k, j]
    y[i, j] = f(acc)                         unroll e: 0 … 14
                                               y[e, j] = f(acc[e])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from anyrt.core.dims import Dim, Sym, add, mul
from anyrt.core.dimvalues import substitute
from anyrt.ir.kernel import Alloc, Fold, For, Kernel, Loop, Stmt, load
from anyrt.ir.statements import dims_of
from anyrt.loops.nest import Names, serial
from anyrt.loops.product import Sums, at_sums

TOGETHER = 2  # folds: of both parts of a number
SHORT = 2  # turns of a loop over few terms


def accumulate(
    kernel: Kernel,
    names: Names,
    row: Sym,
    registers: Callable[[Dim], int],
    beside: int = 1,
    slides: bool = False,
) -> Kernel:
    """The sums of all tiles whose rows are called `row`, in vectors of as many `registers` as their lanes
    take. `beside`: so many rows are stored between two lanes, and are stored together. `slides`: where the
    innermost terms of a row are such of its neighbours, too, they follow one another, so that each is loaded
    once."""

    def change(sums: Sums) -> tuple[Stmt, ...]:
        size = sums.row.extent
        if not isinstance(size, int):  # they were not peeled
            return (sums.statement,)
        total = replace(sums.begin.buffer, name=names.name("acc"), size=size)
        folds = tuple(replace(s, buffer=total, index=sums.row.dim) for s in sums.folds)
        each = [For(sums.row, Loop.UNROLL, some) for some in _in_turn(folds)]
        inside = slides and _shares(sums)
        if inside:
            each = [_innermost(loop, sums.summed[-1]) for loop in each]
        e, b = names.var(size // beside, "e"), names.var(beside, "b")
        at = e.dim if beside == 1 else add(mul(e.dim, beside), b.dim)
        then = sums.sum(sums.then, {sums.row: at}, load(total, at))
        body = (
            Alloc(total, sums.begin.value),
            *(serial(sums.summed[:-1], each) if inside else _summing(sums.summed, tuple(each))),
            For(e, Loop.UNROLL, then if beside == 1 else (For(b, Loop.TILE, then),)),
        )
        return (For(sums.lane, Loop.VECTOR, body, registers(sums.lane.extent or 0)),)

    return at_sums(kernel, row, change)


def _in_turn(folds: tuple[Fold, ...]) -> tuple[tuple[Fold, ...], ...]:
    """The folds of a row that stand together: those of one lane's factor. What is taken out of a word for all
    rows is in few registers then."""
    return tuple((s,) for s in folds) if len(folds) > TOGETHER else (folds,)


def _shares(sums: Sums) -> bool:
    """True where the innermost terms of all rows of a tile are a quarter more than what they load."""
    term, row = sums.summed[-1], sums.row
    assert isinstance(term.extent, int), "terms that follow one another are a known number"
    assert isinstance(row.extent, int), "tiles have a size"
    places = [{row: i, term: k} for i in range(row.extent) for k in range(term.extent)]
    indices = dims_of(sums.factors[0][0])
    return all(4 * len(places) >= 5 * len({substitute(at, p) for p in places}) for at in indices)


def _innermost(rows: For, term: Sym) -> For:
    """The loop over rows with that over terms inside."""
    return replace(rows, body=(For(term, Loop.UNROLL, rows.body),))


def _summing(vars: Sequence[Sym], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The loops of a sum. A last one of two turns is unrolled: left to LLVM, it moves many sums to memory and
    back in each turn (four times slower). With three turns it does so when they are unrolled here."""
    extent = vars[-1].extent
    if len(vars) < 2 or not isinstance(extent, int) or extent > SHORT:
        return serial(vars, body)
    return serial(vars[:-1], (For(vars[-1], Loop.UNROLL, body),))
