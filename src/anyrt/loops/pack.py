"""Pack: the operands of a tile's sums are first copied to the thread's scratch, in the order in which they
are read.

    for p: 0 … 2                              for p: 0 … 2
      for i: 0 … 14                             for k: vector j: panel[32k + j] = w[k, 32p + j]
        for j: 0 … 32                 ->        for i: 0 … 14
          acc = 0                                 for j: 0 … 32
          for k: …                                  acc = 0
            acc += x[i, k] · w[k, 32p + j]          for k: acc += x[i, k] · panel[32k + j]

A panel of the lanes' factor has the lanes of each term contiguous, for all tiles that follow; the rows'
factor has each row's terms contiguous, for all panels. The copies may be words of terms (dots.py). If whole
tiles of these are loaded, they are padded with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyrt.core.dims import Dim, Sym, add, ceildiv, mul
from anyrt.ir.buffer import Scalar
from anyrt.ir.kernel import Expr, For, Kernel, Loop, Stmt, Store, const, load
from anyrt.ir.statements import dims_of
from anyrt.ir.visit import Rewrite
from anyrt.loops.collapse import nested
from anyrt.loops.nest import Names, flat, moves, reserve, serial, stride
from anyrt.loops.product import Sums, at_sums, before_loop, multiplying, tile_sums
from anyrt.loops.split import pieces, several


def pack_n(
    kernel: Kernel,
    names: Names,
    before: Sym,
    row: Sym,
    width: int,
    side: int,
    deep: int = 1,
    each: tuple[int, tuple[Sym, ...]] = (1, ()),
) -> Kernel:
    """The second factors in a panel of `width` lanes, filled before the loop `before`, or in several, one for
    each iteration of the loops of `each` within it. Terms are padded to a multiple of `deep`. `side`: the
    size of squares that are transposed in registers."""
    sums, (count, panels) = tile_sums(kernel, row), each
    values, within = tuple(x for _, x in sums.factors), sums.lane
    place, depth = flat(sums.summed)
    line, terms = len(values) * width, _filled(depth, values[0], deep)
    kernel, panel = reserve(kernel, names.name("panel"), values[0].type, mul(terms, line * count))
    start = add(mul(add(place, mul(flat(panels)[0], depth)), line), within.dim)
    places = [add(start, k * width) for k in range(len(values))]
    fills = tuple(Store(panel, p, x) for p, x in zip(places, values, strict=True))
    copies = _squares(names, values[0], (sums.summed, panels, within), fills, side)
    rest = names.var(mul(len(values), add(terms, mul(depth, -1))), "z")
    end = add(mul(add(mul(len(values), depth), rest.dim), width), within.dim)
    zeros = serial([rest], (For(within, Loop.VECTOR, (Store(panel, end, const(0, Scalar.I32)),)),))
    kernel = before_loop(kernel, before, (*copies, *(zeros if rest.extent != 0 else ())))
    read = tuple(zip((x for x, _ in sums.factors), (load(panel, p) for p in places), strict=True))
    return _reading(kernel, row, read)


def pack_m(
    kernel: Kernel, names: Names, before: Sym, row: Sym, most: int, apart: int, side: int, deep: int = 1
) -> Kernel:
    """The first factor of all iterations of the loop `row`, at most `most`, each with its terms contiguous,
    filled before the loop `before`. Rows are `apart` elements further from one another, so that they map to
    different sets of the nearest cache. `side`: the size of squares that are transposed in registers."""
    sums = tile_sums(kernel, row)
    value, own = sums.factors[0][0], names.var(sums.row.extent or 0, "r")
    place, depth = flat(sums.summed)
    terms = _filled(depth, value, deep)
    pitch = add(terms, apart)
    kernel, copy = reserve(kernel, names.name("rows"), value.type, mul(pitch, most))
    start = mul(own.dim, pitch)
    fill = Store(copy, add(start, place), Rewrite({sums.row: own.dim}).expr(value))
    rest = names.var(add(terms, mul(depth, -1)), "z")
    nothing = Store(copy, add(start, add(depth, rest.dim)), const(0, Scalar.I32))
    zeros = (For(rest, Loop.VECTOR, (nothing,)),) if rest.extent != 0 else ()
    kernel = before_loop(kernel, before, _each_row(names, own, sums.summed, fill, side, zeros))
    first = load(copy, add(mul(sums.row.dim, pitch), place))
    return _reading(kernel, row, tuple((first, x) for _, x in sums.factors))


def _each_row(
    names: Names, own: Sym, summed: tuple[Sym, ...], fill: Store, side: int, zeros: tuple[Stmt, ...]
) -> tuple[Stmt, ...]:
    """The terms of each row; if rows are contiguous in memory and terms are not, squares of both."""
    *outer, last = summed
    reads = [at for at in dims_of(fill.value) if moves((at,), own)]
    if not all(stride(at, own) == 1 != stride(at, last) for at in reads):
        return serial([own], (*nested(summed, Loop.VECTOR, (fill,), names), *zeros))
    block, row, at = pieces(names, own.extent or 0, side, "r")
    square = For(last, Loop.VECTOR, (For(row, Loop.TILE, Rewrite({own: at}).body((fill,))),))
    return *serial(several((block, *outer)), (square,)), *(serial([own], zeros) if zeros else ())


def _reading(kernel: Kernel, row: Sym, factors: Sequence[tuple[Expr, Expr]]) -> Kernel:
    """The kernel whose sums multiply these factors."""

    def change(sums: Sums) -> tuple[Stmt, ...]:
        pairs = zip(sums.folds, factors, strict=True)
        return (replace(sums, folds=tuple(multiplying(s, *both) for s, both in pairs)).statement,)

    return at_sums(kernel, row, change)


def _squares(
    names: Names,
    factor: Expr,
    loops: tuple[tuple[Sym, ...], tuple[Sym, ...], Sym],
    fills: tuple[Store, ...],
    side: int,
) -> tuple[Stmt, ...]:
    """The lanes of each term; if terms are contiguous in memory and lanes are not, squares of both are
    transposed in registers. `loops`: over terms, panels and lanes."""
    summed, panels, within = loops
    *outer, last = summed
    if any(stride(at, last) != 1 or stride(at, within) == 1 for at in dims_of(factor)):
        return serial((*summed, *panels), (For(within, Loop.VECTOR, fills),))
    block, term, at = pieces(names, last.extent or 0, side, "k")
    moved = Rewrite({last: at}).body(fills)
    squares = (For(within, Loop.VECTOR, (For(term, Loop.TILE, (fill,)),)) for fill in moved)
    return tuple(s for square in squares for s in serial(several((*panels, *outer, block)), (square,)))


def _filled(count: Dim, value: Expr, deep: int) -> Dim:
    """The next multiple of `deep` for words; the same number for others."""
    return mul(ceildiv(count, deep), deep) if value.type is Scalar.I32 else count
