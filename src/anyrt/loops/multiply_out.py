"""Multiply out: sums of products with a small constant matrix become expressions of their terms, without the
zeros of the matrix, one axis after the other.

    for t: 0 … 7                                   for t: 0 … 7
      for p: 0 … 2                                   vector c: 0 … 64
        for q: 0 … 2                                   u[0, b] = x[t, 0, b, c] + x[t, 1, b, c]
          for c: 0 … 64                                u[1, b] = x[t, 1, b, c] − x[t, 2, b, c]
            acc = 0                           ->       y[t, 0, 0, c] = f(u[0, 0] + u[0, 1])
            for a: 0 … 3                               y[t, 0, 1, c] = f(u[0, 1] − u[0, 2])
              for b: 0 … 3                             …
                acc += A[p, a] · A[q, b]
                  · x[t, a, b, c]
            y[t, p, q, c] = f(acc)

The u are not memory: expressions that several others contain are computed once. The sum of the loops is NaN
if an infinity is multiplied by a zero of the matrix, a term that is omitted here. So each sum begins with 0
times a few others that read all elements: all are NaN if an element is NaN or infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product as pairs

import numpy as np
from numpy.typing import NDArray

from anyrt.core.dims import Dim, Sym, add, ceildiv, mul
from anyrt.core.dimvalues import substitute
from anyrt.ir.buffer import Buffer
from anyrt.ir.kernel import Const, Expr, For, If, Kernel, Load, Loop, Op, Stmt, alu, const, fma, index
from anyrt.ir.rewrite import Fail
from anyrt.ir.statements import dims_of
from anyrt.ir.visit import Rewrite
from anyrt.loops.nest import Names, around, moves, serial, stride
from anyrt.loops.product import Product, product_of
from anyrt.loops.split import several, split
from anyrt.loops.whole_turns import turn_length

Numbers = Mapping[Buffer, NDArray[np.float32]]  # of constants, in their order
Matrix = NDArray[np.float64]
Tail = tuple[
    Sym, int, int
]  # a loop, the number of its iterations before the last one, the rows of the last one


@dataclass(frozen=True, slots=True)
class _Small:
    """A product whose first factor is a matrix for each of two axes. `rows`: the loops over results, `terms`:
    over terms; `first`, `second`: [row, term]; `tails`: for rows, the loop around them whose last iteration
    has fewer."""

    product: Product
    rows: tuple[Sym, Sym]
    terms: tuple[Sym, Sym]
    first: Matrix
    second: Matrix
    tails: Mapping[Sym, Tail]


def multiply_out(kernel: Kernel, names: Names, numbers: Numbers, fuses: bool) -> Kernel | Fail:
    """The kernel without loops over rows and terms, a vector loop innermost; `fuses`: whether fused
    multiply-add is an instruction."""
    kernel, tails = _split(kernel, names, numbers)
    small = _small(kernel, numbers, tails)
    if isinstance(small, Fail):
        return small
    lane = next((v for v in reversed(small.product.n) if _is_lane(small.product, v)), None)
    if lane is None:
        return Fail("its loads and stores are not contiguous")
    outer = [v for v in around(kernel)[0] if v is not lane and v not in small.rows]
    sums = _Sums(small, fuses)

    def vector(rows: int, columns: int) -> tuple[Stmt, ...]:
        stores = (s for at in pairs(range(rows), range(columns)) for s in sums.stores(*at))
        return (For(lane, Loop.VECTOR, tuple(stores)),)

    return replace(kernel, body=serial(outer, tuple(_cases(small, vector))))


def _cases(small: _Small, body: Callable[[int, int], tuple[Stmt, ...]]) -> Iterator[Stmt]:
    """Statements for complete iterations and for the last one."""
    for (above, rows), (left, columns) in pairs(*(_counts(small, v) for v in small.rows)):
        statements = body(rows, columns)
        for condition in (left, above):
            statements = statements if condition is None else (If(condition, statements),)
        yield from statements


def _counts(small: _Small, row: Sym) -> list[tuple[Expr | None, int]]:
    """The numbers of rows, each with its condition."""
    if row not in small.tails:
        assert isinstance(row.extent, int), "rows have a number"
        return [(None, row.extent)]
    turn, whole, last = small.tails[row]
    assert isinstance(row.extent, int), "rows have a number"
    if not whole or last == row.extent:
        return [(None, last)]
    at, count = index(turn.dim), const(whole, index(turn.dim).type)
    return [(alu(Op.LT, at, count), row.extent), (alu(Op.EQ, at, count), last)]


def _split(kernel: Kernel, names: Names, numbers: Numbers) -> tuple[Kernel, Mapping[Sym, Tail]]:
    """The kernel with each loop divided into two, over blocks and over the rows of a block; the matrix
    depends only on the row within its block."""
    tails: dict[Sym, Tail] = {}
    product = product_of(kernel)
    if isinstance(product, Fail) or not any(x.buffer in numbers for x in _reads(product)):
        return kernel, tails
    for var in product.batch:
        length, count = turn_length(product, var), var.extent
        if length is None or not isinstance(count, int):
            continue
        turns = -(-count // length)
        turn, row = names.var(ceildiv(count, length), "t"), names.var(length, "b")
        at: Dim = add(mul(turn.dim if turns > 1 else 0, length), row.dim)
        turned = split(kernel, var, (*several((turn,)), row), at)
        if not isinstance(turned, Fail):
            kernel, tails[row] = turned, (turn, turns - 1, count - length * (turns - 1))
    return kernel, tails


def _reads(p: Product) -> list[Load]:
    return [x for x in (p.first, p.second) if isinstance(x, Load)]


def _small(kernel: Kernel, numbers: Numbers, tails: Mapping[Sym, Tail]) -> _Small | Fail:
    product = product_of(kernel)
    if isinstance(product, Fail):
        return product
    p = next(
        (x for x in (product, product.turned) if isinstance(x.first, Load) and x.first.buffer in numbers),
        None,
    )
    if p is None:
        return Fail("no factor is constant")
    if p.batch or (len(p.m), len(p.summed)) != (2, 2) or not _begins_with_0(p):
        return Fail("its constants are not matrices for two axes")
    matrices = _apart(_read(p, numbers))
    if matrices is None:
        return Fail("its constants are not a product of two matrices")
    return _Small(p, (p.m[0], p.m[1]), (p.summed[0], p.summed[1]), *matrices, tails)


def _begins_with_0(p: Product) -> bool:
    return isinstance(p.sum.value, Const) and p.sum.value.value == 0


def _read(p: Product, numbers: Numbers) -> Matrix:
    """The matrix by rows and terms."""
    assert isinstance(p.first, Load), "its numbers are read"
    vars, flat = (*p.m, *p.summed), numbers[p.first.buffer]
    extents = [v.extent if isinstance(v.extent, int) else 0 for v in vars]
    matrix = np.zeros(extents)
    for at in np.ndindex(*extents):
        place = substitute(p.first.index, dict(zip(vars, at, strict=True)))
        assert isinstance(place, int), "nothing else moves a matrix"
        matrix[at] = flat[place]
    return matrix


def _apart(both: Matrix) -> tuple[Matrix, Matrix] | None:
    """[row, term] of each axis, whose products are the numbers; None where these are none."""
    for at in zip(
        *np.nonzero(np.abs(np.frexp(both)[0]) == 0.5), strict=True
    ):  # a power of two divides exactly
        first, second = both[:, at[1], :, at[3]], both[at[0], :, at[2], :] / both[at]
        if np.array_equal(np.einsum("ik,jl->ijkl", first, second), both):
            return first, second
    return None


def _is_lane(p: Product, var: Sym) -> bool:
    """Whether elements that are read and stored lie side by side along a loop."""
    read = [at for at in dims_of(p.second) if moves([at], var)]
    return all(stride(at, var) == 1 for at in (*read, *(s.index for s in p.stores)))


class _Sums:
    """The sums of a small product at each row and column, as expressions."""

    def __init__(self, small: _Small, fuses: bool) -> None:
        self.small, self.fuses = small, fuses
        p, (rows, columns) = small.product, (range(len(small.first)), range(len(small.second)))
        terms = range(small.first.shape[1]), range(small.second.shape[1])
        x = {at: _at(p.second, dict(zip(small.terms, at, strict=True))) for at in pairs(*terms)}
        half = {
            (i, b): self._sum(small.first[i], [x[a, b] for a in terms[0]]) for i in rows for b in terms[1]
        }
        plain = {
            (i, j): self._row(half, i, j) for i, j in pairs(_covering(small.first), _covering(small.second))
        }
        zero = const(0.0, p.sum.value.type)
        nothing = zero
        for some in plain.values():
            nothing = self._plus(nothing, some, 0.0)
        self.totals = {
            (i, j): plain[i, j] + nothing if (i, j) in plain else self._row(half, i, j, nothing)
            for i, j in pairs(rows, columns)
        }

    def stores(self, row: int, column: int) -> list[Stmt]:
        """The stores of one sum."""
        p = self.small.product
        total, register = self.totals[row, column], p.sum.buffer

        def replacement(x: Expr) -> Expr | None:
            return total if isinstance(x, Load) and x.buffer == register else None

        rewrite = Rewrite(dict(zip(self.small.rows, (row, column), strict=True)), rule=replacement)
        return list(rewrite.body(p.stores))

    def _row(self, half: Mapping[tuple[int, int], Expr], i: int, j: int, begin: Expr | None = None) -> Expr:
        second = self.small.second[j]
        return self._sum(second, [half[i, b] for b in range(len(second))], begin)

    def _sum(self, weights: Sequence[float], terms: Sequence[Expr], begin: Expr | None = None) -> Expr:
        total = begin
        for weight, x in zip(weights, terms, strict=True):
            if weight != 0:
                total = self._plus(total, x, float(weight))
        return const(0.0, terms[0].type) if total is None else total

    def _plus(self, total: Expr | None, x: Expr, weight: float) -> Expr:
        if abs(weight) == 1 and total is not None:
            return total + x if weight > 0 else total - x
        if total is None:
            return x if weight == 1 else x * weight
        return fma(x, weight, total) if self.fuses else total + x * weight


def _at(x: Expr, values: Mapping[Sym, Dim]) -> Expr:
    return Rewrite(values).expr(x)


def _covering(matrix: Matrix) -> list[int]:
    """Rows that have, together, all terms."""
    rows, missing = list[int](), np.ones(matrix.shape[1], bool)
    while missing.any():
        best = int(np.argmax([np.count_nonzero(row[missing]) for row in matrix]))
        if not np.count_nonzero(matrix[best][missing]):
            break  # a term that nothing reads
        rows.append(best)
        missing &= matrix[best] == 0
    return rows
