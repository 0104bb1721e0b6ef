"""Accumulate: the sums of a tile stay in registers, with neighbouring lanes as vectors.

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
SHORT = 2  # iterations of a loop over few terms


def accumulate(
    kernel: Kernel,
    names: Names,
    row: Sym,
    registers: Callable[[Dim], int],
    beside: int = 1,
    slides: bool = False,
) -> Kernel:
    """The sums of all tiles whose rows are called `row`, in vectors of as many `registers` as their lanes
    take. `beside`: the number of rows between two lanes, which are stored together. `slides`: if the
    innermost terms of a row are also those of its neighbours, they are placed one after the other, so that
    each is loaded once."""

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
    """The folds of a row that use one lane's factor, placed together: the values extracted from a word for
    all rows then take few registers."""
    return tuple((s,) for s in folds) if len(folds) > TOGETHER else (folds,)


def _shares(sums: Sums) -> bool:
    """True if the innermost terms of all rows of a tile are a quarter more than their loads."""
    term, row = sums.summed[-1], sums.row
    assert isinstance(term.extent, int), "terms that follow one another are a known number"
    assert isinstance(row.extent, int), "tiles have a size"
    places = [{row: i, term: k} for i in range(row.extent) for k in range(term.extent)]
    indices = dims_of(sums.factors[0][0])
    return all(4 * len(places) >= 5 * len({substitute(at, p) for p in places}) for at in indices)


def _innermost(rows: For, term: Sym) -> For:
    """The loop over rows with the loop over terms inside."""
    return replace(rows, body=(For(term, Loop.UNROLL, rows.body),))


def _summing(vars: Sequence[Sym], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The loops of a sum. A last loop of two iterations is unrolled: LLVM would move many sums to memory
    and back in each iteration (four times slower). With three iterations it does so when they are unrolled
    here."""
    extent = vars[-1].extent
    if len(vars) < 2 or not isinstance(extent, int) or extent > SHORT:
        return serial(vars, body)
    return serial(vars[:-1], (For(vars[-1], Loop.UNROLL, body),))
